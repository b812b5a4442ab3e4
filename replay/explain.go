package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/timeline"
)

// Explanation is why a request could not be met; sizes in bytes.
type Explanation struct {
	Event     int
	Requested int64 // rounded by the allocator
	Live      int64 // in use, blocks pending free included
	Reserved  int64
	Usable    int64 // what PyTorch could have had; 0: not known
	// Missing is by how much live and requested memory together exceed what
	// there is: no layout and no setting could have met the request. Zero or
	// less: memory was there, in pieces or not handed out.
	Missing     int64
	Free        int64 // within segments
	LargestFree int64
	// StillToCome is what the phase at work has yet to allocate, this request
	// included: the state of a first optimizer step, or what the rest of the
	// forward pass and the loss need by an earlier step; 0: not known.
	StillToCome int64
	Segments    []PinnedSegment // most free memory first
	Trials      []Trial         // most promising first
	Text        string          // all of it in a few sentences

	pinnedAll   []PinnedSegment // Segments, all of them
	inOptimizer bool            // StillToCome is the state of the first optimizer step
}

// PinnedSegment is a segment with free memory that blocks in use keep from
// being given back.
type PinnedSegment struct {
	Address     uint64
	Bytes       int64
	Free        int64
	LargestFree int64
	// Pins are the blocks in use, smallest first: if they were freed or lay
	// elsewhere, all of the segment could serve any request.
	Pins []timeline.Block
}

// Trial is whether other settings meet the request.
type Trial struct {
	Settings string // PYTORCH_CUDA_ALLOC_CONF
	Survives bool   // meets the request that failed; more isn't recorded
	// Enough tells whether, having met it, the rest of the step would fit by
	// StillToCome; true where nothing is known to come.
	Enough bool
	Left   int64 // that could still be allocated after the request, pieces not counted
	Short  int64 // what the request that fails lacks from the driver
}

// maxPinned bounds the segments that an Explanation lists.
const maxPinned = 50

// Explain tells why a recorded request failed, and whether any of the given
// settings would have met it; without any, the usual ones are tried.
func (p *Program) Explain(oom *timeline.OOM, classes *classify.Classification, settings []Settings) Explanation {
	limits := p.Limits()
	x := Explanation{Event: oom.Event, Requested: oom.Requested, Live: oom.Active, Reserved: oom.Reserved, Usable: limits.Usable}
	if limits.Allowed > 0 && (x.Usable == 0 || limits.Allowed < x.Usable) {
		x.Usable = limits.Allowed
	}
	if x.Usable > 0 {
		x.Missing = x.Live + x.Requested - x.Usable
	}
	layout := p.Timeline.LayoutAt(oom.Event)
	x.Free, x.LargestFree = layout.Free()
	x.pinned(&layout)
	if classes != nil {
		x.StillToCome, x.inOptimizer = toCome(classes, oom)
	}
	if settings == nil {
		w := whatIf{p: p, limits: limits}
		settings = w.usualSettings()
	}
	check := p.Verify()
	if check.Refusal() == "" && x.Usable > 0 {
		for _, set := range settings {
			x.Trials = append(x.Trials, p.try(set, &x))
		}
	}
	slices.SortStableFunc(x.Trials, func(a, b Trial) int {
		return cmp.Or(asInt(b.Survives)-asInt(a.Survives), cmp.Compare(b.Left, a.Left), cmp.Compare(a.Short, b.Short))
	})
	x.Text = x.text(check.Refusal())
	return x
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *Program) try(set Settings, x *Explanation) Trial {
	s := p.Recorded()
	s.Settings, s.recorded = set, false
	r := p.Run(s)
	t := Trial{Settings: set.String(), Survives: r.Survived && r.Until == x.Event, Short: r.Short}
	if t.Survives {
		t.Left = max(0, x.Usable-r.FinalAllocated)
		t.Enough = t.Left >= x.StillToCome-x.Requested
	}
	return t
}

