package facts

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Loss is the line that makes most copies of logits, in a loss if one does; nil
// when no stack shows any.
var Loss = Named("line of the loss", func(p *Pass) *report.Site {
	type maker struct {
		rank  int
		bytes int64
	}
	makers := map[snapshot.StackID]maker{}
	best := snapshot.StackID(0)
	for i, detail := range p.Classes.Detail {
		id := timeline.AllocationID(i)
		stack := p.T.Stack(id)
		if stack == 0 || detail != classify.LogitsCopy || p.Classes.Category[i] != classify.Logits {
			continue
		}
		m, ok := makers[stack]
		if !ok {
			m.rank = p.lossRank(stack)
		}
		m.bytes += p.T.Requested(id)
		makers[stack] = m
		if top := makers[best]; best == 0 || m.rank > top.rank || m.rank == top.rank && m.bytes >= top.bytes {
			best = stack
		}
	}
	if best == 0 {
		return nil
	}
	s := SiteOf(SiteKey{Site: p.View.Site(best), Known: true, Category: classify.Logits})
	if s.Function == "" {
		return nil
	}
	return &s
})

// Scored reports whether a loss is worked out of the logits: all of them are read.
func (p *Pass) Scored() bool {
	seen := map[snapshot.StackID]bool{}
	for id := range p.Each(classify.Logits) {
		if stack := p.T.Stack(id); !seen[stack] {
			seen[stack] = true
			if p.lossRank(stack) > 0 {
				return true
			}
		}
	}
	return false
}

// CrossEntropy reports whether nothing speaks for another loss than cross-entropy, whose kernels need no logits: a
// divergence, or a softmax alone.
func (p *Pass) CrossEntropy() bool {
	s := p.T.Snapshot
	seen := map[string]bool{}
	for i := range s.Frames {
		switch name := s.String(s.Frames[i].Function); name {
		case "cross_entropy", "nll_loss", "log_softmax", "kl_div":
			seen[name] = true
		}
	}
	return crossEntropy(seen)
}

func crossEntropy(called map[string]bool) bool {
	return !called["kl_div"] && (called["cross_entropy"] || called["nll_loss"] || !called["log_softmax"])
}

// lossRank says how surely a stack is a loss's: 2 for cross-entropy, 1 for what it
// is made of, which has other uses, 0 for none.
func (p *Pass) lossRank(stack snapshot.StackID) (rank int) {
	s := p.T.Snapshot
	for _, f := range s.Stack(stack) {
		switch s.String(s.Frames[f].Function) {
		case "cross_entropy", "nll_loss":
			return 2
		case "log_softmax":
			rank = 1
		}
	}
	return rank
}
