package logs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// spills looks for logs whose memory exceeds the GPU's, and for a GPU that is
// full to the brim from the step on at which steps become slow.
func (w *witness) spills() bool {
	for i := range w.doc.Devices {
		if slices.ContainsFunc(w.doc.Devices[i].Findings, func(f report.Finding) bool { return f.ID == "shared_memory_spill" }) {
			return true
		}
	}
	found := false
	for _, log := range w.doc.Evidence.Logs {
		if len(w.doc.Evidence.MessagesOf(log.Source)) > 0 {
			continue // who gets errors doesn't spill
		}
		steps := log.Steps
		capacity := w.capacityOf()
		most := max(evidence.Or(steps.MaxReservedBytes, -1), evidence.Or(steps.MaxMemoryBytes, -1))
		switch full, percent := w.brimful(); {
		case capacity > 0 && most > capacity && !MustFail(w.doc.Evidence):
			w.add(Spill(most-capacity, capacity, fmt.Sprintf("%s reports %s", w.name(log.Source), units.Bytes(most)), steps))
			found = true
		case full && MaySpill(w.doc.Evidence):
			seconds := seriesOf(steps.Row(0), secondsOf)
			if _, ok := series.Jumped(seconds.values, slower); ok {
				f := Spill(0, capacity, fmt.Sprintf("nvidia-smi saw it %.1f %% full", percent), steps)
				f.Confidence = 0.6
				w.add(f)
				found = true
			}
		}
	}
	return found
}

// MustFail tells of GPUs by whose names nothing spills.
func MustFail(ev *evidence.Evidence) bool {
	return !MaySpill(ev) && slices.ContainsFunc(ev.GPUs, func(g evidence.GPU) bool { return g.Name != nil })
}

// MaySpill tells a driver that puts what doesn't fit into the host's memory:
// that of Windows, which WSL has too. Data centre GPUs run on Linux, where a
// full GPU means errors, or an allocator that gives back and asks again.
func MaySpill(ev *evidence.Evidence) bool {
	for _, g := range ev.GPUs {
		if g.Name != nil && strings.Contains(*g.Name, "GeForce") {
			return true
		}
		for _, p := range g.Processes {
			if p.Name != nil && (strings.Contains(*p.Name, `:\`) || strings.HasSuffix(*p.Name, ".exe")) {
				return true
			}
		}
	}
	return false
}

// brimful reports whether nvidia-smi saw any GPU filled to the last percents.
func (w *witness) brimful() (bool, float64) {
	for _, g := range w.doc.Evidence.GPUs {
		if g.PeakUsedBytes != nil && g.TotalBytes != nil && *g.TotalBytes > 0 {
			if share := float64(*g.PeakUsedBytes) / float64(*g.TotalBytes); share >= nearlyFull {
				return true, 100 * share
			}
		}
	}
	return false, 0
}

// Spill says what spills and what that costs in time, as far as a log tells.
// Memory beyond the GPU's size is what drivers for Windows and WSL put into the
// host's memory without a word: no error, but slow steps.
func Spill(beyond, capacity int64, where string, steps *evidence.Steps) report.Finding {
	f := report.Finding{ID: "shared_memory_spill", Severity: report.Warning, Confidence: 0.9,
		Evidence: []string{fmt.Sprintf("%s, the GPU has %s", where, units.Bytes(capacity))}, Fix: advice.Text("log.spill")}
	full, took := "The GPU is full and steps became slow: memory spills into the host's (Windows, WSL)", ""
	if beyond > 0 {
		full = units.Bytes(beyond) + " more than the GPU has: it lies in the host's memory, behind PCIe (Windows, WSL)"
		f.SavesBytes = &beyond
	}
	if steps != nil {
		if fast, slow, count, ok := spillCost(steps, capacity); ok {
			took = fmt.Sprintf("; steps take %s instead of %s", units.Duration(slow), units.Duration(fast))
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s of the log took %s each instead of %s (%.1f times): %s lost",
				units.Plural(count, "step"), units.Duration(slow), units.Duration(fast), slow/fast,
				units.Duration((slow-fast)*float64(count))))
		} else {
			f.Confidence = 0.8
			f.Evidence = append(f.Evidence, "no log shows what it costs in time")
		}
	}
	f.Title = full + took
	return f
}

// spillCost compares the steps within the GPU's size with those beyond it; where
// the log has no memory per step, those before and after they became slow.
func spillCost(steps *evidence.Steps, capacity int64) (fast, slow float64, count int, ok bool) {
	var within, beyond []float64
	for i := range steps.Curve {
		x := &steps.Curve[i]
		bytes := max(x.AllocatedBytes, x.ReservedBytes)
		if x.Seconds <= 0 || bytes < 0 {
			continue
		}
		if bytes > capacity {
			beyond = append(beyond, x.Seconds)
		} else {
			within = append(within, x.Seconds)
		}
	}
	all := seriesOf(steps.Curve, secondsOf)
	if len(within) >= 2 && len(beyond) >= 2 && series.Median(beyond) >= slower*series.Median(within) {
		return series.Median(within), series.Median(beyond), int(float64(len(beyond)) * max(1, all.stride())), true
	}
	if j, ok := series.Jumped(all.values, slower); ok {
		return j.Before, j.After, stepsFrom(&all, j.At), true
	}
	return 0, 0, 0, false
}
