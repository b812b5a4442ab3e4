package report

import (
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// Outcome is what comes of a change: to peak allocated memory or, where Reserved says
// so, to peak reserved memory, in bytes. Fields are nil where that isn't known.
type Outcome struct {
	FixID      *string `json:"fix_id"` // a stable word for the change
	PeakBefore *int64  `json:"peak_before_bytes"`
	PeakAfter  *int64  `json:"peak_after_bytes"`
	Fits       *bool   `json:"fits"`  // whether the run goes through with it
	Basis      *string `json:"basis"` // replay, lives, budget or figures
	Reserved   bool    `json:"-"`
	Meets      bool    `json:"-"` // the request that failed, if nothing else came after it
}

// Change is something to change in a program, with what comes of it.
type Change struct {
	Outcome
	Text    string `json:"text"`
	Code    string `json:"code"`    // what to paste, "" where there is nothing
	At      *Place `json:"at"`      // the line that it is about
	Finding int    `json:"finding"` // index into the device's findings
}

// Saves is what a change takes off a peak, in bytes; 0 where that isn't known.
func (o *Outcome) Saves() int64 {
	if o.PeakBefore == nil || o.PeakAfter == nil {
		return 0
	}
	return *o.PeakBefore - *o.PeakAfter
}

// Falls is what a change makes of a peak, "" where that isn't known.
func (o *Outcome) Falls() string {
	if o.Saves() <= 0 {
		return ""
	}
	return units.Fall(*o.PeakBefore, *o.PeakAfter)
}

// Missed is what of a category was still to come.
func (x *Projection) Missed(category string) (bytes int64) {
	for _, m := range x.Missing {
		if m.Category == category {
			bytes += m.Bytes
		}
	}
	return bytes
}

// Projection is what a run would have needed that didn't come so far: an estimate.
type Projection struct {
	NeedsBytes int64     `json:"needs_bytes"`
	Basis      string    `json:"basis"`
	Missing    []Missing `json:"missing"`
	// FitsGPUs is over how many such GPUs weights, gradients and optimizer state have to
	// be spread for the rest to fit beside; nil: no number of them is enough, or it isn't known.
	FitsGPUs *int `json:"fits_gpus"`
}

// Missing is what of a category was still to come, in bytes.
type Missing struct {
	Category string `json:"category"`
	Bytes    int64  `json:"bytes"`
}

// Environment is what the evidence tells of where a run ran; nil: nothing tells.
type Environment struct {
	Torch     *string `json:"torch"`
	CUDA      *string `json:"cuda"`
	Driver    *string `json:"driver"`
	GPU       *string `json:"gpu"`
	WorldSize *int    `json:"world_size"`
	Settings  *string `json:"allocator_settings"`
	Command   *string `json:"command"` // of the program that was recorded
	Python    *string `json:"python"`
	GitCommit *string `json:"git_commit"`

	// Simulated is the GPU that wasn't there, and what hangs on that; nil: it ran on a real one, as far as anything tells.
	Simulated *evidence.Simulated `json:"simulated"`
}
