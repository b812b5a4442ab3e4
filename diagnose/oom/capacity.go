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
	var said int64
	differ := false
	see := func(bytes int64, number, of int) {
		if said == 0 && (of < 0 || number < 0 || number == of) {
			said = bytes
		} else if of < 0 {
			differ = differ || bytes != said
		}
	}
	for _, m := range ev.OOMMessages {
		if m.CapacityBytes != nil && *m.CapacityBytes >= s.Least {
			see(*m.CapacityBytes, evidence.Or(m.GPU, -1), s.Device)
		}
	}
	source = "message"
	if said == 0 {
		for _, g := range ev.GPUs {
			if g.TotalBytes != nil && (*g.TotalBytes >= s.Least || s.Spill) {
				see(*g.TotalBytes, g.GPU, s.GPU)
			}
		}
		source = "nvidia_smi"
	}
	if said == 0 && s.GPU < 0 {
		for _, log := range ev.Logs {
			if log.Pressure.CapacityBytes != 0 {
				see(log.Pressure.CapacityBytes, -1, -1)
			}
		}
		source = "trainer"
	}
	if differ || said <= 0 {
		return 0, ""
	}
	return said, source
}
