package compare

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// corpusRun is a recorded run of a script with the configuration that the
// script builds its model from. Nothing of the setting is told.
type corpusRun struct {
	name, config string
	apart        string // why the peak need not fit, "" when it must
}

var corpusRuns = []corpusRun{
	{"accelerate_loop__bert", `{"model_type":"bert","architectures":["BertForSequenceClassification"],"num_labels":3}`, ""},
	{"adafactor__t5_base", `{"model_type":"t5","architectures":["T5ForConditionalGeneration"],"d_model":768,"d_kv":64,"d_ff":3072,"num_layers":12,"num_heads":12}`, ""},
	{"bert_mlm__late_recording", `{"model_type":"bert","architectures":["BertForMaskedLM"]}`, ""},
	{"checkpointing__hf_reentrant", `{"model_type":"llama","vocab_size":32000,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":22,"num_attention_heads":32,"num_key_value_heads":4}`, ""},
	{"compile__gpt2", `{"model_type":"gpt2","n_layer":6}`, "torch.compile decides what is kept"},
	{"ddp__gpt2", `{"model_type":"gpt2"}`, ""},
	{"decode__hf_dynamic_cache", `{"model_type":"llama","vocab_size":128256,"hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":64,"tie_word_embeddings":true}`, ""},
	{"device_map__two_gpus", `{"model_type":"gpt2","n_embd":1024,"n_head":16,"n_layer":12,"tie_word_embeddings":false}`, "half of the model is on another device"},
	{"ema__dict", `{"model_type":"gpt2","n_layer":8}`, ""},
	{"eval_no_nograd__gpt2", `{"model_type":"gpt2"}`, "a graph is built and kept that an evaluation does not need"},
	{"fp16_scaler__nanogpt", `{"model_type":"gpt2","vocab_size":50304,"resid_pdrop":0,"embd_pdrop":0,"attn_pdrop":0,"activation_function":"gelu"}`, ""},
	{"fraction_oom__gpt2_large", `{"model_type":"gpt2","n_embd":1280,"n_layer":24,"n_head":20}`, ""},
	{"fsdp2__llama_rank0", `{"model_type":"llama","vocab_size":128256,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":8,"num_attention_heads":32,"num_key_value_heads":8}`, ""},
	{"gpt2_fp32_adamw__hf_loop", `{"model_type":"gpt2"}`, ""},
	{"grad_accum__gpt2_medium", `{"model_type":"gpt2","n_embd":1024,"n_layer":24,"n_head":16}`, ""},
	{"grads_kept__set_to_none_false", `{"model_type":"gpt2","n_embd":1024,"n_layer":12,"n_head":16}`, ""},
	{"growing_list__features", `{"model_type":"bert","architectures":["BertModel"],"num_hidden_layers":6}`, "the features of all batches are kept"},
	{"hf_trainer__llama_sft", `{"model_type":"llama","vocab_size":32000,"hidden_size":1280,"intermediate_size":3456,"num_hidden_layers":18,"num_attention_heads":20,"num_key_value_heads":4,"max_position_embeddings":2048}`, ""},
	{"llama1b_bf16_fused__hf_dataloader", `{"model_type":"llama","vocab_size":128256,"hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":64,"tie_word_embeddings":true,"max_position_embeddings":8192}`, ""},
	{"llama8b_full_oom__fp32_autocast", `{"model_type":"llama","vocab_size":128256,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":8192}`, ""},
	{"lora8b__all_linear", `{"model_type":"llama","vocab_size":128256,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8}`, ""},
	{"nanogpt_bf16_autocast__gpt124m", `{"model_type":"gpt2","vocab_size":50304,"resid_pdrop":0,"embd_pdrop":0,"attn_pdrop":0,"activation_function":"gelu"}`, ""},
	{"qwen_vocab_oom__05b", `{"model_type":"qwen2","vocab_size":151936,"hidden_size":896,"intermediate_size":4864,"num_hidden_layers":24,"num_attention_heads":14,"num_key_value_heads":2,"tie_word_embeddings":true,"max_position_embeddings":32768}`, ""},
	{"retained_graph__trainer_entropy", `{"model_type":"gpt2","n_layer":8}`, "the graphs of all steps stay alive"},
	{"varying_lengths__bert", `{"model_type":"bert","architectures":["BertForTokenClassification"],"num_labels":9}`, ""},
}

