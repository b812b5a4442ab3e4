package replay

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/timeline"
)

// Change is a change to the program itself, as a rewriting of its requests.
type Change struct {
	Name       string // as in --change
	Assumption string // what it takes for granted, in a sentence; known once it is applied

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
}

// ChangeNames are the changes that ParseChange knows.
const ChangeNames = "optimizer=8bit|sgd|lion|fused, logits=chunked|fused, checkpointing=full, gradients=set_to_none, " +
	"batch=x0.5, leak=fixed, use_cache=off, sharding=4"

// ParseChange reads a change such as optimizer=8bit or batch=x0.5.
func ParseChange(text string) (Change, error) {
	c := Change{Name: text}
	if plan := changes[text]; plan != nil {
		c.plan = plan
		return c, nil
	}
	key, value, _ := strings.Cut(text, "=")
	switch key {
	case "batch":
		f, err := strconv.ParseFloat(strings.TrimPrefix(value, "x"), 64)
		if err != nil || !(f >= 1.0/1024) || f > 1024 || !strings.HasPrefix(value, "x") {
			return c, fmt.Errorf("%q is not batch=xFACTOR, such as batch=x0.5", text)
		}
		c.plan = func(r *rewriter) (string, error) { return r.batch(f) }
		return c, nil
	case "sharding":
		n, err := strconv.Atoi(value)
		if err != nil || n < 2 || n > 1<<16 {
			return c, fmt.Errorf("%q is not sharding=GPUS, such as sharding=4", text)
		}
		c.plan = func(r *rewriter) (string, error) { return r.shard(n) }
		return c, nil
	}
	return c, fmt.Errorf("%q is none of the changes %s", text, ChangeNames)
}

// rewriter rewrites the requests of a program.
type rewriter struct {
	*Program
	classes *classify.Classification
	bytes   []int64 // by allocation: what is asked for instead; 0: nothing
	edits   []edit
	tooMany bool            // more than maxEdits
	inputs  []int64         // bytes of layers' inputs
	extras  int             // slots of extra allocations
	sizes   map[int64]int64 // the most that became of each size, for requests that failed when recorded
}

