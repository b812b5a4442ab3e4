package classify

import (
	"slices"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// Rule is one reason to say what an allocation holds, with its papers.
type Rule struct {
	ID  string // a word for tables and reports
	Doc string // for users: what it goes by, and when it is unsure; the first sentence is shown beside an allocation

	Signal Signal // the kind of evidence; rules of one signal are asked in order, the first that claims speaks for it
	Born   Births // what it speaks of
	Needs  []Need // facts that must be there; without one of them nothing is asked

	// Birth and Death are the marks of an allocation's stacks of which the rule speaks,
	// any of them; without any it may speak of all.
	Birth, Death frames.Marks

	// Siblings is true of rules that look at what others turned out to be. They are asked
	// last, of what nothing surer is known.
	Siblings bool

	// Begin looks at a recording, and gives what claims; nil where nothing in it is the
	// rule's business.
	Begin func(f *analysis) func(id timeline.AllocationID) claim
}

// Births are sets of phases in which an allocation was made, Older among them.
type Births uint16

// Older is the birth of what is older than the trace.
const (
	Older    Births = 1 << NumPhases
	anyBirth Births = Older - 1
	anyTime  Births = Older | anyBirth
)

// born are the births in some phases.
func bornIn(phases ...Phase) (b Births) {
	for _, p := range phases {
		b |= 1 << p
	}
	return b
}

// Need is a fact, or an index over all allocations, that a rule asks.
type Need uint8

// The needs of rules.
const (
	Labels     Need = iota // a labels file, or the recording's own metadata
	Stacks                 // stacks of allocations
	NoStacks               // none of them: the rule stands in for what stacks would tell
	Native                 // C++ frames
	Training               // a backward pass
	Sizes                  // multisets of sizes: of weights, their halves, state, and gradients
	Rows                   // rows of equal blocks, one or two for each layer
	Runs                   // repeated runs of events
	Lives                  // births and deaths in runs of one phase
	Releases               // what a backward pass frees
	OlderBlock             // what the recording found there
)

// met tells whether a recording has what a need names.
func (n Need) met(f *analysis) bool {
	switch n {
	case Labels:
		return len(f.labels) > 0
	case Stacks:
		return f.recorded.allocs
	case NoStacks:
		return !f.recorded.allocs
	case Native:
		return f.recorded.native
	case Training:
		return f.trains
	}
	return true
}

// claim is what one rule says of one allocation; sure is in percent, 0 for
// nothing to say.
type claim struct {
	category Category
	detail   Detail
	sure     uint8
	last     bool // no later rule of the signal speaks of it either
}

// sureness words of claims, in percent.
const (
	exact     = 99
	strong    = 95
	likely    = 85
	plausible = 70
	guess     = 50
)

// as claims a category of which the kind is not known, or is the only one.
func as(c Category, sure uint8) claim { return claim{category: c, sure: sure} }

// kindOf claims a kind within a category.
func kindOf(c Category, d Detail, sure uint8) claim { return claim{category: c, detail: d, sure: sure} }

// silence is the claim that there is nothing to say, not by later rules of the signal either.
func silence() claim { return claim{last: true} }

// speaks is true of a rule that a recording has something for, unless it is one of some.
func (r *Rule) speaks(f *analysis, without []string) bool {
	marked := r.Birth | r.Death
	return !slices.Contains(without, r.ID) && (marked == 0 || f.all&marked != 0) &&
		!slices.ContainsFunc(r.Needs, func(n Need) bool { return !n.met(f) })
}

// asked is a rule that has something to look at in a recording.
type asked struct {
	rule         uint8 // index into the registry, and 1
	signal       Signal
	birth, death frames.Marks
	next         int // place in its list of the first rule of another signal
	claim        func(id timeline.AllocationID) claim
}

// panel are the rules to ask, by the birth of an allocation: a phase, or older.
type panel [NumPhases + 1][]asked

// seat has the rules of a registry look at a recording, all but some.
func seat(f *analysis, registry []*Rule, without []string) (p panel) {
	claims := make([]func(timeline.AllocationID) claim, len(registry))
	together.Each(len(registry), func(i int) {
		if r := registry[i]; !r.Siblings && r.speaks(f, without) {
			claims[i] = r.Begin(f)
		}
	})
	for birth := range p {
		for i, r := range registry {
			if claims[i] != nil && r.Born>>birth&1 != 0 {
				p[birth] = append(p[birth], asked{uint8(i + 1), r.Signal, r.Birth, r.Death, 0, claims[i]})
			}
		}
		list := p[birth]
		slices.SortStableFunc(list, func(a, b asked) int { return int(a.signal) - int(b.signal) })
		for i := range list {
			list[i].next = len(list)
			for k := i + 1; k < len(list); k++ {
				if list[k].signal != list[i].signal {
					list[i].next = k
					break
				}
			}
		}
	}
	return p
}
