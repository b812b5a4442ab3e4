package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// remedies are changes that a replay knows, with what must matter at the peak; the
// first of several that save the same is the one that asks least of the training.
var remedies = []struct {
	change string
	about  []classify.Category
}{
	{"leak=fixed", nil},
	{"gradients=set_to_none", nil},
	{"logits=chunked", []classify.Category{classify.Logits}},
	{"checkpointing=full", []classify.Category{classify.Activations}},
	{"optimizer=fused", []classify.Category{classify.OptimizerState}},
	{"optimizer=8bit", []classify.Category{classify.OptimizerState}},
	{"batch=x0.5", []classify.Category{classify.Activations, classify.Logits, classify.KVCache, classify.Inputs}},
}

// remedy looks for what would have made the room that was missing: by replay
// where that can be, else by what the memory is for.
func (f *failure) remedy(p *facts.Pass, d *Draft) {
	o, s := f.recorded, f.lacked
	const beyond = 4 // gradients against weights: those of two widths and of two passes are less
	name, bytes := facts.Largest(&p.Dev.AtPeak)
	if w := p.Dev.AtPeak.Categories[classify.Weights.String()]; name == classify.Gradients.String() && w > 0 && bytes > beyond*w {
		d.change("memory.gradients.beyond", "times", fmt.Sprint(bytes/w))
	} else {
		d.change("memory."+name, "at", "")
	}
	list := tryRemedies(p, o, s)
	if name == classify.Temporary.String() && 2*(bytes-p.LeakedAtPeak(classify.Temporary)) > o.Active &&
		len(ownAtPeak.Of(p)) == 0 {
		d.change(ForTemporaries(p, o), "at", f.line(d))
		d.Others = list // none of which makes such memory less
		return
	}
	if len(list) == 0 {
		return
	}
	best := list[0]
	d.SavesBytes, d.Fix, d.Code, d.Outcome, d.Others = new(best.Saves()), &best.Text, best.Code, best.Outcome, list[1:]
	if best.At != nil {
		d.At = best.At
	}
	if fits := best.Fits; fits != nil && !*fits && *best.PeakAfter > s.Usable {
		d.Fix = advice.Text("not_enough", "first", best.Text, "missing", units.Size(*best.PeakAfter-s.Usable), "besides",
			facts.LowerFirst(advice.Find("memory."+name, "at", "").Text))
	}
	var tried []string
	for i := range list {
		tried = append(tried, fmt.Sprintf("%s %s", *list[i].FixID, units.Bytes(list[i].Saves())))
	}
	d.Evidence = append(d.Evidence, "would have saved, by replay: "+strings.Join(tried, ", "))
}

// remedyChange is a remedy as a change with its line: the loss's for logits, if a stack
// shows it, else the one that asks for most of such memory at the peak.
func remedyChange(p *facts.Pass, change string) report.Change {
	about, value, _ := strings.Cut(change, "=")
	c := report.Change{Outcome: report.Outcome{FixID: new(change), Basis: new("replay")}}
	at := ""
	for _, r := range remedies {
		if r.change != change || len(r.about) != 1 || about == "optimizer" {
			continue
		}
		site := facts.TopSite(p.Dev.Sites, r.about[0])
		if r.about[0] == classify.Logits {
			site = lossOf(p, site)
		}
		if site != nil {
			at = " at " + facts.UserLine(site)
			c.At = facts.UserPlace(site)
		}
	}
	id := change
	switch about {
	case "batch":
		id, c.FixID = batchOf(p), new(about)
	case "sharding":
		id, c.FixID = about, new(about)
	}
	if change == "logits=chunked" && !p.CrossEntropy() {
		id = "logits_dominate.any_loss"
	}
	a := advice.Find(id, "at", at, "optimizer", eightBitOf(p), "value", strings.TrimPrefix(value, "x"))
	c.Text, c.Code = a.Text, a.Code
	return c
}

