package diff

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

func to[T any](v T) *T { return &v }

// site is a call site of a table: "function file:line" and what it holds.
func site(function, file string, line int, bytes int64) report.Site {
	return report.Site{Function: function, File: file, Line: &line, Bytes: bytes, Blocks: 1, Category: to("activations"), Known: true}
}

func with(s report.Site, change func(*report.Site)) report.Site {
	change(&s)
	return s
}

// document has one device that holds the sites at its peak.
func document(sites ...report.Site) *report.Document {
	d := report.Device{History: "complete", Stacks: "all", Sites: sites, AtPeak: report.Moment{Categories: map[string]int64{}}}
	for _, s := range sites {
		d.AtPeak.AllocatedBytes += s.Bytes
		d.AtPeak.Categories[*s.Category] += s.Bytes
	}
	d.Peaks.Allocated.Bytes = d.AtPeak.AllocatedBytes
	return &report.Document{Inputs: []report.Input{{Path: "x"}}, Devices: []report.Device{d}}
}

func TestMatching(t *testing.T) {
	op := func(name string) func(*report.Site) { return func(s *report.Site) { s.Op = name } }
	from := func(function string, line int) func(*report.Site) {
		return func(s *report.Site) {
			s.CalledFrom = &report.Place{Function: function, File: "/a/train.py", Line: &line}
		}
	}
	type row struct {
		before, after           int // lines, 0: not there
		beforeBytes, afterBytes int64
	}
	for _, c := range []struct {
		name          string
		before, after []report.Site
		want          []row // largest change first
	}{
		{"the same", []report.Site{site("f", "/a/x.py", 10, 5)}, []report.Site{site("f", "/a/x.py", 10, 5)}, []row{{10, 10, 5, 5}}},
		{"lines moved", []report.Site{site("f", "/a/x.py", 10, 5), site("f", "/a/x.py", 20, 7)}, []report.Site{site("f", "/a/x.py", 20, 5), site("f", "/a/x.py", 30, 9)},
			[]row{{20, 30, 7, 9}, {10, 20, 5, 5}}},
		{"a line in between is new", []report.Site{site("f", "/a/x.py", 10, 5), site("f", "/a/x.py", 20, 5)},
			[]report.Site{site("f", "/a/x.py", 11, 5), site("f", "/a/x.py", 15, 9), site("f", "/a/x.py", 21, 5)}, []row{{0, 15, 0, 9}, {10, 11, 5, 5}, {20, 21, 5, 5}}},
		{"a line is gone", []report.Site{site("f", "/a/x.py", 10, 5), site("f", "/a/x.py", 20, 9), site("f", "/a/x.py", 30, 5)},
			[]report.Site{site("f", "/a/x.py", 12, 5), site("f", "/a/x.py", 32, 5)}, []row{{20, 0, 9, 0}, {10, 12, 5, 5}, {30, 32, 5, 5}}},
		{"another folder", []report.Site{site("f", "/home/a/rank0/x.py", 10, 5)}, []report.Site{site("f", `C:\b\rank1\x.py`, 10, 5)}, []row{{10, 10, 5, 5}}},
		{"the folder tells files of one name apart", []report.Site{site("f", "/a/one/x.py", 10, 5), site("f", "/a/two/x.py", 10, 50)},
			[]report.Site{site("f", "/b/two/x.py", 10, 60), site("f", "/b/one/x.py", 10, 5)}, []row{{10, 10, 50, 60}, {10, 10, 5, 5}}},
		{"a cell of a notebook", []report.Site{site("f", "/tmp/ipykernel_1/111.py", 2, 5)}, []report.Site{site("f", "/tmp/ipykernel_2/222.py", 2, 5)}, []row{{2, 2, 5, 5}}},
		{"what torch.compile wrote", []report.Site{site("call", "/data/cache/sw/cswp5ixeakqt67jllg4cafb436aapz7anou4ezexk47xedoait66.py", 2, 5)},
			[]report.Site{site("call", "/tmp/torchinductor_ada/ab/cab.py", 2, 6)}, []row{{2, 2, 5, 6}}},
		{"another function", []report.Site{site("f", "/a/x.py", 10, 5)}, []report.Site{site("g", "/a/x.py", 10, 5)}, []row{{0, 10, 0, 5}, {10, 0, 5, 0}}},
		{"another operator", []report.Site{with(site("f", "/a/x.py", 10, 5), op("aten::mm"))}, []report.Site{with(site("f", "/a/x.py", 10, 6), op("aten::add"))}, []row{{0, 10, 0, 6}, {10, 0, 5, 0}}},
		{"another caller", []report.Site{with(site("f", "/a/x.py", 10, 5), from("train", 3))}, []report.Site{with(site("f", "/a/x.py", 10, 6), from("fit", 4))}, []row{{10, 10, 5, 6}}},
		{"the caller tells uses apart", []report.Site{with(site("f", "/a/x.py", 10, 5), from("train", 3)), with(site("f", "/a/x.py", 10, 50), from("eval", 4))},
			[]report.Site{with(site("f", "/a/x.py", 12, 60), from("eval", 5)), with(site("f", "/a/x.py", 12, 5), from("train", 3))}, []row{{10, 12, 50, 60}, {10, 12, 5, 5}}},
		{"nothing before", nil, []report.Site{site("f", "/a/x.py", 10, 5)}, []row{{0, 10, 0, 5}}},
		{"older than the recording", []report.Site{{Older: true, Bytes: 3, Category: to("weights")}}, []report.Site{{Older: true, Bytes: 4, Category: to("weights")}}, []row{{0, 0, 3, 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Compute(document(c.before...), document(c.after...))
			if err != nil {
				t.Fatal(err)
			}
			var got []row
			for _, s := range d.Sites {
				got = append(got, row{lineOf(s.BeforeLine), lineOf(s.AfterLine), s.BeforeBytes, s.AfterBytes})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestOlderThanOneRecording: memory whose making one recording doesn't show is no
// other memory than the other one's.
func TestOlderThanOneRecording(t *testing.T) {
	weights := func(line int, bytes int64) report.Site {
		return with(site("build", "/a/model.py", line, bytes), func(s *report.Site) { s.Category = to("weights") })
	}
	older := func(bytes int64) report.Site { return report.Site{Older: true, Bytes: bytes, Category: to("weights")} }
	type row struct {
		line          int
		before, after int64
		in, older     report.DiffOccurrence
		sites         int
	}
	for _, c := range []struct {
		name          string
		before, after []report.Site
		want          []row
	}{
		{"the same", []report.Site{weights(1, 30), weights(2, 70)}, []report.Site{older(100)}, []row{{2, 100, 100, report.InBoth, report.InAfter, 2}}},
		{"the other way round", []report.Site{older(100)}, []report.Site{weights(1, 30), weights(2, 70)}, []row{{2, 100, 100, report.InBoth, report.InBefore, 2}}},
		{"more than was made", []report.Site{weights(1, 30)}, []report.Site{older(50)}, []row{{1, 30, 50, report.InBoth, report.InAfter, 1}}},
		{"room for some of it", []report.Site{weights(1, 30), weights(2, 70), weights(3, 20)}, []report.Site{older(55)},
			[]row{{2, 70, 0, report.InBefore, "", 1}, {1, 50, 55, report.InBoth, report.InAfter, 2}}},
		{"of another category", []report.Site{site("f", "/a/x.py", 1, 30)}, []report.Site{older(50)}, []row{{0, 0, 50, report.InAfter, "", 1}, {1, 30, 0, report.InBefore, "", 1}}},
		{"with a counterpart", []report.Site{weights(1, 30)}, []report.Site{weights(1, 30), older(50)}, []row{{0, 0, 50, report.InAfter, "", 1}, {1, 30, 30, report.InBoth, "", 1}}},
		{"in both", []report.Site{older(40), weights(1, 10)}, []report.Site{older(50)}, []row{{0, 40, 50, report.InBoth, "", 1}, {1, 10, 0, report.InBefore, "", 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Compute(document(c.before...), document(c.after...))
			if err != nil {
				t.Fatal(err)
			}
			var got []row
			for _, s := range d.Sites {
				got = append(got, row{max(lineOf(s.BeforeLine), lineOf(s.AfterLine)), s.BeforeBytes, s.AfterBytes, s.In, s.OlderIn, s.Sites})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			paired := slices.ContainsFunc(got, func(r row) bool { return r.older != "" })
			if said := len(d.Caveats) > 0; said != paired {
				t.Errorf("caveats %q", d.Caveats)
			}
		})
	}
}

// TestStepsOfLaterRecordings: a recording that began in the middle of its program
// counts from there.
func TestStepsOfLaterRecordings(t *testing.T) {
	run := func(history string, peaks ...int64) *report.Document {
		doc := document(site("f", "/a/x.py", 1, 1))
		d := &doc.Devices[0]
		d.History = history
		for i, p := range peaks {
			d.Steps = append(d.Steps, report.Step{Step: i, PeakAllocatedBytes: p})
		}
		return doc
	}
	stateful := func(doc *report.Document) *report.Document {
		doc.Devices[0].Leaks = []report.Leak{{Kind: classify.FirstStepState}}
		return doc
	}
	for _, c := range []struct {
		name          string
		before, after *report.Document
		want          [][4]int64 // numbers and peaks, -1: no such step
	}{
		{"both from the beginning", run("complete", 5, 7, 7), run("complete", 5, 8), [][4]int64{{0, 5, 0, 5}, {1, 7, 1, 8}, {2, 7, -1, -1}}},
		{"the second late", run("complete", 5, 7, 9), run("late", 7, 9), [][4]int64{{0, 5, -1, -1}, {1, 7, 0, 7}, {2, 9, 1, 9}}},
		{"the first without its beginning", run("overflowed", 9), run("complete", 5, 7, 9), [][4]int64{{-1, -1, 0, 5}, {-1, -1, 1, 7}, {0, 9, 2, 9}}},
		{"late, but before the loop", stateful(run("late", 5, 7, 9)), run("late", 7, 9), [][4]int64{{0, 5, -1, -1}, {1, 7, 0, 7}, {2, 9, 1, 9}}},
		{"both late", run("late", 7, 9), run("late", 7), [][4]int64{{0, 7, 0, 7}, {1, 9, -1, -1}}},
		{"none", run("late"), run("complete", 5), [][4]int64{{-1, -1, 0, 5}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Compute(c.before, c.after)
			if err != nil {
				t.Fatal(err)
			}
			var got [][4]int64
			for _, s := range d.Steps {
				r := [4]int64{-1, -1, -1, -1}
				if s.Before != nil {
					r[0], r[1] = int64(*s.BeforeStep), *s.Before
				}
				if s.After != nil {
					r[2], r[3] = int64(*s.AfterStep), *s.After
				}
				got = append(got, r)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestMatchingWithoutOperators(t *testing.T) {
	a := document(with(site("f", "/a/x.py", 10, 5), func(s *report.Site) { s.Op = "aten::mm" }), with(site("f", "/a/x.py", 10, 6), func(s *report.Site) { s.Op = "aten::add" }))
	b := document(site("f", "/a/x.py", 10, 12))
	b.Devices[0].Stacks = "python"
	d, err := Compute(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Sites) != 1 || d.Sites[0].BeforeBytes != 11 || d.Sites[0].AfterBytes != 12 || len(d.Caveats) != 1 {
		t.Errorf("%+v, caveats %q", d.Sites, d.Caveats)
	}
}

// What was cut off one of the documents is told, and the requests count that it doesn't list.
func TestWhatIsLeftOut(t *testing.T) {
	long := document(site("f", "/a/x.py", 1, 1))
	long.Devices[0].OOMs, long.Devices[0].OOMsUntold = []report.OOM{{Repeats: 2}}, 40
	long.Omitted = []report.Omitted{{List: "inputs[].damage", Items: 70}}
	d, err := Compute(document(site("f", "/a/x.py", 1, 1)), long)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"The second run has 43 failed requests: its peak is what it had got to",
		"Of the second input: left out, as these lists are too long to be read: 70 of inputs[].damage"}
	if !slices.Equal(d.Caveats, want) {
		t.Errorf("%q\nwant %q", d.Caveats, want)
	}
}

func TestVerdict(t *testing.T) {
	failed := document(site("f", "/a/x.py", 10, 200<<20))
	failed.Devices[0].OOMs = []report.OOM{{}}
	leaking := document(site("f", "/a/x.py", 10, 100<<20))
	leaking.Devices[0].Leaks = []report.Leak{{Defect: true}, {}}
	for _, c := range []struct {
		name          string
		before, after *report.Document
		want          string
		severity      report.Severity
	}{
		{"same", document(site("f", "/a/x.py", 1, 100<<20)), document(site("f", "/a/x.py", 1, 100<<20)), "The allocated peak is the same: 100.00 MiB", report.Info},
		{"grew", document(site("f", "/a/x.py", 1, 100<<20)), document(site("f", "/a/x.py", 2, 150<<20)),
			"The allocated peak grew by 50.00 MiB (+50.0 %): 100.00 MiB before, 150.00 MiB after, most in activations (+50.00 MiB), at f a/x.py:2 (+50.00 MiB)", report.Warning},
		{"grew by next to nothing", document(site("f", "/a/x.py", 1, 1000<<20)), document(site("f", "/a/x.py", 1, 1001<<20)),
			"The allocated peak grew by 1.00 MiB (+0.1 %): 1000.00 MiB before, 1001.00 MiB after, most in activations (+1.00 MiB), at f a/x.py:1 (+1.00 MiB)", report.Info},
		{"shrank", document(site("f", "/a/x.py", 1, 100<<20)), document(), "The allocated peak shrank by 100.00 MiB (-100.0 %): 100.00 MiB before, 0 B after, most in activations (-100.00 MiB), at f a/x.py:1 (-100.00 MiB)", report.Info},
		{"failed", document(site("f", "/a/x.py", 10, 100<<20)), failed,
			"The allocated peak grew by 100.00 MiB (+100.0 %): 100.00 MiB before, 200.00 MiB after, most in activations (+100.00 MiB), at f a/x.py:10 (+100.00 MiB); the second ran out of memory, the first did not", report.Critical},
		{"leaks", document(site("f", "/a/x.py", 10, 100<<20)), leaking, "The allocated peak is the same: 100.00 MiB; the second has 1 leak", report.Warning},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Compute(c.before, c.after)
			if err != nil {
				t.Fatal(err)
			}
			if d.Verdict.Text != c.want || d.Verdict.Severity != c.severity {
				t.Errorf("%s: %s\nwant %s: %s", d.Verdict.Severity, d.Verdict.Text, c.severity, c.want)
			}
		})
	}
}

func TestNothingToCompare(t *testing.T) {
	_, err := Compute(document(), &report.Document{})
	if err == nil || !strings.Contains(err.Error(), "the second") {
		t.Errorf("%v", err)
	}
}

func TestAlign(t *testing.T) {
	for _, c := range []struct{ a, b []int }{{nil, nil}, {[]int{1}, nil}, {[]int{5, 9}, []int{1, 5, 9, 20}}, {[]int{1, 2, 3, 4}, []int{3}}, {[]int{0, 0}, []int{0, 0, 0}}} {
		pairs := align(c.a, c.b)
		if len(pairs) != min(len(c.a), len(c.b)) {
			t.Errorf("%v and %v: pairs %v", c.a, c.b, pairs)
		}
		for i := 1; i < len(pairs); i++ {
			if pairs[i][0] <= pairs[i-1][0] || pairs[i][1] <= pairs[i-1][1] {
				t.Errorf("%v and %v: %v cross", c.a, c.b, pairs)
			}
		}
	}
	if got := align([]int{5, 9}, []int{1, 5, 9, 20}); !slices.Equal(got, [][2]int{{0, 1}, {1, 2}}) {
		t.Errorf("nearest lines: %v", got)
	}
}

// TestRecordings: every byte of both peaks is in the tables once; a recording
// is the same as itself; the other way round, what grew shrinks.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("../testdata/recordings/*/*.pickle.gz")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	var docs []*report.Document
	for _, name := range files {
		s, err := snapshot.Open(name, snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := diagnose.Run([]diagnose.Source{{Path: name, Kind: "snapshot", Snapshot: s}}, evidence.New(), diagnose.Options{})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	for i, a := range docs {
		for _, b := range []*report.Document{a, docs[(i+1)%len(docs)]} {
			d, err := Compute(a, b)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Compute(b, a)
			if err != nil {
				t.Fatal(err)
			}
			var sites, categories report.DiffSize
			for _, s := range d.Sites {
				sites.Before, sites.After = sites.Before+s.BeforeBytes, sites.After+s.AfterBytes
				if a == b && (s.Change() != 0 || s.In != report.InBoth) {
					t.Errorf("%s and itself: %+v", files[i], s)
				}
			}
			for _, c := range d.Categories {
				categories.Before, categories.After = categories.Before+c.Before, categories.After+c.After
			}
			want := report.DiffSize{Before: d.Before.Allocated, After: d.After.Allocated}
			if sites != want || categories != want {
				t.Errorf("%s: sites hold %v, categories %v, the peaks are %v", files[i], sites, categories, want)
			}
			if d.Peaks["allocated"].Change() != -back.Peaks["allocated"].Change() || len(d.Sites) != len(back.Sites) {
				t.Errorf("%s: %d sites, %d the other way round", files[i], len(d.Sites), len(back.Sites))
			}
		}
	}
}

// TestMovedRecordings: the same recording of code that lies in another folder,
// seven lines further down, holds the same at every call site.
func TestMovedRecordings(t *testing.T) {
	files, err := filepath.Glob("../testdata/recordings/*/snapshot_[anp]*.pickle.gz")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, name := range files {
		s, err := snapshot.Open(name, snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := diagnose.Run([]diagnose.Source{{Path: name, Kind: "snapshot", Snapshot: s}}, evidence.New(), diagnose.Options{})
		if err != nil {
			t.Fatal(err)
		}
		moved := *doc
		moved.Devices = slices.Clone(doc.Devices)
		for i := range moved.Devices {
			d := &moved.Devices[i]
			for _, list := range []*[]report.Site{&d.Sites, &d.SitesAtEnd} {
				*list = slices.Clone(*list)
				for k := range *list {
					s := &(*list)[k]
					if s.File != "" {
						s.File = "/mnt/rank1" + s.File
					}
					if s.Line != nil {
						s.Line = to(*s.Line + 7)
					}
				}
				slices.Reverse(*list)
			}
		}
		d, err := Compute(doc, &moved)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Sites) == 0 {
			t.Errorf("%s: no site", name)
		}
		for _, s := range d.Sites {
			if s.In != report.InBoth || s.Change() != 0 || s.BeforeLine != nil && *s.AfterLine != *s.BeforeLine+7 {
				t.Errorf("%s: %s %s:%d holds %d, then %d at line %d", name, s.Function, s.File, lineOf(s.BeforeLine), s.BeforeBytes, s.AfterBytes, lineOf(s.AfterLine))
			}
		}
	}
}
