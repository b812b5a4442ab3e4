package checks

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// EarlierPasses is the variable of one number that holds most of the memory in use by the graph behind it when a forward pass
// fails: a loss, or the sum of those of a validation, made by a line that is running again. No backward pass has used that
// graph. nil for none.
func EarlierPasses(p *facts.Pass, o *timeline.OOM) *classify.Holder {
	if !passes.In(p.Classes, classify.Forward, o.Event) {
		return nil
	}
	running := p.View.User(o.Stack)
	again := func(id timeline.AllocationID) bool {
		const number = 512 // bytes that the allocator rounds one to
		made := p.View.User(p.T.Stack(id))
		return p.T.Allocated[id] <= number && len(made) > 0 && made[0].Function != "forward" && slices.Contains(running, made[0])
	}
	for i := range p.Variables {
		h := &p.Variables[i]
		if len(h.Tensors) == 0 || len(h.Tensors) > len(h.Graph) ||
			slices.ContainsFunc(h.Tensors, func(id timeline.AllocationID) bool { return !again(id) }) {
			continue
		}
		var bytes int64
		for _, id := range h.Graph {
			if p.T.AliveAt(id, o.Event) {
				bytes += p.T.Allocated[id]
			}
		}
		if 2*bytes >= o.Active {
			return h
		}
	}
	return nil
}

// Summed is the id of the advice, and of the cause, where graphs of many passes wait for a backward pass of their sum, Gathered
// where that is of something made of all their outputs at once.
const (
	Summed   = "missing_no_grad.summed"
	Gathered = "missing_no_grad.gathered"
)

// IsAwaited reports whether a change is of graphs that a backward pass waits for.
func IsAwaited(fix *string) bool { return fix != nil && (*fix == Summed || *fix == Gathered) }

// AwaitedBy is the change of a leak that a backward pass waits for.
func AwaitedBy(l *report.Leak) string {
	if l.Gathered {
		return Gathered
	}
	return Summed
}

// summed advises a backward pass of each part, where the graphs behind a sum that is trained on filled the GPU.
func (f *failure) summed(p *facts.Pass, d *Draft) bool {
	if len(f.Causes) == 0 || !IsAwaited(f.Causes[0].FixID) {
		return false
	}
	d.change(*f.Causes[0].FixID)
	d.At = f.Causes[0].StoredAt
	return true
}

// awaited is what is kept for a backward pass of a sum.
func awaited(p *facts.Pass) (ids []timeline.AllocationID) {
	for i := range p.Dev.Leaks {
		if p.Dev.Leaks[i].Awaited {
			ids = append(ids, p.Classes.Leaks()[i].Allocations...)
		}
	}
	return ids
}

// sumOfLosses advises where a variable holds the graphs of earlier passes; false where none does.
func (f *failure) sumOfLosses(p *facts.Pass, d *Draft) bool {
	if f.summed(p, d) {
		return true
	}
	if len(f.Causes) == 0 || f.Causes[0].Cause != report.RetainedGraph || f.Causes[0].Leak != nil {
		return false
	}
	h := EarlierPasses(p, f.recorded)
	if h == nil {
		return false
	}
	at := "the passes"
	if line := p.CoveringLine(p.ByStack(h.Graph)); line.File != "" {
		at = "the call in " + facts.LineText(line)
		d.happens("called in", line)
	}
	if facts.Phases.Of(p).Trains { // what else would train on these
		d.advise("missing_no_grad.untraced", "where", at)
	} else {
		d.advise("missing_no_grad.either", "where", at)
	}
	d.FixID, d.Spells, d.Without = new("missing_no_grad"), p.AfterUse(h.Graph), "without the graphs,"
	return true
}
