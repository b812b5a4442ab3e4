package diagnose

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// weightsTwice finds a second set of the weights: a copy of the same sizes in
// the same order that no optimizer trains, or the optimizer's own in fp32.
func (e *examination) weightsTwice(dev *report.Device, f *facts) []draft {
	var out []draft
	if master := f.at[classify.OptimizerState][classify.MasterWeights].bytes; share(master, dev.AtPeak.AllocatedBytes) >= 5 &&
		master >= 32<<20 {
		d := draft{Finding: report.Finding{ID: "weights_twice", Severity: report.Info, Confidence: 0.9}}
		d.Title = fmt.Sprintf("The optimizer keeps its own fp32 copy of the weights: %s", units.Bytes(master))
		d.Evidence = []string{fmt.Sprintf("weights %s, master copy %s, moments %s", units.Bytes(f.held(classify.Weights)),
			units.Bytes(master), units.Bytes(f.held(classify.OptimizerState)-master))}
		d.Fix = ptr("Expected of mixed precision with 16-bit weights; an optimizer that rounds stochastically needs none, and " +
			"sharding (ZeRO-1, FSDP) spreads it over the GPUs")
		out = append(out, d)
	}
	second := e.secondWeights()
	if len(second) == 0 {
		return out
	}
	var bytes int64
	d := draft{Finding: report.Finding{ID: "weights_twice", Severity: report.Info, Confidence: 0.8},
		without: "without the second copy,"}
	for _, id := range second {
		bytes += e.t.Allocated[id]
		d.spells = append(d.spells, e.lifeOf(id))
	}
	if share(bytes, dev.AtPeak.AllocatedBytes) < 2 || bytes < 16<<20 {
		return out
	}
	d.Title = fmt.Sprintf("The weights are there twice: %s hold a second set that isn't trained", units.Bytes(bytes))
	d.Evidence = []string{fmt.Sprintf("%s of the same sizes in the same order as the first, with no gradients of their own",
		units.Plural(len(second), "block"))}
	line := e.coveringLine(e.byStack(second))
	at := ""
	if line.File != "" {
		at = lineText(line)
		d.Evidence = append(d.Evidence, "made at "+at)
	}
	if e.loaded(second) {
		d.Fix = ptr("The file that the weights were loaded from is still on the GPU: load it to the host, and drop it afterwards")
		d.Code = "state = torch.load(path, map_location=\"cpu\", weights_only=True)\nmodel.load_state_dict(state)\ndel state"
	} else {
		d.Fix = ptr("If it is an average (EMA), keep it on the host or update it every few steps; if a reference model, " +
			"compute its outputs beforehand or use adapters, whose base serves as reference; else drop it")
	}
	return append(out, d)
}

// smallWeight is the size up to which weights tell nothing about a model.
const smallWeight = 512 // bytes

// maxAnchors bounds the work on models of many equal layers.
const maxAnchors = 16

// secondWeights finds the run of weights that repeats an earlier one: it is
// anchored at a large weight of a rare size, and extended to both sides.
func (e *examination) secondWeights() []timeline.AllocationID {
	var ids []timeline.AllocationID
	var all int64
	event := e.t.Peaks.Allocated.Event
	piled := map[timeline.AllocationID]bool{} // copies that a leak tells of
	for _, id := range e.leaked() {
		piled[id] = true
	}
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		if c != classify.Weights || !e.t.AliveAt(id, event) || e.t.Requested(id) <= smallWeight || piled[id] {
			continue
		}
		if e.t.Born[i] == timeline.Never && e.t.Stack(id) == 0 {
			return nil // older ones are in the order of their addresses
		}
		ids = append(ids, id)
		all += e.t.Requested(id)
	}
	anchors := e.anchors(ids)
	if len(anchors) > maxAnchors {
		return nil // layers of one model
	}
	var best []timeline.AllocationID
	var most int64
	for k, i := range anchors {
		for _, j := range anchors[:k] {
			from, to, bytes := e.repeated(ids, j, i)
			if bytes > most && e.otherOrigin(ids[from-(i-j):to-(i-j)], ids[from:to]) {
				best, most = ids[from:to], bytes
			}
		}
	}
	// Two sets make up at least two thirds of all weights between them.
	if 3*most < all || len(best) < 4 || e.trained(best) {
		return nil
	}
	return best
}

// anchors are the places of the large weights whose size is rarest, but not
// unique.
func (e *examination) anchors(ids []timeline.AllocationID) (places []int) {
	count := map[int64]int{}
	var largest int64
	for _, id := range ids {
		n := e.t.Requested(id)
		count[n]++
		largest = max(largest, n)
	}
	var size int64
	for n, k := range count {
		if k < 2 || n < largest/32 {
			continue
		}
		if size == 0 || k < count[size] || k == count[size] && n > size {
			size = n
		}
	}
	for i, id := range ids {
		if e.t.Requested(id) == size {
			places = append(places, i)
		}
	}
	return places
}

// repeated is how far the weights around the second of two places are as those
// around the first, without the two runs overlapping.
func (e *examination) repeated(ids []timeline.AllocationID, first, second int) (from, to int, bytes int64) {
	size := func(i int) int64 { return e.t.Requested(ids[i]) }
	from, to = second, second+1
	apart := second - first
	for from-apart > 0 && to-from < apart && size(from-apart-1) == size(from-1) {
		from--
	}
	for to < len(ids) && to-from < apart && size(to-apart) == size(to) {
		to++
	}
	for i := from; i < to; i++ {
		bytes += size(i)
	}
	return from, to, bytes
}

// otherOrigin tells whether two runs of weights were made by different code:
// the layers of one model are made by the same.
func (e *examination) otherOrigin(a, b []timeline.AllocationID) bool {
	made := map[snapshot.StackID]bool{}
	for _, id := range a {
		made[e.t.Stack(id)] = true
	}
	for _, id := range b {
		if made[e.t.Stack(id)] {
			return false
		}
	}
	return true
}

// trained tells whether both sets of weights have gradients: as many of the
// largest size are made in a step as there are weights of it.
func (e *examination) trained(second []timeline.AllocationID) bool {
	var size int64
	for _, id := range second {
		size = max(size, e.t.Requested(id))
	}
	weights, gradients := 0, map[int32]int{}
	most := 0
	for i, c := range e.classes.Category {
		if e.t.Requested(timeline.AllocationID(i)) != size {
			continue
		}
		switch c {
		case classify.Weights:
			weights++
		case classify.Gradients:
			gradients[e.classes.Step[i]]++
			most = max(most, gradients[e.classes.Step[i]])
		}
	}
	return most >= weights
}

// loaded tells whether a file's contents are what was allocated.
func (e *examination) loaded(ids []timeline.AllocationID) bool {
	s := e.t.Snapshot
	for stack := range e.byStack(ids) {
		for _, f := range s.Stack(stack) {
			file := strings.ReplaceAll(s.String(s.Frames[f].File), `\`, "/")
			if strings.HasSuffix(file, "torch/serialization.py") || strings.HasSuffix(file, "safetensors/torch.py") {
				return true
			}
		}
	}
	return false
}
