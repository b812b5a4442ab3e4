package logs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/report"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// input is one file of a run.
type input struct{ name, text string }

// judged is the report on a run that left these files behind, and no recording.
func judged(t *testing.T, files ...input) *report.Document {
	t.Helper()
	doc := readAll(t, files...)
	logs.Add(doc, 0, nil)
	doc.Verdict, _ = logs.Verdict(doc)
	return doc
}

// readAll is a report to which nothing was added yet.
func readAll(t *testing.T, files ...input) *report.Document {
	t.Helper()
	doc := &report.Document{Evidence: evidence.New()}
	for i, f := range files {
		kinds, found, err := read.Evidence(strings.NewReader(f.text), f.name, i)
		if err != nil {
			t.Fatal(err)
		}
		doc.Evidence.Add(found)
		doc.Inputs = append(doc.Inputs, report.Input{Path: f.name, Kind: kinds[0], Contains: kinds})
	}
	return doc
}

// added is the report on evidence of train.log and gpu.csv, beside recorded devices.
func added(ev *evidence.Evidence, devices ...report.Device) *report.Document {
	doc := &report.Document{Evidence: ev, Devices: devices, Inputs: []report.Input{{Path: "train.log"}, {Path: "gpu.csv"}}}
	logs.Add(doc, 0, nil)
	doc.Verdict, _ = logs.Verdict(doc)
	return doc
}

// found is the finding with an id.
func found(doc *report.Document, id string) *report.Finding {
	if i := slices.IndexFunc(doc.Findings, func(f report.Finding) bool { return f.ID == id }); i >= 0 {
		return &doc.Findings[i]
	}
	return nil
}

// allOf are the findings with an id.
func allOf(doc *report.Document, id string) []report.Finding {
	return slices.DeleteFunc(slices.Clone(doc.Findings), func(f report.Finding) bool { return f.ID != id })
}

// TestAdd: nothing is added without evidence; clocks of devices are the document's, too, and a
// size of the GPU that a recording disproved counts for nothing.
func TestAdd(t *testing.T) {
	doc := &report.Document{Devices: []report.Device{{Clocks: []report.Clock{{Source: 1}}}}}
	if logs.Add(doc, 0, nil); len(doc.Findings)+len(doc.Clocks) != 0 {
		t.Errorf("without evidence: %+v, %+v", doc.Findings, doc.Clocks)
	}
	if v, ok := logs.Verdict(doc); ok {
		t.Errorf("without evidence: %+v", v)
	}
	for _, disproved := range []bool{false, true} {
		doc.Devices = []report.Device{{Clocks: []report.Clock{{Source: 1}, {Source: 2}}}, {Clocks: []report.Clock{{Source: 3}}}}
		if disproved {
			doc.Devices[1].CapacityDisproved = new(10 * gib)
		}
		doc.Findings, doc.Clocks, doc.Inputs, doc.Evidence = nil, nil, []report.Input{{Path: "train.log"}}, evidence.New()
		doc.Evidence.Logs = []evidence.Log{{Steps: &evidence.Steps{MaxMemoryBytes: new(12 * gib)}}}
		logs.Add(doc, 10*gib, nil)
		if len(doc.Clocks) != 3 || doc.Clocks[2].Source != 3 {
			t.Errorf("clocks %+v", doc.Clocks)
		}
		// 12 GiB of 10 lie in the host's memory, if there are just 10.
		if f := found(doc, "shared_memory_spill"); (f == nil) != disproved || f != nil && *f.SavesBytes != 2*gib {
			t.Errorf("disproved %v: %+v", disproved, f)
		}
	}
}

