package batch

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

const gib = int64(1) << 30

// at is a run with this peak in GiB at this time; oom marks one that failed.
func at(time, peak int64, oom bool) point {
	return point{link: report.IndexLink{Name: fmt.Sprint(time)}, time: time, allocated: peak * gib, reached: peak * gib, usable: true, oom: oom}
}

func TestGrown(t *testing.T) {
	for _, c := range []struct {
		name          string
		points        []point
		before, after int64 // GiB; 0: not grown
		oom, still    bool
	}{
		{"steady", []point{at(1, 10, false), at(2, 10, false), at(3, 10, false)}, 0, 0, false, false},
		{"grown once", []point{at(1, 10, false), at(2, 10, false), at(3, 12, false), at(4, 12, false)}, 10, 12, false, true},
		{"shrunk", []point{at(1, 12, false), at(2, 10, false)}, 0, 0, false, false},
		{"two settings in turns", []point{at(1, 10, false), at(2, 20, false), at(3, 10, false), at(4, 20, false), at(5, 10, false), at(6, 20, false)}, 10, 20, false, true},
		{"gone since", []point{at(1, 10, false), at(2, 20, false), at(3, 10, false)}, 10, 20, false, false},
		{"fits no longer", []point{at(1, 10, false), at(2, 30, true)}, 10, 30, true, true},
		{"failed before, too", []point{at(1, 30, true), at(2, 40, true)}, 30, 40, false, true},
		{"a little", []point{at(1, 100, false), at(2, 104, false)}, 0, 0, false, false},
		{"without a clock", []point{at(0, 10, false), at(0, 20, false)}, 0, 0, false, false},
		{"without a history", []point{at(1, 10, false), {time: 2, allocated: 99 * gib}}, 0, 0, false, false},
		{"one run", []point{at(1, 10, false)}, 0, 0, false, false},
		{"none", nil, 0, 0, false, false},
		{"the last of two", []point{at(1, 10, false), at(2, 12, false), at(3, 14, false)}, 12, 14, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, ok := grown("x", c.points)
			if ok != (c.after > 0) {
				t.Fatalf("grown: %v, %+v", ok, g)
			}
			if ok && (g.Before != c.before*gib || g.After != c.after*gib || g.OOM != c.oom || g.Still != c.still) {
				t.Errorf("%+v", g)
			}
		})
	}
}

func TestLeakTrend(t *testing.T) {
	leak := func(time, rate int64, where string) point {
		return point{link: report.IndexLink{Name: fmt.Sprint(time)}, time: time, leak: rate, kind: map[bool]string{true: "growing_list"}[rate > 0], where: where}
	}
	l, ok := leakTrend("x", []point{leak(1, 5, "a"), leak(2, 0, ""), leak(3, 7, "b"), leak(4, 8, "b"), {}})
	if !ok || !l.Still || l.Leaking != 3 || l.Latest != 8 || *l.Since != 3 || l.Where != "b" || l.Link.Name != "4" || !reflect.DeepEqual(l.Rates, []int64{5, 0, 7, 8}) {
		t.Errorf("%v %+v", ok, l)
	}
	if l, ok = leakTrend("x", []point{leak(1, 5, "a"), leak(2, 0, "")}); !ok || l.Still || l.Latest != 5 || l.Since != nil {
		t.Errorf("over: %v %+v", ok, l)
	}
	if _, ok = leakTrend("x", []point{leak(1, 0, ""), {}}); ok {
		t.Error("nothing leaks")
	}
}

// failing is a report of a run that failed at a time.
func failing(path, fingerprint, fix string, time, requested int64) *Report {
	d := report.Device{History: "complete", FirstTime: &time, Peaks: report.Peaks{Allocated: report.Peak{Bytes: gib}},
		OOMs:     []report.OOM{{Verdict: "fragmentation", Fingerprint: &fingerprint, RequestedBytes: requested, Site: &report.Site{Function: "f", File: "a/b.py", Line: new(7), Known: true}}},
		Findings: []report.Finding{{ID: "oom_fragmentation", Fix: &fix, SavesBytes: new(requested / 2), Outcome: report.Outcome{FixID: &fix}}}}
	return &Report{Entry: Entry{Path: path, Name: FolderName(path), Experiment: experimentOf(path)},
		Document: &report.Document{Devices: []report.Device{d}, Verdict: report.Verdict{Severity: report.Critical}, Evidence: evidence.New()}}
}

