package replay

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var everyChange = []string{"optimizer=8bit", "optimizer=sgd", "optimizer=lion", "optimizer=fused", "logits=chunked", "logits=fused", "checkpointing=full",
	"gradients=set_to_none", "batch=x0.5", "batch=x3", "leak=fixed", "use_cache=off", "sharding=2", "sharding=7", "precision=bf16", "training=lora"}

// Whatever allocations are taken for, a changed program is one that can run:
// it ends, and what is in use at the end is what it asked for and didn't free.
func TestChangesOfAnyClassification(t *testing.T) {
	made := map[string]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 11))
		run := recorder.Simulate(recorder.Program{Seed: seed, Events: 600, Skip: r.IntN(2) * 200, Expandable: seed%3 == 0, Streams: r.IntN(2), Capacity: 1 << 34})
		file := run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
		s, err := snapshot.Decode(bytes.NewReader(file), snapshot.Options{Size: int64(len(file))})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewProgram(timeline.New(s, &s.Devices[0]))
		if err != nil {
			continue
		}
		classes := classify.New(p.Timeline, classify.Options{})
		confuse(r, classes)
		changeAll(t, p, classes, made)
	}
	for _, run := range []string{"gpt2_fp32_adamw__hf_loop/snapshot_late", "retained_graph__trainer_entropy/snapshot_named", "qwen_vocab_oom__05b/snapshot_all"} {
		p := load(t, filepath.Join(shipped, run+".pickle.gz"))
		classes := classify.New(p.Timeline, classify.Options{})
		changeAll(t, p, classes, made)
		r := rand.New(rand.NewPCG(1, 11))
		for range p.Timeline.Len() / 10 {
			i := r.IntN(p.Timeline.Len())
			classes.Category[i], classes.Phase[i] = classify.Category(r.IntN(classify.NumCategories)), classify.Phase(r.IntN(int(classify.Optimizer)+1))
		}
		changeAll(t, p, classes, made)
	}
	for _, name := range everyChange {
		if made[name] == 0 {
			t.Errorf("%s was never made", name)
		}
	}
}

// changeAll makes every change that can be made.
func changeAll(t *testing.T, p *Program, classes *classify.Classification, made map[string]int) {
	t.Helper()
	for _, name := range everyChange {
		c, err := change.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		q, done, err := p.Apply([]change.Change{c}, classes)
		if err != nil {
			continue
		}
		made[name]++
		if done[0].Assumption == "" {
			t.Errorf("%s assumes nothing", name)
		}
		x := q.start(&Scenario{Settings: p.Settings})
		x.play(&Scenario{Settings: p.Settings}, q.ops)
		var live int64
		for _, id := range x.slots {
			if id != 0 && x.a.InUse(id) {
				live += x.a.Size(id)
			}
		}
		survived := x.Survived
		result := x.finish()
		if !survived && live != result.FinalAllocated || result.PeakAllocated < live || result.PeakReserved < result.PeakAllocated {
			t.Errorf("%s: %d bytes in use, %+v", name, live, result)
		}
	}
}

// confuse takes allocations for anything, and cuts the run into any steps.
func confuse(r *rand.Rand, c *classify.Classification) {
	some := []classify.Category{classify.Activations, classify.Activations, classify.Logits, classify.Weights, classify.Gradients,
		classify.OptimizerState, classify.KVCache, classify.AutocastCopies, classify.Communication, classify.Temporary, classify.Unknown}
	for i := range c.Category {
		c.Category[i] = some[r.IntN(len(some))]
		c.Phase[i] = classify.Phase(r.IntN(int(classify.Optimizer) + 2))
		c.Detail[i] = classify.NoDetail
	}
	events := c.Timeline.Device.Events.Len()
	c.Steps, c.Before = nil, nil
	for at, step := 0, 0; at < events-1; step++ {
		s := classify.Step{FirstEvent: at}
		for _, phase := range []classify.Phase{classify.Forward, classify.Backward, classify.Optimizer} {
			end := min(at+r.IntN(60), events-1)
			s.Phases = append(s.Phases, classify.PhaseSpan{Phase: phase, FirstEvent: at, LastEvent: end})
			s.LastEvent = end
			at = min(end+1, events-1)
		}
		c.Steps = append(c.Steps, s)
	}
}
