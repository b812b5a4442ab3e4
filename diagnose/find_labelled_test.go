package diagnose_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/report"
)

// defects are the findings that call something a mistake in the program.
var defects = []string{"growing_list", "retained_graph", "gradients_kept", "missing_no_grad"}

// alsoFair is what else may honestly be called a defect where a kind is planted.
var alsoFair = map[string][]string{"fragmentation": {"growing_list"}}

// expected is what must and must not be said of labelled runs, in every variant
// with C++ and Python stacks.
var expected = map[string]struct{ must, never []string }{
	"qwen_vocab_oom__05b":               {must: []string{"oom_true_shortage", "logits_dominate"}, never: []string{"checkpointing_absent"}},
	"llama8b_full_oom__fp32_autocast":   {must: []string{"oom_true_shortage"}},
	"frag_oom__pairwise_docs":           {never: []string{"oom_true_shortage", "missing_no_grad"}},
	"fraction_oom__gpt2_large":          {must: []string{"oom_memory_fraction", "checkpointing_absent"}},
	"ema__dict":                         {must: []string{"weights_twice"}},
	"adafactor__t5_base":                {must: []string{"kv_cache_in_training"}},
	"hf_trainer__llama_sft":             {must: []string{"autocast_copies", "checkpointing_absent"}},
	"lora8b__all_linear":                {must: []string{"checkpointing_absent"}},
	"device_map__two_gpus":              {must: []string{"checkpointing_absent"}},
	"varying_lengths__bert":             {must: []string{"varying_shapes"}},
	"llama1b_bf16_fused__hf_dataloader": {must: []string{"checkpointing_absent", "logits_dominate"}},
	"checkpointing__hf_reentrant":       {must: []string{"logits_dominate"}, never: []string{"checkpointing_absent", "checkpointing_ineffective"}},
	"offload__save_on_cpu":              {never: []string{"checkpointing_absent"}},
	"eval_no_nograd__gpt2":              {must: []string{"missing_no_grad"}, never: []string{"stale_outputs"}},
	"vit__torch_encoder":                {never: []string{"weights_twice", "logits_dominate"}},
	"decode__hf_dynamic_cache":          {never: []string{"kv_cache_in_training", "missing_no_grad", "checkpointing_absent"}},
	"decode__cat_cache":                 {never: []string{"kv_cache_in_training", "missing_no_grad", "checkpointing_absent"}},
	"side_stream__prefetcher":           {never: []string{"inputs_kept"}},
	"gan__two_optimizers":               {never: []string{"missing_no_grad", "weights_twice"}},
}

// scores are what the programs compute their loss over, where a report may say it.
var scores = map[string]string{
	"qwen_vocab_oom__05b":               "49,152 tokens x a vocabulary of 151,936 x",
	"checkpointing__hf_reentrant":       "16,384 tokens x a vocabulary of 32,000 x",
	"bert_mlm__late_recording":          "8,192 tokens x a vocabulary of 30,522 x",
	"compile__gpt2":                     "4,096 tokens x a vocabulary of 50,257 x",
	"ddp__gpt2":                         "8,192 tokens x a vocabulary of 50,257 x",
	"decode__hf_dynamic_cache":          "8,192 tokens x a vocabulary of 128,256 x",
	"device_map__two_gpus":              "4,096 tokens x a vocabulary of 50,257 x",
	"distill__cached_scores":            "2,048 tokens x a vocabulary of 32,000 x",
	"ema__dict":                         "4,096 tokens x a vocabulary of 50,257 x",
	"eval_no_nograd__gpt2":              "8,192 tokens x a vocabulary of 50,257 x",
	"fp16_scaler__nanogpt":              "8,192 tokens x a vocabulary of 50,304 x",
	"fsdp2__llama_rank0":                "4,096 tokens x a vocabulary of 128,256 x",
	"gpt2_fp32_adamw__hf_loop":          "4,096 tokens x a vocabulary of 50,257 x",
	"llama1b_bf16_fused__hf_dataloader": "8,192 tokens x a vocabulary of 128,256 x",
	"nanogpt_bf16_autocast__gpt124m":    "12,288 tokens x a vocabulary of 50,304 x",
	"retained_graph__trainer_entropy":   "2,048 tokens x a vocabulary of 50,257 x",
}

