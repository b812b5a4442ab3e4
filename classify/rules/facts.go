// Package rules is what all reasons to say what an allocation holds have in common: the
// form of a rule, what rules claim, and the facts of a recording that they share.
//
// A rule lives in the package below that has its evidence, and in classify's registry.
// What only one rule looks up belongs into its Begin; what several read is a Fact, beside
// what finds it, and named among the Needs of each rule that asks for it.
package rules

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
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