// batchOf is the id of the advice to take a smaller batch: no gradients are accumulated where something shows that nothing is
// trained, and most of what a cache of keys and values holds may have been set aside before any batch came.
func batchOf(p *facts.Pass) string {
	o := &p.Dev.OOMs[len(p.Dev.OOMs)-1]
	cache, others := o.InUse[classify.KVCache.String()], o.AllocatedBytes-o.InUse[classify.Weights.String()]
	trains := facts.Phases.Of(p).Trains || o.InUse[classify.OptimizerState.String()]+o.InUse[classify.Gradients.String()] > 0
	switch {
	case len(p.T.OOMs) > 1, trains && !p.Untracked(o.Event):
		return "batch"
	case !trains && 2*cache > others:
		return "batch.cache"
	case trains, (20*cache > others || len(p.Classes.Steps) > 1) && !p.ManyKinds(maybeGraph(p, o.Event)):
		return "batch.untrained"
	}
	return "batch"
}

// maybeGraph is what may be a graph at an event, whatever names it has.
func maybeGraph(p *facts.Pass, event int) (ids []timeline.AllocationID) {
	for id := range timeline.AllocationID(p.T.Len()) {
		if c := p.Classes.Category[id]; (c == classify.Activations || c == classify.Temporary) && p.T.AliveAt(id, event) {
			ids = append(ids, id)
		}
	}
	return ids
}

// lossOf is the loss's line, where the function that runs it also makes the logits that
// fill the peak; an evaluation's are made elsewhere than the training's.
func lossOf(p *facts.Pass, top *report.Site) *report.Site {
	loss := facts.Loss.Of(p)
	if loss == nil || top == nil {
		return cmp.Or(loss, top)
	}
	at, made := facts.UserPlace(loss), facts.UserPlace(top)
	if at == nil || made == nil || at.Function == made.Function || top.CalledFrom == nil {
		return loss
	}
	return top
}

// eightBitOf is the 8-bit optimizer in the place of the program's.
func eightBitOf(p *facts.Pass) string {
	for i := range p.Classes.Leaks() {
		if l := &p.Classes.Leaks()[i]; l.Kind == classify.FirstStepState {
			return EightBit(l)
		}
	}
	return "AdamW8bit"
}

// tryRemedies replays the changes that could matter: those with which the run goes through
// first, then what saves most.
func tryRemedies(p *facts.Pass, o *timeline.OOM, s facts.Shortage) []report.Change {
	var names []string
	if x := facts.Projection.Of(p); x != nil && x.FitsGPUs != nil && *x.FitsGPUs > 1 {
		names = append(names, fmt.Sprintf("sharding=%d", *x.FitsGPUs))
	}
	for _, r := range remedies {
		if matters(p, r.change, r.about) {
			names = append(names, r.change)
		}
	}
	var out []report.Change
	add := func(change string, saves int64) (after int64) {
		c := remedyChange(p, change)
		before := p.WholeNeed()
		after = afterChange(p, o, s, change, saves) + before - max(p.Needed(), s.Need(o))
		c.PeakBefore, c.PeakAfter, c.Tried = &before, &after, change
		c.Settle(answer(p, o, s, change, p.Needed()-saves))
		if c.Saves()*100 >= before {
			out = append(out, c)
		}
		return after
	}
	try := func(names ...string) {
		for _, x := range p.Changed(names) {
			if x.Impossible != "" {
				continue
			}
			change := x.Change
			if change == "batch=x0.5" {
				change, x.Allocated = fittingBatch(p, o, s, x.Allocated)
			}
			add(change, x.Allocated)
		}
	}
	try(names...)
	helps := func(c report.Change) bool { return sure(c.Fits) == 2 && *c.FixID != "sharding" }
	if !slices.ContainsFunc(out, helps) && statesFill(p) {
		n := len(out)
		try(otherTraining...)
		out = append(out[:n], slices.DeleteFunc(out[n:], func(c report.Change) bool { return !helps(c) })...)
	}
	slices.SortStableFunc(out, func(a, b report.Change) int {
		return cmp.Or(cmp.Compare(sure(b.Fits), sure(a.Fits)), asks(&a)-asks(&b), cmp.Compare(b.Saves(), a.Saves()))
	})
	return out
}

