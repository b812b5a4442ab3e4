package classify

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func scenario(t *testing.T, name string) *Classification {
	t.Helper()
	s, err := snapshot.Open(filepath.Join("../testdata/scenarios", name+".pickle.gz"), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return New(timeline.New(s, &s.Devices[0]), Options{})
}

// TestScoresOfSomeTokens: where a loss is of some tokens, the scores of all are
// scores, too, and so is their gradient; also where no frame names the loss.
func TestScoresOfSomeTokens(t *testing.T) {
	const word = 8000 * 4 // sequences
	for name, sizes := range map[string][]int64{
		"policy_gradient__python":     {512 * word * 2, 160 * word * 4, 160 * word * 2},
		"policy_gradient_own__python": {512 * word * 2, 256 * word * 4, 256 * word * 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := scenario(t, name)
			made := map[Phase]int{}
			for id := range c.Category {
				if p := c.Phase[id]; p != Forward && p != Backward || !slices.Contains(sizes, c.Timeline.Requested(timeline.AllocationID(id))) {
					continue
				}
				made[c.Phase[id]]++
				if c.Category[id] != Logits {
					t.Errorf("%v, %d %% sure, in %v", c.Category[id], c.Confidence[id], c.Phase[id])
				}
			}
			if made[Forward] < 12 || made[Backward] < 12 {
				t.Errorf("%v: want three of each in 4 steps", made)
			}
		})
	}
}

// TestBySize counts what programs make of one size, whose category is known: in all of
// them, or beside as many others.
func TestBySize(t *testing.T) {
	const float, half = 4, 2
	for _, test := range []struct {
		name          string
		size          int64 // requested
		category      Category
		want, besides int
	}{
		{"generate__none", 4 * 65 * 512 * half, KVCache, 2 * 8, 0},
		{"generate__none", 4 * 72 * 512 * half, KVCache, 2 * 8, 0},
		{"autocast_square__none", 1024 * 2816 * half, AutocastCopies, 3 * 2 * 3, 57 + 99}, // as many tokens as layers are wide
		{"sampled__none", 2 * 17 * 256 * float, KVCache, 2 * 4, 0},                        // between two steps of training
		{"sampled__none", 2 * 21 * 256 * float, KVCache, 2 * 4, 0},
	} {
		c := scenario(t, test.name)
		found, besides := 0, 0
		for i, category := range c.Category {
			switch {
			case c.Timeline.Requested(timeline.AllocationID(i)) != test.size:
			case category == test.category:
				found++
			default:
				besides++
			}
		}
		if found != test.want || besides != test.besides {
			t.Errorf("%s: %d blocks of %d bytes are %v, %d aren't: want %d and %d",
				test.name, found, test.size, test.category, besides, test.want, test.besides)
		}
	}
}

// TestGenerated: nothing is trained where text is generated, and what is generated between
// steps of training is no forward pass of theirs.
func TestGenerated(t *testing.T) {
	for name, want := range map[string][2]int{"generate__none": {5099, 0}, "sampled__none": {774, 424}} {
		c := scenario(t, name)
		made := [2]int{}
		for _, p := range c.Phase {
			switch p {
			case Generate:
				made[0]++
			case Backward:
				made[1]++
			}
		}
		if made != want {
			t.Errorf("%s: %v made by generation and by backward passes: want %v", name, made, want)
		}
	}
}

// TestClosure: what L-BFGS makes between the passes that it runs, and keeps, is its state:
// the direction and the last gradient, each as long as all weights together.
func TestClosure(t *testing.T) {
	c := scenario(t, "lbfgs__none")
	const weights, rounding = (2*512 + 512 + 2*(512*512+512) + 512 + 1) * 4, 512
	state := of(c, OptimizerState, c.Timeline.Device.Events.Len()-1)
	if state < 2*weights || state >= 2*weights+16*rounding {
		t.Errorf("%d bytes of state: want two times %d", state, weights)
	}
}

// TestAdagrad: the state that an optimizer makes when it is built looks like a second copy of
// the weights, without stacks, and isn't said to be weights for sure.
func TestAdagrad(t *testing.T) {
	const tensors, small = 53, 8
	c := scenario(t, "adagrad__none")
	var sure []uint8
	for i, category := range c.Category {
		id := timeline.AllocationID(i)
		stays := c.Timeline.Requested(id) > small && c.Timeline.FreeRequested[id] == timeline.Never
		if stays && c.Phase[id] == Setup && category == Weights {
			sure = append(sure, c.Confidence[id])
		}
	}
	if len(sure) != 2*tensors || slices.Min(sure[:tensors]) < 70 || slices.Max(sure[tensors:]) > 50 {
		t.Errorf("%d tensors, sure to %d %%: want %d weights that are sure, and as many that aren't", len(sure), sure, tensors)
	}
}

