package replay

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/timeline"
)

type changed struct {
	*Program
	classes *classify.Classification
	before  Result
}

func classified(t *testing.T, run string) changed {
	t.Helper()
	p := load(t, filepath.Join(shipped, run+".pickle.gz"))
	return changed{p, classify.New(p.Timeline, classify.Options{}), p.Run(p.Recorded())}
}

// after is what comes of a change, without limits.
func (c changed) after(t *testing.T, name string) (Result, change.Change) {
	t.Helper()
	x, err := change.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	p, done, err := c.Apply([]change.Change{x}, c.classes)
	if err != nil {
		t.Fatal(err)
	}
	return p.Run(Scenario{Settings: p.Settings}), done[0]
}

// moments sums up the blocks of the optimizer's moments at the end, and what
// size gives for each.
func (c changed) moments(size func(id timeline.AllocationID) int64) (before, after int64) {
	last := c.Timeline.Device.Events.Len() - 1
	for i, category := range c.classes.Category {
		id := timeline.AllocationID(i)
		if category != classify.OptimizerState || c.classes.Detail[i] == classify.StepCounter || !c.Timeline.AliveAt(id, last) {
			continue
		}
		before += c.Timeline.Allocated[i]
		if n := size(id); n > 0 {
			after += c.Settings.Round(n)
		}
	}
	return before, after
}

func TestOptimizers(t *testing.T) {
	c := classified(t, "retained_graph__trainer_entropy/snapshot_named")
	all, _ := c.moments(func(timeline.AllocationID) int64 { return 0 })
	if all == 0 {
		t.Fatal("no optimizer state was found")
	}
	expandable, _, _ := allocator.ParseConf("expandable_segments:True") // leaves no tails, so that sums are exact
	final := func(name string) int64 {
		t.Helper()
		if name == "" {
			return c.Run(Scenario{Settings: expandable}).FinalAllocated
		}
		x, err := change.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := c.Apply([]change.Change{x}, c.classes)
		if err != nil {
			t.Fatal(err)
		}
		return p.Run(Scenario{Settings: expandable}).FinalAllocated
	}
	requested := func(size func(n int64) int64) int64 {
		before, after := c.moments(func(id timeline.AllocationID) int64 { return c.Timeline.Requested(id) })
		_ = before
		_, smaller := c.moments(func(id timeline.AllocationID) int64 { return size(c.Timeline.Requested(id)) })
		return after - smaller
	}
	was := final("")
	if got, want := was-final("optimizer=sgd"), requested(func(int64) int64 { return 0 }); got != want {
		t.Errorf("SGD saves %d bytes at the end, want all moments, %d", got, want)
	}
	if got, want := was-final("optimizer=lion"), requested(func(int64) int64 { return 0 })/2; got != want {
		t.Errorf("Lion saves %d bytes at the end, want half of the moments, %d", got, want)
	}
	quantised := func(n int64) int64 { // but for embeddings, of which the Trainer has bitsandbytes keep 32 bits
		if numbers := n / 4; numbers >= 4096 && numbers != 50257*768 {
			return numbers + (numbers+255)/256*4
		}
		return n
	}
	if got, want := was-final("optimizer=8bit"), requested(quantised); got != want {
		t.Errorf("8 bits save %d bytes at the end, want %d", got, want)
	}
}

