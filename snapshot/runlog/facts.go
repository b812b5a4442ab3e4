package runlog

import (
	"bytes"
	"math"
)

// facts is what the numbers of one line mean.
type facts struct {
	step, epoch         int64 // -1: not said
	lead                int64 // number at the beginning of the line: "[3] …", "3: …", "3 …"
	loss                float64
	hasLoss             bool
	evaluation          bool // figures of a validation
	summary             bool // the totals at the end of training
	rate                bool // learning rate
	secondsPerStep      float64
	cumulativeSeconds   float64
	tokensPerSecond     float64
	allocated, reserved int64
}

func (f *facts) hasMetric() bool {
	return f.hasLoss || f.secondsPerStep > 0 || f.cumulativeSeconds > 0 || f.tokensPerSecond > 0 || f.hasMemory()
}

func (f *facts) hasMemory() bool { return f.allocated != Unknown || f.reserved != Unknown }

// readFacts sorts the pairs of a line by their words.
func readFacts(list []pair, line []byte) facts {
	f := facts{step: -1, epoch: -1, lead: -1, secondsPerStep: -1, cumulativeSeconds: -1, tokensPerSecond: -1,
		allocated: Unknown, reserved: Unknown}
	binary := bytes.Contains(line, []byte("memory (MB)")) || bytes.Contains(line, []byte("Max_MA")) || bytes.Contains(line, []byte("MemAllocated"))
	inMB := bytes.Contains(line, []byte("memory (MB)"))
	for i := range list {
		p := &list[i]
		if i == 0 {
			f.readLead(p)
		}
		switch {
		case p.position < maxStepPosition && f.readStep(p, i, list):
		case f.readLoss(p):
		case f.readTime(p):
		case isMemory(p):
			f.readMemory(p, list[i+1:], binary, inMB, line)
		case p.unit.isSize() && len(p.word) == 0 && p.value > 0:
			f.keepMemory(p, p.value*p.unit.factor(binary), false)
		}
	}
	return f
}

// maxStepPosition is how far into a line the number of its step may stand;
// behind it begins prose.
const maxStepPosition = 240

func (f *facts) readLead(p *pair) {
	if !p.whole || p.unit != noUnit || p.of || p.value > 1<<40 {
		return
	}
	switch string(p.key) {
	case "":
		if p.after == ':' || p.after == ' ' || p.after == '\t' {
			f.lead = int64(p.value)
		}
	case "[":
		if p.after == ']' {
			f.lead = int64(p.value)
		}
	}
}

// readStep finds the number of the step, and of the epoch.
func (f *facts) readStep(p *pair, i int, list []pair) bool {
	if !p.whole || p.unit != noUnit || p.value > 1<<40 || p.after == '.' {
		return false
	}
	switch string(p.word) {
	case "epoch", "ep":
		if f.epoch < 0 && !p.keyHas("per", "num", "total") {
			f.epoch = int64(p.value)
		}
		return true
	case "global_step", "current_steps", "global_steps", "num_updates", "globalstep":
		f.step = int64(p.value)
		return true
	case "step", "steps", "iter", "iters", "iteration", "batch", "update", "train_step", "train_iter", "batch_idx", "doc", "it", "i":
		if f.step >= 0 || !stepKey(p) {
			return false
		}
		f.step = int64(p.value)
		return true
	case "train":
		if f.step < 0 && p.keyHas("iter(train", "step(train") {
			f.step = int64(p.value)
			return true
		}
	case "":
		// "Epoch: [0][ 10/5005]": the second bracket.
		if f.step < 0 && p.of && i > 0 && f.epoch >= 0 && string(list[i-1].word) == "epoch" && bytes.Contains(p.key, []byte("[")) {
			f.step = int64(p.value)
			return true
		}
	}
	return false
}

// stepKey refuses settings and totals: "total steps 10", "warmup steps".
func stepKey(p *pair) bool {
	if p.keyHas("total", "max", "num", "warm", "accum", "per ", "per_", "skip", "grad", "every", "eval", "val", "time", "remain", "at ", "of ") {
		return false
	}
	// Between the word and its number stands punctuation at most, and not a
	// dash: "step-2.png".
	i := bytes.LastIndex(p.key, p.word) + len(p.word)
	if len(bytes.Trim(p.key[i:], " \t:=#'\"([<>/")) > 0 {
		return false
	}
	switch string(p.word) {
	case "i", "it", "doc": // words only as the first of a line
		return len(bytes.TrimSpace(p.key)) <= len(p.word)+1
	}
	return true
}

func (f *facts) readLoss(p *pair) bool {
	word := p.word
	switch {
	case len(word) >= 4 && string(word[len(word)-4:]) == "loss" || string(word) == "train" && p.keyHas("loss train"):
		if isEvaluation(p) {
			f.evaluation = true
		} else if !f.hasLoss {
			f.hasLoss, f.loss = true, p.value
		}
		return true
	case string(word) == "lr" || string(word) == "learning_rate":
		f.rate = true
		return true
	case string(word) == "train_runtime":
		f.summary = true
		return true
	case isEvaluation(p):
		f.evaluation = true
	}
	return false
}

