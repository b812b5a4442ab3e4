package budget

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/network"
)

var (
	mixtral8x7B = map[string]any{"model_type": "mixtral", "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0, "num_attention_heads": 32.0, "num_key_value_heads": 8.0,
		"num_local_experts": 8.0, "num_experts_per_tok": 2.0, "vocab_size": 32000.0}
	qwenMoE = map[string]any{"model_type": "qwen2_moe", "hidden_size": 2048.0, "num_hidden_layers": 24.0, "num_attention_heads": 16.0, "num_key_value_heads": 16.0, "intermediate_size": 5632.0,
		"moe_intermediate_size": 1408.0, "shared_expert_intermediate_size": 5632.0, "num_experts": 60.0, "num_experts_per_tok": 4.0, "vocab_size": 151936.0}
	deepSeekV3 = map[string]any{"model_type": "deepseek_v3", "hidden_size": 7168.0, "num_hidden_layers": 61.0, "num_attention_heads": 128.0, "intermediate_size": 18432.0, "moe_intermediate_size": 2048.0,
		"n_routed_experts": 256.0, "n_shared_experts": 1.0, "num_experts_per_tok": 8.0, "first_k_dense_replace": 3.0, "q_lora_rank": 1536.0, "kv_lora_rank": 512.0, "vocab_size": 129280.0}
	mambaBig = map[string]any{"model_type": "mamba", "hidden_size": 2560.0, "num_hidden_layers": 64.0, "vocab_size": 50280.0}
	mamba2   = map[string]any{"model_type": "mamba2", "hidden_size": 2048.0, "num_hidden_layers": 48.0, "num_heads": 64.0, "head_dim": 64.0, "n_groups": 8.0, "vocab_size": 50288.0}
	qwenNext = map[string]any{"model_type": "qwen3_next", "hidden_size": 2048.0, "num_hidden_layers": 8.0, "num_experts": 64.0}
	clip     = map[string]any{"model_type": "clip", "projection_dim": 768.0,
		"text_config":   map[string]any{"hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0, "intermediate_size": 3072.0, "vocab_size": 49408.0},
		"vision_config": map[string]any{"hidden_size": 1024.0, "num_hidden_layers": 24.0, "num_attention_heads": 16.0, "intermediate_size": 4096.0, "patch_size": 14.0}}
)

func configOf(t *testing.T, fields map[string]any) *Config {
	t.Helper()
	c, err := newConfig(fields)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// However a model is divided, its GPUs together hold all of it, and all of
// the optimizer's state: no way of dividing loses a part.
// TestSymmetricMemory: two pieces of the stream lie beside PyTorch's allocator, in whole pages.
func TestSymmetricMemory(t *testing.T) {
	s := Setting{TP: 8, SequenceParallel: true, Compile: true, Batch: 4, Sequence: 8192, Framework: "torchtitan"}
	without, err := Compute(configOf(t, llama8B), s)
	if err != nil {
		t.Fatal(err)
	}
	s.AsyncTP = true
	with, err := Compute(configOf(t, llama8B), s)
	if err != nil {
		t.Fatal(err)
	}
	if n := with.Context - without.Context; n != 2*4*1024*4096*2 || with.PeakBytes != without.PeakBytes {
		t.Errorf("%d bytes more beside the allocator, %d in it", n, with.PeakBytes-without.PeakBytes)
	}
}

func TestDividedModelsAreWhole(t *testing.T) {
	for name, f := range map[string]map[string]any{"mixtral": mixtral8x7B, "qwen2_moe": qwenMoE, "deepseek_v3": deepSeekV3, "mamba": mambaBig, "mamba2": mamba2, "qwen3_next": qwenNext, "clip": clip, "llama": llama31} {
		c := configOf(t, f)
		n, err := Count(c)
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for _, gpus := range []int64{1, 8, 16, 64} {
			for _, w := range [][4]int64{{1, 1, 1, 1}, {2, 1, 1, 1}, {8, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 8, 1}, {2, 1, 4, 1}, {4, 1, 4, 1}, {8, 1, 8, 1}, {8, 1, 4, 1}, {2, 2, 2, 1}, {1, 1, 2, 2}, {2, 1, 4, 2}} {
				for _, base := range []Setting{{}, {Zero: 1}, {Zero: 2}, {Zero: 3}, {FSDP: "full"}, {FSDP: "hybrid"}, {FSDP: "full", Precision: "bf16-mixed"}, {Inference: true}, {Inference: true, Zero: 3}} {
					s := base
					s.GPUs, s.TP, s.PP, s.EP, s.CP, s.Sequence = gpus, w[0], w[1], w[2], w[3], 64
					p, err := newPlan(c, s.Defaults())
					if err != nil {
						continue // more ranks than GPUs, or than heads
					}
					ran++
					var weights, state int64
					all, per := p.model.Blocks, (int64(len(p.model.Blocks))+s.PP-1)/s.PP
					for i := range s.PP {
						q := p.stage(all[i*per:min((i+1)*per, int64(len(all)))], i == 0, i == s.PP-1)
						weights += newRun(q).ends[Load].Bytes
						held, _ := q.optimizer()
						state += held
					}
					if got := weights * gpus / s.PP; got < p.kept*n.Total {
						t.Errorf("%s, %+v: %d bytes of weights on all GPUs, the model has %d", name, s, got, p.kept*n.Total)
					}
					if got := state * gpus / s.PP; got < 2*p.kept*n.Trainable {
						t.Errorf("%s, %+v: %d bytes of state on all GPUs, there are %d", name, s, got, 2*p.kept*n.Trainable)
					}
				}
			}
		}
		if ran < 60 {
			t.Errorf("%s: only %d settings ran", name, ran)
		}
	}
}

// What every rank holds where everything can be divided, in GB (1e9).
func TestRanksShareAll(t *testing.T) {
	for _, tt := range []struct {
		name           string
		config         map[string]any
		s              Setting
		weights, state string
	}{
		{"experts on 8 ranks", mixtral8x7B, Setting{GPUs: 8, EP: 8, Zero: 3}, "11.68", "23.35"},
		{"context-parallel ranks", mixtral8x7B, Setting{GPUs: 8, CP: 8, Zero: 3}, "11.68", "23.35"},
		{"context-parallel ranks with experts", mixtral8x7B, Setting{GPUs: 8, CP: 2, EP: 8, FSDP: "full"}, "11.68", "23.35"},
		{"no expert parallelism", mixtral8x7B, Setting{GPUs: 8, Zero: 3}, "11.68", "23.35"},
		{"two replicas of the experts", mixtral8x7B, Setting{GPUs: 16, EP: 8, FSDP: "full"}, "5.84", "11.68"},
		{"only the state", mixtral8x7B, Setting{GPUs: 8, EP: 8, Zero: 1}, "14.49", "23.35"},
		{"served whole experts", deepSeekV3, Setting{GPUs: 8, TP: 8, EP: 8, Inference: true}, "169.56", ""},
		{"served cut experts", deepSeekV3, Setting{GPUs: 8, TP: 8, Inference: true}, "169.56", ""},
		{"shared experts", qwenMoE, Setting{GPUs: 4, TP: 4, Inference: true}, "7.16", ""},
		{"mixers", mambaBig, Setting{GPUs: 4, TP: 4, Inference: true}, "1.38", ""},
		{"grouped mixers", mamba2, Setting{GPUs: 4, TP: 4, Inference: true}, "0.81", ""},
		{"an image encoder", clip, Setting{GPUs: 4, TP: 4, Inference: true}, "0.22", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s
			s.Sequence = 64
			b, err := Compute(configOf(t, tt.config), s)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%.2f", float64(b.WeightsBytes)/1e9); got != tt.weights {
				t.Errorf("weights %s GB, want %s", got, tt.weights)
			}
			if s.Inference {
				return
			}
			if got := fmt.Sprintf("%.2f", float64(b.Phase(Optimizer).Categories[OptimizerState])/1e9); got != tt.state {
				t.Errorf("state %s GB, want %s", got, tt.state)
			}
		})
	}
}

