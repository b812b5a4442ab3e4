package budget

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/internal/testing/models"
)

// Odd sizes and settings of every family: the count is that of the model
// Transformers builds, and every setting works through without a surprise.
func TestOddModels(t *testing.T) {
	data, err := os.ReadFile("testdata/odd_models.json")
	if err != nil {
		t.Fatal(err)
	}
	var ms []struct {
		Name    string
		Config  map[string]any
		Total   int64
		Tensors int
	}
	if err := json.Unmarshal(data, &ms); err != nil {
		t.Fatal(err)
	}
	settings := map[string]Setting{
		"plain":       {Batch: 2, Sequence: 32},
		"autocast":    {Batch: 2, Sequence: 32, Precision: "bf16-mixed", Optimizer: "adamw-fused"},
		"fp32 eager":  {Batch: 1, Sequence: 32, Precision: "fp32", Attention: "eager"},
		"checkpoints": {Batch: 2, Sequence: 32, Checkpointing: "full", Loss: "chunked", Padding: true},
		"selective":   {Batch: 2, Sequence: 32, Checkpointing: "selective", Attention: "eager"},
		"accumulate":  {Batch: 2, Sequence: 32, Accumulate: 4, Optimizer: "adafactor"},
		"lora":        {Batch: 2, Sequence: 32, LoRA: 4},
		"qlora":       {Batch: 2, Sequence: 32, LoRA: 4, Precision: "int4"},
		"fsdp":        {Batch: 2, Sequence: 32, GPUs: 4, FSDP: "full", Precision: "bf16-mixed"},
		"serve":       {Batch: 2, Sequence: 32, Inference: true, NewTokens: 8},
	}
	for _, m := range ms {
		t.Run(m.Name, func(t *testing.T) {
			c, err := newConfig(m.Config)
			if err != nil {
				t.Fatal(err)
			}
			ts, err := Tensors(c)
			if err != nil {
				t.Fatal(err)
			}
			var total int64
			var n int
			for _, x := range ts {
				if !x.Buffer {
					total += x.Elements()
					n++
				}
			}
			if total != m.Total || n != m.Tensors {
				t.Errorf("%d parameters in %d tensors, want %d in %d", total, n, m.Total, m.Tensors)
			}
			for name, s := range settings {
				if n := c.Positions(); n > 0 {
					s.Sequence = min(s.Sequence, n-s.NewTokens)
				}
				b, err := Compute(c, s)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				checkBudget(t, name, b)
			}
		})
	}
}

// checkBudget holds for every budget: sums agree, nothing is negative, and
// all that a step made is gone at its end.
func checkBudget(t *testing.T, name string, b *Budget) {
	t.Helper()
	for _, p := range b.Phases {
		if p.Categories.Sum() != p.Peak {
			t.Errorf("%s: %s: categories sum to %d, the peak is %d", name, p.Phase, p.Categories.Sum(), p.Peak)
		}
		for k, n := range p.Categories {
			if n < 0 {
				t.Errorf("%s: %s: %s is %d", name, p.Phase, Category(k), n)
			}
		}
		if p.End > p.Peak || p.End < 0 {
			t.Errorf("%s: %s ends at %d after a peak of %d", name, p.Phase, p.End, p.Peak)
		}
	}
	if b.PeakBytes <= 0 || b.Reserved < b.PeakBytes {
		t.Errorf("%s: peak %d, reserved %d", name, b.PeakBytes, b.Reserved)
	}
}

// At the end of backward weights, gradients and what the caller holds are
// left: no activation may stay behind.
func TestNothingStaysBehind(t *testing.T) {
	for _, name := range network.Families() {
		if name == "qwen" || name == "gpt_neox_reward_model" || name == "mimo" || name == "gemma3" || name == network.UNetClass {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, s := range []Setting{{}, {Precision: "bf16-mixed"}, {Checkpointing: "full"}, {Attention: "eager", Precision: "fp32"}, {Loss: "chunked"}} {
				if s.Batch, s.Sequence = 1, 16; name == "wav2vec2" || name == "hubert" { // few positions of many samples
					s.Sequence = 64
				}
				nothingStays(t, smallConfig(t, name), s)
			}
		})
	}
}

