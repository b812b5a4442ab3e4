package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var attentionMatrices = Check{
	ID: "attention_matrices", Group: peak, Severity: ByDesign,
	Doc: "A function that calls softmax itself holds the attention scores of all pairs of tokens, which take 20 % of " +
		"the peak and 256 MiB. It was written out by hand, or is the math backend of `scaled_dot_product_attention`. " +
		"The check needs stacks.",
	Saves: "from the recorded curve without these matrices.",
	Needs: []facts.Need{Attention, facts.Phases}, Run: findAttentionMatrices,
}

// attentionShare is from which percentage of the peak on the matrices of written
// out attention are worth a word, attentionLeast from how many bytes.
const (
	attentionShare = 20
	attentionLeast = 256 << 20
)

// attention is a function that computes softmax over the scores of all pairs of
// tokens by itself.
type attention struct {
	function, file string
	math           bool // it is the fallback of scaled_dot_product_attention
}

func findAttentionMatrices(p *facts.Pass) []Draft {
	if p.Dev.Stacks == "none" {
		return nil
	}
	at := Attention.Of(p)
	if len(at.functions) == 0 {
		return nil
	}
	at.of = classify.Activations
	drafts := matricesAtPeak(p, &at)
	if len(drafts) == 0 && !facts.Phases.Of(p).Trains {
		at.of = classify.Temporary
		drafts = matricesAtPeak(p, &at)
	}
	return drafts
}

func matricesAtPeak(p *facts.Pass, at *attentionStacks) []Draft {
	peak := p.T.Peaks.Allocated.Event
	held, most := make([]int64, len(at.functions)), make([]facts.Tally, len(at.functions)) // Most: of the softmax itself
	var all int64
	eachMatrix(p, at, func(id timeline.AllocationID) bool { return p.T.AliveAt(id, peak) }, func(id timeline.AllocationID,
		k int) {
		all += p.T.Allocated[id]
		held[k] += p.T.Allocated[id]
		if at.softmax[p.T.Stack(id)] > 0 {
			most[k].Add(p.T.Allocated[id])
		}
	})
	if facts.Share(all, p.Dev.AtPeak.AllocatedBytes) < attentionShare || all < attentionLeast {
		return nil
	}
	k := slices.Index(held, slices.Max(held))
	top := at.functions[k]
	results := most[k].Blocks
	if at.of == classify.Temporary { // there is one at a time
		results = 0
		eachMatrix(p, at, func(timeline.AllocationID) bool { return true }, func(id timeline.AllocationID, k int) {
			if at.softmax[p.T.Stack(id)] == int32(k)+1 {
				results++
			}
		})
	}
	if results < 2 { // one softmax may be a classifier's
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.8},
		Without: "without them,", Worth: 10}
	eachMatrix(p, at, func(timeline.AllocationID) bool { return true }, func(id timeline.AllocationID, _ int) {
		d.Spells = append(d.Spells, p.LifeOf(id))
	})
	where := top.function + " " + report.ShortFile(top.file)
	does := "keeps"
	if at.of == classify.Temporary {
		does = "makes"
	}
	d.Title = fmt.Sprintf("Attention %s the scores of all pairs of tokens: %s, %s of the peak", does, units.Bytes(all),
		units.Percent(all, p.Dev.AtPeak.AllocatedBytes))
	d.Evidence = []string{fmt.Sprintf("%s in %s, of them %s from %s", units.Bytes(held[k]), where, units.Bytes(most[k].Bytes),
		units.Plural(most[k].Blocks, "softmax result"))}
	id := "attention_matrices"
	if top.math {
		id += ".math"
	}
	d.advise(id, "where", where)
	return []Draft{d}
}

