package phases

import (
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Signal is one way to tell phases, steps or passes, with its papers.
type Signal struct {
	ID    string // a word for reports
	Doc   string // for users: what it goes by, and when it is unsure; the first sentence is shown beside a phase
	Tells Subject
	Needs []Need // facts that must be there; without one of them nothing is asked

	// Find gives what the signal finds. It changes nothing: the join does.
	Find func(*facts) found
}

// Reason is the first sentence of a signal's documentation.
func (s *Signal) Reason() string {
	text := strings.Join(strings.Fields(s.Doc), " ")
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".") + "."
}

// Subject is what a signal tells.
type Subject uint8

// The subjects of signals, in the order in which they are asked about.
const (
	Events Subject = iota // phases of events
	Steps                 // where iterations begin: the first signal that knows decides
	Passes                // forward passes that no backward pass follows
)

// String is the subject in words.
func (s Subject) String() string {
	return [...]string{"phases of events", "where steps begin", "passes that aren't trained on"}[s]
}

// Need is a fact that a signal asks.
type Need uint8

// The needs of signals.
const (
	Stacks       Need = iota // stacks of allocations
	NoStacks                 // none of them
	NoFreeStacks             // none of frees
	Times                    // when events were
	Ranges                   // named ranges
	Unseen                   // no backward pass found so far
	Training                 // a backward pass
)

// String is what is needed, in words.
func (n Need) String() string {
	return [...]string{"stacks", "a recording without stacks", "frees without stacks", "times of events", "named ranges",
		"no backward pass found so far", "a backward pass"}[n]
}

func (n Need) met(f *facts) bool {
	return [...]bool{f.Recorded.Allocs, !f.Recorded.Allocs, !f.Recorded.Frees, f.Events.TimeUS != nil, len(f.Windows) > 0,
		len(f.roots) == 0, f.Trains}[n]
}

// facts are what signals are asked with: the program, and what those before them found.
type facts struct {
	*Program
	roots    []root                         // backward passes that no stack shows
	unpacked map[timeline.AllocationID]bool // what flat buffers were made of
	stepping []int                          // first events of the windows in which an optimizer steps or clears
	kept     map[snapshot.StackID]bool      // lines of which nothing ever goes; gaps ask for them
}

// found is what one signal found.
type found struct {
	named    []said                         // the phases that stacks name, by event
	spans    spans                          // phases of events that have none yet
	windows  []window                       // instead of those so far
	covered  spans                          // by optimizers that step or clear
	roots    []root                         // besides those so far
	packed   map[timeline.AllocationID]bool // flat buffers
	unpacked map[timeline.AllocationID]bool
	loop     *int                      // first event of the program's loop
	loads    map[snapshot.StackID]bool // lines that load batches

	starts       []int // of steps
	checkpointed bool  // what looked like steps are layers that keep one block each

	untrained, waiting [][]meaning.Step
}

// span is a stretch of events, up to but without end. A phase is only given to events that have none or, in place of another,
// to those that have that one.
type span struct {
	first, end int32
	phase      meaning.Phase
	instead    meaning.Hint
}

type spans []span

// add appends a stretch, or makes the last one longer.
func (s *spans) add(first, end int, p meaning.Phase) {
	if first >= end {
		return
	}
	if n := len(*s) - 1; n >= 0 && (*s)[n].phase == p && int((*s)[n].end) == first {
		(*s)[n].end = int32(end)
	} else {
		*s = append(*s, span{phase: p, first: int32(first), end: int32(end)})
	}
}

// said is the hint at an event's phase, and the place in the registry of the signal that gave it.
type said uint8

func saidBy(signal int, h meaning.Hint) said { return said(signal)<<4 | said(h) }
func (s said) hint() meaning.Hint            { return meaning.Hint(s & 15) }
func (s said) signal() int                   { return int(s >> 4) }

// hint is what is known of an event's phase so far.
func (f *facts) hint(event int) meaning.Hint { return f.hints[event].hint() }
