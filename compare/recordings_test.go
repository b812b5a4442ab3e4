package compare

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// The project's own recordings: what is read from each, and what is said
// about the difference.
var recordings = []struct {
	run, variant string
	batch, seq   int64
	inferred     []string // beginnings of what is said
	note         string   // why the comparison ends early
	off          float64  // of the peak, at most
	gap, reason  string   // a category and what is said about it
}{
	{run: "gpt2_fp32_adamw__hf_loop", variant: "late", batch: 8, seq: 512, inferred: []string{"fp32", "adamw", "use_cache"}, off: 0.001},
	{run: "gpt2_fp32_adamw__hf_loop", variant: "ring", batch: 1, seq: 1024, inferred: []string{"fp32", "adamw", "batch and sequence: nothing"}, note: "no whole step", off: 0.5, gap: "kv_cache", reason: "the step's outputs are still held"},
	{run: "retained_graph__trainer_entropy", variant: "named", batch: 4, seq: 512, inferred: []string{"adamw-fused", "the outputs are let go"}, off: 1.4, gap: "logits", reason: "the graphs of earlier steps are still alive (finetune.py:14)"},
	{run: "qwen_vocab_oom__05b", variant: "named", batch: 24, seq: 2048, inferred: []string{"bf16", "checkpointing"}, note: "out-of-memory error in the backward pass", off: 0.001},
	{run: "qwen_vocab_oom__05b", variant: "all", batch: 24, seq: 2048, inferred: []string{"bf16", "checkpointing"}, note: "out-of-memory error in the backward pass", off: 0.001},
	{run: "qwen_vocab_oom__05b", variant: "none", batch: 24, seq: 2048, inferred: []string{"bf16", "checkpointing", "an attention mask"}, note: "out-of-memory error in the backward pass", off: 0.001},
	{run: "llama8b_full_oom__fp32_autocast", variant: "none", batch: 2, seq: 1024, inferred: []string{"bf16-mixed", "checkpointing"}, note: "out-of-memory error", off: 0.003},
	{run: "llama8b_full_oom__fp32_autocast", variant: "named", batch: 2, seq: 1024, inferred: []string{"bf16-mixed", "checkpointing"}, note: "out-of-memory error in the optimizer's step", off: 0.001},
	{run: "decode__hf_dynamic_cache", variant: "all", batch: 8, seq: 1024, inferred: []string{"inference", "bf16"}, off: 0.001},
	{run: "device_map__two_gpus", variant: "named", batch: 4, seq: 1024, inferred: []string{"fp32", "loss: cross entropy"}, off: 0.4, gap: "activations", reason: "50 % of the model is on this device"},
}

func configOf(t testing.TB, run string) string {
	for _, r := range corpusRuns {
		if r.name == run {
			return r.config
		}
	}
	t.Fatal("no configuration of " + run)
	return ""
}

func TestRecordings(t *testing.T) {
	for _, tt := range recordings {
		t.Run(tt.run+" "+tt.variant, func(t *testing.T) {
			r, err := compareFile(t, filepath.Join("../testdata/recordings", tt.run, "snapshot_"+tt.variant+".pickle.gz"), configOf(t, tt.run))
			if err != nil {
				t.Fatal(err)
			}
			x := row{tt.run, tt.variant, r, float64(r.Measured.PeakBytes)/float64(r.Expected.PeakBytes) - 1}
			x.log(t)
			if math.Abs(x.off) > tt.off {
				t.Errorf("the peak is off by %+.2f %%", 100*x.off)
			}
			if b, s := r.Setting["batch"], r.Setting["sequence"]; b != tt.batch || s != tt.seq {
				t.Errorf("batch %v x sequence %v, want %d x %d", b, s, tt.batch, tt.seq)
			}
			for _, want := range tt.inferred {
				if !slices.ContainsFunc(r.Inferred, func(s string) bool { return strings.HasPrefix(s, want) }) {
					t.Errorf("nothing inferred begins with %q", want)
				}
			}
			note := ""
			if r.Expected.Note != nil {
				note = *r.Expected.Note
			}
			if !strings.Contains(note, tt.note) || tt.note == "" && note != "" {
				t.Errorf("note %q, want %q", note, tt.note)
			}
			for _, g := range r.Gaps {
				if g.Category == tt.gap && (g.Reason == nil || !strings.HasPrefix(*g.Reason, tt.reason)) {
					t.Errorf("%s: no word of %q", g.Category, tt.reason)
				}
			}
			for _, u := range unexplained(r) {
				t.Errorf("no reason for %s", u)
			}
		})
	}
}

