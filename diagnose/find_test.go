package diagnose

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// scenario reads a recording of testdata/scenarios.
func scenario(t *testing.T, name string) *report.Device {
	t.Helper()
	return &scenarioReport(t, name).Devices[0]
}

func scenarioReport(t *testing.T, name string) *report.Document {
	t.Helper()
	s, err := snapshot.Open(filepath.Join("../testdata/scenarios", name+".pickle.gz"), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run([]Source{{Path: name, Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func finding(d *report.Device, id string) *report.Finding {
	for i := range d.Findings {
		if d.Findings[i].ID == id {
			return &d.Findings[i]
		}
	}
	return nil
}

// TestGainOfLateRecording: replays of a recording that begins in the middle begin
// with its first blocks packed, which the figures say.
func TestGainOfLateRecording(t *testing.T) {
	d := scenario(t, "../recordings/gpt2_fp32_adamw__hf_loop/snapshot_ring")
	f := finding(d, "allocator_setting")
	if f == nil || !strings.Contains(strings.Join(f.Evidence, "\n"),
		"under the recorded settings it reserves 4.04 GiB\nreplayed with expandable_segments:True: peak reserved 3.50 GiB "+
			"(548.00 MiB less)") {
		t.Fatalf("%+v", f)
	}
	if most := d.Peaks.Reserved.Bytes - d.Peaks.Allocated.Bytes; f.SavesBytes == nil || *f.SavesBytes != 548<<20 ||
		*f.SavesBytes > most {
		t.Errorf("saves %v of %d at most", f.SavesBytes, most)
	}
}

// TestScenarios reads recordings of one small model, each with one habit.
func TestScenarios(t *testing.T) {
	for _, c := range []struct {
		name  string
		must  string // a finding that has to be there
		says  string // somewhere in its title, evidence or fix
		never string // findings that must not be
	}{
		{"train_eval_grad__python", "missing_no_grad", "called in evaluate run/scenarios.py:", ""},
		{"train_eval_grad__none", "missing_no_grad", "4 autograd graphs were dropped", ""},
		{"train_eval_ok__python", "", "", "missing_no_grad"},
		{"train_eval_ok__none", "", "", "missing_no_grad"},
		{"captures__python", "empty_cache_in_loop", "Capture once at <module> run/scenarios.py:", "cache_flushed"},
		{"captures__none", "empty_cache_in_loop", "capturing a CUDA graph empties the cache, too", "cache_flushed"},
		{"mixers__python", "", "", "missing_no_grad checkpointing_absent"},
		{"mixers__none", "", "", "missing_no_grad checkpointing_absent"},
		{"unfrozen__python", "", "", "growing_list"},
		{"unfrozen__none", "", "", "growing_list"},
		{"pipeline__python", "", "", "missing_no_grad retained_graph growing_list"},
		{"resumed__python", "", "", "weights_twice"},
		{"loss_in_parts__python", "logits_dominate", "a part of the tokens at a time already", ""},
		{"pool__none", "", "", "varying_shapes missing_no_grad"},
		{"best_models__python", "growing_list", "made at <module> run/scenarios.py:", ""},
		{"best_models__python", "growing_list", "4 were made, and the earlier 3 are still there", "weights_twice"},
		{"converted__python", "", "", "growing_list"},
		{"converted__none", "", "", "growing_list"},
		{"points__python", "", "", "growing_list inputs_kept missing_no_grad"},
		{"averaged__none", "", "", "weights_twice"},
		{"eval_first__python", "retained_graph", "called in <listcomp> run/scenarios.py:", "missing_no_grad"},
		{"eval_one_grad__python", "missing_no_grad", "an autograd graph of", ""},
		// not in the model's own method, which training calls, too
		{"eval_helper__python", "missing_no_grad", "called in evaluate run/scenarios.py:55", ""},
		{"stateful__python", "missing_no_grad", "called in <module> run/scenarios.py:569", ""},
		{"hooked_oom__python", "oom_fragmentation", "takes 22.1 MiB more in each step: a setting would only put the failure off",
			""},
		{"lengths_oom__python", "oom_fragmentation", "replayed, with 29.8 MiB to spare in this step's passes", ""},
		{"lengths_oom__python", "oom_fragmentation",
			"the request that failed would have been met (29.80 MiB left after the rest of the step)", ""},
		{"eval_oom__python", "missing_no_grad", "called in evaluate run/scenarios.py:", "checkpointing_absent"},
		{"eval_oom__python", "oom_true_shortage", "torch.no_grad() around the call in", "stale_outputs"},
		{"forward_graph__all", "missing_no_grad", "falls from 1.92 GiB to", "recording_stopped"},
		{"forward_graph__all", "missing_no_grad", "a graph stays until the next forward pass is through", ""},
		{"forward_graph__all", "missing_no_grad", "called in <module> run/scenarios.py:", ""},
		{"forward_cut__python", "recording_stopped",
			"912.16 MiB of activations are kept for a backward pass that wasn't recorded", "missing_no_grad"},
		{"eval_losses__python", "missing_no_grad", "called in <module> run/scenarios.py:173", "growing_list retained_graph"},
		{"eval_losses__python", "missing_no_grad", "graphs of 4.44 GiB are kept", "recording_stopped"},
		{"eval_losses__none", "missing_no_grad", "graphs of 4.44 GiB are kept", "growing_list retained_graph"},
		{"eval_losses_ok__python", "", "", "missing_no_grad growing_list retained_graph"},
		{"eval_losses_ok__none", "", "", "missing_no_grad growing_list retained_graph"},
		{"eval_losses_oom__python", "oom_true_shortage", "the rest of the step still has to make 776.14 MiB",
			"oom_fragmentation"},
		{"eval_losses_oom__python", "oom_true_shortage", "torch.no_grad() around the call in <module> run/scenarios.py:173", ""},
		{"eval_losses_oom__none", "oom_true_shortage", "torch.no_grad(): no backward pass uses the graphs", "oom_fragmentation"},
		{"teacher_grad__python", "gradients_unused", "82.48 MiB stay for good", "gradients_kept missing_no_grad"},
		{"teacher_grad__none", "gradients_unused", "82.48 MiB stay for good", "gradients_kept missing_no_grad"},
		{"train_eval_ok__python", "", "", "gradients_unused"},
		{"retry_held__python", "oom_true_shortage", "a request of 64.00 MiB would have left 8.84 MiB", "oom_fragmentation"},
		{"retry_held__python", "oom_true_shortage", "4 more requests failed, too", ""},
		{"retry_held__none", "oom_true_shortage", "Let go of the failed attempt", "oom_fragmentation logits_dominate"},
		{"eager_attention__all", "attention_matrices", "512.00 MiB from 4 softmax results", ""},
		{"eager_attention__all", "attention_matrices", "in place of the softmax in attention run/scenarios.py", ""},
		{"math_attention__all", "attention_matrices", "fell back to its math backend", ""},
		{"eager_served__all", "attention_matrices", "Attention makes the scores of all pairs of tokens: 384.00 MiB", ""},
		{"good_ckpt__python", "", "", "attention_matrices"},
		{"eval_joined__python", "results_collected", "up to 250.75 MiB", "logits_dominate growing_list missing_no_grad"},
		{"eval_joined__python", "results_collected", "collected in <module> run/scenarios.py:204", "attention_matrices"},
		{"eval_joined__none", "results_collected", "8 forward passes", "logits_dominate growing_list missing_no_grad"},
		{"train_eval_ok__python", "", "", "results_collected"},
		{"train_eval_ok__none", "", "", "results_collected"},
		{"eval_losses__python", "", "", "results_collected"},
		{"long_batch__python", "oom_true_shortage", "13.7 times as large as the largest before", ""},
		{"long_batch__python", "oom_true_shortage", "group by length", ""},
		{"data_parallel__python", "data_parallel", "524.00 MiB reserved at the end, at most 210.00 MiB on the others", ""},
		{"train_eval_ok__python", "", "", "data_parallel"},
		{"recompute_metric__python", "missing_no_grad", "as much is in use at another moment", ""},
		{"eval_hidden__python", "", "", "missing_no_grad checkpointing_absent"},
		{"eval_hidden__python", "logits_dominate", "are the step before's, which a variable still holds", ""},
		{"eval_hidden__python", "stale_outputs", "outputs = model(batch)", ""},
		{"eval_hidden__none", "", "", "missing_no_grad checkpointing_absent"},
		{"pairs__python", "oom_true_shortage", "Process in smaller pieces", "inputs_kept"},
		{"pairs__python", "oom_true_shortage", "asked for by <module> run/scenarios.py:218 in other work", ""},
		{"model_again__python", "weights_twice", "A model was made 3 times, and the earlier 2 are still there: 461.31 MiB",
			"growing_list gradients_unused"},
		{"model_again__python", "weights_twice", "made at <module> run/scenarios.py:224", ""},
		{"model_again__none", "weights_twice", "weights 113.73 MiB, gradients 116.36 MiB, optimizer state 231.22 MiB",
			"growing_list gradients_unused"},
		{"optimizer_again__python", "growing_list",
			"An optimizer was made 3 times, and the state of the earlier 2 is still there: 229.84 MiB", "weights_twice"},
		{"optimizer_again__python", "growing_list", "learning-rate scheduler", ""},
		{"optimizer_again_ok__python", "", "", "growing_list weights_twice"},
		{"adapters__python", "logits_dominate", "replayed with logits=chunked, peak allocated memory falls from 312.94 MiB to",
			""},
		{"foreach__python", "optimizer_temporaries",
			"replayed with optimizer=fused, peak allocated memory falls from 800.39 MiB to 672.43 MiB", ""},
		{"foreach__python", "optimizer_temporaries", "stepped at <module> run/scenarios.py:", ""},
		{"foreach__none", "optimizer_temporaries", "fused=True, which Adam, AdamW and SGD have", ""},
		{"foreach_rms__python", "optimizer_temporaries",
			"with the temporaries of one weight at a time, peak allocated memory falls from 640.31 MiB to 512.35 MiB", ""},
		{"foreach_rms__python", "optimizer_temporaries", "torch.optim.RMSprop(model.parameters(), lr=lr, foreach=False)", ""},
		{"foreach_off__python", "", "", "optimizer_temporaries"},
		{"eval_batch__python", "oom_true_shortage", "69.82 MiB are missing", ""},
		{"longer_texts_oom__none", "oom_true_shortage", "no setting that was replayed carries it on", "oom_fragmentation"},
		{"eval_batch__python", "oom_true_shortage", "most of it: logits, 998.05 MiB (90.9 %)", ""},
		{"eval_batch__python", "logits_dominate", "in place of the loss at loss_of run/scenarios.py:38", ""},
		{"policy_gradient__python", "logits_dominate", "in place of the loss at <module> run/scenarios.py:239", ""},
		{"joined_anew__python", "growing_list", "A tensor is joined with what it holds so far in every step (scenarios.py:273)",
			"own_temporaries"},
		{"joined_anew__python", "growing_list", "8.00 MiB a step, seen in 9 steps, 80.00 MiB in all", ""},
		{"joined_last__python", "", "", "growing_list own_temporaries"},
		{"saved_copy__python", "own_temporaries", "Copies of weights and of their state take 174.55 MiB of the peak",
			"growing_list"},
		{"saved_copy__python", "own_temporaries", "falls from 405.41 MiB to 313.91 MiB", ""},
		{"inner_steps__python", "", "", "own_temporaries weights_twice growing_list"},
		{"pairs__python", "own_temporaries", "What the program makes for itself takes 69.71 GiB of the peak", ""},
		{"autocast_infer__python", "autocast_copies", "without the copies and with half of what they are made of,",
			"missing_no_grad"},
		{"autocast_infer__none", "autocast_copies", "", "missing_no_grad"},
		{"state_dict_left__python", "weights_twice", "map_location", "missing_no_grad"},
		{"ema_deepcopy__python", "weights_twice", "EMA", "missing_no_grad"},
		{"dpo_reference__python", "weights_twice", "reference", "missing_no_grad"},
		{"empty_cache__python", "empty_cache_in_loop", "6 calls", "missing_no_grad"},
		{"empty_cache__none", "", "", "cache_flushed"},
		{"../recordings/frag_oom__pairwise_docs/snapshot_expandable", "cache_flushed",
			"6.23 GiB were asked for with 74.55 GiB reserved", ""},
		{"../recordings/frag_oom__pairwise_docs/snapshot_expandable", "cache_flushed",
			"once at similarity frag_docs/pairwise.py:17", "oom_fragmentation"},
		{"empty_cache__none", "empty_cache_in_loop", "6 calls", "missing_no_grad"},
		{"good_ckpt__python", "", "", "checkpointing_absent checkpointing_ineffective weights_twice empty_cache_in_loop"},
		{"partial_ckpt__python", "checkpointing_ineffective", "outside it", "checkpointing_absent"},
		{"whole_ckpt__python", "checkpointing_ineffective", "each block by itself", "checkpointing_absent"},
		{"data_on_gpu__python", "inputs_kept", "before the first step", ""},
		{"data_on_gpu__python", "inputs_kept", "a table or a buffer that every step uses would look the same", ""},
		{"cuda_graph__python", "private_pools", "CUDA graph's own pool (1, 0)", "missing_no_grad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := scenario(t, c.name)
			for _, id := range strings.Fields(c.never) {
				if f := finding(d, id); f != nil {
					t.Errorf("%s: %s %q", id, f.Title, f.Evidence)
				}
			}
			if c.must == "" {
				return
			}
			f := finding(d, c.must)
			if f == nil {
				t.Fatalf("no %s", c.must)
			}
			text := strings.Join(append([]string{f.Title, f.Code}, f.Evidence...), "\n")
			if f.Fix != nil {
				text += "\n" + *f.Fix
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("%q isn't said in:\n%s", c.says, text)
			}
		})
	}
}

// TestStepInBackward: a program whose optimizers step inside the backward pass
// is the same without stacks.
func TestStepInBackward(t *testing.T) {
	python, none := scenario(t, "step_in_backward__python"), scenario(t, "step_in_backward__none")
	if len(python.Steps) != 4 || len(none.Steps) != 4 {
		t.Errorf("%d and %d steps, want 4", len(python.Steps), len(none.Steps))
	}
	for category, bytes := range python.AtPeak.Categories {
		if d := none.AtPeak.Categories[category] - bytes; d < -1<<20 || d > 1<<20 {
			t.Errorf("%s: %s with Python stacks, %s without any", category, units.Bytes(bytes),
				units.Bytes(none.AtPeak.Categories[category]))
		}
	}
}

// TestSavingsAreReal compares what a fix is said to save with a recording of
// the same program once it was made.
func TestSavingsAreReal(t *testing.T) {
	wrong, right := scenario(t, "train_eval_grad__python"), scenario(t, "train_eval_ok__python")
	f := finding(wrong, "missing_no_grad")
	if f == nil || f.SavesBytes == nil {
		t.Fatalf("%+v", f)
	}
	said, is := wrong.Peaks.Allocated.Bytes-*f.SavesBytes, right.Peaks.Allocated.Bytes
	if d := said - is; d < -is/100 || d > is/100 {
		t.Errorf("said to peak at %s without the graphs, with no_grad it peaks at %s", units.Bytes(said), units.Bytes(is))
	}
}

// TestSettingIsWorse compares what replay says of a recording's setting with
// what the same program reserved without it.
func TestSettingIsWorse(t *testing.T) {
	const run = "../testdata/recordings/gpt2_fp32_adamw__hf_loop/"
	s, err := snapshot.Open(run+"snapshot_roundup4.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run([]Source{{Path: "roundup4", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(run + "run.json")
	if err != nil {
		t.Fatal(err)
	}
	var without struct {
		Reserved int64 `json:"max_memory_reserved"` // PyTorch's own counter, default settings
	}
	if err := json.Unmarshal(data, &without); err != nil {
		t.Fatal(err)
	}
	d := &doc.Devices[0]
	f := finding(d, "allocator_setting")
	if f == nil || f.SavesBytes == nil || f.Severity != report.Warning {
		t.Fatalf("%+v", f)
	}
	if is := d.Peaks.Reserved.Bytes - without.Reserved; *f.SavesBytes != is {
		t.Errorf("said to save %d bytes, it saved %d", *f.SavesBytes, is)
	}
}

// TestNoHalfWeightsBesideAnOptimizer: copies that autocast makes are told while an optimizer
// is at work, too, but it needs the weights in fp32, and no change says otherwise.
func TestNoHalfWeightsBesideAnOptimizer(t *testing.T) {
	s, err := snapshot.Open("../testdata/scenarios/autocast_scaled__none.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run([]Source{{Path: "s", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := doc.Devices[0]
	i := slices.IndexFunc(d.Findings, func(f report.Finding) bool { return f.ID == "autocast_copies" })
	if i < 0 || d.Findings[i].Fix != nil || d.Findings[i].Code != "" {
		t.Errorf("the copies: %+v", d.Findings)
	}
	for _, c := range d.Changes {
		if strings.Contains(c.Text, "bf16") {
			t.Errorf("a change says %q", c.Text)
		}
	}
}

// TestFirstStepShortage: AdamW in fp32 needs 16 bytes for each parameter, whatever part of its state was made when the first
// step failed, and 4 for the roots that it takes of all of them at once, if a stack shows that it does.
func TestFirstStepShortage(t *testing.T) {
	const parameters = 8_030_261_248 // of Llama 3.1 8B
	for _, variant := range []string{"all", "named", "python", "none"} {
		path := "../testdata/recordings/llama8b_full_oom__fp32_autocast/snapshot_" + variant + ".pickle.gz"
		if _, err := os.Stat(path); err != nil {
			continue // not all are shipped
		}
		s, err := snapshot.Open(path, snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Run([]Source{{Path: variant, Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := doc.Devices[0].OOMs[0]
		each := int64(20)
		if variant == "none" {
			each = 16
		}
		want := each*parameters - o.ReservedBytes - *o.DeviceFreeBytes
		if o.MissingBytes == nil || *o.MissingBytes < want-want/100 || *o.MissingBytes > want+want/100 {
			t.Errorf("%s: %v bytes missing, by the model %d", variant, o.MissingBytes, want)
		}
	}
}

// tape is a recording without stacks, told allocation by allocation.
type tape struct {
	t      *testing.T
	made   int64
	blocks []recorder.Block
	events []recorder.Event
	ranges []recorder.Annotation
}

func (p *tape) add(e recorder.Event) {
	e.Stream, e.TimeUS = uint64(0), int64(len(p.events))
	p.events = append(p.events, e)
}

func (p *tape) alloc(mib int64) int { return p.allocBytes(mib << 20) }

func (p *tape) allocBytes(n int64) int {
	size := (n + 511) / 512 * 512
	address := uint64(1<<40 + p.made)
	p.add(recorder.Event{Action: "alloc", Address: address, Size: n})
	p.blocks, p.made = append(p.blocks, recorder.Block{Address: address, Size: size, Requested: n, State: "active_allocated"}),
		p.made+size
	return len(p.blocks) - 1
}

func (p *tape) free(ids ...int) {
	for _, id := range ids {
		b := &p.blocks[id]
		p.add(recorder.Event{Action: "free_requested", Address: b.Address, Size: b.Requested})
		p.add(recorder.Event{Action: "free_completed", Address: b.Address, Size: b.Requested})
		b.State, b.Requested = "inactive", int64(0)
	}
}

// within tells of a range that torch names.
func (p *tape) within(name string, body func()) {
	p.ranges = append(p.ranges, recorder.Annotation{Stage: "START", Name: name, TimeUS: int64(len(p.events))})
	body()
	p.ranges = append(p.ranges, recorder.Annotation{Stage: "END", Name: name, TimeUS: int64(len(p.events) - 1)})
}

func (p *tape) report() *report.Document {
	var used int64
	for _, b := range p.blocks {
		if b.State != "inactive" {
			used += b.Size.(int64)
		}
	}
	r := recorder.Recording{Segments: []recorder.Segment{{Address: uint64(1 << 40), Total: p.made, Allocated: used, Active: used,
		Requested: used, Blocks: p.blocks}},
		Traces: [][]recorder.Event{p.events}, Annotations: p.ranges}
	s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})), snapshot.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	doc, err := Run([]Source{{Path: "s", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return doc
}

// TestFailureBeforeAnythingIsFreed: without stacks, what was made may be weights, or what
// the first pass makes, and the request may have failed in either.
func TestFailureBeforeAnythingIsFreed(t *testing.T) {
	p := &tape{t: t}
	for k := range 40 {
		p.alloc(int64(1 + k))
	}
	p.add(recorder.Event{Action: "oom", Size: 1 << 30, DeviceFree: int64(0)})
	doc := p.report()
	o := doc.Devices[0].OOMs[0]
	if text := doc.Verdict.Text; o.Phase != nil || strings.Contains(text, "setup") || strings.Contains(text, "weights") ||
		strings.Contains(*doc.Verdict.Fix, "weights") {
		t.Errorf("%s. %s", text, *doc.Verdict.Fix)
	}
}

// TestGradientsOfEarlierModels: models that were trained and are kept hold the gradients
// of their last steps; those of a teacher stay while the others of their step go, and a hook keeps some of each step.
func TestGradientsOfEarlierModels(t *testing.T) {
	for _, kind := range []string{"earlier models", "a teacher", "a hook"} {
		teacher, hook := kind == "a teacher", kind == "a hook"
		p := &tape{t: t}
		sizes := []int64{48, 40, 56, 36}
		models := 3
		if teacher || hook {
			models = 1
			for k := range sizes {
				p.alloc(sizes[k] + 20)
			}
		}
		var state []int
		for range models {
			for _, n := range sizes {
				p.alloc(n)
			}
			p.free(state...) // another optimizer takes its place
			state = nil
			var grads []int
			for step := range 8 {
				batch := p.alloc(2)
				var saved []int
				for range 12 {
					saved = append(saved, p.alloc(5))
					p.free(p.alloc(3))
				}
				p.within("Optimizer.zero_grad#AdamW.zero_grad", func() { p.free(grads...) })
				grads = nil
				root := p.allocBytes(4)
				for i := len(saved) - 1; i >= 0; i-- {
					p.free(p.alloc(5), saved[i])
				}
				for i := len(sizes) - 1; i >= 0; i-- {
					grads = append(grads, p.alloc(sizes[i]))
					if hook || teacher && step == 0 {
						p.alloc(sizes[i] + 20)
					} else if teacher {
						p.free(p.alloc(sizes[i] + 20))
					}
				}
				p.free(root)
				p.within("Optimizer.step#AdamW.step", func() {
					for _, n := range sizes {
						if step == 0 {
							state = append(state, p.alloc(n), p.alloc(n))
						}
						p.free(p.alloc(n))
					}
				})
				p.free(batch)
			}
		}
		if f := finding(&p.report().Devices[0], "gradients_unused"); (f != nil) != teacher {
			t.Errorf("%s: found %+v", kind, f)
		}
	}
}

// TestLeakOfEvaluationFixed: what an evaluation keeps is gone after each of its
// passes in the replay that fixes leaks.
func TestLeakOfEvaluationFixed(t *testing.T) {
	doc := scenarioReport(t, "eval_losses_oom__python")
	tried := doc.Trials.Rows
	i := slices.IndexFunc(tried, func(x report.Trial) bool { return x.Name == "leak=fixed" })
	if i < 0 {
		t.Fatal("fixing the leak isn't tried")
	}
	if x := tried[i]; x.Outcome != "the failed request is met" || x.PeakAllocated > 1700<<20 {
		t.Errorf("%s at %s", x.Outcome, units.Bytes(x.PeakAllocated))
	}
	l := doc.Devices[0].Leaks[0]
	if l.Kind != classify.RetainedGraph || !strings.Contains(l.Fix, "torch.no_grad()") ||
		!strings.Contains(l.Fix, "scenarios.py:173") {
		t.Errorf("%s: %s", l.Kind, l.Fix)
	}
}

// TestEvaluationsByCategory: what evaluations keep beside training is what it is
// for, with stacks and without.
func TestEvaluationsByCategory(t *testing.T) {
	for _, c := range []struct {
		name     string
		category []classify.Category
		percent  int64 // of the peak, at least
	}{
		{"eval_losses", []classify.Category{classify.Activations, classify.Logits}, 90},
		{"train_eval_grad", []classify.Category{classify.Activations, classify.Logits}, 75},
		{"eval_joined", []classify.Category{classify.Logits}, 64},
	} {
		for _, stacks := range []string{"python", "none"} {
			t.Run(c.name+"/"+stacks, func(t *testing.T) {
				at := scenario(t, c.name+"__"+stacks).AtPeak
				var bytes int64
				for _, category := range c.category {
					bytes += at.Categories[category.String()]
				}
				if bytes*100 < c.percent*at.AllocatedBytes {
					t.Errorf("%v are %d of %d bytes, want %d %%", c.category, bytes, at.AllocatedBytes, c.percent)
				}
			})
		}
	}
}

// TestFirstStepNeedsMore: what an optimizer's first step still has to make is its
// state; temporaries are no part of that figure.
func TestFirstStepNeedsMore(t *testing.T) {
	doc, err := Run([]Source{{Path: "s", Kind: "snapshot", Snapshot: recording(t,
		"llama8b_full_oom__fp32_autocast/snapshot_named.pickle.gz")}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := finding(&doc.Devices[0], "oom_true_shortage")
	if f == nil || !strings.Contains(strings.Join(f.Evidence, "\n"), "unless it is fused, temporaries come on top") {
		t.Errorf("%+v", f)
	}
}

// TestFullVerdict: a run whose requests the driver refused again and again is not
// called fine, though none failed.
func TestFullVerdict(t *testing.T) {
	fix := "Need less at a time"
	for severity, want := range map[report.Severity]string{
		report.Warning: "No request failed, but the GPU was full 39 times; memory peaked at 2 GiB allocated and 3 GiB " +
			"reserved",
		report.Info: "No failure recorded: memory peaked at 2 GiB allocated and 3 GiB reserved",
	} {
		d := report.Device{History: "complete", Findings: []report.Finding{{ID: "cache_flushed", Severity: severity,
			Title: "The GPU was full 39 times", Fix: &fix}}}
		d.Peaks.Allocated.Bytes, d.Peaks.Reserved.Bytes = 2<<30, 3<<30
		v := verdict(&report.Document{Devices: []report.Device{d}})
		if v.Text != want || v.Severity != severity || (v.Fix != nil) != (severity == report.Warning) {
			t.Errorf("%s: %+v", severity, v)
		}
	}
}

// TestGrowthInTheLog: a recording of the end, when all has been let go, doesn't deny what the log's figures show.
func TestGrowthInTheLog(t *testing.T) {
	d := report.Device{History: "complete"}
	d.Peaks.Allocated.Bytes, d.Peaks.Reserved.Bytes = 2<<30, 3<<30
	e := evidence.New()
	e.Steps = []*evidence.Steps{{}}
	for _, x := range []struct {
		confidence float64
		severity   report.Severity
		evidence   *evidence.Evidence
		want       string
	}{
		{0.75, report.Warning, e, "No request failed, but allocated memory grows by 4 MiB a step in the log; memory peaked at 2 GiB allocated " +
			"and 3 GiB reserved"},
		{0.75, report.Warning, nil, "No failure recorded: memory peaked at 2 GiB allocated and 3 GiB reserved"},
		{0.6, report.Warning, e, "No failure recorded: memory peaked at 2 GiB allocated and 3 GiB reserved"},
	} {
		fix := "Look what survives"
		v := verdict(&report.Document{Devices: []report.Device{d}, Evidence: x.evidence, Findings: []report.Finding{{ID: "memory_grows",
			Severity: x.severity, Confidence: x.confidence, Title: "Allocated memory grows by 4 MiB a step in the log", Fix: &fix}}})
		if v.Text != x.want || (v.Fix != nil) != strings.Contains(x.want, "grows") {
			t.Errorf("%+v, want %s", v, x.want)
		}
	}
}

// TestFailureWithNothingAllocated: where nothing is allocated, nothing is said to be most
// of it, and what to change is still told.
func TestFailureWithNothingAllocated(t *testing.T) {
	s := &snapshot.Snapshot{Strings: []string{""}, Streams: []uint64{0}, Pools: []snapshot.Pool{{}}, HasTraces: true, Cut: -1,
		Devices: []snapshot.Device{{
			Events: snapshot.Events{Action: []snapshot.Action{snapshot.OOM}, Address: []uint64{0}, Size: []int64{1 << 30}},
			OOMs:   []snapshot.OutOfMemory{{DeviceFree: 1 << 20}}}}}
	doc, err := Run([]Source{{Path: "s", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := finding(&doc.Devices[0], "oom_true_shortage")
	if f == nil || f.Fix == nil || !strings.Contains(*f.Fix, "the recording shows nothing allocated") ||
		strings.Contains(strings.Join(f.Evidence, "\n"), "most of it") {
		t.Errorf("%+v", f)
	}
}

// TestPeakBefore: where far more was reserved before the recording than it ever
// saw in use, its peak isn't called the program's.
func TestPeakBefore(t *testing.T) {
	doc, err := Run([]Source{{Path: "s", Kind: "snapshot", Snapshot: recording(t,
		"gpt2_fp32_adamw__hf_loop/snapshot_ring.pickle.gz")}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "so much was reserved before the recording that more may have been allocated then"; !strings.Contains(
		doc.Verdict.Text, want) {
		t.Errorf("%q doesn't say that %s", doc.Verdict.Text, want)
	}
	if f := finding(&doc.Devices[0], "allocator_setting"); f == nil || !strings.HasSuffix(f.Evidence[0],
		"never in use at once in what was recorded") {
		t.Errorf("%+v", f)
	}
}

// TestVerdictNamesItsFinding: by its place in the document.
func TestVerdictNamesItsFinding(t *testing.T) {
	for name, id := range map[string]string{"train_eval_grad__python": "missing_no_grad", "model_again__python": "weights_twice",
		"joined_anew__python": "growing_list", "eval_batch__python": "oom_true_shortage", "train_eval_ok__python": ""} {
		doc := scenarioReport(t, name)
		a := doc.Verdict.About
		if a == nil || a.Device != 0 || (a.Finding >= 0) != (id != "") {
			t.Errorf("%s: %+v", name, a)
		} else if id != "" && doc.Devices[0].Findings[a.Finding].ID != id {
			t.Errorf("%s is about %s", name, doc.Devices[0].Findings[a.Finding].ID)
		}
	}
}
