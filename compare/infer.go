package compare

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// infer completes the setting with what the recording shows, and says what it
// took from where.
func (e *eye) infer(theory Theory) (budget.Setting, []string) {
	s, said := theory.Setting, []string{}
	take := func(flag, how string, found bool, set func()) {
		if found && !theory.Given[flag] {
			set()
			said = append(said, how)
		}
	}
	sums := e.totals()
	training := sums.bytes[classify.Gradients] > 0 || e.has(classify.Backward)
	if !training && !theory.Given["inference"] {
		s.Inference = true
		said = append(said, "inference: no gradient was made, and no backward pass seen")
	}
	element, mixed := e.precision(sums)
	take("precision", fmt.Sprintf("precision: %s, from %d bytes of weights for %d parameters", precisionName(element, mixed), sums.weights, e.parameters), element > 0,
		func() { s.Precision = precisionName(element, mixed) })
	if training {
		name, how := e.optimizer(sums)
		take("optimizer", "optimizer: "+name+", from "+how, name != "", func() { s.Optimizer = name })
		take("checkpointing", "checkpointing: full, from the stacks or from what is recomputed", e.checkpoints(), func() { s.Checkpointing = "full" })
		take("accumulate", fmt.Sprintf("accumulation: %d backward passes in a step", e.backwards()), e.backwards() > 1, func() { s.Accumulate = int64(e.backwards()) })
		take("use-cache", "cached keys and values in training", sums.bytes[classify.KVCache] > 0, func() { s.UseCache = true })
		take("keep-gradients", "gradients are kept: zero_grad(set_to_none=False)", e.keepsGradients(), func() { s.KeepGradients = true })
	}
	if tokens, how := e.tokens(element, mixed); tokens > 0 && !(theory.Given["batch"] && theory.Given["seq"]) {
		e.split(&s, tokens, theory, &said, how)
	}
	if s.Context == 0 && s.Inference {
		s.Context = s.Sequence
	}
	return s, said
}

// totals are sums over the whole recording.
type totals struct {
	bytes   [classify.NumCategories]int64 // most alive at the peak or at the end
	weights int64                         // parameters
}

func (e *eye) totals() totals {
	var s totals
	last := len(e.t.Of) - 1
	var peak, end [classify.NumCategories]int64
	for i, category := range e.c.Category {
		id := timeline.AllocationID(i)
		bytes := e.t.Requested(id)
		if category == classify.Gradients || category == classify.KVCache || category == classify.AutocastCopies {
			peak[category] = max(peak[category], bytes)
		}
		if e.t.AliveAt(id, e.t.Peaks.Allocated.Event) {
			peak[category] += bytes
			if category == classify.Weights && e.c.Detail[i] != classify.Buffer {
				s.weights += bytes
			}
		}
		if e.t.AliveAt(id, last) {
			end[category] += bytes
		}
	}
	for i := range s.bytes {
		s.bytes[i] = max(peak[i], end[i])
	}
	return s
}

// precision is the bytes of a weight, 0 when the sum fits none, and whether
// autocast is on.
func (e *eye) precision(s totals) (element int64, mixed bool) {
	if e.parameters == 0 {
		return 0, false
	}
	switch perParameter := float64(s.weights) / float64(e.parameters); {
	case perParameter > 3.6 && perParameter < 4.5:
		element = 4
	case perParameter > 1.8 && perParameter < 2.3:
		element = 2
	case perParameter > 0.9 && perParameter < 1.25:
		element = 1
	}
	return element, element == 4 && s.bytes[classify.AutocastCopies] > 0
}

func precisionName(element int64, mixed bool) string {
	switch {
	case mixed:
		return "bf16-mixed"
	case element == 4:
		return "fp32"
	case element == 1:
		return "int8"
	}
	return "bf16"
}

// optimizerFiles tell an optimizer by the file that its state is made in.
var optimizerFiles = []struct{ file, name string }{
	{"bitsandbytes/", "adamw-8bit"}, {"torch/optim/adamw.py", "adamw"}, {"torch/optim/adam.py", "adamw"}, {"torch/optim/sgd.py", "momentum"},
	{"torch/optim/_adafactor.py", "adafactor"}, {"transformers/optimization.py", "adafactor-hf"}, {"torch/optim/rmsprop.py", "rmsprop"},
	{"torch/optim/adagrad.py", "adagrad"}, {"torch/optim/_muon.py", "muon"}, {"lion", "lion"},
}

// optimizerKinds tell PyTorch's implementations by the function that runs.
var optimizerKinds = map[string]string{"_fused_adamw": "-fused", "_fused_adam": "-fused", "_single_tensor_adamw": "-loop", "_single_tensor_adam": "-loop"}