// What the user says is taken, whatever the recording shows.
func TestGivenSettingStays(t *testing.T) {
	s, err := snapshot.Open("../testdata/recordings/qwen_vocab_oom__05b/snapshot_named.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := budget.ReadConfig(strings.NewReader(configOf(t, "qwen_vocab_oom__05b")))
	if err != nil {
		t.Fatal(err)
	}
	tl := timeline.New(s, &s.Devices[0])
	r, err := Run(tl, classify.New(tl, classify.Options{}), frames.New(s), Theory{Config: c,
		Setting: budget.Setting{Sequence: 1024, Checkpointing: "none", Precision: "fp32"}, Given: map[string]bool{"seq": true, "checkpointing": true, "precision": true}})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]any{"batch": int64(48), "sequence": int64(1024), "checkpointing": "none", "precision": "fp32"} {
		if got := r.Setting[k]; got != want {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
}

// What a configuration says of quantization gives way to plain weights that the
// recording holds, and to a precision that is given.
func TestQuantizedConfiguration(t *testing.T) {
	const run = "decode__hf_dynamic_cache"
	file := "../testdata/recordings/" + run + "/snapshot_all.pickle.gz"
	want, err := compareFile(t, file, configOf(t, run))
	if err != nil {
		t.Fatal(err)
	}
	got, err := compareFile(t, file, strings.TrimSuffix(configOf(t, run), "}")+`,"quantization_config":{"quant_method":"awq","bits":4}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got.PeakBytes != want.PeakBytes {
		t.Errorf("a peak of %d, want %d", got.PeakBytes, want.PeakBytes)
	}
}

// A configuration of another model is said to be one.
func TestForeignConfiguration(t *testing.T) {
	r, err := compareFile(t, "../testdata/recordings/retained_graph__trainer_entropy/snapshot_named.pickle.gz", configOf(t, "grads_kept__set_to_none_false"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Inferred, func(s string) bool { return strings.HasPrefix(s, "the weights are another model's") }) {
		t.Errorf("%q", r.Inferred)
	}
	for _, u := range unexplained(r) {
		t.Errorf("no reason for %s", u)
	}
}

// Where all the weights are there, no gap comes from a part that isn't, though
// a few have other shapes than the model that is guessed from its size.
func TestNoPartOfTheModelLacks(t *testing.T) {
	s, err := snapshot.Open("../testdata/recordings/llama8b_full_oom__fp32_autocast/snapshot_named.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := budget.FromParams(8e9)
	if err != nil {
		t.Fatal(err)
	}
	tl := timeline.New(s, &s.Devices[0])
	r, err := Run(tl, classify.New(tl, classify.Options{}), frames.New(s), Theory{Config: c,
		Setting: budget.Setting{Batch: 1, Sequence: 1024, Precision: "bf16-mixed"}, Given: map[string]bool{"batch": true, "seq": true, "precision": true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Gaps {
		if g.Reason != nil && (strings.Contains(*g.Reason, "on this device") || strings.Contains(*g.Reason, "another model")) {
			t.Errorf("%s, %d of %d: %s", g.Category, g.Measured, g.Budget, *g.Reason)
		}
	}
}

// An empty recording has nothing to compare, and says so.
func TestEmptyRecording(t *testing.T) {
	s := &snapshot.Snapshot{Devices: []snapshot.Device{{}}}
	c, err := budget.ReadConfig(strings.NewReader(`{"model_type":"gpt2"}`))
	if err != nil {
		t.Fatal(err)
	}
	tl := timeline.New(s, &s.Devices[0])
	r, err := Run(tl, classify.New(tl, classify.Options{}), frames.New(s), Theory{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	if r.Measured.PeakBytes != 0 || len(r.Inferred) == 0 {
		t.Errorf("%d bytes, %q", r.Measured.PeakBytes, r.Inferred)
	}
}