// otherTraining are changes after which what is trained, or in what numbers, is another: they are tried where the states of
// training fill the GPU and nothing that asks for less of it helps on the same one.
var otherTraining = []string{"precision=bf16", "training=lora"}

// statesFill reports whether a program trains, and weights, gradients and optimizer state are half of what it needed.
func statesFill(p *facts.Pass) bool {
	of := func(c classify.Category) (n int64) {
		if x := facts.Projection.Of(p); x != nil {
			n = x.Missed(c.String())
		}
		return n + p.Dev.AtPeak.Categories[c.String()]
	}
	trained := of(classify.Gradients) + of(classify.OptimizerState)
	return trained > 0 && 2*(of(classify.Weights)+trained) > p.WholeNeed()
}

// asks ranks how much a change asks for: numbers of fewer bits, another training, more hardware.
func asks(c *report.Change) int {
	if *c.FixID == "sharding" {
		return len(otherTraining) + 1
	}
	return slices.Index(otherTraining, *c.FixID) + 1
}

// sure ranks what is known of whether a run goes through.
func sure(fits *bool) int {
	switch {
	case fits == nil:
		return 1
	case *fits:
		return 2
	}
	return 0
}

// afterChange is what a change leaves of what the program needed: of what it had made by
// replay, and its part of what was still to come.
func afterChange(p *facts.Pass, o *timeline.OOM, s facts.Shortage, change string, saves int64) int64 {
	after := p.Needed() - saves
	if s.Still <= o.Requested {
		return after
	}
	part := replay.Leaves(change, new(facts.ToCome.Of(p)[o.Event]), p.Classes)
	if part < 0 {
		part = 1 - p.Part(o, saves)
	}
	return after + int64(part*float64(s.Still-o.Requested))
}

// answer is what becomes of the run with a change that leaves so much of the peak, the request that failed among it.
func answer(p *facts.Pass, o *timeline.OOM, s facts.Shortage, change string, peak int64) words.Answer {
	x := replay.With(change, facts.ToCome.Of(p)[o.Event])
	r := replay.Room{Most: s.Usable, Left: s.Usable - peak, LeftThen: s.Usable - peak, After: x,
		Part: replay.Leaves(change, &x, p.Classes), Request: o.Requested, WentOn: s.After > 0, Changed: true}
	return r.Answer()
}

// fittingBatch is the largest batch, in twentieths of the recorded one, that fits, and what
// it saves: between the whole batch and half of it sizes are on a line. Without one it's half.
func fittingBatch(p *facts.Pass, o *timeline.OOM, s facts.Shortage, half int64) (change string, saves int64) {
	if x := facts.Projection.Of(p); x != nil {
		s.Still = max(s.Still, x.Missed(classify.Activations.String()))
	}
	for parts := 19; parts > 10 && s.Usable > 0; parts-- {
		change = fmt.Sprintf("batch=x%.2g", float64(parts)/20)
		if least := half * int64(20-parts) / 10; afterChange(p, o, s, change, least) > s.Usable {
			continue
		}
		if x := p.Changed([]string{change}); len(x) == 1 && x[0].Impossible == "" && afterChange(p, o, s, change,
			x[0].Allocated) <= s.Usable {
			return change, x[0].Allocated
		}
	}
	return "batch=x0.5", half
}

func matters(p *facts.Pass, change string, about []classify.Category) bool {
	switch change {
	case "leak=fixed":
		return slices.ContainsFunc(p.Dev.Leaks, func(l report.Leak) bool { return l.Defect && l.Kind != classify.GradientsKept })
	case "gradients=set_to_none":
		return slices.ContainsFunc(p.Dev.Leaks, func(l report.Leak) bool { return l.Kind == classify.GradientsKept })
	}
	var bytes int64
	for _, c := range about {
		bytes += p.Dev.AtPeak.Categories[c.String()] - p.LeakedAtPeak(c)
	}
	return facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) >= 5
}
