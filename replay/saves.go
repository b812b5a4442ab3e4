package replay

import (
	"errors"

	"github.com/vramscope/vramscope/classify"
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
	var before Result
	list := make([]Saving, 0, len(names))
	for i, name := range names {
		c, err := ParseChange(name)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			before = p.Run(Scenario{Settings: p.Settings, Packed: len(p.layout.Segments) > 0})
		}
		s := Saving{Change: name}
		after, done, err := p.Apply([]Change{c}, classes)
		if err != nil {
			s.Impossible = err.Error()
		} else {
			r := after.Run(Scenario{Settings: p.Settings})
			s.Assumption = done[0].Assumption
			s.Allocated, s.Reserved = before.PeakAllocated-r.PeakAllocated, before.PeakReserved-r.PeakReserved
		}
		list = append(list, s)
	}
	return list, nil
}
