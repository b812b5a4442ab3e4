package diagnose

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/stacks"
	"github.com/vramscope/vramscope/timeline"
)

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

// attentionMatrices finds what such functions keep for backward: the softmax and
// what has its size in the same function, also in half the precision or as the
// mask of a dropout.
func (e *examination) attentionMatrices(dev *report.Device, f *facts) []draft {
	if dev.Stacks == "none" {
		return nil
	}
	at := e.attentions()
	sizes := map[attention]map[int64]bool{}
	for i, category := range e.classes.Category {
		if category != classify.Activations {
			continue
		}
		id := timeline.AllocationID(i)
		if a, ok := at.softmax[e.t.Stack(id)]; ok {
			if sizes[a] == nil {
				sizes[a] = map[int64]bool{}
			}
			n := e.t.Requested(id)
			sizes[a][n], sizes[a][n*2], sizes[a][n/2], sizes[a][n/4] = true, true, true, true
		}
	}
	if len(sizes) == 0 {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "attention_matrices", Severity: f.severity(), Confidence: 0.8}, without: "without them,", worth: 10}
	held := map[attention]int64{}
	most := map[attention]tally{} // of the softmax itself
	var all int64
	for i, category := range e.classes.Category {
		id := timeline.AllocationID(i)
		a, ok := at.inside[e.t.Stack(id)]
		if !ok || category != classify.Activations || !sizes[a][e.t.Requested(id)] {
			continue
		}
		d.spells = append(d.spells, e.lifeOf(id))
		if !e.t.AliveAt(id, e.t.Peaks.Allocated.Event) {
			continue
		}
		all += e.t.Allocated[id]
		held[a] += e.t.Allocated[id]
		if _, ok := at.softmax[e.t.Stack(id)]; ok {
			y := most[a]
			y.add(e.t.Allocated[id])
			most[a] = y
		}
	}
	if share(all, dev.AtPeak.AllocatedBytes) < attentionShare || all < attentionLeast {
		return nil
	}
	var top attention
	for a, bytes := range held {
		if bytes > held[top] || bytes == held[top] && a.file+a.function < top.file+top.function {
			top = a
		}
	}
	if most[top].blocks < 2 { // one softmax may be a classifier's
		return nil
	}
	where := top.function + " " + report.ShortFile(top.file)
	d.Title = fmt.Sprintf("Attention keeps the scores of all pairs of tokens: %s, %s of the peak", report.Bytes(all), report.Percent(all, dev.AtPeak.AllocatedBytes))
	d.Evidence = []string{fmt.Sprintf("%s in %s, of them %s from %s", report.Bytes(held[top]), where, report.Bytes(most[top].bytes), report.Plural(most[top].blocks, "softmax result"))}
	if top.math {
		d.Fix = ptr("scaled_dot_product_attention fell back to its math backend, which makes them, at " + where + ": 16-bit inputs, and no mask that needs a gradient, let the flash or memory-efficient backend run")
		d.Code = "with torch.nn.attention.sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):  # says why it can't\n    y = model(batch)"
	} else {
		d.Fix = ptr("torch's scaled_dot_product_attention in place of the softmax in " + where + ": it works in tiles and keeps one number per token instead")
		d.Code = "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n" +
			"model = AutoModelForCausalLM.from_pretrained(name, attn_implementation=\"sdpa\")   # Transformers"
	}
	return []draft{d}
}

// attentionStacks says of stacks which function's softmax they make, and within
// which such function they allocate.
type attentionStacks struct {
	softmax, inside map[snapshot.StackID]attention
}

// attentions looks at each stack once.
func (e *examination) attentions() attentionStacks {
	s := e.t.Snapshot
	x := attentionStacks{softmax: map[snapshot.StackID]attention{}, inside: map[snapshot.StackID]attention{}}
	known := map[[2]string]attention{}
	for id := snapshot.StackID(1); int(id) < s.NumStacks(); id++ {
		if a, ok := e.attentionOf(s.Stack(id)); ok {
			x.softmax[id] = a
			known[[2]string{a.function, a.file}] = a
		}
	}
	if len(known) == 0 {
		return x
	}
	for id := snapshot.StackID(1); int(id) < s.NumStacks(); id++ {
		for _, f := range s.Stack(id) {
			line := e.view.Line(f)
			if strings.HasSuffix(line.File, "torch/nn/modules/linear.py") {
				break // what the scores are made from
			}
			if a, ok := known[[2]string{line.Function, line.File}]; ok {
				x.inside[id] = a
				break
			}
		}
	}
	return x
}

// attentionOf is the function that calls softmax on a stack, within a module: the
// innermost one of Python outside of torch that isn't softmax itself.
func (e *examination) attentionOf(frames []snapshot.FrameID) (a attention, ok bool) {
	softmax, found := isSoftmax(e.view.Op(frames)), false
	for _, f := range frames {
		line, owner := e.view.Line(f), e.view.Owner(f)
		written := owner == stacks.User || owner == stacks.Library
		switch {
		case e.view.Language(f) != stacks.Python:
			a.math = a.math || strings.Contains(line.Function, "scaled_dot_product_attention_math")
			continue
		case !found && (isSoftmax(line.Function) || strings.HasSuffix(strings.ToLower(line.File), "softmax.py")):
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