// TestFusedStep: what a step in one kernel saves is what PyTorch saves by it.
func TestFusedStep(t *testing.T) {
	load := func(name string) changed { return classified(t, "../scenarios/"+name) }
	want := load("foreach_off__python")
	for _, name := range []string{"foreach__python", "foreach__none"} {
		got, _ := load(name).after(t, "optimizer=fused")
		if d := got.PeakAllocated - want.before.PeakAllocated; max(d, -d) > 64<<10 || got.PeakReserved != want.before.PeakReserved {
			t.Errorf("%s: peaks %d and %d, recorded with fused=True %d and %d", name, got.PeakAllocated, got.PeakReserved, want.before.PeakAllocated, want.before.PeakReserved)
		}
	}
	fused, _ := change.Parse("optimizer=fused")
	for name, says := range map[string]string{"foreach_off__python": "makes no lists", "foreach_rms__python": "no step of Adam, AdamW, SGD or Adagrad"} {
		c := load(name)
		if _, _, err := c.Apply([]change.Change{fused}, c.classes); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}

func TestLeakFixed(t *testing.T) {
	for _, run := range []string{"retained_graph__trainer_entropy/snapshot_named", "growing_list__step_cache/snapshot_all"} {
		c := classified(t, run)
		var kept int64
		for _, l := range c.classes.Leaks() {
			if l.Defect {
				kept += l.TotalBytes
			}
		}
		r, _ := c.after(t, "leak=fixed")
		saved := c.before.FinalAllocated - r.FinalAllocated
		if kept == 0 || saved < kept*8/10 || saved > kept*12/10 {
			t.Errorf("%s: %d bytes less at the end, the leak keeps %d", run, saved, kept)
		}
		if r.PeakReserved >= c.before.PeakReserved {
			t.Errorf("%s: peak reserved %d, was %d", run, r.PeakReserved, c.before.PeakReserved)
		}
	}
}

func TestBatch(t *testing.T) {
	c := classified(t, "retained_graph__trainer_entropy/snapshot_named")
	same, _ := c.after(t, "batch=x1")
	if same.PeakReserved != c.before.PeakReserved || same.PeakAllocated != c.before.PeakAllocated || same.FinalReserved != c.before.FinalReserved {
		t.Errorf("the same batch gives %+v, was %+v", same, c.before)
	}
	half, change := c.after(t, "batch=x0.5")
	double, _ := c.after(t, "batch=x2")
	if !(half.PeakAllocated < same.PeakAllocated && same.PeakAllocated < double.PeakAllocated) {
		t.Errorf("peaks of half, same and double: %d, %d, %d", half.PeakAllocated, same.PeakAllocated, double.PeakAllocated)
	}
	// What grows, grows linearly.
	if down, up := same.PeakAllocated-half.PeakAllocated, double.PeakAllocated-same.PeakAllocated; up < down*18/10 || up > down*22/10 {
		t.Errorf("half saves %d, double costs %d", down, up)
	}
	if change.Assumption == "" {
		t.Error("no assumption is stated")
	}
}

func TestCheckpointing(t *testing.T) {
	c := classified(t, "retained_graph__trainer_entropy/snapshot_named")
	r, change := c.after(t, "checkpointing=full")
	if !strings.HasPrefix(change.Assumption, "8 layers") { // the model of the script
		t.Errorf("assumes %q", change.Assumption)
	}
	if r.PeakAllocated >= c.before.PeakAllocated {
		t.Errorf("peak allocated %d, was %d", r.PeakAllocated, c.before.PeakAllocated)
	}
}

func TestLogits(t *testing.T) {
	c := classified(t, "qwen_vocab_oom__05b/snapshot_all")
	for name, says := range map[string]string{"logits=chunked": "151,936 words", "logits=fused": "width 896"} {
		r, change := c.after(t, name)
		if r.PeakAllocated > c.before.PeakAllocated/5 || !r.Survived {
			t.Errorf("%s: peak allocated %d, was %d; survived %v", name, r.PeakAllocated, c.before.PeakAllocated, r.Survived)
		}
		if !strings.Contains(change.Assumption, says) {
			t.Errorf("%s assumes %q, want %q", name, change.Assumption, says)
		}
	}
}

// TestLogitsOfNoVocabulary: what isn't made of rows of the vocabulary, as the
// largest weights would have it, can't be cut by tokens.
func TestLogitsOfNoVocabulary(t *testing.T) {
	c := classified(t, "qwen_vocab_oom__05b/snapshot_all")
	for i, category := range c.classes.Category {
		switch {
		case category == classify.Logits:
			c.classes.Category[i] = classify.Activations
		case category == classify.Activations && c.Timeline.Requested(timeline.AllocationID(i))%(2*151936) != 0:
			c.classes.Category[i] = classify.Logits
		}
	}
	x, _ := change.Parse("logits=chunked")
	if _, _, err := c.Apply([]change.Change{x}, c.classes); err == nil || !strings.Contains(err.Error(),
		"aren't those of 151,936 words") {
		t.Errorf("%v", err)
	}
}

func TestSharding(t *testing.T) {
	c := classified(t, "mlp_regression__script/snapshot_all")
	two, _ := c.after(t, "sharding=2")
	four, _ := c.after(t, "sharding=4")
	if !(four.PeakAllocated < two.PeakAllocated && two.PeakAllocated < c.before.PeakAllocated) {
		t.Errorf("peaks on one, two and four GPUs: %d, %d, %d", c.before.PeakAllocated, two.PeakAllocated, four.PeakAllocated)
	}
}

func TestGradientsSetToNone(t *testing.T) {
	c := classified(t, "growing_list__step_cache/snapshot_all")
	x, err := change.Parse("gradients=set_to_none")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := c.Apply([]change.Change{x}, c.classes)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Run(Scenario{Settings: p.Settings})
	if r.PeakAllocated > c.before.PeakAllocated || r.FinalAllocated >= c.before.FinalAllocated {
		t.Errorf("peak %d, at the end %d; were %d and %d", r.PeakAllocated, r.FinalAllocated, c.before.PeakAllocated, c.before.FinalAllocated)
	}
}

func TestChangesThatCantBeMade(t *testing.T) {
	for recording, changes := range map[string]map[string]string{
		"qwen_vocab_oom__05b/snapshot_all": {
			"optimizer=8bit":        "no optimizer state",
			"checkpointing=full":    "checkpointing already",
			"gradients=set_to_none": "no gradient outlives",
			"leak=fixed":            "no leak",
			"precision=bf16":        "16 bits already",
			"training=lora":         "of weights have gradients",
		},
		"llama8b_full_oom__fp32_autocast/snapshot_none": {"optimizer=lion": "failed before all of its state"},
		"decode__hf_dynamic_cache/snapshot_all":         {"logits=fused": "no backward pass"},
	} {
		c := classified(t, recording)
		for name, why := range changes {
			x, err := change.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Apply([]change.Change{x}, c.classes); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %q", name, err, why)
			}
		}
	}
	for _, name := range []string{"", "optimizer", "optimizer=adam", "batch=2", "batch=x0", "batch=xNaN", "sharding=1", "batch=x1e9"} {
		if _, err := change.Parse(name); err == nil {
			t.Errorf("%q is taken as a change", name)
		}
	}
}