// TestLengthsKept: logits of changing lengths that a list keeps grow in every step, though
// no size comes twice and no stack says where they are made.
func TestLengthsKept(t *testing.T) {
	c := scenario(t, "lengths_kept__none")
	want := int64(0)
	for i := range int64(12) {
		want += 8 * (256 + 97*i%250) * 1000 * 4
	}
	i := slices.IndexFunc(c.Leaks(), func(l Leak) bool { return l.Kind == GrowingList })
	if i < 0 {
		t.Fatal("no growing list")
	}
	if got := c.Leaks()[i].TotalBytes; got < want*9/10 || got > want*11/10 {
		t.Errorf("%d bytes pile up, want about %d", got, want)
	}
}

// TestNoModel: where no model is there, what operations make is no batch and no
// weights.
func TestNoModel(t *testing.T) {
	c := scenario(t, "pairs__python")
	if len(c.Steps) > 0 {
		t.Errorf("%d steps", len(c.Steps))
	}
	for id, category := range c.Category {
		large := c.Timeline.Requested(timeline.AllocationID(id)) > 1<<30
		switch {
		case c.Phase[id] != OtherPhase:
			t.Errorf("allocation %d is made in %v", id, c.Phase[id])
		case large && category != Temporary, category == Weights:
			t.Errorf("allocation %d is %v, %d %% sure", id, category, c.Confidence[id])
		}
	}
}

// TestLayersAreNoScores: layers that are all as wide, before a loss of the
// program's own, are layers.
func TestLayersAreNoScores(t *testing.T) {
	c := scenario(t, "regression__python")
	for id, category := range c.Category {
		if n := c.Timeline.Requested(timeline.AllocationID(id)); n > 1<<20 && category == Logits {
			t.Fatalf("allocation %d, %d bytes, is %v, %d %% sure", id, n, category, c.Confidence[id])
		}
	}
}

// TestStaticCache: what each request makes in its first pass, layer by layer, and
// drops in the end is its cache; and nothing goes backward, though a prompt's
// tensors are as large as the weights.
func TestStaticCache(t *testing.T) {
	for _, name := range []string{"static_cache__none", "static_cache__python"} {
		t.Run(name, func(t *testing.T) {
			c := scenario(t, name)
			const length = 4 * 256 * 512 * 4 // sequences, tokens, hidden, bytes
			caches := 0
			for id, category := range c.Category {
				if c.Phase[id] == Backward {
					t.Fatalf("allocation %d is of a backward pass", id)
				}
				if category == KVCache && c.Timeline.Requested(timeline.AllocationID(id)) == length {
					caches++
				}
			}
			if caches != 3*6*2 {
				t.Errorf("%d: want keys and values of 6 layers in 3 requests", caches)
			}
		})
	}
}

// TestFrozenTable: a table without gradients is a weight where other weights have
// none either.
func TestFrozenTable(t *testing.T) {
	c := scenario(t, "unfrozen__none")
	for id, category := range c.Category {
		if n := c.Timeline.Requested(timeline.AllocationID(id)); n == 8000*512*4 && category != Weights {
			t.Errorf("the table is %v, %d %% sure", category, c.Confidence[id])
		}
	}
}

// of sums the allocated bytes of a category that are alive at an event.
func of(c *Classification, category Category, event int) (bytes int64) {
	for i, got := range c.Category {
		if got == category && c.Timeline.AliveAt(timeline.AllocationID(i), event) {
			bytes += c.Timeline.Allocated[i]
		}
	}
	return bytes
}

// TestResumed: what an optimizer has from a checkpoint is its state, though the
// loader made it, or nothing says who did.
func TestResumed(t *testing.T) {
	for _, name := range []string{"resumed__python", "resumed__none"} {
		t.Run(name, func(t *testing.T) {
			c := scenario(t, name)
			peak := c.Timeline.Peaks.Allocated.Event
			weights, state := of(c, Weights, peak), of(c, OptimizerState, peak)
			if weights < 27<<20 || weights > 28<<20 || state != 2*weights+50*512 {
				t.Errorf("weights %d, state %d bytes: want twice the 27.7 MiB of the weights, and a counter for each of 50", weights, state)
			}
		})
	}
}

// TestPool: room for the keys and values of all layers isn't weights.
func TestPool(t *testing.T) {
	for _, name := range []string{"pool__python", "pool__none"} {
		t.Run(name, func(t *testing.T) {
			c := scenario(t, name)
			const room = 8 * 2 * 16384 * 512 * 4 // layers, keys and values, tokens, hidden, bytes
			if got := of(c, KVCache, c.Timeline.Peaks.Allocated.Event); got != room {
				t.Errorf("%d bytes of keys and values: want %d", got, room)
			}
		})
	}
}