// isEvaluation tells val_loss, "val loss", eval_runtime, "Validation bpb".
func isEvaluation(p *pair) bool {
	for _, w := range [...]string{"val", "eval", "test"} {
		i := bytes.Index(p.key, []byte(w))
		if i < 0 || i > 0 && p.key[i-1] >= 'a' && p.key[i-1] <= 'z' {
			continue
		}
		rest := p.key[i+len(w):]
		if len(rest) == 0 || rest[0] < 'a' || rest[0] > 'z' || bytes.HasPrefix(rest, []byte("uation")) || bytes.HasPrefix(rest, []byte("id")) {
			return w != "test" || bytes.Contains(rest, []byte("loss"))
		}
	}
	return false
}

// readTime finds the time of one step. Cumulative times are kept apart; totals
// and estimates are nothing.
func (f *facts) readTime(p *pair) bool {
	if p.keyHas("tok/s", "tokens/s", "tps", "tokens_per_s", "tok_per_s", "tokens per second") && f.tokensPerSecond < 0 && p.value > 0 {
		f.tokensPerSecond = p.value
		return true
	}
	scale := 1.0
	switch p.unit {
	case noUnit, seconds:
		if p.unit == noUnit && p.keyHas("(ms)", "_ms", "ms/") {
			scale = 1e-3
		}
	case milliseconds:
		scale = 1e-3
	default:
		return false
	}
	if p.keyHas("train_time") {
		f.cumulativeSeconds = p.value * scale
		return true
	}
	if p.keyHas("total", "eta", "left", "remain", "data", "avg", "average", "eval", "val", "load", "completion", "estimated", "wall", "forward", "backward", "generation") {
		return false
	}
	switch string(p.word) {
	case "dt", "time", "step_time", "iter_time", "batch_time", "step_time_sec", "step_time_s", "time_per_step", "time_per_iter",
		"time_per_iteration", "step_time_ms", "iteration_time", "dt_ms", "iter_time_ms", "sec_per_step":
	case "ms", "s", "sec":
		if !p.keyHas("time") && !p.keyHas("ms/step") {
			return false
		}
	case "step", "iter":
		if !p.keyHas("ms/", "s/") {
			return false
		}
	default:
		return false
	}
	if v := p.value * scale; f.secondsPerStep < 0 && v > 0 && v < 1e6 {
		f.secondsPerStep = v
	}
	return true
}

// isMemory tells the words for the memory of a GPU from those for anything else.
func isMemory(p *pair) bool {
	if p.keyHas("cpu", "host", "virtual", "disk", "kv cache", "free", "available", "util", "pinned", "limit", "usage/",
		"capacity", "fragment", "ratio", "swap", " ram", "model size", "process", "total_gpu", "weights take", "non_torch",
		"max memory:", "storage", "theoretical",
		"weight and optimizer", "activation", " takes") {
		return false
	}
	if p.keyHas("mem", "alloc", "reserved", "cached", "vram") {
		return true
	}
	switch string(p.word) {
	case "ma", "max_ma", "ca", "max_ca":
		return p.unit.isSize()
	case "gpu", "peak", "max", "cuda":
		return p.unit.isSize()
	}
	return false
}

// readMemory reads a size. A size without a unit borrows that of the next one
// ("allocated 1290 reserved 3292 MiB"); without any it stays unread, unless it
// can only be bytes.
func (f *facts) readMemory(p *pair, rest []pair, binary, inMB bool, line []byte) {
	factor := p.unit.factor(binary || p.keyHas("_mb", "_gb"))
	if p.unit == noUnit {
		switch {
		case inMB || p.keyHas("_mib", "(mib)", "_mb", "(mb)"):
			factor = 1 << 20
		case p.keyHas("_gib", "(gib)"):
			factor = 1 << 30
		case p.keyHas("_gb", "(gb)"):
			factor = 1e9
		case len(rest) > 0 && isMemory(&rest[0]) && rest[0].unit.isSize():
			factor = rest[0].unit.factor(binary)
		case p.whole && p.value >= 1<<24:
			factor = 1
		case p.whole && string(p.word) == "memory" && bytes.Contains(line, []byte("data_time")):
			factor = 1 << 20 // OpenMMLab prints MiB without saying so
		}
	}
	f.keepMemory(p, p.value*factor, p.keyHas("reserved", "cached") || string(p.word) == "ca" || string(p.word) == "max_ca")
}

func (f *facts) keepMemory(p *pair, value float64, reserved bool) {
	if value <= 0 || value > maxMemory || math.IsNaN(value) {
		return
	}
	if reserved {
		f.reserved = max(f.reserved, int64(math.Round(value)))
	} else {
		f.allocated = max(f.allocated, int64(math.Round(value)))
	}
}
