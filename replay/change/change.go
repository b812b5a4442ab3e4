// Package change tells what changes to a program would make of the requests of its
// recording: another optimizer, logits in pieces, checkpointing, another batch.
//
//	c, err := change.Parse("optimizer=8bit")
//	edits, done, err := change.Make([]change.Change{c}, classes, settings.Round)
//	fmt.Println(done[0].Assumption) // what that takes for granted
package change

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/timeline"
)

// Change is a change to the program itself, as a rewriting of its requests.
type Change struct {
	Name       string // as in --change
	Assumption string // what it takes for granted, in a sentence; known once it is made

	plan func(*rewriter) (string, error)
}

// changes are the changes by name.
var changes = map[string]func(*rewriter) (string, error){
	"optimizer=8bit":        (*rewriter).eightBit,
	"optimizer=sgd":         (*rewriter).plainSGD,
	"optimizer=lion":        (*rewriter).lion,
	"optimizer=fused":       (*rewriter).fusedStep,
	"logits=chunked":        (*rewriter).chunked,
	"logits=fused":          (*rewriter).fused,
	"checkpointing=full":    (*rewriter).checkpoint,
	"gradients=set_to_none": (*rewriter).setToNone,
	"leak=fixed":            (*rewriter).fixLeaks,
	"use_cache=off":         (*rewriter).cacheOff,
	"precision=bf16":        (*rewriter).bfloat16,
	"training=lora":         (*rewriter).lowRank,
}

// Names are the changes that Parse knows.
const Names = "optimizer=8bit|sgd|lion|fused, logits=chunked|fused, checkpointing=full, gradients=set_to_none, " +
	"batch=x0.5, seq=x0.5, leak=fixed, use_cache=off, precision=bf16, training=lora, sharding=4"

// Parse reads a change such as optimizer=8bit or batch=x0.5.
func Parse(text string) (Change, error) {
	c := Change{Name: text, plan: changes[text]}
	if c.plan != nil {
		return c, nil
	}
	key, value, _ := strings.Cut(text, "=")
	switch key {
	case "batch", "seq":
		f, err := strconv.ParseFloat(strings.TrimPrefix(value, "x"), 64)
		if err != nil || !(f >= 1.0/1024) || f > 1024 || !strings.HasPrefix(value, "x") {
			return c, fmt.Errorf("%q is not %s=xFACTOR, such as %[2]s=x0.5", text, key)
		}
		c.plan = func(r *rewriter) (string, error) { return r.batch(f) }
		if key == "seq" {
			c.plan = func(r *rewriter) (string, error) { return r.sequence(f) }
		}
		return c, nil
	case "sharding":
		n, err := strconv.Atoi(value)
		if err != nil || n < 2 || n > 1<<16 {
			return c, fmt.Errorf("%q is not sharding=GPUS, such as sharding=4", text)
		}
		c.plan = func(r *rewriter) (string, error) { return r.shard(n) }
		return c, nil
	}
	return c, fmt.Errorf("%q is none of the changes %s", text, Names)
}

// Edits are what becomes of a recording's requests.
type Edits struct {
	Bytes  []int64         // by allocation: what is asked for instead; 0: nothing
	List   []Edit          // in no order
	Extras int             // allocations that the recorded program had no need of
	Sizes  map[int64]int64 // by rounded request: the most that became of one
}

// Edit is a request, or a free, that the recorded program didn't make; it comes right
// after the recorded ones of its event.
type Edit struct {
	Event int
	Free  bool
	ID    timeline.AllocationID // NoAllocation: an extra one
	Extra int                   // its number
	Bytes int64                 // that it asks for
}

// rewriter works out the edits of changes.
type rewriter struct {
	*timeline.Timeline
	Edits
	classes *classify.Classification
	round   func(bytes int64) int64
	tooMany bool    // more than maxEdits
	inputs  []int64 // bytes of layers' inputs
}

