package replay

import (
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/replay/passes"
)

// Room is what a run would have where a request failed, with that request met.
type Room struct {
	Most     int64         // that PyTorch could have; 0: not known
	Left     int64         // at its fullest so far
	LeftThen int64         // right after the request
	After    passes.ToCome // what comes next
	Part     float64       // of that, with a change; negative: nobody knows
	Request  int64         // that failed, which is part of what comes
	WentOn   bool          // the program did, and its other steps went through
	Changed  bool          // the program is changed, which lowers what follows, too
}

// Rest is what still has to be allocated at a time after the request, and whether that is all that is to come; known says
// whether anything shows it.
func (r *Room) Rest() (bytes int64, all, known bool) {
	x := &r.After
	next := max(x.Bytes, x.Layers)
	bytes = int64(float64(max(0, next-r.Request)) * max(0, r.Part))
	return max(bytes, x.Moments), x.Bytes > 0, next > 0 && r.Part >= 0 || x.Moments > bytes
}

// Answer is what becomes of the run.
func (r *Room) Answer() words.Answer {
	const ample = 20 // percent, which what follows a changed part seldom needs beyond that
	rest, all, known := r.Rest()
	maybe := int64(max(0, r.Part) * float64(r.After.State.Maybe))
	least := max(r.After.Bytes-r.Request, r.After.Layers-r.Request, r.After.Likely) // if the change leaves all of it
	switch {
	case r.Most == 0:
		return words.NotKnown
	case r.Left < 0:
		return words.Fails
	case r.WentOn:
		return words.Fits
	case known && rest > r.LeftThen:
		return words.MeetsThenFails
	case known && all && rest+maybe <= r.LeftThen:
		return words.Fits
	case r.Changed && maybe == 0 && r.Left*100 >= ample*r.Most && (known || least <= r.LeftThen) && r.After.Likely <= r.LeftThen:
		return words.Fits
	}
	return words.Meets
}

// room is that of a scenario at the request that failed when it was recorded.
func (w *whatIf) room(o *Outcome) Room {
	r := Room{Part: 1, Changed: len(o.Changes) > 0}
	for i := range w.Failures {
		f := &w.Failures[i]
		if o.LastEvent != f.Event {
			continue
		}
		r.After, r.Request, r.WentOn = f.after, f.RequestedBytes, f.wentOn
		for _, change := range o.Changes {
			part := Leaves(change, &f.after, w.classes)
			if part < 0 {
				r.Part = part
				break
			}
			if !strings.HasPrefix(change, "precision=") || len(o.Changes) == 1 { // beside another one nobody knows of what
				r.Part *= part
			}
			r.After = With(change, r.After)
		}
		break
	}
	if o.LeftBytes != nil {
		r.Most, r.Left, r.LeftThen = o.most, *o.LeftBytes, *o.leftThen
	}
	return r
}

// answer says what becomes of the run in a scenario.
func (w *whatIf) answer(o *Outcome) {
	switch {
	case o.OOM:
		o.Answer = words.Fails
	case !o.Survived && o.LeftBytes != nil:
		o.Answer = words.Fits
	case !o.Survived:
		o.Answer = words.NotKnown
	default:
		r := w.room(o)
		o.Answer = r.Answer()
		o.rest, o.restAll, _ = r.Rest()
	}
	o.Fits = o.Answer.Through()
}

// yetToMake is what a step had to make after the request that failed, with a change that a
// trial meets it with; 0 where nothing shows it.
func (w *whatIf) yetToMake(r *Result, change string) int64 {
	for i := range w.Failures {
		f := &w.Failures[i]
		if !r.Survived || f.Event != r.Until || w.classes == nil {
			continue
		}
		x := max(f.after.Bytes, f.after.Layers)
		return int64(float64(max(0, x-f.RequestedBytes)) * max(0, Leaves(change, &f.after, w.classes)))
	}
	return 0
}

// With is what is still to come with a change: other optimizers make no lists of temporaries.
func With(change string, x passes.ToCome) passes.ToCome {
	if strings.HasPrefix(change, "optimizer=") || change == "training=lora" {
		x.State.Maybe = 0
	}
	return x
}

// Leaves is the part that a change leaves of what was still to come after a failure; -1: nobody knows.
func Leaves(name string, x *passes.ToCome, c *classify.Classification) float64 {
	about, value, _ := strings.Cut(name, "=")
	if x.InOptimizer() {
		return leavesOfStep(name, x, c)
	}
	switch about {
	case "batch", "seq":
		part, _ := strconv.ParseFloat(strings.TrimPrefix(value, "x"), 64)
		return part
	case "checkpointing", "logits", "use_cache":
		return -1
	}
	return 1
}

// leavesOfStep is the same of an optimizer's first step.
func leavesOfStep(name string, x *passes.ToCome, c *classify.Classification) float64 {
	switch about, value, _ := strings.Cut(name, "="); about {
	case "optimizer":
		left := change.StateLeft(name, x.State.PerGradient, c)
		return left * float64(x.State.ToCome) / float64(x.Bytes) // no lists with any of them
	case "sharding":
		n, _ := strconv.ParseFloat(value, 64)
		return 1 / n
	case "precision":
		return 0.5
	case "training":
		return min(1, float64(change.AdapterState(c))/float64(x.Bytes))
	}
	return 1
}
