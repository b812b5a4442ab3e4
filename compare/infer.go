package compare

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// notes collects what is taken from the recording, unless the user said it.
type notes struct {
	given map[string]bool
	said  []string
}

func (n *notes) take(flag string, found bool, set func(), format string, args ...any) {
	if found && !n.given[flag] {
		set()
		n.said = append(n.said, fmt.Sprintf(format, args...))
	}
}

// infer completes the setting with what the recording shows, and says what it
// took from where.
func (e *eye) infer(theory Theory) (budget.Setting, stored, []string) {
	s, n := theory.Setting, &notes{theory.Given, []string{}}
	if most := e.config.Positions(); most > 0 && !theory.Given["seq"] && s.Sequence > most {
		s.Sequence, s.Context = most, most
	}
	n.take("inference", !e.training, func() { s.Inference = true }, "inference: no backward pass is in the recording")
	w := e.storedWeights()
	mixed := w.element == 4 && e.narrowCompute(w.bytes)
	name := precisionName(w.element, mixed, e.signs.scaler)
	n.take("precision", w.element > 0, func() { s.Precision = name }, "%s: %d bytes for each weight%s", name, w.element,
		precisionWhy(mixed, w))
	if w.foreign() && e.parameters > 0 {
		n.said = append(n.said, fmt.Sprintf("the weights are another model's: %d bytes of them fit the configuration's %d "+
			"parameters in no type", w.bytes, e.parameters))
	}
	if w.shards > 1 {
		n.take("fsdp", theory.Setting.Zero == 0, func() { s.FSDP, s.GPUs = "full", w.shards },
			"FSDP over %d ranks: 1/%d of every tensor is here", w.shards, w.shards)
	}
	if s.Inference {
		n.take("all-logits", s.LastLogit && e.allLogits(), func() { s.LastLogit = false },
			"the logits of every token are computed, not of the last alone")
		n.take("cache", !e.caches(), func() { s.Cache = "none" }, "no cache: no keys and values are kept")
	} else {
		e.inferTraining(&s, w, n)
	}
	width := w.element
	if mixed || width == 1 {
		width = 2
	}
	tokens, decoder, how := e.tokens(width)
	if tokens > 0 && !(theory.Given["batch"] && theory.Given["seq"]) {
		split := e.split(&s, tokens, decoder, w.element, theory)
		if split != "" {
			split = "; " + split
		}
		n.said = append(n.said, fmt.Sprintf("batch %d x sequence %d: %d tokens in %s%s", s.Batch, s.Sequence, tokens, how, split))
	} else if tokens == 0 && !theory.Given["batch"] && !theory.Given["seq"] {
		n.said = append(n.said, "batch and sequence: nothing in the recording tells them, give --batch and --seq")
	}
	n.take("attention", e.signs.eager || tokens > 0 && e.scores(&s), func() { s.Attention = "eager" },
		"eager attention: its scores are written out")
	n.take("padding", e.signs.masked || tokens > 0 && s.Attention != "eager" && e.masks(&s), func() { s.Padding = true },
		"an attention mask is written out, as for padding or packing")
	if s.Inference && s.Context > 0 {
		s.Context = max(s.Context, s.Sequence)
	}
	return s, w, n.said
}

// inferTraining is the part of the setting that only training has.
func (e *eye) inferTraining(s *budget.Setting, w stored, n *notes) {
	trained := e.parameters * w.element / w.shards
	if rank := e.adapters(*s, w); rank > 0 {
		n.take("lora", true, func() { s.LoRA = rank },
			"LoRA of rank %d: %d bytes of weights beyond the model's, and optimizer state for these alone", rank, w.extra)
		trained = w.extra
		n.take("lora-dropout", e.signs.dropout, func() { s.LoRADropout = 0.05 }, "dropout before the adapters")
	}
	name, how := e.optimizer(trained, w.copies)
	n.take("optimizer", name != "", func() { s.Optimizer = name }, "%s: by %s", name, how)
	n.take("master-weights", e.detail(classify.MasterWeights), func() { s.MasterWeights = true },
		"master weights: float32 copies in the optimizer's state")
	n.take("checkpointing", e.checkpoints(), func() { s.Checkpointing = "full" },
		"checkpointing: activations are made again in the backward pass")
	backwards := int64(e.backwards())
	n.take("accumulate", backwards > 1, func() { s.Accumulate = backwards }, "accumulation: %d backward passes in a step",
		backwards)
	n.take("use-cache", e.caches(), func() { s.UseCache = true }, "use_cache: keys and values are cached in training")
	n.take("keep-gradients", e.keepsGradients(), func() { s.KeepGradients = true },
		"gradients kept: zero_grad(set_to_none=False)")
	n.take("drop-outputs", e.dropsOutputs(), func() { s.DropOutputs = true }, "the outputs are let go before the backward pass")
	n.take("trainer", e.signs.converted, func() { s.Trainer = true }, "Accelerate: outputs are converted to float32")
	n.take("loss", e.signs.liger, func() { s.Loss = "fused" }, "loss: a fused kernel of head and cross entropy")
	n.take("loss", !e.signs.liger && (e.signs.direct && !e.signs.library || e.narrowLoss(s.Precision)),
		func() { s.Loss = "cross-entropy" }, "loss: cross entropy straight from the logits")
	n.take("gpus", w.shards == 1 && e.detail(classify.GradientBucket) && e.communicates(), func() { s.GPUs = 2 },
		"data parallel: DDP's buckets are there (counted as 2 GPUs; more need the same)")
}