// TestVerdictOfFacts: without a finding the verdict is what was seen, the first facts of many, and
// a warning where a file is damaged.
func TestVerdictOfFacts(t *testing.T) {
	ev := evidence.New()
	if v, ok := logs.Verdict(&report.Document{Evidence: ev}); ok {
		t.Errorf("nothing was seen: %+v", v)
	}
	for n := 1; n <= 12; n++ {
		ev.Timelines = append(ev.Timelines, evidence.Timeline{PeakBytes: int64(n) * gib})
		doc := &report.Document{Evidence: ev, Inputs: []report.Input{{Path: "a"}}}
		v, ok := logs.Verdict(doc)
		told, more := strings.Count(v.Text, "GiB"), strings.HasSuffix(v.Text, fmt.Sprintf("; and %d more", n-8))
		if want := n; !ok || v.Severity != report.Info || v.Fix == nil || n < 10 && (told != want || more) ||
			n >= 10 && (told != 8 || !more) {
			t.Errorf("%d facts: %+v", n, v)
		}
	}
	doc := &report.Document{Evidence: ev, Inputs: []report.Input{{Damage: []string{"cut"}}, {}, {Damage: []string{"cut", "off"}}}}
	if v, _ := logs.Verdict(doc); v.Severity != report.Warning || !strings.Contains(v.Text, "2 files") {
		t.Errorf("of damaged files: %+v", v)
	}
	doc.Findings = []report.Finding{{Title: "seen", Severity: report.Info}}
	if v, _ := logs.Verdict(doc); v.Text == "seen" {
		t.Errorf("a mere word: %+v", v)
	}
	doc.Findings = []report.Finding{{Title: "seen", Severity: report.Warning, Fix: new("mend"), SavesBytes: new(gib)}}
	if v, _ := logs.Verdict(doc); v.Text != "seen" || v.Severity != report.Warning || *v.Fix != "mend" || *v.SavesBytes != gib {
		t.Errorf("a warning: %+v", v)
	}
}

// TestException: what a program failed with is told rather than its code: by run's own record, and by a log with the line.
func TestException(t *testing.T) {
	record := input{name: "run.json", text: `{"schema": "vramscope.run/1", "command": ["a"], "exit_code": 1, "exception": "ValueError: label 1204 is ` +
		`out of range", "environment": {}, "processes": []}`}
	log := input{name: "output.log", text: "step 1 loss 2.5\nTraceback (most recent call last):\n  File \"/home/u/train.py\", " +
		"line 9, in <module>\n    raise ValueError(\"x\")\nValueError: label 1204 is out of range\n"}
	for _, test := range []struct {
		inputs []input
		says   string
	}{
		{[]input{record}, "it ended in ValueError: label 1204 is out of range"},
		{[]input{record, log}, "it ended in ValueError: label 1204 is out of range at u/train.py:9"},
		{[]input{log, record}, "it ended in ValueError: label 1204 is out of range at u/train.py:9"},
	} {
		if doc := judged(t, test.inputs...); !strings.Contains(doc.Verdict.Text, test.says) {
			t.Errorf("%q, want %q", doc.Verdict.Text, test.says)
		}
	}
}

// TestEndedWellInSpiteOfTraceback: where the one run's record has the exit code 0, what its log has of an exception didn't
// end it; of two runs nobody knows whose log it is, and memory that ran out stays told.
func TestEndedWellInSpiteOfTraceback(t *testing.T) {
	record := func(code string) input {
		return input{name: "run.json", text: `{"schema": "vramscope.run/1", "command": ["a"], "exit_code": ` + code +
			`, "environment": {}, "processes": []}`}
	}
	log := input{name: "output.log", text: "step 1 loss 2.5\nTraceback (most recent call last):\n  File \"/home/u/serve.py\", " +
		"line 9, in render\n    raise ValueError(\"x\")\nValueError: no tokenizer\n"}
	killed := input{name: "output.log", text: log.text + "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n"}
	for _, test := range []struct {
		inputs []input
		how    evidence.How
	}{
		{[]input{record("0"), log}, evidence.EndedWell},
		{[]input{log, record("0")}, evidence.EndedWell},
		{[]input{record("1"), log}, evidence.Failed},
		{[]input{record("0"), record("0"), log}, evidence.Failed},
		{[]input{record("0"), killed}, evidence.HostMemory},
		{[]input{log}, evidence.Failed},
	} {
		if end := logs.Ended(judged(t, test.inputs...)); end == nil || end.How != string(test.how) {
			t.Errorf("%d inputs: %+v, want %s", len(test.inputs), end, test.how)
		}
	}
}