func nothingStays(t *testing.T, c *Config, s Setting) {
	t.Helper()
	p, err := newPlan(c, s.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(p)
	before := r.M.Live
	r.trainStep()
	left := r.M.Live - before - r.M.Cats[Gradients]
	if left != 0 {
		t.Errorf("%+v: %d bytes stay behind: %v", s, left, r.M.Cats.Map())
	}
	if len(r.M.Tape) != 0 || len(r.M.Casts) != 0 {
		t.Errorf("%d nodes and %d weight copies stay behind", len(r.M.Tape), len(r.M.Casts))
	}
}

// smallConfig is a small model of a family, from the odd ones.
func smallConfig(t *testing.T, family string) *Config {
	t.Helper()
	c, err := newConfig(models.Small(t, "testdata/odd_models.json", family))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The class in architectures decides what there is beside the backbone; what
// is not built is refused. Counts are those of the published base sizes.
func TestClasses(t *testing.T) {
	bart := map[string]any{"vocab_size": 50265.0}
	t5 := map[string]any{"d_model": 768.0, "d_kv": 64.0, "d_ff": 3072.0, "num_layers": 12.0, "num_heads": 12.0}
	decoder := map[string]any{"is_decoder": true}
	cross := map[string]any{"is_decoder": true, "add_cross_attention": true}
	for _, tt := range []struct {
		kind, class string
		fields      map[string]any
		want        int64
		refused     string
	}{
		{"clip", "", nil, 151277313, ""},
		{"clip", "CLIPModel", nil, 151277313, ""},
		{"clip", "CLIPTextModel", nil, 63165952, ""},
		{"clip", "CLIPVisionModel", nil, 87456000, ""},
		{"clip", "CLIPForImageClassification", nil, 87457538, ""},
		{"clip", "CLIPTextModelWithProjection", nil, 0, "CLIPTextModelWithProjection"},
		{"vit", "ViTForImageClassification", nil, 85800194, ""},
		{"vit", "ViTForImageClassification", map[string]any{"num_labels": 1000.0}, 86567656, ""},
		{"deit", "DeiTModel", nil, 86390784, ""},
		{"bert", "BertForMaskedLM", map[string]any{"tie_word_embeddings": false}, 132985716, ""},
		{"qwen3_vl", "Qwen3VLModel", map[string]any{"vision_config": map[string]any{"model_type": "qwen3_vl_vision"}}, 11994080496, ""},
		{"gemma3n", "Gemma3nForConditionalGeneration", map[string]any{"vision_config": map[string]any{"model_type": "gemma3n_vision"},
			"audio_config": map[string]any{"model_type": "gemma3n_audio"}}, 7818517072, ""},
		{"vit", "ViTForTokenClassification", nil, 0, "ViTForTokenClassification"},
		{"t5", "T5EncoderModel", t5, 109628544, ""},
		{"t5", "T5ForTokenClassification", t5, 109630082, ""},
		{"t5", "T5ForSequenceClassification", t5, 223495682, ""},
		{"t5", "T5ForConditionalGeneration", t5, 222903552, ""},
		{"t5", "T5ForMultipleChoice", t5, 0, "T5ForMultipleChoice"},
		{"bart", "BartModel", bart, 406291456, ""},
		{"bart", "BartForCausalLM", bart, 254084096, ""},
		{"bart", "BartForCausalLM", map[string]any{"vocab_size": 50265.0, "decoder_vocab_size": 7.0}, 254084096, ""},
		{"gpt2", "GPT2LMHeadModel", nil, 124439808, ""},
		{"gpt2", "GPT2DoubleHeadsModel", nil, 124440577, ""},
		{"gpt2", "GPT2LMHeadModel", cross, 152806656, ""},
		{"bert", "BertLMHeadModel", decoder, 109514298, ""},
		{"bert", "BertLMHeadModel", cross, 137881146, ""},
		{"roberta", "RobertaForCausalLM", cross, 153063513, ""},
	} {
		t.Run(tt.kind+" "+tt.class, func(t *testing.T) {
			fields := map[string]any{"model_type": tt.kind}
			maps.Copy(fields, tt.fields)
			if tt.class != "" {
				fields["architectures"] = []any{tt.class}
			}
			c, err := newConfig(fields)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Count(c)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) || !strings.Contains(err.Error(), "--model") {
					t.Errorf("%d parameters, %v", n.Total, err)
				}
				return
			}
			if err != nil || n.Total != tt.want {
				t.Fatalf("%d parameters, want %d (%v)", n.Total, tt.want, err)
			}
			for _, s := range []Setting{{}, {Inference: true}, {Checkpointing: "full", Attention: "eager"}, {LoRA: 4, LoRATargets: "qv"}} {
				s.Batch, s.Sequence = 2, 64
				b, err := Compute(c, s)
				if err != nil {
					t.Fatal(err)
				}
				checkBudget(t, tt.class, b)
				if !s.Inference && s.LoRA == 0 {
					nothingStays(t, c, s)
				}
			}
		})
	}
}

