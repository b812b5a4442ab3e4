package check

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/settings"
)

// TestProgram makes programs of settings, and refuses those that none is made for.
func TestProgram(t *testing.T) {
	s := atStart()
	s.Precision, s.Optimizer, s.Checkpointing, s.Attention = "bf16-mixed", "adamw-fused", "full", "eager"
	s.Batch, s.Sequence, s.Accumulate, s.GPUs = 2, 64, 3, 1
	program, err := Program("/models/a \"b\".json", nil, &s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`from_pretrained("/models/a \"b\".json")`, "dtype=torch.float32", `attn_implementation="eager"`,
		"use_reentrant", "fused=True", "range(3):\n        ids = torch.zeros(2, 64,", "enabled=True"} {
		if !strings.Contains(program, want) {
			t.Errorf("no %q in\n%s", want, program)
		}
	}
	for want, change := range map[string]func(*budget.Setting){
		"--lora":                 func(s *budget.Setting) { s.LoRA = 8 },
		"one GPU, and":           func(s *budget.Setting) { s.GPUs = 2 },
		"not --framework litgpt": func(s *budget.Setting) { s.Framework = "litgpt" },
		"--float8":               func(s *budget.Setting) { s.Float8 = true },
		"--liger":                func(s *budget.Setting) { s.Liger = true },
		"--zero":                 func(s *budget.Setting) { s.Zero = 2 },
		"none and full":          func(s *budget.Setting) { s.Checkpointing = "selective" },
		"--precision bf16":       func(s *budget.Setting) { s.Precision = "int4" },
		"--padding":              func(s *budget.Setting) { s.Padding = true },
	} {
		s := atStart()
		change(&s)
		if _, err := Program("c.json", nil, &s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTrainer makes programs of Transformers' Trainer, with the head that a configuration names.
func TestTrainer(t *testing.T) {
	s := atStart()
	s.Trainer, s.DropOutputs, s.Precision, s.Optimizer, s.Batch, s.Sequence, s.GPUs = true, true, "fp16-mixed", "adamw-fused", 4, 32, 1
	for class, want := range map[string]string{
		"BertForSequenceClassification": `num_labels=3)|AutoModelForSequenceClassification|"labels": 0}|fp16=True`,
		"BertForMaskedLM":               `AutoModelForMaskedLM|"labels": ids}|per_device_train_batch_size=4`,
		"GPT2LMHeadModel":               `AutoModelForCausalLM|torch.float32|optim="adamw_torch_fused"`,
	} {
		c, err := budget.ReadConfig(strings.NewReader(`{"model_type": "bert", "architectures": ["` + class + `"], "num_labels": 3}`))
		if err != nil {
			t.Fatal(err)
		}
		program, err := Program("c.json", c, &s)
		if err != nil {
			t.Fatal(class, err)
		}
		for w := range strings.SplitSeq(want, "|") {
			if !strings.Contains(program, w) {
				t.Errorf("%s: no %q in\n%s", class, w, program)
			}
		}
	}
	c, err := budget.ReadConfig(strings.NewReader(`{"model_type": "vit", "architectures": ["ViTForImageClassification"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Program("c.json", c, &s); err == nil || !strings.Contains(err.Error(), "ViTForImageClassification") {
		t.Errorf("%v", err)
	}
	s.Precision = "int8"
	if _, err := Program("c.json", c, &s); err == nil || !strings.Contains(err.Error(), "fp16-mixed") {
		t.Errorf("%v", err)
	}
}

// atStart is a setting of which nobody said anything.
func atStart() (s budget.Setting) {
	for i := range settings.Fields {
		f := &settings.Fields[i]
		switch p := f.At(&s).(type) {
		case *string:
			*p, _ = f.Start.(string)
		case *bool:
			*p, _ = f.Start.(bool)
		case *int:
			*p, _ = f.Start.(int)
		case *int64:
			*p, _ = f.Start.(int64)
		case *float64:
			*p, _ = f.Start.(float64)
		}
	}
	return s
}