// DDP's buckets are of what ranks share: with as many expert-parallel ranks as
// GPUs, of all but the experts.
func TestBucketsHoldSharedGradients(t *testing.T) {
	c := configOf(t, mixtral8x7B)
	n, err := Count(c)
	if err != nil {
		t.Fatal(err)
	}
	experts := n.ByRole[network.RoleExpert]
	for _, tt := range []struct {
		name string
		s    Setting
		want int64
	}{
		{"no expert parallelism", Setting{GPUs: 8}, n.Total},
		{"experts on one rank each", Setting{GPUs: 8, EP: 8}, n.Total - experts},
		{"on two each", Setting{GPUs: 16, EP: 8}, n.Total - experts + experts/8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := newPlan(c, tt.s.Defaults())
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := p.buckets(); got != 2*tt.want {
				t.Errorf("%d bytes, want %d", got, 2*tt.want)
			}
		})
	}
}

// Where the GPUs do not suffice to cut experts, too, a note says how they lie.
func TestExpertsNoted(t *testing.T) {
	for ep, want := range map[int64]string{8: "each expert lies whole on a GPU", 4: "each expert is cut over 2 GPUs"} {
		b, err := Compute(configOf(t, mixtral8x7B), Setting{GPUs: 8, TP: 8, EP: ep, Inference: true, Sequence: 64})
		if err != nil || len(b.Notes) != 1 || !strings.HasPrefix(b.Notes[0], want) {
			t.Errorf("--ep %d: %v, %v", ep, b.Notes, err)
		}
	}
}

