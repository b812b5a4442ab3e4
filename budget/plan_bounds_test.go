package budget

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/network"
)

// planOf is a setting's plan.
func planOf(t *testing.T, fields map[string]any, s Setting) *plan {
	t.Helper()
	p, err := newPlan(configOf(t, fields), s.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHugeBuckets: as many gradients as no machine has end.
func TestHugeBuckets(t *testing.T) {
	c, err := FromParams(400e12)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Compute(c, Setting{GPUs: 2, Sequence: 16}); err == nil && b.Reserved < b.PeakBytes {
		t.Errorf("%d reserved for a peak of %d", b.Reserved, b.PeakBytes)
	}
}

// TestCasts: of Transformers until 4.45 those families alone make their logits float32 that do.
func TestCasts(t *testing.T) {
	for family, want := range map[string]bool{"llama": true, "mixtral": true, "phi3": true, "bert": false, "gpt2": false, "bart": false} {
		mod, err := smallConfig(t, family).network()
		if err != nil {
			t.Fatal(err)
		}
		mod.Task = network.TaskCausal
		p := holding{model: mod, setup: setup{profile: Setting{Torch: "2.8", Framework: "transformers@4.45"}.Profile()}}
		if got := p.castsLogits(); got != want {
			t.Errorf("%s: %v", family, got)
		}
		mod.Task = network.TaskClassify
		if p.castsLogits() {
			t.Errorf("%s: a classifier's", family)
		}
	}
}

// TestOutsideAdapters: those beside a weight that is a unit of its own are there, too.
func TestOutsideAdapters(t *testing.T) {
	var own [2]int64
	for i, ends := range []string{"together", "apart"} {
		p := planOf(t, llama31, Setting{Framework: "torchtune", FSDP: "full", FSDPVersion: 1, FSDPEnds: ends, GPUs: 2, LoRA: 8,
			LoRATargets: "lm_head", Sequence: 16})
		r := newRun(p)
		own[i] = r.ends[Load].Cats[Weights]
		r.M.Done()
	}
	if d := own[1] - own[0]; d < -4096 || d > 4096 {
		t.Errorf("%d bytes of weights with units of their own, %d without", own[1], own[0])
	}
}

// TestTrainedDtype: it counts where a part of a 16-bit model is trained, and is said to change nothing elsewhere.
func TestTrainedDtype(t *testing.T) {
	for _, tt := range []struct {
		s       Setting
		changes bool
	}{
		{Setting{Freeze: 30}, true}, {Setting{Trained: "-2"}, true}, {Setting{}, false}, {Setting{Inference: true}, false},
		{Setting{LoRA: 8}, false}, {Setting{Freeze: 30, FSDP: "full", GPUs: 2}, false},
	} {
		tt.s.Sequence, tt.s.Precision = 16, "bf16"
		plain, err := Compute(configOf(t, llama31), tt.s)
		if err != nil {
			t.Fatal(err)
		}
		tt.s.TrainedDtype = "fp32"
		b, err := Compute(configOf(t, llama31), tt.s)
		if err != nil {
			t.Fatal(err)
		}
		noted := strings.Contains(strings.Join(b.Notes, "\n"), "trained-dtype")
		if changes := b.PeakBytes != plain.PeakBytes; changes != tt.changes || noted == tt.changes {
			t.Errorf("%+v: changes %v, noted %v", tt.s, changes, noted)
		}
	}
}

// TestSubGroups: ZeRO 3 steps with as many elements at once as its sub-groups have, ZeRO 2 with all.
func TestSubGroups(t *testing.T) {
	for zero, smaller := range map[int]bool{2: false, 3: true} {
		var temp [2]int64
		for i, n := range []int64{0, 10_000_000} {
			s := Setting{Zero: zero, GPUs: 2, Framework: "deepspeed", Optimizer: "adamw", Sequence: 16, SubGroup: n}
			_, temp[i] = planOf(t, llama31, s).optimizer()
		}
		if temp[1] < temp[0] != smaller {
			t.Errorf("ZeRO %d: %d bytes beside a step, with small sub-groups %d", zero, temp[0], temp[1])
		}
	}
}

// TestLabelsOfWhole: a head has as many classes as the whole configuration says.
func TestLabelsOfWhole(t *testing.T) {
	for _, kind := range []string{"gemma3", "qwen2_vl"} {
		class := map[string]string{"gemma3": "Gemma3ForSequenceClassification", "qwen2_vl": "Qwen2VLForSequenceClassification"}[kind]
		mod, err := configOf(t, map[string]any{"model_type": kind, "architectures": []any{class}, "num_labels": 7.0,
			"vision_config": map[string]any{}, "text_config": map[string]any{"num_labels": 3.0}}).network()
		if err != nil {
			t.Fatal(err)
		}
		if mod.Head == nil || mod.Head.Out != 7 {
			t.Errorf("%s: %+v", kind, mod.Head)
		}
	}
}

// TestOwnTrained: experts are divided over the ranks that share them, the rest over all.
func TestOwnTrained(t *testing.T) {
	p := planOf(t, mixtral8x7B, Setting{Zero: 3, GPUs: 8, EP: 4, Sequence: 16})
	dense, experts := p.gradientParts()
	if want, got := p.ownTrained(), dense/2/8+experts/2/2; got < want-64 || got > want+64 {
		t.Errorf("%d elements, want %d", want, got)
	}
}