// quiet are the warnings that may stand in a report on a healthy run.
var quiet = []string{"recording_overflowed", "recording_stopped", "recording_empty", "allocator_setting"}

// plan is what a run's author knows.
type plan struct {
	Defects []struct{ Kind string }
	OOM     *struct{ Verdict string }
}

func analyzed(t *testing.T, names ...string) *report.Document {
	t.Helper()
	run, err := open.Files(names, open.Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	doc, err := diagnose.Run(run.Sources, run.Evidence, diagnose.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// idsOf are the findings of all devices, each once.
func idsOf(doc *report.Document) []string {
	var ids []string
	for _, d := range doc.Devices {
		for _, f := range d.Findings {
			if !slices.Contains(ids, f.ID) {
				ids = append(ids, f.ID)
			}
		}
	}
	return ids
}

// TestLabelledFindings reads every variant of every labelled run with its log:
// defects are those that were planted, verdicts those of the run's author, and
// nothing is critical where nothing failed.
func TestLabelledFindings(t *testing.T) {
	dirs, _ := filepath.Glob("../testdata/recordings/*")
	if more := corpus.Glob(t, "labelled/*__*"); len(more) > 0 {
		dirs = more // the same, and others
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		var p plan
		data, err := os.ReadFile(filepath.Join(dir, "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		paths, _ := filepath.Glob(filepath.Join(dir, "snapshot_*"))
		for _, path := range paths {
			variant, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), "snapshot_"), ".")
			t.Run(name+"/"+variant, func(t *testing.T) {
				doc := analyzed(t, path, filepath.Join(dir, "log.txt"))
				checkDefects(t, doc, &p)
				checkVerdicts(t, doc, &p)
				checkFindings(t, doc)
				checkScores(t, doc, scores[name])
				if variant == "all" {
					checkFirstChange(t, name, doc)
				}
				if want := expected[name]; variant == "all" || variant == "named" {
					ids := idsOf(doc)
					for _, id := range want.must {
						if !slices.Contains(ids, id) {
							t.Errorf("no %s in %q", id, ids)
						}
					}
					for _, id := range want.never {
						if slices.Contains(ids, id) {
							t.Errorf("%s is not so: %q", id, ids)
						}
					}
				}
			})
		}
	}
}

// checkScores: what is said of the logits' shape is so.
func checkScores(t *testing.T, doc *report.Document, want string) {
	t.Helper()
	for _, d := range doc.Devices {
		for _, f := range d.Findings {
			for _, line := range f.Evidence {
				if strings.Contains(line, "x a vocabulary of") && (want == "" || !strings.HasPrefix(line, want)) {
					t.Errorf("%q, want %q", line, want)
				}
			}
		}
	}
}

func checkDefects(t *testing.T, doc *report.Document, p *plan) {
	t.Helper()
	fair := []string{}
	ids := idsOf(doc)
	for _, d := range p.Defects {
		fair = append(append(fair, d.Kind), alsoFair[d.Kind]...)
		if slices.Contains(defects, d.Kind) && !slices.Contains(ids, d.Kind) {
			t.Errorf("%s is planted, found are %q", d.Kind, ids)
		}
	}
	for _, id := range ids {
		if slices.Contains(defects, id) && !slices.Contains(fair, id) {
			t.Errorf("%s isn't planted", id)
		}
	}
	if len(p.Defects) > 0 || p.OOM != nil {
		return
	}
	for _, d := range doc.Devices {
		for _, f := range d.Findings {
			if f.Severity == report.Critical || f.Severity == report.Warning && !slices.Contains(quiet, f.ID) {
				t.Errorf("healthy, yet %s: %s", f.Severity, f.Title)
			}
		}
	}
}

func checkVerdicts(t *testing.T, doc *report.Document, p *plan) {
	t.Helper()
	for _, d := range doc.Devices {
		for _, o := range d.OOMs {
			if p.OOM == nil || o.Verdict != p.OOM.Verdict {
				t.Errorf("the request that failed is called %q, by the author %+v", o.Verdict, p.OOM)
			}
			if missing := o.MissingBytes; o.Verdict == "true_shortage" && (missing == nil || *missing <= 0) {
				t.Error("a true shortage that lacks nothing")
			}
		}
		if len(d.OOMs) == 0 {
			for _, f := range d.Findings {
				if f.Severity == report.Critical {
					t.Errorf("nothing failed, yet critical: %s", f.Title)
				}
			}
		}
	}
}

// checkFindings are properties of any report.
func checkFindings(t *testing.T, doc *report.Document) {
	t.Helper()
	weight := map[report.Severity]int{report.Critical: 0, report.Warning: 1, report.Info: 2}
	for _, d := range doc.Devices {
		most := max(d.Peaks.Reserved.Bytes, d.Peaks.Allocated.Bytes)
		for _, o := range d.OOMs {
			most = max(most, o.AllocatedBytes+o.RequestedBytes)
			if o.MissingBytes != nil && o.DeviceFreeBytes != nil {
				most = max(most, *o.MissingBytes+o.ReservedBytes+*o.DeviceFreeBytes)
			}
		}
		for i, f := range d.Findings {
			if f.Title == "" || f.Evidence == nil || f.Confidence <= 0 || f.Confidence > 1 {
				t.Errorf("incomplete: %+v", f)
			}
			if f.Severity != report.Info && (f.Fix == nil || *f.Fix == "") {
				t.Errorf("%s without a fix: %s", f.Severity, f.Title)
			}
			if f.SavesBytes != nil && (*f.SavesBytes < 0 || *f.SavesBytes > most) {
				t.Errorf("%s saves %d bytes of %d", f.ID, *f.SavesBytes, most)
			}
			if i > 0 && weight[f.Severity] < weight[d.Findings[i-1].Severity] {
				t.Errorf("%s is worse than what stands above it", f.ID)
			}
			for _, text := range append([]string{f.Title}, f.Evidence...) {
				if strings.Contains(text, "%!") || strings.Contains(text, "-0 B") || strings.TrimSpace(text) == "" {
					t.Errorf("%s: %q", f.ID, text)
				}
			}
		}
	}
}

// TestFoundRecordings reads other people's recordings: what is said of them has
// the form of any report, and nothing is critical where nothing failed.
func TestFoundRecordings(t *testing.T) {
	corpus.Path(t, "snapshots")
	for _, path := range corpus.Glob(t, "snapshots/*") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			doc := analyzed(t, path)
			checkFindings(t, doc)
			for _, d := range doc.Devices {
				for _, f := range d.Findings {
					if f.Severity == report.Critical && len(d.OOMs) == 0 {
						t.Errorf("nothing failed, yet critical: %s", f.Title)
					}
				}
			}
		})
	}
}

// TestOverBudget is about recordings beside a configuration: more than the
// budget is a finding only where both are of the same model.
func TestOverBudget(t *testing.T) {
	config, err := budget.ReadConfig(strings.NewReader(`{"model_type":"gpt2","architectures":["GPT2LMHeadModel"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		run  string
		over bool
	}{
		{"../testdata/recordings/gpt2_fp32_adamw__hf_loop/snapshot_late", false},
		{"../testdata/recordings/qwen_vocab_oom__05b/snapshot_all", false},               // another model
		{"../testdata/recordings/retained_graph__trainer_entropy/snapshot_named", false}, // a smaller one
		{"testdata/eval_no_nograd__gpt2__all", true},
	} {
		t.Run(c.run, func(t *testing.T) {
			run, err := open.Files([]string{c.run + ".pickle.gz"}, open.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			doc, err := diagnose.Run(run.Sources, run.Evidence, diagnose.Options{Theory: &compare.Theory{Config: config}})
			if err != nil {
				t.Fatal(err)
			}
			if over := slices.Contains(idsOf(doc), "over_budget"); over != c.over {
				t.Errorf("over budget: %v", over)
			}
		})
	}
}