// Expert parallelism of a model without experts is said to divide nothing.
func TestNoExpertsNoted(t *testing.T) {
	b, err := Compute(configOf(t, llama31), Setting{GPUs: 8, EP: 8, Sequence: 64})
	if err != nil || !strings.Contains(strings.Join(b.Notes, "\n"), "--ep 8 divides nothing") {
		t.Errorf("%v, %v", b, err)
	}
}

// FSDP's settings that change nothing are said to, and what isn't in the figures is.
func TestShardingNoted(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		s          Setting
	}{
		{"without FSDP", "without --fsdp they change nothing", Setting{GPUs: 8, KeepGathered: true}},
		{"a limit that FSDP2 doesn't have", "FSDP2 has no such setting", Setting{GPUs: 8, FSDP: "full", FreeGathers: true}},
		{"one node", "--fsdp hybrid is full here", Setting{GPUs: 8, FSDP: "hybrid"}},
		{"no limit", "the gathered parameters and gradients of all units", Setting{GPUs: 8, FSDP: "full", FSDPVersion: 1, FreeGathers: true}},
		{"a limit", "for 2 units", Setting{GPUs: 8, FSDP: "full", FSDPVersion: 1}},
		{"synchronous tensor parallelism", "is taken as synchronous", Setting{TP: 8, SequenceParallel: true}},
		{"asynchronous tensor parallelism", "not measured", Setting{TP: 8, SequenceParallel: true, Compile: true, AsyncTP: true}},
		{"asynchronous, not compiled", "--async-tp changes nothing", Setting{TP: 8, SequenceParallel: true, AsyncTP: true}},
		{"no CUDA graphs", "compiled without CUDA graphs", Setting{Compile: true}},
		{"compiled by whom isn't said", "compiled block by block", Setting{Compile: true}},
		{"Transformers' way to compile", "compiled whole", Setting{Compile: true, Framework: "transformers"}},
		{"micro-batches of CUDA graphs", "refuses to accumulate gradients", Setting{CUDAGraphs: true, Accumulate: 2}},
		{"CUDA graphs of many ranks", "recorded on one GPU only", Setting{CUDAGraphs: true, GPUs: 8, FSDP: "full"}},
		{"adapters", "adapters are units of their own", Setting{GPUs: 8, FSDP: "full", FSDPVersion: 1, LoRA: 8}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Sequence = 64
			b, err := Compute(configOf(t, llama31), tt.s)
			if err != nil || !strings.Contains(strings.Join(b.Notes, "\n"), tt.want) {
				t.Errorf("%v, %v", b, err)
			}
		})
	}
}

