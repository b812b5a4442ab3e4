package budget

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/gpus"
)

// TestRefusalsNameFields: what stands in braces in a refusal is a field, and each flag that it names is one.
func TestRefusalsNameFields(t *testing.T) {
	known := func(name string) bool {
		return name == "same" || slices.ContainsFunc(Fields, func(f Field) bool { return f.Name == name })
	}
	for _, x := range refusals {
		for _, m := range regexp.MustCompile(`\{([a-z0-9-]+)\}|--([a-z0-9-]+)`).FindAllStringSubmatch(x.text, -1) {
			if !known(m[1] + m[2]) {
				t.Errorf("%q: %s is no field", x.text, m[1]+m[2])
			}
		}
	}
}

// TestPlansTellAll: what a setting says beside what plans search stands on their command line.
func TestPlansTellAll(t *testing.T) {
	s := Setting{Copies: 1, Liger: true, FSDP: "full", FSDPVersion: 1, GPUs: 8, CP: 2, Torch: "2.8", Allocator: "expandable", Shards: 4}.Defaults()
	const want = "--precision bf16 --batch 1 --seq 1024 --gpus 8 --fsdp full --cp 2 --copies 1 --liger --fsdp-version 1 --fsdp-shards 4 " +
		"--host-ahead=false --torch 2.8 --allocator expandable"
	if got := s.flags(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if n := strings.Count(fieldsText, " | ") / 5; n != len(Fields) {
		t.Errorf("%d fields of %d lines", len(Fields), n)
	}
	for _, f := range Fields {
		if strings.ToLower(f.Name) != f.Name || f.Help == "" || f.At(&s) == nil {
			t.Errorf("%+v", f)
		}
	}
}

// TestLongPlans: a long sequence is divided over GPUs where the framework can, and the plan says so; a short one is not.
func TestLongPlans(t *testing.T) {
	c := configOf(t, llama31)
	for _, tt := range []struct {
		framework string
		sequence  int64
		want      bool
	}{{"torchtitan", 131072, true}, {"torchtitan", 8192, false}, {"torchtune", 131072, false}} {
		plans, _, err := Plans(c, Setting{GPUs: 8, Sequence: tt.sequence, Framework: tt.framework}, gpus.GPU{Name: "H100", Capacity: 79 * gib}, []string{"bf16"})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(plans, func(p Plan) bool { return strings.Contains(p.Flags, " --cp ") })
		if got != tt.want {
			t.Errorf("%s, %d tokens: %+v", tt.framework, tt.sequence, plans)
		}
	}
}

// TestHostBytes: what is offloaded lies in host memory, what is sharded a rank's part of it.
func TestHostBytes(t *testing.T) {
	c := configOf(t, llama31)
	const n = 8030261248
	for _, tt := range []struct {
		name string
		s    Setting
		want int64
	}{
		{"nothing", Setting{}, 0},
		{"state", Setting{Offload: "optimizer"}, 4 * n},
		{"no state", Setting{Offload: "optimizer", Optimizer: "sgd"}, 0},
		{"all of it", Setting{Offload: "params", Precision: "fp32"}, 16 * n},
		{"a rank's part", Setting{Offload: "params", Precision: "bf16-mixed", FSDP: "full", GPUs: 8}, 2 * n},
		{"inputs of blocks", Setting{Checkpointing: "offload", Sequence: 2048, Batch: 2}, 32 * 2 * 2048 * 4096 * 2},
	} {
		b, err := Compute(c, tt.s)
		if err != nil {
			t.Fatal(tt.name, err)
		}
		if off := b.Host - tt.want; off < 0 || float64(off) > 0.001*float64(tt.want) {
			t.Errorf("%s: %d bytes, want %d", tt.name, b.Host, tt.want)
		}
	}
}