func precisionName(element int64, mixed, scaler bool) string {
	switch {
	case mixed && scaler:
		return "fp16-mixed"
	case mixed:
		return "bf16-mixed"
	case element == 4:
		return "fp32"
	case element == 1:
		return "int8"
	}
	return "bf16"
}

func precisionWhy(mixed bool, w stored) string {
	switch {
	case mixed && w.shards > 1:
		return ", gathered in 16 bits"
	case mixed:
		return ", and autocast's copies of them in 16 bits"
	case w.element == 2:
		return " (fp16 takes the same)"
	}
	return ""
}

// narrowCompute tells whether float32 weights are computed with in 16 bits: by
// autocast, or as FSDP gathers them.
func (e *eye) narrowCompute(weights int64) bool {
	logits, ids := e.batch()
	switch words := e.config.Int("vocab_size") * ids; {
	case words > 0 && logits == 2*words:
		return true
	case words > 0 && logits == 4*words:
		return false
	}
	var copies int64
	e.within(func(id timeline.AllocationID) {
		if e.c.Category[id] == classify.AutocastCopies {
			copies += e.t.Requested(id)
		}
	})
	return copies > weights/8 // a quarter of them in half their size
}

// adapters is the rank of LoRA's adapters, 0 when all of the model is trained:
// what the weights hold beyond the model is what the optimizer has state for.
func (e *eye) adapters(s budget.Setting, w stored) int64 {
	state := e.stateBytes()
	if w.extra == 0 || state == 0 || w.extra*4 > w.bytes || state > 4*w.extra || w.copies > 1.5 {
		return 0
	}
	s = s.Defaults()
	s.Optimizer, s.Inference, s.FSDP, s.GPUs, s.LoRA = "adamw", false, "", 1, 1
	b, err := budget.Compute(e.config, s)
	if err != nil || b.Model.Trainable == 0 {
		return 0
	}
	for _, width := range []int64{4, 2} {
		if rank := w.extra / (width * b.Model.Trainable); rank > 0 && w.extra-rank*width*b.Model.Trainable < w.extra/100 {
			return rank
		}
	}
	return 0
}

// allLogits tells whether the first logits are those of as many tokens as the
// batch has, a sequence being longer than one.
func (e *eye) allLogits() bool {
	logits, ids := e.batch()
	words := e.config.Int("vocab_size") * ids
	return words > 0 && (logits == 2*words || logits == 4*words)
}

// caches tells whether keys and values are kept in the events looked at.
func (e *eye) caches() bool {
	found := false
	e.within(func(id timeline.AllocationID) { found = found || e.c.Category[id] == classify.KVCache })
	return found
}

// checkpoints tells whether activations are made again, or would have been.
func (e *eye) checkpoints() bool {
	return e.inputsOnly || e.signs.checkpoint || e.detail(classify.Recomputed) || e.detail(classify.CheckpointInput)
}

func (e *eye) communicates() bool {
	for i, d := range e.c.Detail {
		if d == classify.GradientBucket && e.c.Category[i] == classify.Communication {
			return true
		}
	}
	return false
}

// backwards counts the backward passes of the step that is compared.
func (e *eye) backwards() int {
	n := 0
	if e.step != nil {
		for _, p := range e.step.Phases {
			if p.Phase == classify.Backward {
				n++
			}
		}
	}
	return n
}

// dropsOutputs tells whether a forward pass makes logits of which none outlives the
// backward pass: what its graph has saved of them goes at its beginning. Where graphs
// are kept, the first ones alone tell, of which no copies are made yet.
func (e *eye) dropsOutputs() bool {
	first, _ := e.looked()
	var backward *classify.PhaseSpan
	for i := range e.c.Steps {
		for k := range e.c.Steps[i].Phases {
			if p := &e.c.Steps[i].Phases[k]; p.Phase == classify.Backward && p.FirstEvent >= first && backward == nil {
				backward = p
			}
		}
	}
	if backward == nil {
		return false
	}
	last := backward.LastEvent
	for last > backward.FirstEvent && e.t.Device.Events.Action[last] != snapshot.Alloc {
		last--
	}
	made, held, retained := false, false, e.leaks(classify.RetainedGraph)
	e.within(func(id timeline.AllocationID) {
		if e.c.Category[id] != classify.Logits || e.c.Phase[id] != classify.Forward || made && retained {
			return
		}
		made = true
		life := e.t.Life(id)
		held = held || life.Born < backward.FirstEvent && life.Freed >= last
	})
	return made && !held
}

// narrowLoss tells, where no stacks do, whether the logarithms of 16-bit scores have
// 16 bits, too: Transformers' own loss makes them float32 first.
func (e *eye) narrowLoss(precision string) bool {
	mixed := strings.HasSuffix(precision, "-mixed")
	if e.signs.stacks || !mixed && precision != "bf16" && precision != "fp16" {
		return false
	}
	logits, _ := e.batch()
	narrow, wide, over := 0, 0, false
	e.within(func(id timeline.AllocationID) {
		over = over || e.c.Phase[id] == classify.Backward
		switch n := e.t.Requested(id); {
		case over || e.c.Category[id] != classify.Logits:
		case n == logits:
			narrow++
		case n == 2*logits:
			wide++
		}
	})
	if mixed { // the loss itself is a float32 operation
		return narrow > 1 && wide == 1
	}
	return narrow > 1 && wide == 0
}

func (e *eye) keepsGradients() bool { return e.leaks(classify.GradientsKept) }

func (e *eye) leaks(kind string) bool {
	for _, l := range e.c.Leaks() {
		if l.Kind == kind {
			return true
		}
	}
	return false
}