// compareFile runs the comparison on a recording with nothing but a config.
func compareFile(t testing.TB, path, config string) (*Result, error) {
	t.Helper()
	s, err := snapshot.Open(path, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := budget.ReadConfig(strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	var best *timeline.Timeline
	for i := range s.Devices {
		if tl := timeline.New(s, &s.Devices[i]); best == nil || tl.Peaks.Allocated.Bytes > best.Peaks.Allocated.Bytes {
			best = tl
		}
	}
	return Run(best, classify.New(best, classify.Options{}), frames.New(s), Theory{Config: c})
}

// row is one line of the table.
type row struct {
	run, variant string
	result       *Result
	off          float64 // of the peak
}

// unexplained are the categories more than 5 % of the peak apart without a reason.
func unexplained(r *Result) []string {
	var out []string
	for _, g := range r.Gaps {
		if d := float64(units.Abs(g.Measured-g.Budget)) / float64(max(r.Measured.PeakBytes, 1)); d > 0.05 && g.Reason == nil {
			out = append(out, fmt.Sprintf("%s %+.1f %%", g.Category, 100*float64(g.Measured-g.Budget)/float64(r.Measured.PeakBytes)))
		}
	}
	return out
}

func (r row) log(t testing.TB) {
	t.Helper()
	x := r.result
	var b strings.Builder
	fmt.Fprintf(&b, "%-34s %-6s budget %8.1f MiB  measured %8.1f MiB  %+6.2f %%\n", r.run, r.variant, float64(x.Expected.PeakBytes)/(1<<20), float64(x.Measured.PeakBytes)/(1<<20), 100*r.off)
	if x.Expected.Note != nil {
		fmt.Fprintf(&b, "      NOTE %s\n", *x.Expected.Note)
	}
	for _, s := range x.Inferred {
		fmt.Fprintf(&b, "      %s\n", s)
	}
	for _, g := range x.Gaps {
		if d := g.Measured - g.Budget; units.Abs(d)*100 > x.Measured.PeakBytes {
			why := ""
			if g.Reason != nil {
				why = *g.Reason
			}
			fmt.Fprintf(&b, "      %-16s budget %8.1f  measured %8.1f  %+6.1f %%  %s\n", g.Category, float64(g.Budget)/(1<<20), float64(g.Measured)/(1<<20), 100*float64(d)/float64(x.Measured.PeakBytes), why)
		}
	}
	t.Log(b.String())
}

// The peaks of recorded runs against the budgets of their models, with
// settings read from nothing but the recordings.
func TestCorpus(t *testing.T) {
	labelled := corpus.Path(t, "labelled")
	var offs []float64
	for _, run := range corpusRuns {
		for _, variant := range []string{"named", "all", "python", "none"} {
			path := filepath.Join(labelled, run.name, "snapshot_"+variant+".pickle.gz")
			if only := os.Getenv("COMPARE_RUN"); !strings.Contains(run.name+" "+variant, only) {
				continue
			}
			if _, err := os.Stat(path); err != nil {
				continue
			}
			r, err := compareFile(t, path, run.config)
			if err != nil {
				t.Errorf("%s %s: %v", run.name, variant, err)
				continue
			}
			x := row{run.name, variant, r, float64(r.Measured.PeakBytes)/float64(r.Expected.PeakBytes) - 1}
			x.log(t)
			if variant != "named" && variant != "all" {
				continue
			}
			if run.apart == "" {
				offs = append(offs, math.Abs(x.off))
				if math.Abs(x.off) > 0.08 {
					t.Errorf("%s %s: the peak is off by %+.1f %%", run.name, variant, 100*x.off)
				}
			}
			for _, u := range unexplained(r) {
				t.Errorf("%s %s: no reason for %s", run.name, variant, u)
			}
		}
	}
	slices.SortFunc(offs, cmp.Compare)
	if len(offs) > 0 {
		median := offs[len(offs)/2]
		t.Logf("%d comparisons: median %.2f %%, worst %.2f %%", len(offs), 100*median, 100*offs[len(offs)-1])
		if median > 0.03 {
			t.Errorf("median %.2f %%", 100*median)
		}
	}
}