func TestEqualFailuresStandTogether(t *testing.T) {
	var b indexBuilder
	b.add(failing("e/1", "aa", "do this", 50, 10))
	b.add(failing("e/2", "aa", "do that", 20, 30))
	b.add(failing("e/3", "aa", "do this", 90, 20))
	b.add(failing("e/4", "bb", "", 10, 5))
	logged := failing("e/5", "", "", 10, 5)
	logged.Document.Devices = nil
	logged.Document.Evidence.OOMMessages = []evidence.OOMMessage{{RequestedBytes: new(int64(9)), UserFile: new("/home/x/train.py")}, {RequestedBytes: new(int64(9)), UserFile: new("/home/x/train.py")}}
	b.add(logged)
	b.add(&Report{Entry: Entry{Path: "e/6", Name: "e__6", Experiment: "e", Error: "broken"}})
	leak := []report.Leak{{Kind: "growing_list", Defect: true, BytesPerStep: new(int64(1))}}
	for i, failed := range []bool{true, false} {
		r := failing(fmt.Sprint("e/", 7+i), "aa", "do this", 50, 10)
		if r.Document.Devices[0].Leaks = leak; !failed {
			r.Document.Devices[0].OOMs = nil
		}
		b.add(r)
	}
	elsewhere, caused := failing("e/9", "cc", "", 5, 5), failing("e/10", "cc", "", 5, 5)
	elsewhere.Document.Devices[0].OOMs[0].Site.Line = new(8)
	caused.Document.Devices[0].OOMs[0].Causes = []report.Cause{{Cause: report.LeakCause}}
	var two indexBuilder
	two.add(elsewhere)
	two.add(caused)
	if g := two.index().OOMs[0]; g.At != "" || g.Where != "f a/b.py" || g.Why() != "a leak" {
		t.Errorf("of two lines: %q at %q, %q", g.Why(), g.At, g.Where)
	}
	other := failing("e/11", "cc", "", 5, 5)
	other.Document.Devices[0].OOMs[0].Causes = []report.Cause{{Cause: report.Pieces}}
	if two.add(other); two.index().OOMs[0].Why() != "fragmentation" {
		t.Errorf("two causes are told as %q", two.index().OOMs[0].Why())
	}
	x := b.index()
	f := x.Figures // a run that leaks and fails counts twice, and is told
	if len(x.OOMs) != 3 || f.OOM != 6 || f.Failed != 1 || f.Leaking != 2 || f.LeakingOOM != 1 || f.Runs != 8 || f.OOM+f.Failed+f.Leaking+f.Warning+f.Fine != f.Runs+f.LeakingOOM {
		t.Fatalf("%d failures, %+v", len(x.OOMs), f)
	}
	g := x.OOMs[0]
	if g.Fingerprint != "aa" || g.Runs != 4 || g.Requests != 4 || *g.First != 20 || *g.Last != 90 || g.MinBytes != 10 || g.MaxBytes != 30 || g.Fix != "do this" || g.FixRuns != 3 || *g.SavesBytes != 5 || g.Where != "f a/b.py" {
		t.Errorf("%+v", g)
	}
	if g.At != "f a/b.py:7" || g.Why() != "fragmentation" {
		t.Errorf("it is called %q, at %q", g.Why(), g.At)
	}
	if g.Effect != "" {
		t.Errorf("nothing tells of the peak, but it becomes %s", g.Effect)
	}
	// A verdict on a recording that went through is none on a failure that a log alone tells of.
	var apart indexBuilder
	r := failing("e/9", "aa", "do this", 50, 10)
	r.Document.Devices[0].OOMs = nil
	r.Document.Verdict.Fix, r.Document.Verdict.SavesBytes = new("do this"), new(95*gib)
	r.Document.Evidence.OOMMessages = []evidence.OOMMessage{{RequestedBytes: new(int64(9))}}
	apart.add(r)
	if groups := apart.index().OOMs; len(groups) != 1 || groups[0].Fix != "" || groups[0].SavesBytes != nil {
		t.Errorf("%+v", groups)
	}
	// One change in several words is one change.
	var same indexBuilder
	for i, words := range []string{"at a.py:1", "at a.py:2", "at a.py:2"} {
		r := failing(fmt.Sprint("e/", i), "aa", words, 50, 10)
		r.Document.Devices[0].Findings[0].FixID = new("checkpointing")
		same.add(r)
	}
	if g := same.index().OOMs[0]; g.FixID != "checkpointing" || g.FixRuns != 3 || g.Fix != "at a.py:2" {
		t.Errorf("one change in two words: %+v", g)
	}
	if g := x.OOMs[2]; g.Known() || g.Verdict != "told by a log" || g.Requests != 2 || g.Runs != 1 || g.Where != "x/train.py" {
		t.Errorf("from a log: %+v", g)
	}
	if x.Rows[5].Status != report.StatusFailed || x.Rows[5].Text != "broken" || x.Rows[0].Status != report.StatusOOM {
		t.Errorf("%+v", x.Rows)
	}
}

// TestBudgetsByConfiguration: a budget may be a value of another package or
// what was read from JSON.
func TestBudgetsByConfiguration(t *testing.T) {
	var b indexBuilder
	for i, measured := range []int64{20, 12, 13} {
		r := failing(fmt.Sprintf("e/%d", i), "aa", "", 1, 1)
		r.Document.Budget = map[string]any{"model": map[string]any{"type": "gpt2", "parameters": 124}, "setting": map[string]any{"batch": 8, "sequence": 512, "precision": "bf16", "optimizer": "adamw", "checkpointing": "full"},
			"expected": map[string]any{"peak_bytes": 10}, "measured": map[string]any{"peak_bytes": measured}}
		b.add(r)
	}
	x := b.index()
	if len(x.Budgets) != 1 {
		t.Fatalf("%+v", x.Budgets)
	}
	want := report.BudgetGap{Model: "gpt2, 124 parameters", Setting: "8 x 512 tokens, bf16, adamw, full checkpointing", Runs: 3, Budget: 10, Measured: 13, Link: report.IndexLink{Path: "e/0", Name: "e__0"}}
	if x.Budgets[0] != want {
		t.Errorf("%+v", x.Budgets[0])
	}
}

// TestTooManyRowsForAPage keeps the most worrying.
func TestTooManyRowsForAPage(t *testing.T) {
	b := indexBuilder{}
	for i := range maxRows + 10 {
		b.add(&Report{Entry: Entry{Path: fmt.Sprint(i)}, Document: &report.Document{Verdict: report.Verdict{Severity: report.Info}, Evidence: evidence.New()}})
	}
	b.add(failing("zz", "aa", "", 1, 1))
	x := b.index()
	if len(x.Rows) != maxRows || x.Left != 11 || x.Rows[maxRows-1].Path != "zz" || x.Figures.Runs != maxRows+11 {
		t.Errorf("%d rows, %d left, %+v", len(x.Rows), x.Left, x.Figures)
	}
}
