package tracker

import (
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

// run gathers what one file tells.
type run struct {
	Settings
	name     string // of the file, with slashes
	steps    evidence.Steps
	last     evidence.Step
	open     bool // last isn't filed yet
	curve    evidence.Thinned[evidence.Step]
	seconds  []float64 // of figures without a step
	memory   int64
	reserved int64
	gpus     map[int]*evidence.GPU
	size     int64 // of the GPU
	named    bool  // some figure is called allocated
	ended    evidence.Ending
	console  io.Writer // for what the program printed; nil: nobody wants it
}

const (
	// points bounds the kept steps to twice this number.
	points = 1024
	// maxGPUs bounds the GPUs of a file.
	maxGPUs = 64
)

func newRun(f *Form, name string) *run {
	r := &run{name: slashed(name), memory: -1, reserved: -1, Settings: NewSettings(f.Tracker)}
	r.last = noStep(-1)
	return r
}

func noStep(number int64) evidence.Step {
	return evidence.Step{Number: number, Epoch: -1, Loss: math.NaN(), Seconds: -1, AllocatedBytes: -1, ReservedBytes: -1}
}

// scalar takes one figure of a step; number -1 belongs to no step.
func (r *run) scalar(number int64, name string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	m, named := meaningOf(name)
	if named.What == figures.OfDevice {
		r.size = max(r.size, bytesOf(name, named, value))
	}
	if m == nothing || m == memory && !named.What.Held() {
		return
	}
	if number != r.last.Number || !r.open {
		r.file()
		r.last, r.open = noStep(number), true
	}
	s := &r.last
	switch m {
	case loss:
		s.Loss = value
	case seconds:
		s.Seconds = value
	case perSecond:
		if value > 0 {
			s.Seconds = 1 / value
		}
	case memory:
		r.holds(s, named.What, bytesOf(name, named, value))
	}
}

// holds takes what a step held.
func (r *run) holds(s *evidence.Step, what figures.What, bytes int64) {
	if what == figures.Reserved {
		s.ReservedBytes = max(s.ReservedBytes, bytes)
		return
	}
	r.named = r.named || what == figures.Allocated
	s.AllocatedBytes = max(s.AllocatedBytes, bytes)
}

// file counts the step that is complete.
func (r *run) file() {
	if !r.open {
		return
	}
	r.open = false
	s := r.last
	r.memory, r.reserved = max(r.memory, s.AllocatedBytes), max(r.reserved, s.ReservedBytes)
	if s.Number < 0 {
		if s.Seconds > 0 && len(r.seconds) < points {
			r.seconds = append(r.seconds, s.Seconds)
		}
		if !math.IsNaN(s.Loss) && r.p.FinalLoss == nil {
			r.p.FinalLoss, r.p.MeanLoss = &s.Loss, true // a total's, where no step tells one
		}
		return
	}
	if !math.IsNaN(s.Loss) {
		r.p.FinalLoss, r.p.MeanLoss = &s.Loss, false
	}
	r.steps.Count++
	if r.steps.First == nil {
		r.steps.First = &s.Number
	}
	r.steps.Last = &s.Number
	r.curve.Add(s, points)
}

// found is all that the file told.
func (r *run) found() *Found {
	r.file()
	f := &Found{}
	r.steps.Curve = r.curve.List
	for i := range r.curve.List {
		if s := r.curve.List[i].Seconds; s > 0 {
			r.seconds = append(r.seconds, s)
		}
	}
	if len(r.seconds) > 0 {
		slices.Sort(r.seconds)
		r.steps.MedianStepSeconds = new(r.seconds[len(r.seconds)/2])
	}
	r.steps.MaxMemoryBytes, r.steps.MaxReservedBytes = evidence.Known(r.memory), evidence.Known(r.reserved)
	r.steps.Named = r.memory >= 0 && r.named
	if r.memory < 0 {
		r.steps.MaxMemoryBytes, r.steps.OnlyReserved = r.steps.MaxReservedBytes, true
	}
	if r.steps.Count > 0 || r.steps.MaxMemoryBytes != nil || r.steps.MedianStepSeconds != nil {
		f.Steps = &r.steps
	}
	f.Parameters = r.Told()
	f.Ending, f.GPUBytes = r.ended, r.size
	for _, i := range slices.Sorted(maps.Keys(r.gpus)) {
		f.GPUs = append(f.GPUs, *r.gpus[i])
	}
	return f
}

// meaning is what a tracked figure's name says, where that isn't memory.
type meaning uint8

const (
	nothing meaning = iota
	memory
	loss
	seconds
	perSecond
)

// durations are names of a step's time.
var durations = []string{"step_time", "iter_time", "iteration_time", "time_per_step", "step_time_seconds", "batch_time",
	"time_per_iteration", "step_seconds", "iteration-time", "timing_s/step"}

// meaningOf reads names such as train/loss, perf/max_memory_allocated_gb,
// memory/max_reserved(GiB), train_steps_per_second.
func meaningOf(name string) (meaning, figures.Named) {
	lower := strings.ToLower(name)
	base := path.Base(lower)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, w) })
	}
	if has("eval", "val_", "val/", "valid", "test") {
		return nothing, figures.Named{}
	}
	switch n := figures.NameOf([]byte(lower)); {
	case n.Sure:
		return memory, n
	case slices.Contains([]string{"loss", "train_loss", "training_loss", "loss_step", "train_loss_step"}, base),
		strings.HasSuffix(lower, "loss/train"):
		return loss, n
	case has("steps_per_second", "iter_per_sec", "it_per_sec", "steps_per_sec"):
		return perSecond, n
	case slices.Contains(durations, base), strings.HasSuffix(lower, "timing_s/step"):
		return seconds, n
	}
	return nothing, figures.Named{}
}

// bytesOf is a figure in bytes: its name says the unit, or it can be nothing else;
// -1 where neither tells.
func bytesOf(name string, n figures.Named, value float64) int64 {
	unit := n.Factor
	switch {
	case unit == 0 && value >= 1<<24:
		unit = 1
	case unit == 0 && strings.HasPrefix(path.Base(strings.ToLower(name)), "peak_memory_"):
		unit = 1 << 30 // torchtune's
	case unit == 0:
		return -1
	}
	if value *= unit; value < 0 || value > figures.MaxMemory {
		return -1
	}
	return int64(value)
}

// reading takes what a tracker saw of a GPU. Bytes are negative where not told.
func (r *run) reading(gpu int, used, total int64, utilization float32, at evidence.Stamp) {
	if gpu < 0 || gpu >= maxGPUs {
		return
	}
	if r.gpus == nil {
		r.gpus = map[int]*evidence.GPU{}
	}
	g := r.gpus[gpu]
	if g == nil {
		g = &evidence.GPU{GPU: gpu, Tool: r.p.Tracker, Processes: []evidence.Process{}}
		r.gpus[gpu] = g
	}
	if total > 0 {
		g.TotalBytes = &total
	}
	if used < 0 {
		return
	}
	g.Samples++
	if g.PeakUsedBytes == nil || *g.PeakUsedBytes < used {
		g.PeakUsedBytes = &used
	}
	if at.Known() {
		if g.FirstTime == nil {
			g.FirstTime = &at
		}
		g.LastTime = &at
	}
	g.Series.Add(evidence.Sample{At: at, UsedBytes: used, UtilizationPercent: utilization})
}