// Encoders have nothing to decode and no cache; what generates has both.
func TestEncodersKeepNoCache(t *testing.T) {
	for _, tt := range []struct {
		kind, class string
		want        bool
	}{
		{"bert", "BertModel", false}, {"bert", "BertForMaskedLM", false}, {"bert", "", false}, {"roberta", "RobertaModel", false}, {"distilbert", "DistilBertModel", false},
		{"modernbert", "ModernBertModel", false}, {"vit", "ViTModel", false}, {"t5", "T5EncoderModel", false}, {"t5", "T5ForTokenClassification", false},
		{"clip", "CLIPTextModel", false}, {"clip", "CLIPVisionModel", false},
		{"t5", "T5ForConditionalGeneration", true}, {"llama", "LlamaModel", true}, {"gpt2", "GPT2LMHeadModel", true}, {"mamba", "MambaModel", true},
	} {
		t.Run(tt.kind+" "+tt.class, func(t *testing.T) {
			fields := map[string]any{"model_type": tt.kind}
			if tt.class != "" {
				fields["architectures"] = []any{tt.class}
			}
			c, err := newConfig(fields)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Compute(c, Setting{Inference: true, Batch: 2, Sequence: 64})
			if err != nil {
				t.Fatal(err)
			}
			checkBudget(t, tt.class, b)
			var cache int64
			for _, p := range b.Phases {
				cache += p.Categories[KVCache]
			}
			if got := b.Phase(Decode) != nil; got != tt.want || got != (cache > 0) || got != (b.CacheToken+b.CacheFixed > 0) || got != (b.Setting.Cache != "none") {
				t.Errorf("decodes: %v, cache %d, per token %d, setting %q", got, cache, b.CacheToken, b.Setting.Cache)
			}
		})
	}
}

// A decoder with a classifier hands the cache of its one pass back, unless its file says not.
func TestClassifierFillsCache(t *testing.T) {
	for use, want := range map[bool]int64{true: 67108864, false: 0} {
		c, err := newConfig(map[string]any{"model_type": "llama", "architectures": []any{"LlamaForSequenceClassification"}, "use_cache": use})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compute(c, Setting{Inference: true, Batch: 2, Sequence: 64})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Phase(Prefill).Categories[KVCache]; got != want || b.Phase(Decode) != nil || b.CacheToken != 0 {
			t.Errorf("use_cache %v: a cache of %d, want %d; decodes: %v", use, got, want, b.Phase(Decode) != nil)
		}
	}
}

func TestRefusals(t *testing.T) {
	other := func(family string, change map[string]any) *Config {
		f := map[string]any{"model_type": family}
		for k, v := range change {
			f[k] = v
		}
		c, err := newConfig(f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	llama := func(change map[string]any) *Config { return other("llama", change) }
	tests := []struct {
		name   string
		config *Config
		s      Setting
		want   string
	}{
		{"ZeRO on one GPU", llama(nil), Setting{Zero: 3}, "at least two"},
		{"batch of nothing", llama(nil), Setting{Batch: -1}, "at least 1"},
		{"heads do not divide", llama(nil), Setting{TP: 3, GPUs: 3}, "does not divide"},
		{"GPUs do not divide", llama(nil), Setting{TP: 2, GPUs: 3}, "cannot be divided"},
		{"too large for 63 bits", llama(nil), Setting{Batch: 1 << 39, Sequence: 1 << 39}, "2^62"},
		{"odd head counts", llama(map[string]any{"num_key_value_heads": 5.0}), Setting{}, "cannot share"},
		{"no layers to speak of", llama(map[string]any{"num_hidden_layers": 1e6}), Setting{}, "layers"},
		{"unknown head", llama(map[string]any{"architectures": []any{"LlamaForPoetry"}}), Setting{}, "LlamaForPoetry"},
		{"negative sizes", llama(map[string]any{"hidden_size": -4.0}), Setting{}, "hidden_size"},
		{"a width of heads beyond any, whose product with them is small again", other("qwen", map[string]any{"hidden_size": 256.0,
			"intermediate_size": 1024.0, "num_hidden_layers": 2.0, "num_attention_heads": 4.0, "vocab_size": 1000.0,
			"kv_channels": json.Number("4611686018427387968")}), Setting{}, "kv_channels"},
		{"an encoder of images that has one", other("llava", map[string]any{"vision_config": map[string]any{"model_type": "llava"}}),
			Setting{}, "only an encoder"},
		{"a part of an encoder", other("llava_next", map[string]any{"vision_config": map[string]any{"model_type": "siglip_layers"}}),
			Setting{}, "only an encoder"},
		{"more shared experts than a number holds", other("deepseek_v3", map[string]any{"n_shared_experts": json.Number("4611686018427387968")}),
			Setting{}, "shared_experts"},
		{"training in 4 bits", llama(nil), Setting{Precision: "int4"}, "QLoRA"},
		{"two kinds of sharding", llama(nil), Setting{Zero: 2, FSDP: "full", GPUs: 2}, "one of them"},
		{"a kind of layer that isn't known", other("nemotron_h", map[string]any{"layers_block_type": []any{"linear_attention", "hyena"}}), Setting{}, `layer kind "hyena"`},
		{"experts of a latent size", other("nemotron_h", map[string]any{"layers_block_type": []any{"moe"}, "moe_latent_size": 64.0}), Setting{}, "moe_latent_size"},
		{"unknown optimizer", llama(nil), Setting{Optimizer: "magic"}, "magic"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compute(tt.config, tt.s)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a sentence with %q", err, tt.want)
			}
		})
	}
	if _, err := newConfig(map[string]any{"model_type": "hunyuan_v1_moe", "moe_topk": make([]any, 200_000)}); err == nil ||
		!strings.Contains(err.Error(), "moe_topk") {
		t.Errorf("a list longer than layers can be: %v", err)
	}
	if _, err := newConfig(map[string]any{"model_type": "quantum"}); err == nil || !strings.Contains(err.Error(), "quantum") || !strings.Contains(err.Error(), "--params") {
		t.Errorf("an unknown family: %v", err)
	}
}

