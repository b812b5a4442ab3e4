package tracker

import (
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

// run gathers what one file tells.
type run struct {
	name     string // of the file, with slashes
	steps    evidence.Steps
	last     evidence.Step
	open     bool // last isn't filed yet
	curve    evidence.Thinned[evidence.Step]
	seconds  []float64 // of figures without a step
	memory   int64
	reserved int64
	p        evidence.Parameters
	accum    int64
	gpus     map[int]*evidence.GPU
	size     int64 // of the GPU
	named    bool  // some figure is called allocated
	lengths  []length
	models   []string // above whose settings
	ended    evidence.Ending
	console  io.Writer // for what the program printed; nil: nobody wants it
}

const (
	// points bounds the kept steps to twice this number.
	points = 1024
	// maxGPUs bounds the GPUs of a file.
	maxGPUs = 64
	// maxText bounds what is kept of a parameter that is text.
	maxText = 200
)

func newRun(f *Form, name string) *run {
	r := &run{name: slashed(name), memory: -1, reserved: -1, p: evidence.Parameters{Tracker: f.Tracker}}
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
	r.sequence()
	if r.accum > 1 {
		r.p.Accumulation = &r.accum
	}
	if r.p.Told() {
		r.p.SetTokens()
		f.Parameters = &r.p
	}
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

// length is a length of sequences that may be a model's limit, or that of what it writes.
type length struct{ above, key, value string }

// maxLengths bounds how many of those, and of models, a file may have.
const maxLengths = 64

// sequence is the length of the training's sequences, where no setting says so by its name
// alone: what stands among a model's own is its limit, but for max_length, where the trainer's
// stands in place of the model's, and where 20 is what Transformers writes if nobody says another.
func (r *run) sequence() {
	for _, l := range r.lengths {
		v, err := strconv.ParseFloat(l.value, 64)
		if err == nil && v >= 1 && v < 1<<40 && r.p.SequenceLength == nil &&
			(l.key == "max_length" && v != 20 || l.key != "max_length" && !slices.Contains(r.models, l.above)) {
			r.p.SequenceLength = new(int64(v))
		}
	}
}

// settings are what a setting's last name says it is, names with blanks between them.
var settings = byName(map[string]func(r *run, key, value string){
	"per_device_train_batch_size micro_batch_size train_micro_batch_size_per_gpu batch_size train_batch_size " +
		"micro_batch_size_per_gpu local_batch_size bs bsz batchsize": func(r *run, _, v string) { count(&r.p.BatchSize, v) },
	"max_seq_length max_seq_len seq_len sequence_length cutoff_len sequence_len": func(r *run, _, v string) {
		count(&r.p.SequenceLength, v)
	},
	"world_size num_gpus n_gpus n_gpu num_devices gpu_count": func(r *run, _, v string) { count(&r.p.GPUs, v) },
	"gradient_accumulation_steps accumulate_grad_batches grad_accum_steps": func(r *run, _, v string) {
		if n, err := strconv.ParseInt(v, 10, 32); err == nil && n > 0 {
			r.accum = n
		}
	},
	"model_name_or_path _name_or_path model_name base_model model pretrained_model_name_or_path model_path arch architecture " +
		"backbone": func(r *run, _, v string) { text(&r.p.Model, v) },
	"optim optimizer optimizer_type optimizer_name": func(r *run, _, v string) { text(&r.p.Optimizer, v) },
	"bf16 fp16": func(r *run, key, v string) {
		if strings.EqualFold(v, "true") {
			text(&r.p.Precision, key+"-mixed")
		}
	},
	"mixed_precision precision torch_dtype dtype": func(r *run, _, v string) {
		if v != "no" && v != "auto" {
			text(&r.p.Precision, strings.TrimPrefix(v, "torch."))
		}
	},
})

func byName[T any](lists map[string]T) map[string]T {
	each := map[string]T{}
	for list, v := range lists {
		for _, name := range strings.Fields(list) {
			each[name] = v
		}
	}
	return each
}

// count takes a number, and text a text that is no structure, where none came before.
func count(to **int64, value string) {
	if v, err := strconv.ParseFloat(value, 64); err == nil && v >= 1 && v < 1<<40 && *to == nil {
		*to = new(int64(v))
	}
}

func text(to **string, value string) {
	if !strings.ContainsAny(value, "{}\n") && *to == nil {
		*to = &value
	}
}

// parameter takes a setting by its name, however deep it lay.
func (r *run) parameter(name, value string) {
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	if value == "" || value == "null" || value == "None" || len(value) > maxText {
		return
	}
	lower := strings.ToLower(name)
	key := lower[strings.LastIndexAny(lower, "./")+1:]
	if take := settings[key]; take != nil {
		take(r, key, value)
		return
	}
	r.ofModel(lower[:len(lower)-len(key)], key, value)
}

// ofModel keeps what may be a model's own.
func (r *run) ofModel(above, key, value string) {
	switch key {
	case "seq_length", "max_length", "block_size", "context_length":
		if len(r.lengths) < maxLengths {
			r.lengths = append(r.lengths, length{above, key, value})
		}
	case "model_type", "transformers_version":
		if len(r.models) < maxLengths {
			r.models = append(r.models, above)
		}
	}
}