// optimizer is the optimizer's name, by stacks, else by the size of its state.
func (e *eye) optimizer(s totals) (name, how string) {
	seen := map[snapshot.StackID]bool{}
	kind := ""
	for i, category := range e.c.Category {
		stack := e.t.Stack(timeline.AllocationID(i))
		if stack == 0 || seen[stack] || category != classify.OptimizerState && e.c.Phase[i] != classify.Optimizer {
			continue
		}
		seen[stack] = true
		for _, f := range e.t.Snapshot.Stack(stack) {
			l := e.v.Line(f)
			if k := optimizerKinds[l.Function]; k != "" {
				kind = k
			}
			for _, o := range optimizerFiles {
				if name == "" && strings.Contains(strings.ReplaceAll(l.File, `\`, "/"), o.file) && category == classify.OptimizerState {
					name = o.name
				}
			}
		}
	}
	if name != "" {
		if name == "adamw" {
			name += kind
		}
		return name, "the stacks of its state"
	}
	state, weights := float64(s.bytes[classify.OptimizerState]), float64(s.weights)
	if weights == 0 || !e.has(classify.Optimizer) {
		return "", ""
	}
	how = fmt.Sprintf("%.2f bytes of state for each byte of weights", state/weights)
	switch ratio := state / weights; {
	case ratio > 1.7 && ratio < 2.4:
		return "adamw", how
	case ratio > 0.85 && ratio < 1.2:
		return "momentum", how
	case ratio > 0.4 && ratio < 0.62:
		return "adamw-8bit", how
	case ratio < 0.02:
		return "sgd", how
	}
	return "", ""
}

// has tells whether any step has a phase.
func (e *eye) has(phase classify.Phase) bool {
	for i := range e.c.Steps {
		for _, p := range e.c.Steps[i].Phases {
			if p.Phase == phase {
				return true
			}
		}
	}
	return false
}

// checkpoints tells whether activation checkpointing runs: its file is on the
// stacks of the forward pass, or something was recomputed.
func (e *eye) checkpoints() bool {
	for _, f := range e.t.Snapshot.Frames {
		if file := e.t.Snapshot.String(f.File); strings.HasSuffix(strings.ReplaceAll(file, `\`, "/"), "torch/utils/checkpoint.py") {
			return true
		}
	}
	for _, d := range e.c.Detail {
		if d == classify.Recomputed || d == classify.CheckpointInput {
			return true
		}
	}
	return false
}

// backwards counts the backward passes of the steady step.
func (e *eye) backwards() int {
	n := 0
	if s := e.steady(); s != nil {
		for _, p := range s.Phases {
			if p.Phase == classify.Backward {
				n++
			}
		}
	}
	return n
}

func (e *eye) keepsGradients() bool {
	for _, l := range e.c.Leaks {
		if l.Kind == classify.GradientsKept {
			return true
		}
	}
	return false
}

// tokens is batch x sequence, from the smallest of the large logits: tokens x
// vocabulary x bytes of an element.
func (e *eye) tokens(element int64, mixed bool) (int64, string) {
	vocabulary := e.config.Int("vocab_size")
	if vocabulary == 0 || element == 0 {
		return 0, ""
	}
	if mixed || element == 1 {
		element = 2
	}
	row := vocabulary * element
	var largest int64
	for i, category := range e.c.Category {
		if category == classify.Logits && e.c.Phase[i] != classify.Backward {
			largest = max(largest, e.t.Requested(timeline.AllocationID(i)))
		}
	}
	best := int64(0)
	for i, category := range e.c.Category {
		bytes := e.t.Requested(timeline.AllocationID(i))
		if category == classify.Logits && e.c.Phase[i] != classify.Backward && bytes >= row && bytes%row == 0 && 3*bytes >= largest && (best == 0 || bytes < best) {
			best = bytes
		}
	}
	return best / row, fmt.Sprintf("logits of %d bytes", best)
}

// split tells batch and sequence apart by the position ids, which are as long
// as the sequence.
func (e *eye) split(s *budget.Setting, tokens int64, theory Theory, said *[]string, how string) {
	switch {
	case theory.Given["seq"]:
		s.Batch = max(1, tokens/s.Sequence)
	case theory.Given["batch"]:
		s.Sequence = max(1, tokens/s.Batch)
	default:
		s.Batch, s.Sequence = 1, tokens
		guess := "taken as one sequence: give --seq if it was otherwise"
		if n := e.positions(tokens); n > 0 {
			s.Batch, s.Sequence = tokens/n, n
			guess = "the length of a sequence from its position ids"
		} else if limit := e.config.Int("max_position_embeddings"); limit > 0 && tokens > limit && tokens%limit == 0 {
			s.Batch, s.Sequence = tokens/limit, limit
			guess = "sequences taken as long as the model allows: give --seq if they were shorter"
		}
		*said = append(*said, fmt.Sprintf("batch %d x sequence %d: %d tokens from %s; %s", s.Batch, s.Sequence, tokens, how, guess))
		return
	}
	*said = append(*said, fmt.Sprintf("batch %d x sequence %d: %d tokens from %s", s.Batch, s.Sequence, tokens, how))
}

// positions is the length of the position ids that a forward pass makes with
// arange, 0 when none divides the tokens.
func (e *eye) positions(tokens int64) int64 {
	var best int64
	for i := range e.c.Category {
		id := timeline.AllocationID(i)
		if e.c.Phase[i] != classify.Forward || e.t.Stack(id) == 0 {
			continue
		}
		n := e.t.Requested(id) / 8
		if n > best && n <= tokens && tokens%n == 0 && strings.HasPrefix(e.v.Site(e.t.Stack(id)).Op, "aten::arange") {
			best = n
		}
	}
	return best
}
