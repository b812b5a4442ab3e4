package checks

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var weightsTwice = Check{
	ID: "weights_twice", Group: peak, Severity: "info; a warning where a model was made again",
	Doc: "The weights are there more than once, in one of three ways.\n\n* A second run of weights has the same sizes " +
		"in the same order, made by other code, and no gradients: an average (EMA), a reference model, or a loaded " +
		"file whose contents were kept. Needs stacks.\n\n* The optimizer has an fp32 master copy that takes 5 % of " +
		"the peak and 32 MiB. Needs stacks.\n\n* A model was made again, as when a cell of a notebook runs again: a " +
		"mistake. Both are there at the peak (at least 16 MiB and 2 % of it), and gradients and state of the earlier " +
		"one count with it.",
	Saves: "from the recorded curve without the second set, or with the earlier models freed as soon as the next is made. A " +
		"master copy has no saving.",
	Needs: []facts.Need{facts.Peak, facts.MadeAgain, facts.Leaked, secondSetOf, LoadedFile},
	Run: func(p *facts.Pass) (out []Draft) {
		if x := facts.MadeAgain.Of(p); x != nil && x.Model {
			out = append(out, modelAgain(p, x))
		}
		return append(append(out, masterCopy(p)...), secondSet(p)...)
	},
}

// modelAgain is about a model that was made again while the earlier ones were still
// there.
func modelAgain(p *facts.Pass, x *facts.Again) Draft {
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: 0.9, Kind: report.MadeAgain}, Spells: x.Spells,
		Without: "without the earlier ones,"}
	n, are := len(x.Made), "are"
	if n == 2 {
		are = "is"
	}
	d.Title = fmt.Sprintf("A model was made %s, and %s %s still there: %s", units.Times(n), earlier(n-1), are,
		units.Bytes(x.Bytes()))
	d.happens("made at", p.CoveringLine(p.ByStack(x.Made[0].IDs)))
	d.Evidence = append(d.Evidence, fmt.Sprintf("held by the earlier: weights %s, gradients %s, optimizer state %s",
		units.Bytes(x.Held[classify.Weights]), units.Bytes(x.Held[classify.Gradients]),
		units.Bytes(x.Held[classify.OptimizerState])))
	if who := p.Keeper(x); who != "" {
		d.advise("weights_twice.kept", "who", who)
	} else {
		d.advise("weights_twice.again")
	}
	return d
}

// masterCopy is the optimizer's own copy of the weights, in fp32.
func masterCopy(p *facts.Pass) []Draft {
	peak := facts.Peak.Of(p)
	master := peak[classify.OptimizerState][classify.MasterWeights].Bytes
	if facts.Share(master, p.Dev.AtPeak.AllocatedBytes) < 5 || master < 32<<20 {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 0.9}}
	d.Title = fmt.Sprintf("The optimizer keeps its own fp32 copy of the weights: %s", units.Bytes(master))
	d.Evidence = []string{fmt.Sprintf("weights %s, master copy %s, moments %s", units.Bytes(peak.Held(classify.Weights)),
		units.Bytes(master), units.Bytes(peak.Held(classify.OptimizerState)-master))}
	d.advise("weights_twice.master")
	return []Draft{d}
}

// secondSet is a second set of the weights: a copy of the same sizes in the same
// order that no optimizer trains.
func secondSet(p *facts.Pass) []Draft {
	second := secondSetOf.Of(p)
	if len(second) == 0 {
		return nil
	}
	var bytes int64
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 0.8}, Without: "without the second copy,"}
	for _, id := range second {
		bytes += p.T.Allocated[id]
		d.Spells = append(d.Spells, p.LifeOf(id))
	}
	if facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 2 || bytes < 16<<20 {
		return nil
	}
	d.Title = fmt.Sprintf("The weights are there twice: %s hold a second set that isn't trained", units.Bytes(bytes))
	d.Evidence = []string{fmt.Sprintf("%s of the same sizes in the same order as the first, with no gradients of their own",
		units.Plural(len(second), "block"))}
	d.happens("made at", p.CoveringLine(p.ByStack(second)))
	d.advise("weights_twice")
	if len(LoadedFile.Of(p)) > 0 {
		d.advise("loaded_file")
		d.FixID = new("loaded_file")
	}
	return []Draft{d}
}