// Make works out what changes, made together, would make of a recording's requests,
// and what each takes for granted. Round is what its allocator does to a request.
func Make(list []Change, classes *classify.Classification, round func(bytes int64) int64) (*Edits, []Change, error) {
	t := classes.Timeline
	r := &rewriter{Timeline: t, classes: classes, round: round,
		Edits: Edits{Bytes: make([]int64, t.Len()), Sizes: map[int64]int64{}}}
	for id := range r.Bytes {
		r.Bytes[id] = t.Requested(timeline.AllocationID(id))
	}
	var done []Change
	for _, c := range list {
		assumption, err := c.plan(r)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		if r.tooMany {
			return nil, nil, fmt.Errorf("%s: it changes more than %d things, too many to replay", c.Name, maxEdits)
		}
		c.Assumption = assumption + r.doubt()
		done = append(done, c)
	}
	return &r.Edits, done, nil
}

// doubt says how much of what a change is about is only guessed.
func (r *rewriter) doubt() string {
	var unknown, all int64
	event := r.Peaks.Allocated.Event
	for id, bytes := range r.Allocated {
		if !r.AliveAt(timeline.AllocationID(id), event) {
			continue
		}
		all += bytes
		if r.classes.Category[id] == classify.Unknown || r.classes.Confidence[id] < classify.Guess {
			unknown += bytes
		}
	}
	if all == 0 || unknown*20 < all {
		return ""
	}
	return fmt.Sprintf(" Unsure: what %s of the peak are for is not known well.", units.Percent(unknown, all))
}

// resize changes the size of an allocation.
func (r *rewriter) resize(id timeline.AllocationID, bytes int64) {
	size := r.round(r.Requested(id))
	r.Sizes[size] = max(r.Sizes[size], bytes)
	r.Bytes[id] = bytes
}

// release gives an allocation back right after an event.
func (r *rewriter) release(id timeline.AllocationID, event int) {
	r.edit(Edit{Event: event, Free: true, ID: id})
}

// revive asks for an allocation again right after an event.
func (r *rewriter) revive(id timeline.AllocationID, event int) { r.edit(Edit{Event: event, ID: id}) }

// extra asks for memory that the recorded program had no need of, from right
// after one event until right after another; at the same event it is a moment.
func (r *rewriter) extra(bytes int64, from, to int) {
	r.edit(Edit{Event: from, ID: none, Extra: r.Extras, Bytes: bytes})
	r.edit(Edit{Event: to, Free: true, ID: none, Extra: r.Extras})
	r.Extras++
}

// none is no allocation.
const none = timeline.NoAllocation

// maxEdits bounds what a change may do to a program: some multiply what lives by
// the steps that it lives through.
const maxEdits = 1 << 21

// edit takes one down, and of too many only that they are too many.
func (r *rewriter) edit(e Edit) {
	if len(r.List) == maxEdits {
		r.tooMany = true
		return
	}
	r.List = append(r.List, e)
}

// of calls f with every allocation of a category and gives their number.
func (r *rewriter) of(category classify.Category, f func(id timeline.AllocationID)) int {
	n := 0
	for id, c := range r.classes.Category {
		if c == category {
			f(timeline.AllocationID(id))
			n++
		}
	}
	return n
}

// events is their number.
func (r *rewriter) events() int { return r.Device.Events.Len() }

// stepAt is the step that an event lies in, -1 when in none.
func (r *rewriter) stepAt(event int) int {
	steps := r.classes.Steps
	i := sort.Search(len(steps), func(i int) bool { return steps[i].LastEvent >= event })
	if i < len(steps) && steps[i].FirstEvent <= event {
		return i
	}
	return -1
}

// phaseOf finds the first and last events of a phase in a step.
func phaseOf(s *classify.Step, phase classify.Phase) (first, last int, ok bool) {
	for _, p := range s.Phases {
		if p.Phase != phase {
			continue
		}
		if !ok {
			first = p.FirstEvent
		}
		last, ok = p.LastEvent, true
	}
	return first, last, ok
}
