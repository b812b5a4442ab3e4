package classify

import (
	"path/filepath"
	"slices"
	"testing"

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

// TestHeldByHooks: what a layer made for backward is that, whoever holds it until
// the layer makes it again. The last layer's could be what the model returns.
func TestHeldByHooks(t *testing.T) {
	c := scenario(t, "hooked__python")
	const up = 4 * 512 * 4 * 256 * 4 // sequences, tokens, hidden and four times as wide, bytes
	held, other := 0, map[int32]int{}
	for id := range c.Category {
		if c.Timeline.Requested(timeline.AllocationID(id)) != up || c.Phase[id] != Forward || c.Step[id] > 2 {
			continue
		}
		if c.Category[id] != Activations {
			if other[c.Step[id]]++; other[c.Step[id]] > 1 || c.Confidence[id] > 50 {
				t.Errorf("allocation %d of step %d is %v, %d %% sure", id, c.Step[id], c.Category[id], c.Confidence[id])
			}
		}
		if int(c.Timeline.FreeRequested[id]) > c.Steps[c.Step[id]].LastEvent {
			held++
		}
	}
	if held < 3*7 {
		t.Errorf("%d outlive their step: want those of 7 layers and more in 3 steps", held)
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
