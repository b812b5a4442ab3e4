package simulate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/evidence"
)

// Card is what of a setting decides the bytes.
type Card = evidence.SimulatedCard

// Assumption is a size that depends on data, and what it was taken to be.
type Assumption = evidence.Assumption

// Card is what of the setting decides the bytes.
func (s *Setting) Card() Card {
	return Card{GPU: s.GPU.Name, Device: s.GPU.Device, Count: s.Count, Capability: fmt.Sprintf("%d.%d", s.GPU.Major, s.GPU.Minor),
		Multiprocessors: s.GPU.SMs, CapacityBytes: s.total(), ContextBytes: s.Context, OtherBytes: s.Other, Sizes: s.Sizes,
		WorldSize: s.World, Rank: s.Rank, NoWeights: s.NoWeights}
}

// Account is what a process says of its GPU in the end.
type Account struct {
	Devices     []DeviceAccount `json:"devices"`
	Unknown     map[string]int  `json:"unknown_calls"`
	Uncounted   map[string]int  `json:"uncounted"`
	Assumptions []Assumption    `json:"assumptions"`
	Ended       *string         `json:"ended"`
}

// DeviceAccount is what of one device was taken.
type DeviceAccount struct {
	PeakBytes int64 `json:"peak_bytes"`
	Refused   int   `json:"refused"`
}

// maxAssumptions bounds how many lines are told.
const maxAssumptions = 200

// Together adds what was assumed on the same lines by another process: of ranks, the one with most bytes.
func Together(all, more []Assumption) []Assumption {
	for _, a := range more {
		at := slices.IndexFunc(all, func(b Assumption) bool { return a.What == b.What && a.File == b.File && a.Line == b.Line })
		switch {
		case at < 0 && len(all) < maxAssumptions:
			all = append(all, a)
		case at >= 0 && a.Bytes > all[at].Bytes:
			all[at] = a
		}
	}
	slices.SortStableFunc(all, func(a, b Assumption) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return all
}
