package checks

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// passOf is a look at the first device of a program.
func passOf(t *testing.T, program recorder.Program) *facts.Pass {
	t.Helper()
	run := recorder.Simulate(program)
	s, err := snapshot.Decode(bytes.NewReader(run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})),
		snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := timeline.New(s, &s.Devices[0])
	return facts.New(line, classify.New(line, classify.Options{}), frames.New(s), &report.Device{})
}

// TestDoubtfulLogits: what may as well be something else is no reason for another loss.
func TestDoubtfulLogits(t *testing.T) {
	for _, c := range []struct {
		sure  uint8
		found int
	}{{60, 0}, {85, 1}} {
		p := passOf(t, recorder.Program{Seed: 6, Events: 3000})
		for i := range p.Classes.Category {
			p.Classes.Category[i], p.Classes.Confidence[i] = classify.Logits, c.sure
		}
		p.Dev.AtPeak.AllocatedBytes = p.T.Peaks.Allocated.Bytes
		if got := len(logitsDominate.Run(p)); got != c.found {
			t.Errorf("%d %% sure: %d findings about %d bytes, want %d", c.sure, got, p.Dev.AtPeak.AllocatedBytes, c.found)
		}
	}
}

// A single step shows the optimizer's state by its nature: its title says
// expected, not doubtful.
func TestLeakTitle(t *testing.T) {
	for _, c := range []struct {
		leak    report.Leak
		doubted bool
	}{
		{report.Leak{Kind: classify.GrowingList, Steps: 2, Defect: true, Suspected: true, Confidence: 1}, true},
		{report.Leak{Kind: classify.GrowingList, Steps: 3, Defect: true, Confidence: 1}, false},
		{report.Leak{Kind: classify.FirstStepState, Steps: 1, Suspected: true, Confidence: 1}, false},
		{report.Leak{Kind: classify.FirstStepState, Steps: 1, Suspected: true, Confidence: 0.5}, true},
	} {
		if got := LeakTitle(&c.leak); strings.Contains(got, "suspected") != c.doubted {
			t.Errorf("%+v: %s", c.leak, got)
		}
	}
}

// TestWithin: where more may have been in use before the recording, sentences say so.
func TestWithin(t *testing.T) {
	d := report.Device{History: "late", Events: 10}
	d.Peaks.Allocated.Bytes, d.Peaks.Reserved.Bytes = 80, 100
	event := 3
	for _, history := range []string{"complete", "late"} {
		for _, at := range []*int{nil, &event} {
			d.History, d.Peaks.Reserved.Event = history, at
			if got, want := within(&d) != "", history == "late" && at == nil; got != want {
				t.Errorf("%s, peak reserved at %v: %v", history, at, got)
			}
		}
	}
}

// TestListOptimizers: no optimizer's code is another's.
func TestListOptimizers(t *testing.T) {
	for kind, class := range listOptimizers {
		if !strings.EqualFold(kind, class) || change.FusedOptimizer(kind) != "" {
			t.Errorf("%s is %s, fused %q", kind, class, change.FusedOptimizer(kind))
		}
	}
}

// TestSavesNoMoreThanThereIs: a layout that wastes less besides is no saving of what a
// change takes away.
func TestSavesNoMoreThanThereIs(t *testing.T) {
	d := Draft{Most: 100 << 20}
	d.saves("replayed,", "replay", 400<<20, 104<<20)
	if *d.SavesBytes != 100<<20 || d.Evidence[0] != "replayed, peak allocated memory falls from 400.00 MiB to 300.00 MiB" {
		t.Errorf("%d bytes, %q", *d.SavesBytes, d.Evidence)
	}
}

// TestFixesOfGrowingSegments advises nobody to let segments grow that do.
func TestFixesOfGrowingSegments(t *testing.T) {
	for _, kind := range []string{classify.VaryingShapes, classify.FragmentationCreep} {
		for _, grow := range []bool{false, true} {
			fix := LeakAdvice(&classify.Leak{Kind: kind, Expandable: grow}, &report.Leak{})
			if strings.Contains(fix.Code, "expandable_segments") == grow || fix.Text == "" || fix.Code == "" {
				t.Errorf("%s, segments grow %v: %q %q", kind, grow, fix.Text, fix.Code)
			}
		}
	}
}

