package rules

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// Rule is one reason to say what an allocation holds, with its papers.
type Rule struct {
	ID  string // a word for tables and reports
	Doc string // for users: what it goes by, and when it is unsure; the first sentence is shown beside an allocation

	Signal meaning.Signal // the kind of evidence; rules of one signal are asked in order, the first that claims speaks for it
	Born   Births         // what it speaks of
	Needs  []Need         // facts that must be there; without one of them nothing is asked
	Round  int            // the round of labelled recordings that it was written with; 0: the second
	// Proven is how often it is right on recordings that it wasn't written for, in percent, where that is neither what it
	// claims nor a matter of single runs; 0: as it claims. Claims meet as they are; what is told of a block in the end is this.
	Proven uint8

	// Birth and Death are the marks of an allocation's stacks of which the rule speaks,
	// any of them; without any it may speak of all.
	Birth, Death frames.Marks

	// Siblings is true of rules that look at what others turned out to be. They are asked
	// last, of what nothing surer is known.
	Siblings bool

	// Begin looks at a recording, and gives what claims; nil where nothing in it is the rule's business. A rule that has nothing
	// to look up before has a Claim instead.
	Begin func(f *Facts) Says
	Claim func(f *Facts, id timeline.AllocationID) Claim
}

// Says is what claims of allocations.
type Says = func(id timeline.AllocationID) Claim

// Look is what a rule claims by of a recording; nil where nothing in it is its business.
func (r *Rule) Look(f *Facts) Says {
	if r.Begin != nil {
		return r.Begin(f)
	}
	return func(id timeline.AllocationID) Claim { return r.Claim(f, id) }
}

// Reason is the first sentence of a rule's documentation.
func (r *Rule) Reason() string {
	text := strings.Join(strings.Fields(r.Doc), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}

// Births are sets of phases in which an allocation was made, Older among them.
type Births uint16

// Older is the birth of what is older than the trace.
const (
	Older    Births = 1 << meaning.NumPhases
	AnyBirth Births = Older - 1
	AnyTime  Births = Older | AnyBirth
)

// BornIn are the births in some phases.
func BornIn(phases ...meaning.Phase) (b Births) {
	for _, p := range phases {
		b |= 1 << p
	}
	return b
}

// Claim is what one rule says of one allocation; sure is in percent, 0 for
// nothing to say.
type Claim struct {
	Category meaning.Category
	Detail   meaning.Detail
	Sure     uint8
	Last     bool // no later rule of the signal speaks of it either
}

// How sure claims are, in percent.
const (
	Exact     = 99
	Strong    = 95
	Likely    = 85
	Plausible = 70
	Guess     = 50
)

// As claims a category of which the kind is not known, or is the only one.
func As(c meaning.Category, sure uint8) Claim { return Claim{Category: c, Sure: sure} }

// KindOf claims a kind within a category.
func KindOf(c meaning.Category, d meaning.Detail, sure uint8) Claim {
	return Claim{Category: c, Detail: d, Sure: sure}
}

// Silence is the claim that there is nothing to say, not by later rules of the signal either.
func Silence() Claim { return Claim{Last: true} }

// Speaks is true of a rule that a recording has something for.
func (r *Rule) Speaks(f *Facts) bool {
	marked := r.Birth | r.Death
	return (marked == 0 || f.All&marked != 0) && !slices.ContainsFunc(r.Needs, func(n Need) bool {
		c, ok := n.(Condition)
		return ok && !c.met(f)
	})
}

// Asks is true of a rule that needs something.
func (r *Rule) Asks(n Need) bool { return slices.Contains(r.Needs, n) }

// Asked is a rule that has something to look at in a recording.
type Asked struct {
	Rule         uint8 // index into the registry, and 1
	Signal       meaning.Signal
	Birth, Death frames.Marks
	Next         int // place in its list of the first rule of another signal
	// Group are the marks of which one must be there for any rule of the signal, of its first one; 0: none must.
	Group frames.Marks
	Claim Says
}

// Panel are the rules to ask, by the birth of an allocation: a phase, or older.
type Panel [meaning.NumPhases + 1][]Asked

// Claims are what rules of a registry claim by, in its order; nil for those that have
// nothing to look at in a recording.
type Claims []Says

// Begin has those rules of a registry look at a recording that need labels, or the others,
// once what they all need is worked out.
func (c Claims) Begin(f *Facts, registry []*Rule, labels bool) {
	var turn []int
	var needs []Need
	for i, r := range registry {
		if !r.Siblings && r.Asks(Labels) == labels && r.Speaks(f) {
			turn = append(turn, i)
			for _, n := range r.Needs {
				if !slices.Contains(needs, n) {
					needs = append(needs, n)
				}
			}
		}
	}
	f.Ask(needs...)
	together.Each(len(turn), func(k int) { c[turn[k]] = registry[turn[k]].Look(f) })
}

// Among claims the same of all allocations of a set; nil where there are none.
func Among(ids map[timeline.AllocationID]bool, c Claim) Says {
	if len(ids) == 0 {
		return nil
	}
	return func(id timeline.AllocationID) Claim { return When(ids[id], c) }
}

// Marked claims the same of all allocations that are marked; nil where none is.
func Marked(marks []bool, c Claim) Says {
	if !slices.Contains(marks, true) {
		return nil
	}
	return func(id timeline.AllocationID) Claim { return When(marks[id], c) }
}

// Each claims what was found for single allocations; nil where that is none.
func Each(claims map[timeline.AllocationID]Claim) Says {
	if len(claims) == 0 {
		return nil
	}
	return func(id timeline.AllocationID) Claim { return claims[id] }
}

// When is a claim under a condition.
func When(is bool, c Claim) Claim {
	if is {
		return c
	}
	return Claim{}
}

// Seat arranges the rules that claim something by the births of which they speak.
func (c Claims) Seat(registry []*Rule) (p Panel) {
	for birth := range p {
		for i, r := range registry {
			if c[i] != nil && r.Born>>birth&1 != 0 {
				p[birth] = append(p[birth], Asked{Rule: uint8(i + 1), Signal: r.Signal, Birth: r.Birth, Death: r.Death,
					Claim: c[i]})
			}
		}
		list := p[birth]
		slices.SortStableFunc(list, func(a, b Asked) int { return int(a.Signal) - int(b.Signal) })
		for first := 0; first < len(list); {
			end := first + 1
			for end < len(list) && list[end].Signal == list[first].Signal {
				end++
			}
			group(list[first:end], end)
			first = end
		}
	}
	return p
}

// group ties the rules of one signal together.
func group(list []Asked, end int) {
	all := frames.Marks(0)
	marked := true
	for i := range list {
		list[i].Next = end
		all |= list[i].Birth | list[i].Death
		marked = marked && list[i].Birth|list[i].Death != 0
	}
	if marked {
		list[0].Group = all
	}
}
