package diagnose_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/open"
)

// TestProjection: what a run needed that failed in its first forward pass, by the layers that
// it had been through, or by its model's budget.
func TestProjection(t *testing.T) {
	config, err := budget.ReadConfig(strings.NewReader(`{"model_type":"gpt2","architectures":["GPT2LMHeadModel"],
		"n_layer":12,"n_head":16,"n_embd":1024}`))
	if err != nil {
		t.Fatal(err)
	}
	const layer = 468 << 20 // of activations, about: 5.57 GiB in 12
	for _, c := range []struct {
		theory         *compare.Theory
		basis, verdict string
		activations    int64 // still to come: at most a fiftieth less, or a tenth more
		needs          int64
	}{
		{nil, "7 of 12 layers", "the whole pass needs about", 9 * layer / 2, 6927255552},
		{&compare.Theory{Config: config}, "budget", "by the model's budget the run needs about", 9 * layer / 2, 11718619136},
	} {
		run, err := open.Files([]string{"../testdata/recordings/true_shortage_oom__resumed_twice/snapshot_all.pickle.gz"},
			open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		doc, err := diagnose.Run(run.Sources, run.Evidence, diagnose.Options{Theory: c.theory})
		if err != nil {
			t.Fatal(err)
		}
		x := doc.Devices[0].Projection
		if x == nil || !strings.Contains(x.Basis, c.basis) || !strings.Contains(doc.Verdict.Text, c.verdict) {
			t.Fatalf("%+v: %s", x, doc.Verdict.Text)
		}
		if n := x.Missed("activations"); n < c.activations*49/50 || n > c.activations*11/10 || x.NeedsBytes < c.needs {
			t.Errorf("%s: %d of activations to come, %d in all", x.Basis, n, x.NeedsBytes)
		}
	}
}
