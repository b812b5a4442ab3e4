package runlog

import (
	"fmt"
	"strings"
	"testing"
)

// TestSettings reads what trainers print of their settings, and takes no other number for one.
func TestSettings(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"the Trainer", "***** Running training *****\n  Instantaneous batch size per device = 8\n  Gradient Accumulation steps = 4", "8 - 4 -"},
		{"Unsloth", "O^O/ \\_/ \\    Batch size per device = 2 | Gradient accumulation steps = 16\n \\\\ /|  Num GPUs used = 1", "2 - 16 1"},
		{"Megatron", "  micro_batch_size ................................ 2\n  seq_length ...................................... 4096\n" +
			"  world_size ...................................... 16", "2 4096 - 16"},
		{"DeepSpeed", "[2026-11-27 22:00:03,101] [INFO] [config.py:1003:print]   train_micro_batch_size_per_gpu  4\n" +
			"[2026-11-27 22:00:03,101] [INFO] [config.py:1003:print]   world_size ................... 8", "4 - - 8"},
		{"axolotl", "  \"micro_batch_size\": 2,\n  \"sequence_len\": 8192,\n", "2 8192 - -"},
		{"torchtune", "batch_size: 4\ngradient_accumulation_steps: 2\n  max_seq_len: 2048", "4 2048 2 -"},
		{"kohya", "  batch size per device / \u30d0\u30c3\u30c1\u30b5\u30a4\u30ba: 2", "2 - - -"},
		{"argparse", "Namespace(lr=0.1, batch_size=8, world_size=4)", "8 - - -"},
		{"a command", "+ python train.py --per_device_train_batch_size 8 --max-seq-length=512", "8 512 - -"},
		{"an evaluation's", "eval:\n  batch_size: 64\nper_device_eval_batch_size=4,\neval_batch_size: 3", ""},
		{"an evaluation's in brackets", `{"eval": {"batch_size": 64, "max_seq_length": 9}, "train": 1}` + "\nval_loader: DataLoader(batch_size=64)\n" +
			"  \"eval\": {\n    \"batch_size\": 64,\nevaluation = T(batch_size=3)", ""},
		{"a dictionary", "{'batch_size': 8, 'eval': {'batch_size': 64}}", "8 - - -"},
		{"a model's", "ModelArgs(dim=4096, max_batch_size=32, max_seq_len=2048)", ""},
		{"a program's text", "grad_accum_steps = 8 // world_size\nworld_size = 1\nseq_length = 5", ""},
		{"an engine's", "Initializing a V1 LLM engine with config: model='x', max_seq_len=20000, seed=0", ""},
		{"after steps", "step 1 loss 2.5\nbatch_size: 4", ""},
	} {
		var p Parser
		for i, line := range strings.Split(c.text, "\n") {
			p.Line(i+1, []byte(line))
		}
		got := ""
		if s := p.Finish().Settings; s != nil {
			for _, n := range []*int64{s.BatchSize, s.SequenceLength, s.Accumulation, s.GPUs} {
				if n == nil {
					got += " -"
				} else {
					got += fmt.Sprint(" ", *n)
				}
			}
		}
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestHostLimits: of what kubectl describes, a container's limits say what it may hold.
func TestHostLimits(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int64
	}{
		{"limits", "    Limits:\n      cpu:     4\n      memory:  32Gi\n    Requests:\n      memory:  64Gi", 32 << 30},
		{"two containers", "    Limits:\n      memory:  2Gi\n    Requests:\n      memory:  1Gi\n    Limits:\n      memory:  4Gi", 4 << 30},
		{"a request alone", "    Requests:\n      cpu:     4\n      memory:  4Gi", 0},
		{"a node", "Capacity:\n  cpu:     8\n  memory:             263836092Ki", 0},
		{"seff", "Memory Efficiency: 99.94% of 32.00 GB", 32 << 30},
	} {
		var p Parser
		for i, line := range strings.Split("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n"+c.text, "\n") {
			p.Line(i+1, []byte(line))
		}
		if all := p.Finish().HostFailures; len(all) != 1 || all[0].LimitBytes != c.want {
			t.Errorf("%s: %+v, want %d", c.name, all, c.want)
		}
	}
}
