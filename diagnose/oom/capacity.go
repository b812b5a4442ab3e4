package oom

import "github.com/vramscope/vramscope/evidence"

// Sizes are the words on the size of a GPU beside those of the evidence, and which
// of the evidence's may be of it.
type Sizes struct {
	Given    int64 // the user's word, 0: none
	Recorded int64 // as the recording of a failed request tells, 0: it doesn't
	// Device and GPU are how messages and monitors number it; negative: any will do,
	// if all are of one size.
	Device, GPU int
	// Least is what was reserved: a smaller size is another GPU's, but for monitors
	// where the driver goes on in the host's memory.
	Least int64
	Spill bool
}

// Capacity takes the strongest word on the size of a GPU: the user's, the recorded
// failure's, that of out-of-memory messages, of monitors, of a trainer, who doesn't
// say which GPU he means. It is 0 where nothing tells.
func (s *Sizes) Capacity(ev *evidence.Evidence) (bytes int64, source string) {
	if s.Given > 0 {
		return s.Given, "flag"
	}
	if s.Recorded > 0 {
		return s.Recorded, "oom_entry"
	}
	var one size
	for _, m := range ev.OOMMessages {
		if m.CapacityBytes != nil && *m.CapacityBytes >= s.Least {
			one.see(*m.CapacityBytes, evidence.Or(m.GPU, -1), s.Device)
		}
	}
	if one.bytes != 0 {
		return one.agreed("message")
	}
	for _, g := range ev.GPUs {
		if g.TotalBytes != nil && (*g.TotalBytes >= s.Least || s.Spill) {
			one.see(*g.TotalBytes, g.GPU, s.GPU)
		}
	}
	if one.bytes != 0 {
		return one.agreed("nvidia_smi")
	}
	for _, log := range ev.Logs {
		if c := log.Pressure.CapacityBytes; c != 0 && s.GPU < 0 {
			one.see(c, -1, s.GPU)
		}
	}
	return one.agreed("trainer")
}

// size is what was said first of a GPU, or of all.
type size struct {
	bytes  int64 // 0: nothing
	differ bool  // others are of another size
}

// see takes a word on the GPU of a number, negative where it doesn't say, of a
// wanted one, negative for any.
func (s *size) see(bytes int64, number, wanted int) {
	switch {
	case wanted >= 0 && number >= 0 && number != wanted:
	case s.bytes == 0:
		s.bytes = bytes
	case wanted < 0:
		s.differ = s.differ || bytes != s.bytes
	}
}

func (s *size) agreed(source string) (int64, string) {
	if s.differ || s.bytes <= 0 {
		return 0, ""
	}
	return s.bytes, source
}