// eachMatrix visits those of the looked at category among some allocations that have the size of a
// softmax of the function they are made in.
func eachMatrix(p *facts.Pass, at *attentionStacks, among func(timeline.AllocationID) bool, visit func(id timeline.AllocationID,
	k int)) {
	sizes := make([]map[int64]bool, len(at.functions))
	for i, category := range p.Classes.Category {
		id := timeline.AllocationID(i)
		if category != at.of || !among(id) { // said fastest
			continue
		}
		if k := at.softmax[p.T.Stack(id)] - 1; k >= 0 {
			if sizes[k] == nil {
				sizes[k] = map[int64]bool{}
			}
			n := p.T.Requested(id)
			sizes[k][n], sizes[k][n*2], sizes[k][n/2], sizes[k][n/4] = true, true, true, true
		}
	}
	for i, category := range p.Classes.Category {
		id := timeline.AllocationID(i)
		if category != at.of || !among(id) {
			continue
		}
		if k := at.inside[p.T.Stack(id)] - 1; k >= 0 && sizes[k][p.T.Requested(id)] {
			visit(id, int(k))
		}
	}
}

// attentionStacks says by stack which function's softmax it makes, and within
// which such function it allocates: an index into functions and 1, 0 for none.
type attentionStacks struct {
	functions       []attention
	softmax, inside []int32
	of              classify.Category // the matrices looked at: kept for backward, or temporary
}

// Attention looks at each stack once.
var Attention = facts.Named("written-out attention", func(p *facts.Pass) attentionStacks {
	s := p.T.Snapshot
	n := max(1, s.NumStacks())
	x := attentionStacks{softmax: make([]int32, n), inside: make([]int32, n)}
	known := map[[2]string]int32{}
	named := namedSoftmax(p)
	if !slices.Contains(named, true) {
		return x
	}
	for id := 1; id < s.NumStacks(); id++ {
		if !slices.ContainsFunc(s.Stack(snapshot.StackID(id)), func(f snapshot.FrameID) bool { return named[f] }) {
			continue
		}
		if a, ok := attentionOf(p, s.Stack(snapshot.StackID(id))); ok {
			k, seen := known[[2]string{a.function, a.file}]
			if !seen {
				x.functions = append(x.functions, a)
				k = int32(len(x.functions))
				known[[2]string{a.function, a.file}] = k
			}
			x.softmax[id] = k
		}
	}
	for id := 1; id < s.NumStacks() && len(known) > 0; id++ {
		for _, f := range s.Stack(snapshot.StackID(id)) {
			line := p.View.Line(f)
			if strings.HasSuffix(line.File, "torch/nn/modules/linear.py") {
				break // what the scores are made from
			}
			if k := known[[2]string{line.Function, line.File}]; k > 0 {
				x.inside[id] = k
				break
			}
		}
	}
	return x
})

// namedSoftmax tells, by FrameID, what may be a softmax by its name.
func namedSoftmax(p *facts.Pass) []bool {
	s := p.T.Snapshot
	named := make([]bool, len(s.Frames))
	for i, f := range s.Frames {
		named[i] = strings.Contains(s.String(f.Function), "softmax") || inSoftmaxFile(s.String(f.File))
	}
	return named
}

func inSoftmaxFile(file string) bool { return strings.HasSuffix(strings.ToLower(file), "softmax.py") }

// attentionOf is the function that calls softmax on a stack, within a module: the
// innermost one of Python outside of torch that isn't softmax itself.
func attentionOf(p *facts.Pass, stack []snapshot.FrameID) (a attention, ok bool) {
	softmax, found := isSoftmax(p.View.Op(stack)), false
	for _, f := range stack {
		line, owner := p.View.Line(f), p.View.Owner(f)
		written := owner == frames.User || owner == frames.Library
		switch {
		case p.View.Language(f) != frames.Python:
			a.math = a.math || strings.Contains(line.Function, "scaled_dot_product_attention_math")
			continue
		case !found && (isSoftmax(line.Function) || inSoftmaxFile(line.File)):
			softmax = true
			continue
		case !written:
			continue
		case !softmax:
			return attention{}, false
		case !found:
			a.function, a.file, found = line.Function, line.File, true
		}
		if line.Function == "forward" {
			return a, true
		}
	}
	return attention{}, false
}

// isSoftmax tells a softmax from its logarithm, which losses take.
func isSoftmax(name string) bool {
	name = strings.TrimPrefix(name, "aten::")
	return name == "softmax" || name == "_softmax" || name == "_safe_softmax"
}
