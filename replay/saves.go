package replay

import (
	"errors"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/replay/change"
)

// Saving is what a change to a program takes off its peaks, in bytes; negative
// where it adds.
type Saving struct {
	Change     string // as in --change
	Assumption string // what the figures take for granted, in a sentence
	Allocated  int64  // of peak allocated memory
	Reserved   int64  // of peak reserved memory
	// Impossible says why the change can't be made, "" when it can: then
	// nothing is saved.
	Impossible string
}

// Saves tells what each of some changes to a program saves by itself, in the
// order of their names. Both sides are replayed without a limit from the same
// first state, laid out anew where there is one, up to the first request that
// failed when recorded; that request counts as met. The work is one
// replay for each change, one for the recorded program, and Verify.
//
//	p, err := replay.NewProgram(t)
//	...
//	list, err := p.Saves(classes, "optimizer=8bit", "logits=chunked")
//
// It is an error if replays of the recording can't be trusted (Check.Refusal)
// or a name isn't known (ParseChange).
func (p *Program) Saves(classes *classify.Classification, names ...string) ([]Saving, error) {
	check := p.Verify()
	if reason := check.Refusal(); reason != "" {
		return nil, errors.New(reason)
	}
	list := make([]Saving, len(names))
	changes := make([]change.Change, len(names))
	for i, name := range names {
		var err error
		if changes[i], err = change.Parse(name); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return list, nil
	}
	var before Result
	together.Each(len(names)+1, func(i int) {
		if i == 0 {
			before = p.Run(Scenario{Settings: p.Settings, Packed: len(p.layout.Segments) > 0})
			return
		}
		list[i-1] = p.peaksWith(changes[i-1], classes)
	})
	for i := range list {
		if s := &list[i]; s.Impossible == "" {
			s.Allocated, s.Reserved = before.PeakAllocated-s.Allocated, before.PeakReserved-s.Reserved
		}
	}
	return list, nil
}

// peaksWith is a saving that holds the peaks with the change, as yet.
func (p *Program) peaksWith(c change.Change, classes *classify.Classification) Saving {
	s := Saving{Change: c.Name}
	after, done, err := p.Apply([]change.Change{c}, classes)
	if err != nil {
		s.Impossible = err.Error()
		return s
	}
	r := after.Run(Scenario{Settings: p.Settings})
	s.Assumption, s.Allocated, s.Reserved = done[0].Assumption, r.PeakAllocated, r.PeakReserved
	return s
}