// TestFixNamesTheFile: without its folder, as Unix and Windows write it.
func TestFixNamesTheFile(t *testing.T) {
	for _, file := range []string{"/home/ml/run/train.py", `C:\Users\ml\run\train.py`, "train.py"} {
		l := classify.Leak{Kind: classify.GrowingList, Site: classify.Site{File: file, Line: 14}}
		if text := LeakAdvice(&l, &report.Leak{}).Text; !strings.Contains(text, "(train.py:14)") {
			t.Errorf("%s: %s", file, text)
		}
		l.CalledFrom = frames.Line{File: file, Line: 30}
		if text := LeakAdvice(&l, &report.Leak{}).Text; !strings.Contains(text, "(train.py:14, called from train.py:30)") {
			t.Errorf("%s: %s", file, text)
		}
	}
}

// TestLeaksHaveFixes: each kind of leak has advice and code, without a gap left in it.
func TestLeaksHaveFixes(t *testing.T) {
	for _, kind := range []string{classify.GrowingList, classify.RetainedGraph, classify.GradientsKept, classify.StaleOutputs,
		classify.VaryingShapes, classify.FragmentationCreep, classify.FirstStepState} {
		for _, yes := range []bool{false, true} {
			l := classify.Leak{Kind: kind, Joined: yes, Untrained: yes, ForwardOnly: yes, Expandable: yes}
			if a := LeakAdvice(&l, &report.Leak{}); a.Text == "" || a.Code == "" || strings.ContainsAny(a.Text, "{}") {
				t.Errorf("%s has no fix: %+v", kind, a)
			}
		}
	}
}

// TestUnevenDevices: a GPU that has room is named where layers moved to it leave less here.
func TestUnevenDevices(t *testing.T) {
	for _, c := range []struct {
		others []int64 // what they have reserved, of 100 here; below 0: of something else than modules
		found  int
	}{{nil, 0}, {[]int64{40}, 1}, {[]int64{60}, 0}, {[]int64{4}, 0}, {[]int64{70, 40}, 1}, {[]int64{40, 500}, 0}, {[]int64{-40}, 0}} {
		p := passOf(t, recorder.Program{Seed: 6, Events: 300})
		for _, f := range p.T.Snapshot.Frames {
			p.T.Snapshot.Strings[f.File] = "torch/nn/modules/module.py"
		}
		here := p.T.Device
		here.Segments = []snapshot.Segment{{TotalSize: 100 << 30}}
		p.T.Snapshot.Devices = []snapshot.Device{*here}
		for i, n := range c.others {
			d := snapshot.Device{Ordinal: i + 1, Segments: []snapshot.Segment{{TotalSize: max(n, -n) << 30}}}
			if n > 0 {
				d.Events = here.Events
			}
			p.T.Snapshot.Devices = append(p.T.Snapshot.Devices, d)
		}
		p.T.Device = &p.T.Snapshot.Devices[0]
		p.T.OOMs = []timeline.OOM{{Requested: 1 << 30, DeviceFree: -1, Levels: timeline.Levels{Allocated: 99 << 30}}}
		p.Dev.AtPeak.Categories = map[string]int64{classify.Weights.String(): 90 << 30}
		found := unevenDevices.Run(p)
		if len(found) != c.found {
			t.Errorf("%v: %d findings, want %d", c.others, len(found), c.found)
		}
		for i := range found {
			if saves := found[i].SavesBytes; saves == nil || *saves <= 0 {
				t.Errorf("%v: saves %v", c.others, saves)
			}
		}
	}
}

// TestWeightsUpcast: in a first pass only adapters show that what was cast isn't trained.
func TestWeightsUpcast(t *testing.T) {
	s, err := snapshot.Open("../../testdata/runs/oom/upcast_adapters/pid4242-0-oom.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := timeline.New(s, &s.Devices[0])
	p := facts.New(line, classify.New(line, classify.Options{}), frames.New(s), &report.Device{})
	p.Dev.AtPeak.AllocatedBytes = p.T.Peaks.Allocated.Bytes
	p.Dev.AtPeak.Categories = map[string]int64{classify.Activations.String(): 1}
	for id := range p.Each(classify.Inputs) { // as which what the program casts counts without labels
		p.Classes.Category[id] = classify.Weights
	}
	if found := weightsUpcast.Run(p); len(found) != 1 {
		t.Fatalf("%d findings beside adapters", len(found))
	}
	cast := castUp(p)
	for id := range p.Each(classify.Weights) {
		if id > cast[len(cast)-1] {
			p.Classes.Category[id] = classify.Inputs
		}
	}
	if found := weightsUpcast.Run(p); len(found) != 0 {
		t.Errorf("without adapters: %s", found[0].Title)
	}
	p.Dev.AtPeak.Categories = nil // nothing is kept for a backward pass
	if found := weightsUpcast.Run(p); len(found) != 1 {
		t.Errorf("%d findings where nothing trains", len(found))
	}
}