func (x *Explanation) pinned(l *timeline.Layout) {
	for _, s := range l.Segments {
		g := PinnedSegment{Address: s.Address, Bytes: s.Bytes}
		for _, b := range s.Blocks {
			if b.Allocation == timeline.NoAllocation {
				g.Free += b.Bytes
				g.LargestFree = max(g.LargestFree, b.Bytes)
			} else {
				g.Pins = append(g.Pins, b)
			}
		}
		if g.Free > 0 && len(g.Pins) > 0 {
			slices.SortStableFunc(g.Pins, func(a, b timeline.Block) int { return cmp.Compare(a.Bytes, b.Bytes) })
			x.Segments = append(x.Segments, g)
		}
	}
	slices.SortStableFunc(x.Segments, func(a, b PinnedSegment) int { return cmp.Compare(b.Free, a.Free) })
	x.pinnedAll = x.Segments
	x.Segments = x.Segments[:min(len(x.Segments), maxPinned)]
}

// StillToCome is what the first optimizer step has yet to allocate when it
// fails: as much state for every gradient as those have got that it reached.
func StillToCome(c *classify.Classification, oom *timeline.OOM) int64 {
	in := false
	for _, s := range c.Steps {
		for _, p := range s.Phases {
			in = in || p.Phase == classify.Optimizer && p.FirstEvent <= oom.Event && oom.Event <= p.LastEvent
		}
	}
	for _, p := range c.Before {
		in = in || p.Phase == classify.Optimizer && p.FirstEvent <= oom.Event && oom.Event <= p.LastEvent
	}
	if !in {
		return 0
	}
	var gradients, state, second int64
	var sizes []int64 // of the state, in the order in which it was made
	for i, bytes := range c.Timeline.Allocated {
		if !c.Timeline.AliveAt(timeline.AllocationID(i), oom.Event) {
			continue
		}
		switch c.Category[i] {
		case classify.Gradients:
			gradients += bytes
		case classify.OptimizerState:
			state += bytes
			if bytes > scalarBlock {
				sizes = append(sizes, c.Timeline.Requested(timeline.AllocationID(i))) // blocks may have tails
			}
			if c.Detail[i] == classify.Moment2 {
				second += bytes
			}
		}
	}
	moments := int64(1)
	if second > 0 || inPairs(sizes) {
		moments = 2
	}
	return max(0, moments*gradients-state)
}

// scalarBlock is what a single number takes.
const scalarBlock = 512

// inPairs tells whether sizes come in pairs of equal ones, as two moments of
// each parameter do; the last may lack its other half.
func inPairs(sizes []int64) bool {
	kinds := 0
	for i := 0; i+1 < len(sizes); i += 2 {
		if sizes[i] != sizes[i+1] {
			return false
		}
		if i > 0 && sizes[i] != sizes[i-1] {
			kinds++
		}
	}
	return kinds > 0
}

func (x *Explanation) text(refusal string) string {
	s := fmt.Sprintf("%s were asked for with %s in use and %s reserved", units.Bytes(x.Requested), units.Bytes(x.Live),
		units.Bytes(x.Reserved))
	switch {
	case x.Usable == 0:
		s += "; how much there was isn't recorded."
	case x.Missing > 0:
		s += fmt.Sprintf(": %s more than the %s that PyTorch could have. No setting can help.", units.Bytes(x.Missing),
			units.Bytes(x.Usable))
	default:
		s += fmt.Sprintf("; %s were there, but the largest free piece was %s.", units.Bytes(x.Usable-x.Live),
			units.Bytes(x.LargestFree))
	}
	switch {
	case x.StillToCome <= x.Requested:
	case x.inOptimizer:
		s += fmt.Sprintf(" The optimizer's first step has yet to make about %s of state.", units.Bytes(x.StillToCome))
	default:
		s += fmt.Sprintf(" By the step before, the rest of this one needs about %s at a time.", units.Bytes(x.StillToCome))
	}
	if refusal != "" {
		return s + " Settings are not tried: " + refusal + "."
	}
	return s + x.trialText()
}

func (x *Explanation) trialText() string {
	if len(x.Trials) == 0 || x.Missing > 0 {
		return ""
	}
	best := x.Trials[0]
	name := best.Settings
	if name == "" {
		name = "the default settings"
	}
	switch {
	case !best.Survives:
		return fmt.Sprintf(" None of %s that were replayed meets the request.", units.Plural(len(x.Trials), "setting"))
	case !best.Enough:
		return fmt.Sprintf(" Replayed with %s the request is met, but only %s are left then: the step would fail soon after.",
			name, units.Bytes(best.Left))
	}
	return fmt.Sprintf(" Replayed with %s the request is met, with %s left; what comes after it isn't recorded.", name,
		units.Bytes(best.Left))
}
