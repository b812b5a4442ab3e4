package budget

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// stagedRuns are third steps of whole models, recorded on a simulated GPU by testdata/family_step.py: the largest requested bytes.
var stagedRuns = []recordedRun{
	{"albert", map[string]any{"model_type": "albert", "architectures": []any{"AlbertForMaskedLM"}, "hidden_size": 768.0,
		"num_attention_heads": 12.0, "intermediate_size": 3072.0}, Setting{Batch: 8, Sequence: 256, Precision: "fp32"}, 3247958280},
	{"convnext", map[string]any{"model_type": "convnext", "architectures": []any{"ConvNextForImageClassification"}, "num_labels": 2.0},
		Setting{Batch: 32, Precision: "fp32"}, 3893740968},
	{"convnext, autocast", map[string]any{"model_type": "convnext", "architectures": []any{"ConvNextForImageClassification"},
		"num_labels": 2.0}, Setting{Batch: 64, Precision: "bf16-mixed"}, 4412641816},
	{"convnext, bf16", map[string]any{"model_type": "convnext", "architectures": []any{"ConvNextForImageClassification"},
		"num_labels": 2.0}, Setting{Batch: 64}, 3737148340},
	{"swin", map[string]any{"model_type": "swin", "architectures": []any{"SwinForImageClassification"}, "num_labels": 2.0},
		Setting{Batch: 32, Precision: "fp32"}, 3684877024},
	{"swin, autocast", map[string]any{"model_type": "swin", "architectures": []any{"SwinForImageClassification"}, "num_labels": 2.0},
		Setting{Batch: 64, Precision: "bf16-mixed"}, 4638915472},
	{"swin, bf16", map[string]any{"model_type": "swin", "architectures": []any{"SwinForImageClassification"}, "num_labels": 2.0},
		Setting{Batch: 64}, 3542244512},
}

func TestStagedRuns(t *testing.T) {
	for _, r := range stagedRuns {
		if b, e := r.budget(t); math.Abs(e) > 0.01 {
			t.Errorf("%+.2f %%  %s: %d, recorded %d, in %s", 100*e, r.name, b.PeakBytes, r.peak, b.PeakPhase)
		}
	}
}

// TestLayeredRuns: third steps of small models whose layers share weights, or keys and values, or have inputs of their own, of MPT and of
// Swin's second version, recorded like these.
func TestLayeredRuns(t *testing.T) {
	data, err := os.ReadFile("testdata/layered.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(data)) {
		var r struct {
			Name    string
			Config  map[string]any
			Setting Setting
			Peak    int64
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		rows++
		near := 0.02
		if r.Setting.Checkpointing != "" {
			near = 0.06
		}
		run := recordedRun{r.Name, r.Config, r.Setting, r.Peak}
		if b, e := run.budget(t); math.Abs(e) > near {
			t.Errorf("%+.2f %%  %s: %d, recorded %d, in %s", 100*e, r.Name, b.PeakBytes, r.Peak, b.PeakPhase)
		}
	}
	if rows != 51 {
		t.Errorf("%d recorded steps", rows)
	}
}

// TestUndivided: what such layers can't be divided into, and pictures, which have no sequence.
func TestUndivided(t *testing.T) {
	for _, tt := range []struct {
		family string
		s      Setting
		flag   string
	}{
		{"zamba2", Setting{TP: 2}, "--tp 2"}, {"gemma4_text", Setting{PP: 2}, "--pp 2"}, {"gemma3n_text", Setting{CP: 2}, "--cp 2"},
		{"kimi_linear", Setting{TP: 2}, "--tp 2"}, {"swinv2", Setting{CP: 2}, "--cp 2"}, {"vit", Setting{CP: 2}, "--cp 2"},
	} {
		if _, err := Compute(smallConfig(t, tt.family), tt.s); err == nil || !strings.Contains(err.Error(), tt.flag) {
			t.Errorf("%s: %v", tt.family, err)
		}
	}
	for family, want := range map[string]bool{"convnext": true, "swinv2": true, "vit": true, "llama": false, "clip": false} {
		if got := smallConfig(t, family).Unsequenced(); got != want {
			t.Errorf("%s: %v", family, got)
		}
	}
}

// TestStagedRefused: sizes that don't go together, and stages of a pipeline.
func TestStagedRefused(t *testing.T) {
	for _, fields := range []map[string]any{
		{"model_type": "convnext", "depths": []any{1.0}}, {"model_type": "convnext", "image_size": 2.0},
		{"model_type": "convnext", "hidden_sizes": []any{8.0, 1e9}, "depths": []any{1.0, 1.0}},
		{"model_type": "swin", "num_heads": []any{1.0}}, {"model_type": "swin", "window_size": 0.0},
		{"model_type": "swin", "num_heads": []any{5.0, 6.0, 12.0, 24.0}},
		{"model_type": "albert", "num_hidden_groups": 13.0}, {"model_type": "albert", "inner_group_num": 1e6},
	} {
		c, err := newConfig(fields)
		if err == nil {
			_, err = Count(c)
		}
		if err == nil {
			t.Errorf("%v", fields)
		}
	}
	if _, err := Compute(smallConfig(t, "swin"), Setting{PP: 2}); err == nil {
		t.Error("a pipeline of stages that narrow")
	}
}
