package main

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
)

// TestCheckProgram makes programs of settings, and refuses those that none is made for.
func TestCheckProgram(t *testing.T) {
	s := budget.Setting{Precision: "bf16-mixed", Optimizer: "adamw-fused", Checkpointing: "full", Batch: 2, Sequence: 64,
		Accumulate: 3, GPUs: 1, Attention: "eager"}
	program, err := checkProgram("/models/a \"b\".json", &s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`from_pretrained("/models/a \"b\".json")`, "dtype=torch.float32", `attn_implementation="eager"`,
		"use_reentrant", "fused=True", "range(3):\n        ids = torch.zeros(2, 64,", "enabled=True"} {
		if !strings.Contains(program, want) {
			t.Errorf("no %q in\n%s", want, program)
		}
	}
	for want, s := range map[string]budget.Setting{"one GPU": {LoRA: 8}, "no other --framework": {Framework: "litgpt"},
		"none and full": {Checkpointing: "selective"}, "--precision bf16": {Precision: "int4"}} {
		if _, err := checkProgram("c.json", &s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