// What no scheme divides is said to stay whole.
func TestUndividedIsNoted(t *testing.T) {
	odd := map[string]any{"model_type": "clip", "projection_dim": 768.0, "text_config": clip["text_config"],
		"vision_config": map[string]any{"hidden_size": 1024.0, "num_hidden_layers": 24.0, "num_attention_heads": 2.0, "intermediate_size": 4096.0, "patch_size": 14.0}}
	b, err := Compute(configOf(t, odd), Setting{TP: 4, Inference: true, Sequence: 64})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(b.Notes, "\n"); !strings.Contains(notes, "vision_model") {
		t.Errorf("notes: %s", notes)
	}
}

// What cannot be divided is refused with the reason.
func TestDivisionsRefused(t *testing.T) {
	t5 := map[string]any{"model_type": "t5", "d_model": 1024.0, "d_kv": 64.0, "d_ff": 2816.0, "num_layers": 24.0, "num_heads": 16.0, "vocab_size": 32128.0}
	for _, tt := range []struct {
		name   string
		config map[string]any
		s      Setting
		want   string
	}{
		{"stages of an encoder-decoder", t5, Setting{PP: 2}, "encoder-decoder models are not supported"},
		{"the same, served", t5, Setting{PP: 2, Inference: true}, "encoder-decoder models are not supported"},
		{"stages of two encoders", clip, Setting{PP: 2}, "two encoders are not supported"},
		{"more stages than layers", llama31, Setting{PP: 64, Inference: true}, "32 layers"},
		{"groups of mixers", mamba2, Setting{TP: 16}, "8 groups"},
		{"experts", mixtral8x7B, Setting{EP: 16}, "8 experts"},
		{"flat units in stages", llama31, Setting{PP: 2, GPUs: 8, FSDP: "full", FSDPVersion: 1}, "goes without --pp"},
		{"a third FSDP", llama31, Setting{GPUs: 8, FSDP: "full", FSDPVersion: 3}, "at most 2"},
		{"copies of a model", llama31, Setting{GPUs: 8, FSDP: "full", Shards: 3}, "does not divide the 8 GPUs"},
		{"a type to reduce in", llama31, Setting{GPUs: 8, FSDP: "full", ReduceDtype: "fp8"}, "one of fp32 bf16 fp16"},
		{"frozen blocks", llama31, Setting{Freeze: 33}, "32 blocks"},
		{"frozen blocks under adapters", llama31, Setting{Freeze: 3, LoRA: 8}, "leave --inference and --lora out"},
		{"frozen blocks of two stacks", clip, Setting{Freeze: 3}, "two stacks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Compute(configOf(t, tt.config), tt.s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a sentence with %q", err, tt.want)
			}
		})
	}
}

// A model of a given size has heads that the usual ranks divide.
func TestHeadsOfMadeModels(t *testing.T) {
	for _, params := range []int64{1e9, 3e9, 7e9, 8e9, 13e9, 14e9, 32e9, 34e9, 70e9, 72e9, 123e9, 175e9, 405e9, 671e9} {
		c, err := FromParams(params)
		if err != nil {
			t.Fatal(err)
		}
		for _, tp := range []int64{1, 2, 4, 8} {
			b, err := Compute(c, Setting{TP: tp, Sequence: 64, Inference: true})
			if err != nil {
				t.Errorf("%d parameters, --tp %d: %v", params, tp, err)
			} else if all := b.WeightsBytes * tp; all < 2*params || all > 2*params+params/100 {
				t.Errorf("%d parameters, --tp %d: %d bytes on all ranks", params, tp, all)
			}
		}
	}
}

// TestMixersWithoutNorm: their channels are divided all the same.
func TestMixersWithoutNorm(t *testing.T) {
	c := smallConfig(t, "falcon_h1")
	whole, err := Compute(c, Setting{Sequence: 32})
	if err != nil {
		t.Fatal(err)
	}
	part, err := Compute(c, Setting{Sequence: 32, TP: 2})
	if err != nil || part.WeightsBytes <= whole.WeightsBytes/2 || part.WeightsBytes >= whole.WeightsBytes*7/10 {
		t.Errorf("%+v of %d, %v", part, whole.WeightsBytes, err)
	}
}