// TestForeignWidth: only ELECTRA's embeddings have a width of their own.
func TestForeignWidth(t *testing.T) {
	total := func(fields map[string]any) int64 {
		t.Helper()
		c, err := newConfig(fields)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Count(c)
		if err != nil {
			t.Fatal(err)
		}
		return n.Total
	}
	for _, family := range []string{"bert", "roberta"} {
		plain := total(map[string]any{"model_type": family})
		if got := total(map[string]any{"model_type": family, "embedding_size": 128.0}); got != plain {
			t.Errorf("%s: %d parameters with a width that it doesn't know, %d without", family, got, plain)
		}
	}
}

// TestUnmeasured: a family of which no step was measured says so, and is "tight" sooner.
func TestUnmeasured(t *testing.T) {
	for family, want := range map[string]bool{"qwen2_5_vl": true, "jamba": true, "lfm2": false, "llama": false, "gemma3_text": false} {
		b, err := Compute(smallConfig(t, family), Setting{Sequence: 16})
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(strings.Join(b.Notes, "\n"), "±15 %")
		if said != want || (b.ErrorOf() == errorUnmeasured) != want {
			t.Errorf("%s: said %t, takes %.2f", family, said, b.ErrorOf())
		}
	}
}

// TestGuesses: a setting with a part that is near nothing measured says so, and is "tight" sooner.
func TestGuesses(t *testing.T) {
	for _, tt := range []struct {
		s    Setting
		want string
	}{
		{Setting{}, ""},
		{Setting{PP: 2, GPUs: 2, Schedule: "zbv"}, "zbv"},
		{Setting{PP: 2, GPUs: 2}, ""},
		{Setting{Zero: 3, GPUs: 2, Sequence: 512}, "few tokens"},
		{Setting{Zero: 3, GPUs: 2, Sequence: 4096}, ""},
		{Setting{CUDAGraphs: true, GPUs: 2, FSDP: "full"}, "CUDA graphs"},
		{Setting{CUDAGraphs: true}, ""},
		{Setting{Inference: true, CUDAGraphs: true, GPUs: 2, TP: 2}, ""},
	} {
		b, err := Compute(configOf(t, llama4), tt.s)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(b.Notes, func(n string) bool { return strings.HasPrefix(n, "±15 %") })
		if (i >= 0) != (tt.want != "") || i >= 0 && !strings.Contains(b.Notes[i], tt.want) || (b.ErrorOf() == errorUnmeasured) != (tt.want != "") {
			t.Errorf("%+v: %q, takes %.2f", tt.s, b.Notes, b.ErrorOf())
		}
	}
}

// TestUncounted: what people ask for and there is no budget for is refused with the reason.
func TestUncounted(t *testing.T) {
	for family, why := range network.Uncounted {
		if _, err := newConfig(map[string]any{"model_type": family}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", family, err)
		}
		if network.Known(family) {
			t.Errorf("%s is refused, and known", family)
		}
	}
}