// Apply makes the program that changes would have made of this one, and says
// what each takes for granted. The classification must be of the same timeline.
func (p *Program) Apply(list []Change, classes *classify.Classification) (*Program, []Change, error) {
	t := p.Timeline
	r := &rewriter{Program: p, classes: classes, bytes: make([]int64, t.Len()), sizes: map[int64]int64{}}
	for id := range r.bytes {
		r.bytes[id] = t.Requested(timeline.AllocationID(id))
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
	return r.program(), done, nil
}

// doubt says how much of what a change is about is only guessed.
func (r *rewriter) doubt() string {
	var unknown, all int64
	event := r.Timeline.Peaks.Allocated.Event
	for id, bytes := range r.Timeline.Allocated {
		if !r.Timeline.AliveAt(timeline.AllocationID(id), event) {
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
	size := r.Settings.round(r.Timeline.Requested(id))
	r.sizes[size] = max(r.sizes[size], bytes)
	r.bytes[id] = bytes
}

// edit is an op that the recorded program didn't have; it comes right after
// the recorded one of its event.
type edit struct {
	event int
	kind  opKind
	id    timeline.AllocationID // NoAllocation: an extra one
	bytes int64                 // of an extra one
	slot  uint32                // of an extra one
}

// release gives an allocation back right after an event.
func (r *rewriter) release(id timeline.AllocationID, event int) {
	r.edit(edit{event: event, kind: opFree, id: id})
}

// revive asks for an allocation again right after an event.
func (r *rewriter) revive(id timeline.AllocationID, event int) {
	r.edit(edit{event: event, kind: opAlloc, id: id})
}

// extra asks for memory that the recorded program had no need of, from right
// after one event until right after another; at the same event it is a moment.
func (r *rewriter) extra(bytes int64, from, to int) {
	slot := uint32(r.slots + r.extras)
	r.extras++
	r.edit(edit{event: from, kind: opAlloc, id: timeline.NoAllocation, bytes: bytes, slot: slot})
	r.edit(edit{event: to, kind: opFree, id: timeline.NoAllocation, slot: slot})
}

// maxEdits bounds what a change may do to a program: some multiply what lives by
// the steps that it lives through.
const maxEdits = 1 << 21

// edit takes one down, and of too many only that they are too many.
func (r *rewriter) edit(e edit) {
	if len(r.edits) == maxEdits {
		r.tooMany = true
		return
	}
	r.edits = append(r.edits, e)
}

// program puts the rewritten requests in order.
func (r *rewriter) program() *Program {
	r.Verify() // once, for all copies
	p := *r.Program
	p.changed = len(r.layout.Segments) > 0
	p.slots += r.extras
	p.ops = pages.Make[op](len(r.ops) + len(r.edits))[:0]
	slices.SortStableFunc(r.edits, func(a, b edit) int { return a.event - b.event })
	slots := r.edited()
	p.older = nil
	older := r.olderIDs()
	for i, o := range r.older {
		id := older[i]
		slots.learn(id, o.slot, o.pair)
		if o.bytes = r.bytes[id]; o.bytes > 0 {
			p.older = append(p.older, o)
		}
	}
	main := r.busiest()
	next := 0
	insert := func(before int) {
		for ; next < len(r.edits) && r.edits[next].event < before; next++ {
			if e := &r.edits[next]; e.id == timeline.NoAllocation || r.bytes[e.id] > 0 {
				p.ops = append(p.ops, r.inserted(e, &slots, main))
			}
		}
	}
	for _, o := range r.ops {
		insert(int(o.event))
		switch o.kind {
		case opAlloc:
			id := r.Timeline.Of[o.event]
			if o.bytes = r.bytes[id]; o.bytes == 0 {
				continue
			}
			slots.learn(id, o.slot, o.pair)
		case opFailed:
			if bytes, ok := r.sizes[o.bytes]; ok {
				o.bytes = bytes
			}
			o.bytes = max(o.bytes, 1) // the recording ends here, needed or not
		}
		p.ops = append(p.ops, o)
	}
	insert(math.MaxInt)
	return &p
}

// slots are where a replay keeps allocations that are edited.
type slots struct {
	of    []uint32 // by allocation: index into known; 0: it isn't edited
	known []slot
}

type slot struct {
	number uint32
	pair   uint16
}

func (r *rewriter) edited() slots {
	s := slots{make([]uint32, len(r.bytes)), make([]slot, 1)}
	for i := range r.edits {
		if id := r.edits[i].id; id != timeline.NoAllocation && s.of[id] == 0 {
			s.of[id] = uint32(len(s.known))
			s.known = append(s.known, slot{})
		}
	}
	return s
}

func (s *slots) learn(id timeline.AllocationID, number uint32, pair uint16) {
	if i := s.of[id]; i > 0 {
		s.known[i] = slot{number, pair}
	}
}

func (r *rewriter) inserted(e *edit, slots *slots, main uint16) op {
	o := op{kind: e.kind, event: uint32(max(e.event, 0)), slot: e.slot, pair: main}
	bytes := e.bytes
	if e.id != timeline.NoAllocation {
		known := slots.known[slots.of[e.id]]
		o.slot, o.pair, bytes = known.number, known.pair, r.bytes[e.id]
	}
	if o.kind == opAlloc {
		o.bytes = max(bytes, 1)
	}
	return o
}

// busiest is the stream and pool that most requests go to.
func (p *Program) busiest() uint16 {
	count := make([]int, len(p.pairs)+1)
	for i := range p.ops {
		if p.ops[i].kind == opAlloc {
			count[p.ops[i].pair]++
		}
	}
	return uint16(slices.Index(count, slices.Max(count)))
}

// olderIDs are the allocations of the first state, in the order of p.older.
func (p *Program) olderIDs() []timeline.AllocationID {
	ids := make([]timeline.AllocationID, 0, len(p.older))
	for _, s := range p.layout.Segments {
		for _, b := range s.Blocks {
			if b.Allocation != timeline.NoAllocation {
				ids = append(ids, b.Allocation)
			}
		}
	}
	return ids
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

// born is the event of a birth, -1 when it is older than the trace.
func (r *rewriter) born(id timeline.AllocationID) int {
	if b := r.Timeline.Born[id]; b != timeline.Never {
		return int(b)
	}
	return -1
}

// died is the event of a death, the number of events when there is none.
func (r *rewriter) died(id timeline.AllocationID) int {
	switch f := r.Timeline.FreeRequested[id]; f {
	case timeline.Never:
		return r.Timeline.Device.Events.Len()
	case timeline.Before:
		return -1
	default:
		return int(f)
	}
}

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