// maxAnchors bounds the work on models of many equal layers.
const maxAnchors = 16

// secondWeights finds the run of weights that repeats an earlier one: it is
// anchored at a large weight of a rare size, and extended to both sides.
func secondWeights(p *facts.Pass) []timeline.AllocationID {
	ids, all := weightsAtPeak(p)
	places := anchors(p, ids)
	if len(places) > maxAnchors { // equal layers, of one model unless other code made some
		first := p.T.Stack(ids[places[0]])
		other := slices.IndexFunc(places, func(i int) bool { return p.T.Stack(ids[i]) != first })
		if other < 0 {
			return nil
		}
		places = []int{places[0], places[other]}
	}
	var best []timeline.AllocationID
	var most int64
	for k, i := range places {
		for _, j := range places[:k] {
			from, to, bytes := repeated(p, ids, j, i)
			if first := ids[from-(i-j) : to-(i-j)]; bytes > most && otherOrigin(p, first, ids[from:to]) {
				if best, most = ids[from:to], bytes; loaded(p, first) {
					best = first
				}
			}
		}
	}
	// Two sets make up at least two thirds of all weights between them.
	if 3*most < all || len(best) < 4 || trained(p, best) {
		return nil
	}
	return best
}

// weightsAtPeak are the weights in the order in which they were made, copies aside
// that a leak tells of, and their requested bytes; none where that order isn't known.
func weightsAtPeak(p *facts.Pass) (ids []timeline.AllocationID, all int64) {
	piled := map[timeline.AllocationID]bool{}
	for _, id := range facts.Leaked.Of(p) {
		piled[id] = true
	}
	for id := range p.Each(classify.Weights) {
		if !p.T.AliveAt(id, p.T.Peaks.Allocated.Event) || p.T.Requested(id) <= facts.SmallWeight || piled[id] {
			continue
		}
		if p.T.Born[id] == timeline.Never && p.T.Stack(id) == 0 {
			return nil, 0 // older ones are in the order of their addresses
		}
		ids = append(ids, id)
		all += p.T.Requested(id)
	}
	return ids, all
}

// anchors are the places of the large weights whose size is rarest, but not
// unique.
func anchors(p *facts.Pass, ids []timeline.AllocationID) (places []int) {
	count := map[int64]int{}
	var largest int64
	for _, id := range ids {
		n := p.T.Requested(id)
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
		if p.T.Requested(id) == size {
			places = append(places, i)
		}
	}
	return places
}

// repeated is how far the weights around the second of two places are as those
// around the first, without the two runs overlapping.
func repeated(p *facts.Pass, ids []timeline.AllocationID, first, second int) (from, to int, bytes int64) {
	size := func(i int) int64 { return p.T.Requested(ids[i]) }
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

// otherOrigin reports whether two runs of weights were made by different code:
// the layers of one model are made by the same.
func otherOrigin(p *facts.Pass, a, b []timeline.AllocationID) bool {
	made := map[snapshot.StackID]bool{}
	for _, id := range a {
		made[p.T.Stack(id)] = true
	}
	for _, id := range b {
		if made[p.T.Stack(id)] {
			return false
		}
	}
	return true
}

// trained reports whether both sets of weights have gradients: as many of the
// largest size are made in a step as there are weights of it.
func trained(p *facts.Pass, second []timeline.AllocationID) bool {
	var size int64
	for _, id := range second {
		size = max(size, p.T.Requested(id))
	}
	weights, gradients := 0, map[int32]int{}
	most := 0
	for i, c := range p.Classes.Category {
		if p.T.Requested(timeline.AllocationID(i)) != size {
			continue
		}
		switch c {
		case classify.Weights:
			weights++
		case classify.Gradients:
			gradients[p.Classes.Step[i]]++
			most = max(most, gradients[p.Classes.Step[i]])
		}
	}
	return most >= weights
}

// secondSetOf are the weights of a second set.
var secondSetOf = facts.Named("second set of weights", secondWeights)
