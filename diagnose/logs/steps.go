package logs

import (
	"fmt"
	"math"
	"slices"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// stepSeries are the steps of a log as parallel columns, only those that tell
// the quantity.
type stepSeries struct {
	numbers []int64 // step numbers, or positions where the log has none
	epochs  []int64 // -1: not said
	values  []float64
}

func seriesOf(steps []evidence.Step, value func(*evidence.Step) float64) stepSeries {
	var s stepSeries
	for i := range steps {
		if v := value(&steps[i]); v > 0 && !math.IsInf(v, 0) {
			n := steps[i].Number
			if n < 0 {
				n = int64(i)
			}
			s.numbers, s.epochs, s.values = append(s.numbers, n), append(s.epochs, steps[i].Epoch), append(s.values, v)
		}
	}
	return s
}

func allocatedOf(s *evidence.Step) float64 { return float64(s.AllocatedBytes) }
func reservedOf(s *evidence.Step) float64  { return float64(s.ReservedBytes) }
func secondsOf(s *evidence.Step) float64   { return s.Seconds }

// stride is how many steps lie between two values; where the numbers begin again, as in the next epoch, nobody knows.
func (s *stepSeries) stride() float64 {
	steps, pairs := int64(0), 0
	for i := 1; i < len(s.numbers); i++ {
		if d := s.numbers[i] - s.numbers[i-1]; d > 0 {
			steps, pairs = steps+d, pairs+1
		}
	}
	if pairs == 0 {
		return 1
	}
	return float64(steps) / float64(pairs)
}

// again reports whether the numbers begin again.
func (s *stepSeries) again() bool { return !slices.IsSorted(s.numbers) }

// place names the step of a value, with its epoch where the numbers begin again.
func (s *stepSeries) place(i int) string {
	if s.again() && s.epochs[i] >= 0 {
		return fmt.Sprintf("step %d of epoch %d", s.numbers[i], s.epochs[i])
	}
	return fmt.Sprintf("step %d", s.numbers[i])
}

const (
	slower   = 1.5  // from which factor on a change of step time is told
	expected = 1.05 // and of memory
)

// logged tells what a log's steps show by themselves: memory that grows, and
// steps that become slow. Slow steps that spilling explains are told there.
func (w *witness) logged(source int, steps *evidence.Steps, spilt bool) {
	row := steps.Row(0)
	allocated, reserved, seconds := seriesOf(row, allocatedOf), seriesOf(row, reservedOf), seriesOf(row, secondsOf)
	if w.leaking() {
		allocated.values, reserved.values = nil, nil // the recording says more of it
	}
	if g, ok := series.Rising(allocated.values); ok {
		w.grows(source, "Allocated memory", "memory_grows", &allocated, g, *advice.Text("log.grows"))
	} else if g, ok := series.Rising(reserved.values); ok {
		id := "memory_grows"
		if len(allocated.values) > series.Points {
			id = "fragmentation_creep"
		}
		w.grows(source, "Reserved memory", id, &reserved, g,
			*advice.Text("log.cache_grows"))
	} else if w.climbs(source, "Allocated memory", &allocated) || len(allocated.values) == 0 &&
		w.climbs(source, "Reserved memory", &reserved) {
		// told
	} else if j, ok := series.Jumped(allocated.values, expected); ok && j.Sharp {
		w.stateMade(source, &allocated, j)
	}
	if j, ok := series.Jumped(seconds.values, slower); ok && !spilt && !steps.Interrupted {
		f := report.Finding{ID: "step_time_jump", Severity: report.Warning, Confidence: 0.8,
			Title: fmt.Sprintf("Steps became %.1f times slower at step %d: %s each instead of %s", j.After/j.Before,
				seconds.numbers[j.At], units.Duration(j.After), units.Duration(j.Before)),
			Evidence: []string{fmt.Sprintf("%s: %s of %s steps in the log are the slow ones, %s lost so far", w.name(source),
				units.Count(stepsFrom(&seconds, j.At)), units.Count(steps.Count),
				units.Duration((j.After-j.Before)*float64(stepsFrom(&seconds, j.At))))},
			Fix: advice.Text("log.slow")}
		if full, percent := w.brimful(); full {
			f.Evidence = append(f.Evidence, fmt.Sprintf("nvidia-smi saw the GPU %.1f %% full: PyTorch may be freeing its "+
				"cache and asking the driver again in every step (torch.cuda.memory_stats()[\"num_alloc_retries\"] counts it)",
				percent))
		}
		w.add(f)
	}
}

// leaking reports whether a recording shows what grows.
func (w *witness) leaking() bool {
	for i := range w.doc.Devices {
		for _, l := range w.doc.Devices[i].Leaks {
			if l.Defect {
				return true
			}
		}
	}
	return false
}

// stepsFrom is how many steps the values from an index on stand for.
func stepsFrom(s *stepSeries, at int) int {
	return int(math.Round(float64(len(s.values)-at) * max(1, s.stride())))
}

func (w *witness) grows(source int, what, id string, s *stepSeries, g series.Growth, fix string) {
	perStep := int64(g.PerPoint / s.stride())
	last := len(s.values) - 1
	f := report.Finding{ID: id, Severity: report.Warning, Confidence: 0.75, Fix: &fix, Code: how("loop"),
		Title: fmt.Sprintf("%s grows by %s a step in the log, from %s at %s to %s at %s", what, units.Bytes(perStep),
			units.Bytes(int64(s.values[0])), s.place(0), units.Bytes(int64(s.values[last])), s.place(last)),
		Evidence: []string{fmt.Sprintf("%s: %s more in %s steps, rising all along", w.name(source),
			units.Bytes(int64(s.values[last]-s.values[0])), units.Count(int(math.Round(float64(last)*s.stride()))))}}
	if id == "fragmentation_creep" {
		f.Title = fmt.Sprintf("Reserved memory grows while allocated memory doesn't: it rose by %s a step, from %s to %s",
			units.Bytes(perStep), units.Bytes(int64(s.values[0])),
			units.Bytes(int64(s.values[last])))
	}
	if c := w.capacityOf(); c > int64(s.values[last]) && perStep > 0 {
		left := (c - int64(s.values[last])) / perStep
		when := "at step " + units.Count(int(s.numbers[last]+left))
		if s.again() {
			when = "after " + units.Count(int(left)) + " steps more"
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("at this pace the GPU's %s are full %s", units.Bytes(c), when))
	}
	w.add(f)
}

// stateMade is the one rise that is no leak.
func (w *witness) stateMade(source int, s *stepSeries, j series.Jump) {
	w.add(report.Finding{ID: "first_step_state", Severity: report.Info, Confidence: 0.7,
		Title: fmt.Sprintf("Memory rises once, by %s at step %d, and stays: what an optimizer's state does at its first step, "+
			"not a leak",
			units.Bytes(int64(j.After-j.Before)), s.numbers[j.At]),
		Evidence: []string{fmt.Sprintf("%s: %s before, %s after", w.name(source), units.Bytes(int64(j.Before)),
			units.Bytes(int64(j.After))),
			"with gradient accumulation the first optimizer step comes after that many iterations"}})
}
