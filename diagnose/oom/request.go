package oom

import "github.com/vramscope/vramscope/report"

// Request is a failed request in the figures that decide its cause, whether a
// recording or a message gives them. Bytes are negative where nothing tells them.
type Request struct {
	Needs   int64 // of the driver: as much as was asked for, or a whole segment
	Size    int64 // of the GPU
	Free    int64 // on the GPU
	Cached  int64 // in PyTorch's cache
	Missing int64 // beyond all that was free; negative: it would have fitted
	Others  int64 // that other processes hold
	// Least is what others must hold to be a cause. A message knows this process' own
	// memory outside of PyTorch only roughly; a recording's figure is already without it.
	Least int64
	// Limited tells that the process may not have all of the GPU.
	Limited bool
	// Scattered tells that what was free in the cache would have done in one piece: a
	// recording knows what the pass still needs, a message how much of the cache is usual.
	Scattered bool
}

// Cause is the verdict on a request. It is the one order in which causes are weighed.
func (r *Request) Cause() string {
	switch {
	case r.Size > 0 && r.Needs > r.Size:
		return report.TrueShortage
	case r.Limited && r.Free >= r.Needs:
		return report.MemoryFraction // the driver would have had it
	case r.Missing > 0 && r.Others >= max(r.Missing, r.Least):
		return report.OtherProcess
	case r.Missing > 0:
		return report.TrueShortage
	case r.Least > 0 && r.Others >= max(r.Least, r.Needs, r.Cached):
		return report.OtherProcess // a message's figures are of one moment, and what PyTorch held is little
	case r.Scattered:
		return report.Fragmentation
	case r.Free >= r.Needs && r.Cached < r.Needs:
		return report.MemoryFraction
	}
	return report.TrueShortage
}