// TestLossInParts: scores of a part of the tokens, which are gone before backward
// begins, are scores all the same.
func TestLossInParts(t *testing.T) {
	c := scenario(t, "loss_in_parts__python")
	const part = 1024 * 32000 * 4
	found := 0
	for id, category := range c.Category {
		if c.Timeline.Requested(timeline.AllocationID(id)) == part {
			if found++; category != Logits {
				t.Errorf("allocation %d is %v, %d %% sure", id, category, c.Confidence[id])
			}
		}
	}
	if found != 4*4*2 {
		t.Errorf("%d: want the product and its softmax of 4 parts in 4 steps", found)
	}
}

// TestLocals: what a checkpointed layer's variables hold until its function returns
// is not saved for the backward pass.
func TestLocals(t *testing.T) {
	for name, most := range map[string]int{"mixers__python": 0, "mixers__none": 72} { // three gradients' sizes in each layer stay in doubt without stacks
		c := scenario(t, name)
		saved := 0
		for i, category := range c.Category {
			if n := c.Timeline.Requested(timeline.AllocationID(i)); category == Activations && c.Phase[i] == Forward && n > 4096 && n < 2<<20 {
				saved++
			}
		}
		if saved > most {
			t.Errorf("%s: %d variables are activations, want %d at most", name, saved, most)
		}
	}
}

// TestOnlyStep: one step alone shows the state that its optimizer makes.
func TestOnlyStep(t *testing.T) {
	c := scenario(t, "../recordings/llama8b_full_oom__fp32_autocast/snapshot_none")
	if leaks := c.Leaks(); len(c.Steps) != 1 || len(leaks) != 1 || leaks[0].Kind != FirstStepState {
		t.Errorf("%d leaks in %d steps", len(leaks), len(c.Steps))
	}
}

// TestEnded: what is there until the program is over was kept, though the dump
// finds nothing of it: its trainer, or the list, has gone by then.
func TestEnded(t *testing.T) {
	c := scenario(t, "../recordings/mlp_regression__script/snapshot_all")
	last := uint32(c.Timeline.Device.Events.Len() - 1)
	if born := c.Timeline.Born; born[len(born)-1] >= last {
		t.Fatal("the recording ends with an allocation")
	}
	for i, category := range c.Category {
		if category == OptimizerState && c.Timeline.FreeRequested[i] == timeline.Never {
			c.Timeline.FreeRequested[i] = last
		}
	}
	if leaks := c.Leaks(); len(leaks) != 1 || leaks[0].Kind != FirstStepState || leaks[0].TotalBytes < 264<<20 {
		t.Errorf("state that goes with the program: %+v", leaks)
	}
	c = scenario(t, "../recordings/frag_oom__pairwise_docs/snapshot_expandable")
	if leaks := c.Leaks(); len(leaks) != 1 || leaks[0].Kind != GrowingList || leaks[0].Line != 27 || !leaks[0].Defect {
		t.Errorf("a list that goes with the program: %+v", leaks)
	}
}

func TestPoints(t *testing.T) {
	c := scenario(t, "points__python")
	const batch, color = 50000 * 3 * 4, 24 * 4
	batches := 0
	for i, category := range c.Category {
		id := timeline.AllocationID(i)
		if category != Inputs {
			continue
		}
		batches++
		if n := c.Timeline.Requested(id); n != batch {
			t.Errorf("allocation %d of %d bytes is inputs, %d %% sure", id, n, c.Confidence[id])
		}
	}
	if batches != 24 {
		t.Errorf("%d batches: want one in each of 24 steps", batches)
	}
	step := c.Steps[20] // after three of four growths
	const points = 50000 + 12500 + 15625 + 19531
	for category, copies := range map[Category]int{Weights: 1, OptimizerState: 2} {
		found := 0
		for i, got := range c.Category {
			id := timeline.AllocationID(i)
			if got == category && c.Timeline.Requested(id) == points*color && c.Timeline.AliveAt(id, step.FirstEvent) {
				found++
			}
		}
		if found != copies {
			t.Errorf("%d blocks of all colors are %v: want %d", found, category, copies)
		}
	}
}

