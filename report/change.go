package report

import (
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
)

// Outcome is what comes of a change: to peak allocated memory or, where Reserved says
// so, to peak reserved memory, in bytes. Fields are nil where that isn't known.
type Outcome struct {
	FixID      *string      `json:"fix_id"` // a stable word for the change
	PeakBefore *int64       `json:"peak_before_bytes"`
	PeakAfter  *int64       `json:"peak_after_bytes"`
	Fits       *bool        `json:"fits"`  // whether the run goes through with it
	Basis      *string      `json:"basis"` // replay, lives, budget or figures
	Reserved   bool         `json:"-"`
	Answer     words.Answer `json:"answer"` // of a run that failed, "" where nothing was worked out
	Tried      string       `json:"-"`      // the change as a replay knows it
	// ReservedPeak is what becomes of peak reserved memory besides; both 0 where that isn't known.
	ReservedPeak Fall `json:"-"`
}

// Settle notes what becomes of the run.
func (o *Outcome) Settle(a words.Answer) { o.Answer, o.Fits = a, a.Through() }

// Change is something to change in a program, with what comes of it.
type Change struct {
	Outcome
	Text    string `json:"text"`
	Code    string `json:"code"`    // what to paste, "" where there is nothing
	At      *Place `json:"at"`      // the line that it is about
	Finding int    `json:"finding"` // index into the device's findings
	Cost    string `json:"cost"`    // free, compute or other
	// What becomes of the peaks, nil where that isn't known.
	AllocatedBefore *int64 `json:"allocated_before"`
	AllocatedAfter  *int64 `json:"allocated_after"`
	ReservedBefore  *int64 `json:"reserved_before"`
	ReservedAfter   *int64 `json:"reserved_after"`
	Price           string `json:"-"` // the change by its name and what it costs, with {peak} for what becomes of it
}

// Priced are the changes that stand for themselves: of a run that fits those that cost nothing; what the others would
// give is one sentence.
func (d *Device) Priced() (rows []*Change, prices string) {
	for i := range d.Changes {
		c := &d.Changes[i]
		if len(d.OOMs) > 0 || c.Cost == Free {
			rows = append(rows, c)
		} else if c.Price != "" && c.Saves() > 0 {
			prices += "; " + strings.Replace(c.Price, "{peak}", units.Fall(*c.PeakBefore, *c.PeakAfter), 1)
		}
	}
	return rows, strings.TrimPrefix(prices, "; ")
}

// Free is the cost of a change that asks for nothing but the change.
const Free = "free"

// Fall is what becomes of a peak.
type Fall struct{ Before, After int64 }

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
