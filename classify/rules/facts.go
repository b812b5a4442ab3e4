// Package rules is what all reasons to say what an allocation holds have in common: the
// form of a rule, what rules claim, and the facts of a recording that they share.
//
// A rule lives in the package below that has its evidence, and in classify's registry.
// What only one rule looks up belongs into its Begin; what several read is a Fact, beside
// what finds it, and named among the Needs of each rule that asks for it.
package rules

import (
	"sync"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// Facts are one look at a device: its program, and what rules share, each worked out when
// it is asked for. Rules only read them.
type Facts struct {
	*phases.Program
	Labels map[timeline.AllocationID]meaning.Category
	known  []cell
	asked  func(Need) // told of each fact that is asked for; nil: nobody is
}

// New is a look at a program.
func New(p *phases.Program) *Facts { return &Facts{Program: p, known: make([]cell, numFacts)} }

// Sharing marks the events within ranges that FSDP names; nil: there are none.
var Sharing = Named("ranges that FSDP names", func(a *Facts) []bool { return a.Communicates() })

// Need is what a rule asks of a recording: a Condition, or a Fact of any type.
type Need interface{ String() string }

// Condition is what must be there; without it nothing is asked of a rule.
type Condition uint8

// The conditions of rules.
const (
	Labels   Condition = iota // a labels file, or the recording's own metadata
	Stacks                    // stacks of allocations
	NoStacks                  // none of them: the rule stands in for what stacks would tell
	Native                    // C++ frames
	Training                  // a backward pass
)

// String is what is needed, in words.
func (c Condition) String() string {
	return [...]string{"labels", "stacks", "a recording without stacks", "C++ frames", "a backward pass"}[c]
}

// met reports whether a recording has what a condition names.
func (c Condition) met(f *Facts) bool {
	switch c {
	case Labels:
		return len(f.Labels) > 0
	case Stacks:
		return f.Recorded.Allocs
	case NoStacks:
		return !f.Recorded.Allocs
	case Native:
		return f.Recorded.Native
	}
	return f.Trains
}

// Fact is something that rules share. It is worked out when it is first asked for, once.
type Fact[T any] struct {
	name string
	find func(*Facts) T
	cell int
}

// numFacts counts the facts, which are all made before the first look.
var numFacts int

// Named is a fact that is found so; the name is for documents.
func Named[T any](name string, find func(*Facts) T) *Fact[T] {
	numFacts++
	return &Fact[T]{name, find, numFacts - 1}
}

// String is the fact in a few words.
func (f *Fact[T]) String() string { return f.name }

// Of is the fact about a recording.
func (f *Fact[T]) Of(a *Facts) T {
	if a.asked != nil {
		a.asked(f)
		plain := *a
		plain.asked = nil
		a = &plain
	}
	c := &a.known[f.cell]
	c.once.Do(func() { c.value = f.find(a) })
	return c.value.(T)
}

// work works a fact out, whoever will ask for it.
func (f *Fact[T]) work(a *Facts) { f.Of(a) }

// carry takes a fact over from one look to another.
func (f *Fact[T]) carry(from, to *Facts) {
	c := &to.known[f.cell]
	c.once.Do(func() { c.value = f.Of(from) })
}

// worked is a fact of any type.
type worked interface {
	Need
	work(*Facts)
	carry(from, to *Facts)
}

type cell struct {
	once  sync.Once
	value any
}

// Ask works out facts at the same time.
func (f *Facts) Ask(needs ...Need) {
	var parts []func()
	for _, n := range needs {
		if w, ok := n.(worked); ok {
			parts = append(parts, func() { w.work(f) })
		}
	}
	together.Do(parts...)
}

// Again is another look at the same program, whose phases have changed meanwhile, with those
// facts of this one that stay as they were.
func (f *Facts) Again(stay ...Need) *Facts {
	again := New(f.Program)
	for _, n := range stay {
		n.(worked).carry(f, again)
	}
	return again
}

// Watched is the same look, which tells of each fact that is asked of it, those aside that
// other facts ask for.
func (f *Facts) Watched(asked func(Need)) *Facts {
	watched := *f
	watched.asked = asked
	return &watched
}