// TestFirstStepFails takes training that fails in its first pass, forward or
// backward, for neither generation, though the model fills a cache, nor its layers
// for steps, nor what autograd saved for what goes at once.
func TestFirstStepFails(t *testing.T) {
	for _, name := range []string{"first_step__python", "first_step__none", "first_backward__python", "first_backward__all"} {
		t.Run(name, func(t *testing.T) {
			c := scenario(t, name)
			if len(c.Steps) != 1 {
				t.Errorf("%d steps", len(c.Steps))
			}
			var saved, all int64 // of what forward makes and doesn't free at once
			for i := range c.Category {
				id := timeline.AllocationID(i)
				if c.Phase[i] == Generate {
					t.Fatalf("allocation %d is of generation", i)
				}
				b, f := c.Timeline.Born[id], c.Timeline.FreeRequested[id]
				if c.Phase[i] != Forward || f != timeline.Never && f < b+100 {
					continue
				}
				all += c.Timeline.Requested(id)
				if k := c.Category[i]; k == Activations || k == KVCache || k == Logits {
					saved += c.Timeline.Requested(id)
				}
			}
			if all == 0 || saved*100 < all*99 {
				t.Errorf("%d of %d bytes that live on are activations", saved, all)
			}
			if strings.HasPrefix(name, "first_backward") {
				phases := c.Steps[0].Phases
				if last := phases[len(phases)-1]; last.Phase != Backward {
					t.Errorf("the recording ends in %v, not in a backward pass", last.Phase)
				}
			}
		})
	}
}

// TestSetupFails finds no loop where nothing is freed but by the error of a request
// that failed, without stacks.
func TestSetupFails(t *testing.T) {
	s := newStory(t, false)
	for range 16 {
		s.alloc(Weights, 16*mib)
	}
	var loaded []int
	for range 6 {
		loaded = append(loaded, s.alloc(Weights, 16*mib))
	}
	s.fail(16 * mib)
	s.free(loaded...)
	c := New(s.timeline(), Options{})
	if len(c.Steps) != 0 || slices.ContainsFunc(c.Category, func(k Category) bool { return k != Weights && k != Temporary }) {
		t.Errorf("%d steps, categories %v", len(c.Steps), c.Category)
	}
}

// TestUnwound takes what the error of a failed request frees for no backward pass,
// though numbers that layers keep live through it.
func TestUnwound(t *testing.T) {
	s := newStory(t, false)
	for i := range int64(24) {
		s.alloc(Weights, (1+i)*mib)
	}
	var kept []int
	for i := range int64(24) {
		batch := s.alloc(Temporary, 3*mib)
		s.free(s.alloc(Temporary, (2+i)*mib), batch)
		kept = append(kept, s.alloc(Activations, 8), s.alloc(Activations, (64+i)*mib), s.alloc(Activations, (32+i)*mib))
	}
	s.fail(64 * mib)
	slices.Reverse(kept)
	s.free(kept...)
	c := New(s.timeline(), Options{})
	saved := 0
	for i := range c.Category {
		if n := c.Timeline.Requested(timeline.AllocationID(i)); n >= 32*mib && c.Category[i] == Activations {
			saved++
		}
	}
	if slices.Contains(c.Phase, Backward) || saved < 47 || len(c.Steps) != 1 {
		t.Errorf("%d of 48 are activations, %d steps, phases %v", saved, len(c.Steps), c.Phase)
	}
}

// TestBackwardCut sees the backward pass in which a request failed, where the
// recording was written at that moment: its root gradient is still there, as is
// what it had not come to.
func TestBackwardCut(t *testing.T) {
	s := newStory(t, false)
	for i := range int64(24) {
		s.alloc(Weights, (1+i)*mib)
	}
	var kept []int
	for i := range int64(24) {
		scratch := s.alloc(Temporary, 3*mib)
		kept = append(kept, s.alloc(Activations, (64+i)*mib), s.alloc(Activations, (32+i)*mib))
		s.free(s.alloc(Temporary, (2+i)*mib), scratch)
	}
	s.alloc(Logits, 4) // the loss
	s.alloc(Temporary, 4)
	for i := range int64(16) {
		last := len(kept) - 1
		s.alloc(Gradients, (24-i)*mib)
		s.free(s.alloc(Temporary, (40+i)*mib), kept[last])
		s.free(kept[last-1])
		kept = kept[:last-1]
	}
	s.fail(64 * mib)
	c := New(s.timeline(), Options{})
	of := map[Category]int{}
	for i := range c.Category {
		if id := timeline.AllocationID(i); c.Timeline.FreeRequested[id] == timeline.Never && c.Phase[i] != Setup && c.Timeline.Requested(id) > phases.Scalar {
			of[c.Category[i]]++
		}
	}
	if of[Gradients] != 16 || of[Activations] != 16 {
		t.Errorf("at the end: %v", of)
	}
}

// TestDataParallel tells the weights that are copied to the other GPUs in every pass from
// what the pass makes there.
func TestDataParallel(t *testing.T) {
	s, err := snapshot.Open("../testdata/scenarios/data_parallel__python.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := New(timeline.New(s, &s.Devices[1]), Options{})
	copied := int64(0)
	for i, k := range c.Category {
		if k == Communication {
			copied += c.Timeline.Requested(timeline.AllocationID(i))
		}
	}
	const parameters, passes = 14_759_936, 3
	if copied != passes*parameters*4 {
		t.Errorf("%d bytes of communication", copied)
	}
}
