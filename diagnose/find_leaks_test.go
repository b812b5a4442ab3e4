package diagnose

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
)

// What findings say must add up with what stands beside them.
func TestFindingTexts(t *testing.T) {
	for _, c := range []struct {
		name, id   string
		says       string // somewhere in its title, evidence, fix or code
		not        string
		saves, any bool
	}{
		// another loss makes no less of the scores that a leak keeps
		{"../recordings/retained_graph__trainer_entropy/snapshot_named", "logits_dominate", "", "", false, false},
		// one line, several operations
		{"../recordings/gpt2_fp32_adamw__hf_loop/snapshot_late", "checkpointing_absent",
			"2.25 GiB in 48 blocks from forward transformers/activations.py:66", "1.12 GiB in 24 blocks", true, true},
		{"../recordings/frag_oom__pairwise_docs/snapshot_all", "growing_list",
			"usually 1.51 GiB a step, seen in 29 steps, 47.69 GiB in all", "", true, true},
		{"../recordings/growing_list__step_cache/snapshot_all", "growing_list",
			"\n72.00 MiB a step, seen in 8 steps, 576.00 MiB in all", "usually", true, true},
		// no place in a ticket or a table is below
		{"../recordings/frag_oom__pairwise_docs/snapshot_all", "oom_fragmentation",
			"Fix the leak at run frag_docs/pairwise.py:27: it holds 47.7 GiB of the 53.5 GiB in use", "below", false, true},
	} {
		f := finding(scenario(t, c.name), c.id)
		if (f != nil) != c.any {
			t.Errorf("%s: %+v", c.name, f)
		}
		if f == nil {
			continue
		}
		text := f.Title + "\n" + strings.Join(f.Evidence, "\n") + "\n" + *f.Fix + "\n" + f.Code
		if !strings.Contains(text, c.says) || c.not != "" && strings.Contains(text, c.not) || (f.SavesBytes != nil) != c.saves {
			t.Errorf("%s: not %q, or %q, in\n%s\nsaves %v", c.name, c.says, c.not, text, f.SavesBytes)
		}
	}
}

// TestFirstStateFix: fewer bits, and the same optimizer. State is no finding by itself.
func TestFirstStateFix(t *testing.T) {
	for name, code := range map[string]string{
		"../recordings/side_stream__prefetcher/snapshot_all": "SGD8bit(model.parameters(), lr=lr, momentum=0.9)",
		"foreach_rms__python":                                "RMSprop8bit(model.parameters(), lr=lr) ",
		"../recordings/mlp_regression__script/snapshot_all":  "AdamW8bit(model.parameters(), lr=lr) ",
	} {
		d := scenario(t, name)
		i := slices.IndexFunc(d.Leaks, func(l report.Leak) bool { return l.Kind == classify.FirstStepState })
		if i < 0 || !strings.Contains(d.Leaks[i].FixCode, code) || finding(d, classify.FirstStepState) != nil {
			t.Errorf("%s: %+v", name, d.Leaks)
		}
	}
}
