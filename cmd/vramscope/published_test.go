package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
)

// published is a training or a server of somebody else's, with the memory that they say it
// took.
type published struct {
	ID, Source, Model string
	Flags             []string
	Quantity          string // peak, reserved, device or weights
	Measured          float64
	Tolerance         float64
	Note              string
	Config            json.RawMessage
	Why               string // it is missed, empty where it isn't
}

func readPublished(t *testing.T) (rows []published) {
	t.Helper()
	f, err := os.Open("testdata/published.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var r published
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// said is what the budget says of a row.
func (r *published) said(t *testing.T) float64 {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, r.Config, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := budgetRun(t, append([]string{"--config", config, "--format", "json", "--no-ladder", "--gpu", "H100 80GB"}, r.Flags...)...)
	if code != exitFine {
		t.Fatalf("%s: %s", r.ID, errs)
	}
	var d struct {
		Peak     float64 `json:"peak_bytes"`
		Reserved float64 `json:"reserved_bytes"`
		Device   float64 `json:"total_device_bytes"`
		Weights  float64 `json:"weights_bytes"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	return map[string]float64{"peak": d.Peak, "reserved": d.Reserved, "device": d.Device, "weights": d.Weights}[r.Quantity]
}

// kind is what the row's error is counted with.
func (r *published) kind() string {
	flags := strings.Join(r.Flags, " ")
	switch {
	case strings.Contains(flags, "--inference"):
		return servedKind
	case strings.Contains(flags, "--fsdp-version 1"):
		return "several GPUs, FSDP1"
	case strings.Contains(flags, "--gpus"):
		return "several GPUs"
	}
	return "one GPU"
}

const servedKind = "served"

// errorTable tells by kind how far off rows were, and holds the budget to what it takes for its verdicts.
func errorTable(t *testing.T, off map[string][]float64) string {
	t.Helper()
	var s strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(off)) {
		all := off[kind]
		slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
		nearer := func(part float64) float64 { return math.Abs(all[int(math.Ceil(part*float64(len(all))))-1]) }
		width := math.Ceil(100*nearer(0.75)) / 100
		if got, want := budget.PublishedErrors[kind], width; kind != servedKind && got != want {
			t.Errorf("%s: a verdict takes %.2f, of what is published %.2f", kind, got, want)
		}
		fmt.Fprintf(&s, "| %s | %d | %.1f %% | %.1f %% | %.1f %% | %+.1f … %+.1f %% | %.0f %% |\n", kind, len(all), 100*nearer(0.5),
			100*nearer(0.75), 100*nearer(0.9), 100*slices.Min(all), 100*slices.Max(all), 100*width)
	}
	return s.String()
}

const errorsHead = `
## How far off, by kind

What is said of the rows above against what was measured. It is what is said today, of flags that were chosen knowing the source: of 96 such
settings that were said by their documentation alone before any was run, 61 were within 10 % (5 % where a source says all that matters). A verdict calls
"tight" what leaves less than the last column, three rows of four rounded up.

| kind | rows | half nearer than | three of four | nine of ten | from … to | a verdict takes |
|---|---:|---:|---:|---:|---:|---:|
`

const accuracyDoc = "../../doc/budget-accuracy.md"

const accuracyHead = `# How right the budget is

The budget runs a step's operations on byte counts and keeps the books that PyTorch keeps; what is reserved comes from serving the
step's requests with the algorithm of the caching allocator. No constant was set by a row: each figure follows from what is allocated,
when and by whom. What the flags leave open was decided with these rows in view, so they show that the model can tell such trainings,
not how far off it is for others.

- One GPU, plain PyTorch and Transformers: within 0.5 % of what was measured (` + "`budget/measured_test.go`" + `).
- One rank of FSDP1, FSDP2, HSDP, tensor parallelism with split sequences, pipelines, DeepSpeed's ZeRO 1 to 3, compiled, float8, MXFP8,
  frozen and checkpointed per operation: the settings at the end, recorded with PyTorch's own allocator, the peak within 1.3 %
  (` + "`budget/distributed_test.go`; `budget/testdata/distributed_rank.py`" + ` records them). Not among them are ZeRO 3 with few tokens: with
  512 it was 5 % less than is said, with two micro-batches 10 %, because not all that may be gathered was at once; and zbv's second, third
  and last of four ranks, 3, 6 and 17 % more, because what waits for gradients of weights is left out (of its first rank 0.3 % too much).
  Of fourteen more that were written down first, eleven were within 2 % (tensor parallelism with FSDP2, loss parallelism, 1F1B, GPipe
  and interleaved pipelines, HSDP with offload); not so compiled context parallelism, 17 % too little then, HSDP with offload of 512 tokens,
  7 % too little, and a checkpointed pipeline that is compiled, 3 % too much. torchtitan's own expert layer over 4 ranks was within 2.2 %,
  checkpointed 6 % less than is said, with as much for each rank and with twice as much for one; it is counted as Transformers'. With as few tokens, DeepSpeed
  reserves a quarter more. Context parallelism over 2, 4 and 8 ranks is within 0.5 %; compiled by PyTorch 2.15, which keeps what it gathers,
  2 % too much. FSDP1 was recorded with a GPU that is never behind the host; one that was a whole step behind held 3.0 GB more
  with its limit of all-gathers, of 4 and of 16 blocks of 218 million parameters; without, the 16 took another 20 GB in the first step.
- Adapters beside weights in 4 bits that FSDP1 or FSDP2 shards: PEFT with bitsandbytes, whose scales FSDP knows nothing of and each rank
  has whole, and torchtune with torchao's NF4Tensor, whose scales are sharded with it and which eager mode unpacks in steps of six
  times the unpacked weight. The peak is within 1 %; the steps weren't counted before they were recorded, 13 % of a checkpointed
  one (` + "`budget/testdata/adapter_step.py`" + `, ` + "`torchtune_rank.py`" + `). FSDP doesn't shard weights in 8 bits:
  bitsandbytes 0.50's lose their scales (FSDP2) or can't be flattened (FSDP1), torchao 0.18's can't be split. Its prototype of training
  such weights runs with FSDP2 where their optimizer has no weight decay, and isn't counted.
- Transformers' own models under DDP, FSDP1, FSDP2, ZeRO and tensor parallelism, and more combinations of the above: 34 settings were
  written down before any was recorded. Of the 32 that could be recorded, 17 were within 0.2 % as the budget stood, 22 within 2 %,
  and the other ten between -40 and +9 % (experts over more ranks than there are, logits that tensor parallelism gathers, Accelerate's way
  with FSDP, ZeRO 1's bucket, pipelines with several stages a rank). The table has what is said since, the peak within 1.5 %
  (` + "`budget/distributed_models_test.go`; `budget/testdata/transformers_rank.py`" + ` records them).
- Compiled by torch.compile, with and without CUDA graphs: the last table, the peak within 1 %; what is reserved with CUDA graphs within
  6 %, as the compiler's order of requests is its own (` + "`budget/compiled_test.go`" + `; ` + "`budget/testdata/compiled_step.py`" + ` records them). Not
  among them: with CUDA graphs, GPT-2 reserved 8 % more than is said, because its first step's logits were still there in the second.
- Adapters by PEFT and bitsandbytes (LoRA on every layer, head and embeddings among them, rsLoRA, DoRA, LoRA-FA, (IA)3, saved modules,
  4-bit weights with and without nested scales, autocast, checkpointing, 8-bit weights, T5, Mixtral with its experts): 54 settings
  recorded likewise, 51 within 0.1 %, the rest within 1.5 % (` + "`budget/net_adapters_test.go`" + `; ` + "`budget/testdata/adapter_step.py`" + `
  records them). What was said of eleven of them was written down before they were recorded: five were within 0.1 %, one was refused
  (adapters on named experts), and the others were mended: -1.4 % (rank 256, checkpointed), -2.0 and -2.6 % (T5), -29 % (8-bit
  weights, which keep their inputs), -34 % (Mixtral, whose experts PEFT adapts as well). So it was of two with saved modules under FSDP2,
  -8 and -23 %, and of five in float8 by rows, within 0.1 %, which are in the table of ranks.
- torchtune's own recipes, litgpt's scripts and torchtitan's models, with made-up weights and data: 20 settings were written down first,
  those of torchtune by its recipe files alone. As the budget stood, 8 were within 2 %, 9 within 5 %, 10 within 10 %; the others between
  -40 and +254 % (the state of paged optimizers, units of embeddings and head, Gemma 2's capped logits, logits that Lightning makes float32,
  a head that litgpt doesn't tie). What is said since is within 3 % of 14 of torchtune and litgpt (` + "`budget/testdata/recipes.jsonl`" + `,
  ` + "`torchtune_recipe.py` and `litgpt_script.py`" + ` record them). Not among them are packed weights of litgpt since 2025 (with --torch 2.15
  7 % too little is said, without 15 % too much), preference pairs, of which one sequence each is counted (40 % too little), and
  torchtitan's, three of which were within 2 %: with tensor parallelism and compiled, its loss too, 12 % less was recorded than is said.
- What others have published of their trainings: the table below. ` + "`go test ./cmd/vramscope -run Published -update`" + ` writes it.

Where the flags don't say whose implementation runs, words that only one framework has decide (` + "`--checkpointing op`, `--float8`" + `
and ` + "`--sequence-parallel`" + ` are torchtitan's, ` + "`--optimizer-in-backward`, `--activation-offload`" + ` torchtune's); the notes of a budget say so.
What a pipeline receives has buffers from the start, as PyTorch up to 2.14 makes them; with ` + "`--torch 2.15`" + ` each is made when it is needed.

| row | model | flags | measured, GiB | said, GiB | error | source |
|---|---|---|---:|---:|---:|---|
`

const ownHead = `
## Settings recorded on a device that computes nothing

The model is Llama 3's as torchtitan writes it, of 4 layers with 32,000 words where nothing else is said, 2 sequences of 4,096 tokens, 16 bits
from float32 shards; with ZeRO as Transformers writes it. Other models are named, and are Transformers'. Peaks are of the third step, in requested GiB.

| setting | measured, GiB | said, GiB | error |
|---|---:|---:|---:|
`

const compiledHead = `
## Compiled settings recorded on a device that computes nothing

The models are Transformers', compiled whole: 4 layers of 2,048, 16 heads, 32,000 words, 8 sequences of 1,024 tokens, in 16 bits; ViT has 6
layers of 768. The blocks of an 8B model are torchtitan's. Peaks are of the last step; with CUDA graphs of the step that captures them.

| setting | measured, GiB | said, GiB | error |
|---|---:|---:|---:|
`

// What others measured is met, or why it isn't is written down.
func TestPublished(t *testing.T) {
	var doc, missed strings.Builder
	doc.WriteString(accuracyHead)
	errors := map[string][]float64{}
	for _, r := range readPublished(t) {
		got := r.said(t)
		off := got/r.Measured - 1
		if ok := math.Abs(off) <= r.Tolerance; ok != (r.Why == "") {
			t.Errorf("%s: measured %.0f, said %.0f (%+.1f %%, within %.0f %%); explained: %q", r.ID, r.Measured, got, 100*off, 100*r.Tolerance, r.Why)
		}
		errors[r.kind()] = append(errors[r.kind()], off)
		fmt.Fprintf(&doc, "| %s | %s | `%s` | %.2f (%s) | %.2f | %+.1f %% | %s |\n", r.ID, r.Model, strings.Join(r.Flags, " "),
			r.Measured/(1<<30), r.Quantity, got/(1<<30), 100*off, r.Source)
		if r.Why != "" {
			fmt.Fprintf(&missed, "- **%s** (%+.1f %%): %s.\n", r.ID, 100*off, r.Why)
		}
	}
	doc.WriteString(errorsHead + errorTable(t, errors))
	doc.WriteString("\n## Rows that are missed\n\n" + missed.String())
	own, err := os.ReadFile("../../budget/testdata/recorded.md")
	if err != nil {
		t.Fatal(err)
	}
	doc.WriteString(ownHead + string(own))
	if own, err = os.ReadFile("../../budget/testdata/recorded_compiled.md"); err != nil {
		t.Fatal(err)
	}
	doc.WriteString(compiledHead + string(own))
	if *update {
		if err := os.WriteFile(accuracyDoc, []byte(doc.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old, err := os.ReadFile(accuracyDoc); err != nil || string(old) != doc.String() {
		t.Errorf("%s is out of date (%v): run with -update", accuracyDoc, err)
	}
}
