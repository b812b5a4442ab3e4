package recipe

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/search"
	"github.com/vramscope/vramscope/budget/settings"
	"github.com/vramscope/vramscope/gpus"
)

// A plan's flags, typed again, make the same budget.
func TestPlansAgain(t *testing.T) {
	c, err := budget.ReadConfig(strings.NewReader(`{"model_type": "llama", "vocab_size": 32000, "num_hidden_layers": 8, "num_key_value_heads": 8}`))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gpus.Find("24GiB")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []budget.Setting{
		{}, {GPUs: 8, Framework: "torchtitan", Compile: true}, {Framework: "transformers", CUDAGraphs: true}, {LoRA: 8, LoRATargets: "q_proj,lm_head", LoRADropout: 0.1, SaveModules: "embed_tokens"},
		{Adapter: "ia3"}, {LoRA: 8, DoRA: true, LoRADtype: "model"}, {Accumulate: 4, Padding: true, Attention: "eager", Trainer: true},
		{Freeze: 4, MasterWeights: true}, {Offload: "optimizer", KeepGradients: true}, {LoRA: 4, Precision: "int4", PlainScales: true},
	} {
		precisions := []string{"bf16-mixed", "bf16"}
		if s.Precision != "" {
			precisions = []string{s.Precision}
		}
		s.Sequence = 512
		plans, _, err := search.Plans(c, s, g, precisions)
		if err != nil || len(plans) == 0 {
			t.Errorf("%+v: %d plans, %v", s, len(plans), err)
		}
		for _, p := range plans {
			fl, again := pflag.NewFlagSet("", pflag.ContinueOnError), budget.Setting{}
			SettingFlags(fl, &again)
			if err := fl.Parse(strings.Fields(p.Flags)); err != nil {
				t.Fatal(p.Flags, err)
			}
			b, err := budget.Compute(c, again)
			if err != nil || b.TotalDevice() != p.TotalDevice {
				t.Errorf("%s: %v, %d bytes, the plan says %d", p.Flags, err, b.TotalDevice(), p.TotalDevice)
			}
		}
	}
}

// TestSet: each key of --set is the flag of its name, given once; what is no key is refused by name.
func TestSet(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--set float8_recipe=rowwise --set mxfp8 --set copies=2", ""},
		{"--set host-ahead=false", ""},
		{"--set gpu=H100", `"gpu" is no key: they are adapter async-tp batch-tokens`},
		{"--set copies", "copies has no value: copies=VALUE"},
		{"--set copies=1 --set copies=2", "copies is given twice"},
		{"--copies 1 --set copies=2", "copies is given twice"},
		{"--set copies=many", "invalid argument"},
	} {
		var s budget.Setting
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		SettingFlags(fl, &s)
		err := fl.Parse(strings.Fields(tt.args))
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Error(tt.args, err)
		}
		for _, pair := range strings.Split(tt.args, "--set ")[1:] {
			key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
			flag := fl.Lookup(strings.ReplaceAll(key, "_", "-"))
			if !ok {
				value = "true"
			}
			if !flag.Changed || flag.Value.String() != value || !flag.Hidden {
				t.Errorf("%s: %s is %s", tt.args, flag.Name, flag.Value)
			}
		}
	}
	for _, f := range settings.Fields {
		if line := "\n  " + f.Name; strings.Contains("\n"+Keys(), line+" ") != f.Seldom && strings.Contains("\n"+Keys(), line+"=") != f.Seldom {
			t.Errorf("%s: seldom is %v", f.Name, f.Seldom)
		}
	}
}
