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
	"regexp"
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
### How far off, by kind

What is said today against what was measured, of flags that were chosen knowing the source. A verdict calls "tight" what leaves less than the
last column, three rows of four rounded up.

| kind | rows | half nearer than | three of four | nine of ten | from … to | a verdict takes |
|---|---:|---:|---:|---:|---:|---:|
`

const accuracyDoc = "../../doc/budget-accuracy.md"

const accuracyHead = `# How right the budget is

The budget runs a step's operations on byte counts and keeps PyTorch's books; what is reserved comes from serving the step's requests with the
allocator's algorithm. No constant was set by a row below, but what flags leave open was decided with the rows in view.

- Peaks that PyTorch's own allocator recorded are met within 0.9 % on one GPU, within 1.5 % on one rank of several.
- Of what others published, nine of ten rows are met within 8 % on one GPU, within 23 % on several.

Where flags don't say whose implementation runs, words that one framework has decide: ` + "`--checkpointing op`, `--float8`" + ` and
` + "`--sequence-parallel`" + ` are torchtitan's, ` + "`--optimizer-in-backward`" + ` and ` + "`--activation-offload`" + ` torchtune's. The notes of a budget say so.

## Said before it was measured

| settings | number | as the budget stood then |
|---|---:|---|
| what others published, by their documentation alone | 96 | 61 within 10 % |
| torchtune's recipes, litgpt's scripts, torchtitan's models | 20 | 8 within 2 %, 10 within 10 %, others from -40 to +254 % |
| Transformers' models under DDP, FSDP, ZeRO and TP | 32 | 22 within 2 %, others from -40 to +9 % |
| pipelines, HSDP, loss and context parallelism | 14 | 11 within 2 %, others from -17 to +3 % |
| PEFT and bitsandbytes adapters | 11 | 5 within 0.1 %, one refused, others from -34 to -1.4 % |
| files as people post them: TRL, Trainer, NeMo AutoModel, vLLM, SGLang | 22 | 5 within 5 %, 3 refused, others from -58 to +367 % (now 15 within 5 %, 2 of them run with the card's name in place of the source's capacity; with that, 13) |
| files of 13 frameworks and engines, 17 of them published, 13 run on a simulated device | 30 | 11 within 5 %, one refused, others from -59 to +494 % (now 15 within 5 %) |
| recipes of nine frameworks, run by their own code on a simulated device; four more didn't run to an end | 16 | 5 within 5 %, one refused, others from -47 to +100 % (now 12 within 5 %) |
| scripts of Trainer, TRL and Accelerate, and plain loops, run so | 14 | 2 within 5 %, 4 refused, others from -88 to +36 % (now 13 within 5 %) |
| recipes of eight other frameworks, run so | 13 | 7 within 5 %, others from -8 to +18 % (now 11 within 5 %) |
| recipes of twelve frameworks, run so once the rows above were mended | 20 | 15 within 5 %, one refused, others from -7 to +179 % (now 18 within 5 %) |

## Where it is known to be off

| setting | the budget says |
|---|---|
| ZeRO 3 with 512 tokens; with two micro-batches of them | 5 % too much; 10 % |
| DeepSpeed with few tokens | a quarter too little of what is reserved |
| zbv on the second, third and last of four ranks | 3, 6 and 17 % too little |
| HSDP with offload and 512 tokens | 7 % too little |
| a checkpointed pipeline that is compiled | 3 % too much |
| context parallelism compiled by PyTorch 2.15 | 2 % too much |
| torchtitan's experts, checkpointed | 6 % too much |
| torchtitan's tensor parallelism, its loss compiled too | 12 % too much |
| FSDP1 while the GPU is a whole step behind the host | 3 GB too little; without its limit of all-gathers up to 20 GB |
| preference pairs, of which one sequence is counted | 40 % too little |
| knowledge distillation by torchtune, whose teacher isn't counted (the notes say so) | 43 % too little |
| ms-swift, which makes no logits of tokens without a label: an upper bound | up to the prompts' share too much |
| TRL's GRPO whose prompts' length no file says | 36 % too little |
| torchtune's DPO with adapters | 5 % too little |
| litgpt's packed weights since 2025 | 15 % too much; with ` + "`--torch 2.15`" + ` 7 % too little |
| NeMo AutoModel's checkpointing before Transformers 5.3 | 9 % too little; with the fused loss 34 % |
| vLLM's cache for experts in 8 bits over 4 GPUs, with a connector | half too much |
| GPT-2 with CUDA graphs | 8 % too little of what is reserved |
| torchao's prototype that trains weights in 8 bits under FSDP2 | not counted; others' 8-bit weights FSDP can't shard |

## What others published

` + "`cmd/vramscope/testdata/published.jsonl`" + ` has each row with its flags, figures and source.

| source | setting | rows | error |
|---|---|---:|---:|
`

const ownHead = `
## Recorded on a device that computes nothing

