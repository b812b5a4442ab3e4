package facts

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// passOf is a look at the first device of a program.
func passOf(t *testing.T, program recorder.Program) *Pass {
	t.Helper()
	run := recorder.Simulate(program)
	s, err := snapshot.Decode(bytes.NewReader(run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})),
		snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := timeline.New(s, &s.Devices[0])
	return New(line, classify.New(line, classify.Options{}), frames.New(s), &report.Device{})
}

// Memory taken out of a curve by its stretches is the same event by event.
func TestPeakWithout(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(30) {
		p := passOf(t, recorder.Program{Seed: seed, Events: 1 + int(seed)*60, Skip: int(seed%4) * 50,
			Capacity: int64(seed%3) << 28, Streams: int(seed % 2)})
		n := p.T.Device.Events.Len()
		spells := make([]Spell, r.IntN(12))
		for i := range spells {
			from := r.IntN(n+10) - 5
			spells[i] = Spell{From: from, To: from + r.IntN(n/4+10) - 5, Bytes: r.Int64N(p.T.Peaks.Allocated.Bytes + 1)}
		}
		var want int64
		at := func(event int, level int64) {
			for _, s := range spells {
				if s.From <= event && event < s.To {
					level -= s.Bytes
				}
			}
			want = max(want, level)
		}
		at(timeline.NoEvent, p.T.Start.Allocated)
		p.T.WalkAllocated(at)
		for i := range p.T.OOMs {
			o := &p.T.OOMs[i]
			at(o.Event, o.Active+max(o.Requested, p.StillToCome(o)))
		}
		if got := p.PeakWithout(spells); got != want {
			t.Fatalf("program %d of %d events: %d instead of %d without %v", seed, n, got, want, spells)
		}
	}
}

// TestCopiesAreNoGraph: what goes in one bulk and is as large as the weights, for
// the most part, are copies of them; in the order in which it came, a module.
func TestCopiesAreNoGraph(t *testing.T) {
	p := passOf(t, recorder.Program{Seed: 6, Events: 3000})
	p.T.Device.Events.Stack = nil
	var bulk []timeline.AllocationID
	for id := timeline.AllocationID(p.T.Older()); len(bulk) < 2*BulkLeast; id++ {
		bulk = append(bulk, id)
	}
	if p.IsGraph(bulk) {
		t.Error("a module that leaves the GPU is a graph: its parameters go in the order in which they came")
	}
	slices.Reverse(bulk)
	if !p.IsGraph(bulk) {
		t.Fatal("many tensors of several sizes are no graph")
	}
	for _, id := range bulk {
		p.Classes.Category[id] = classify.Weights
	}
	p = New(p.T, p.Classes, p.View, p.Dev)
	if p.IsGraph(bulk) {
		t.Error("copies of weights are a graph")
	}
}

// TestOptimizerInPieces: equal pieces of state are those of optimizers that were made again
// where each is for the gradients of its step, not where there are none, as when a framework
// lays its state out layer by layer, nor where they are small beside them.
func TestOptimizerInPieces(t *testing.T) {
	s, err := snapshot.Open("../../testdata/scenarios/optimizer_again__python.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := timeline.New(s, &s.Devices[0])
	look := func(change func(*classify.Classification)) *Again {
		c := classify.New(line, classify.Options{})
		change(c)
		return optimizersAgain(New(line, c, frames.New(s), &report.Device{}))
	}
	if x := look(func(*classify.Classification) {}); x == nil || len(x.Made) != 3 {
		t.Fatalf("as recorded: %+v", x)
	}
	if x := look(func(c *classify.Classification) {
		for i, category := range c.Category {
			if category == classify.Gradients {
				c.Category[i] = classify.Temporary
			}
		}
	}); x != nil {
		t.Errorf("without gradients: made %d times", len(x.Made))
	}
	if x := look(func(c *classify.Classification) {
		for i, category := range c.Category {
			if category != classify.OptimizerState {
				c.Category[i] = classify.Gradients
			}
		}
	}); x != nil {
		t.Errorf("small beside the gradients: made %d times", len(x.Made))
	}
}

// TestCrossEntropy: only of a cross-entropy, or where no loss is seen, is a kernel advised that needs no logits.
func TestCrossEntropy(t *testing.T) {
	for _, test := range []struct {
		calls []string
		want  bool
	}{
		{nil, true},
		{[]string{"cross_entropy"}, true},
		{[]string{"log_softmax", "nll_loss"}, true},
		{[]string{"log_softmax"}, false},
		{[]string{"log_softmax", "kl_div"}, false},
		{[]string{"log_softmax", "kl_div", "cross_entropy"}, false},
	} {
		called := map[string]bool{}
		for _, name := range test.calls {
			called[name] = true
		}
		if got := crossEntropy(called); got != test.want {
			t.Errorf("%q: %t", test.calls, got)
		}
	}
}

// TestUntracked: a forward pass is told by what it keeps against one that a backward pass followed.
func TestUntracked(t *testing.T) {
	seen := map[bool]int{}
	for seed := range uint64(40) {
		p := passOf(t, recorder.Program{Seed: seed, Events: 600})
		last := p.T.Device.Events.Len() - 1
		end, from := 20+int(seed)*5, last/2
		kept := func(first, last int) float64 {
			var made, kept int64
			for i := range p.T.Born {
				if l := p.T.Life(timeline.AllocationID(i)); l.Born >= first && l.Born <= last {
					if made += p.T.Allocated[i]; l.Freed > last {
						kept += p.T.Allocated[i]
					}
				}
			}
			return float64(kept) / float64(max(1, made))
		}
		p.Classes.Before = nil
		p.Classes.Steps = []classify.Step{{Number: 0, FirstEvent: 0, LastEvent: last, Phases: []classify.PhaseSpan{
			{Phase: classify.Forward, FirstEvent: 0, LastEvent: end},
			{Phase: classify.Backward, FirstEvent: end + 1, LastEvent: from - 1},
			{Phase: classify.Forward, FirstEvent: from, LastEvent: last}}}}
		want := 2*kept(from, last) < kept(0, end)
		if seen[want]++; p.Untracked(last) != want {
			t.Errorf("program %d: %v", seed, !want)
		}
		p.Classes.Steps[0].Phases[1].Phase = classify.Optimizer
		if q := New(p.T, p.Classes, p.View, p.Dev); q.Untracked(last) {
			t.Errorf("program %d: no pass was trained on", seed)
		}
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Error(seen)
	}
}