One rank of models with few layers, by PyTorch's own allocator: ` + "`budget/testdata/recorded.md` and `recorded_compiled.md`" + ` have each setting.
Not in the table: 54 settings of PEFT and bitsandbytes, 51 within 0.1 %, all within 1.5 %; 14 of torchtune and litgpt, within 3 %.

| framework | settings | rows | error |
|---|---|---:|---:|
`

// spread counts rows of one kind, and how far off they were.
type spread struct {
	names []string
	off   map[string][]float64
}

func (s *spread) add(name string, off float64) {
	if s.off == nil {
		s.off = map[string][]float64{}
	}
	if s.off[name] == nil {
		s.names = append(s.names, name)
	}
	s.off[name] = append(s.off[name], off)
}

func (s *spread) write(b *strings.Builder, digits int) {
	for _, name := range s.names {
		all := s.off[name]
		fmt.Fprintf(b, "| %s | %d | ", name, len(all))
		if least, most := slices.Min(all), slices.Max(all); least < most {
			fmt.Fprintf(b, "%+.*f … ", digits, least)
		}
		fmt.Fprintf(b, "%+.*f %% |\n", digits, slices.Max(all))
	}
}

var repository = regexp.MustCompile(`^[\w.-]+/[\w.-]+`)

// group is the row's line of the table: its source and its setting.
func (r *published) group() string {
	source := repository.FindString(r.Source)
	if source == "" {
		source = "others"
	}
	setting := "all weights"
	switch flags := strings.Join(r.Flags, " "); {
	case strings.Contains(flags, "--inference"):
		return source + " | serving"
	case strings.Contains(flags, "--lora") && !strings.Contains(flags, "--precision"):
		setting = "adapters, 4-bit weights"
	case strings.Contains(flags, "--lora"):
		setting = "adapters"
	}
	if slices.Contains(r.Flags, "--gpus") {
		setting += ", several GPUs"
	}
	return source + " | " + setting
}

// groupOf is a recorded setting's line of the table: whose parallelism, and what is special about it.
func groupOf(setting string) string {
	framework, special := "one GPU", "plain"
	for _, f := range [][2]string{{"stage", "pipelines"}, {"ZeRO 1", "ZeRO 1"}, {"ZeRO 2", "ZeRO 2"}, {"ZeRO 3", "ZeRO 3"}, {"CP ", "context parallelism"},
		{"TP ", "tensor parallelism"}, {"the same", "tensor parallelism"}, {"DDP", "DDP"}, {"FSDP1", "FSDP1"}, {"FSDP", "FSDP2"}} {
		if strings.Contains(setting, f[0]) {
			framework = f[1]
			break
		}
	}
	for _, s := range [][2]string{{"CUDA graphs: reserved", "CUDA graphs, reserved"}, {"CUDA graphs", "CUDA graphs"}, {"float8", "8 bits"}, {"mxfp8", "8 bits"},
		{"LoRA", "adapters"}, {"compiled", "compiled"}, {"host memory", "offloaded"}, {", full", "checkpointed"}, {", op", "checkpointed"}} {
		if strings.Contains(setting, s[0]) {
			special = s[1]
			break
		}
	}
	return framework + " | " + special
}

// readRecorded adds the rows of a table that budget's tests keep.
func (s *spread) readRecorded(t *testing.T, name, special string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		var off float64
		if n, _ := fmt.Sscanf(cells[len(cells)-1], "%f %%", &off); len(cells) != 4 || n != 1 {
			t.Fatalf("%s: %q", name, line)
		}
		setting := strings.TrimPrefix(cells[0], "| ")
		if !strings.Contains(setting, special) {
			setting += ", " + special
		}
		s.add(groupOf(setting), off)
	}
}

// What others measured is met, or why it isn't is written down.
func TestPublished(t *testing.T) {
	var doc, missed strings.Builder
	doc.WriteString(accuracyHead)
	errors := map[string][]float64{}
	var groups, recorded spread
	for _, r := range readPublished(t) {
		got := r.said(t)
		off := got/r.Measured - 1
		if ok := math.Abs(off) <= r.Tolerance; ok != (r.Why == "") {
			t.Errorf("%s: measured %.0f, said %.0f (%+.1f %%, within %.0f %%); explained: %q", r.ID, r.Measured, got, 100*off, 100*r.Tolerance, r.Why)
		}
		errors[r.kind()] = append(errors[r.kind()], off)
		groups.add(r.group(), 100*off)
		if r.Why != "" {
			fmt.Fprintf(&missed, "- **%s** (%+.1f %%): %s.\n", r.ID, 100*off, r.Why)
		}
	}
	slices.Sort(groups.names)
	groups.write(&doc, 1)
	doc.WriteString(errorsHead + errorTable(t, errors))
	doc.WriteString("\n### Rows that are missed\n\n" + missed.String())
	recorded.readRecorded(t, "../../budget/testdata/recorded.md", "")
	recorded.readRecorded(t, "../../budget/testdata/recorded_compiled.md", "compiled")
	slices.Sort(recorded.names)
	doc.WriteString(ownHead)
	recorded.write(&doc, 2)
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
