package compare

import (
	"fmt"
	"slices"
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
func (o *observed) infer(theory Theory) (budget.Setting, stored, []string) {
	s, n := theory.Setting, &notes{theory.Given, []string{}}
	if most := o.config.Positions(); most > 0 && !theory.Given["seq"] && s.Sequence > most {
		s.Sequence, s.Context = most, most
	}
	n.take("inference", !o.training, func() { s.Inference = true }, "inference: no backward pass is in the recording")
	w := o.storedWeights()
	mixed := w.element == 4 && o.narrowCompute(w.bytes)
	name := precisionName(w.element, mixed, o.shows(scaler))
	n.take("precision", w.element > 0, func() { s.Precision = name }, "%s: %d bytes for each weight%s", name, w.element,
		precisionWhy(mixed, w))
	if w.foreign() && o.parameters > 0 {
		n.said = append(n.said, fmt.Sprintf("the weights are another model's: %d bytes of them fit the configuration's %d "+
			"parameters in no type", w.bytes, o.parameters))
	}
	if w.shards > 1 {
		n.take("fsdp", theory.Setting.Zero == 0, func() { s.FSDP, s.GPUs = "full", w.shards },
			"FSDP over %d ranks: 1/%d of every tensor is here", w.shards, w.shards)
	}
	if s.Inference {
		n.take("all-logits", s.LastLogit && o.allLogits(), func() { s.LastLogit = false },
			"the logits of every token are computed, not of the last alone")
		n.take("cache", !o.caches(), func() { s.Cache = "none" }, "no cache: no keys and values are kept")
	} else {
		o.inferTraining(&s, w, n)
	}
	width := w.element
	if mixed || width == 1 {
		width = 2
	}
	o.inferBatch(&s, theory, w, width, n)
	if s.Inference && s.Context > 0 {
		s.Context = max(s.Context, s.Sequence)
	}
	return s, w, n.said
}

// inferBatch takes batch and sequence, and what attention makes of them. Logits have
// so many bytes for each word.
func (o *observed) inferBatch(s *budget.Setting, theory Theory, w stored, width int64, n *notes) {
	tokens, decoder, how := o.tokens(width)
	if tokens > 0 && !(theory.Given["batch"] && theory.Given["seq"]) {
		split := o.split(s, tokens, decoder, w.element, theory)
		if split != "" {
			split = "; " + split
		}
		n.said = append(n.said, fmt.Sprintf("batch %d x sequence %d: %d tokens in %s%s", s.Batch, s.Sequence, tokens, how, split))
	} else if tokens == 0 && !theory.Given["batch"] && !theory.Given["seq"] {
		n.said = append(n.said, "batch and sequence: nothing in the recording tells them, give --batch and --seq")
	}
	n.take("attention", o.shows(eager) || tokens > 0 && o.scores(s), func() { s.Attention = "eager" },
		"eager attention: its scores are written out")
	n.take("padding", o.shows(masked) || tokens > 0 && s.Attention != "eager" && o.masks(s), func() { s.Padding = true },
		"an attention mask is written out, as for padding or packing")
}

// inferTraining is the part of the setting that only training has.
func (o *observed) inferTraining(s *budget.Setting, w stored, n *notes) {
	trained := o.parameters * w.element / w.shards
	if rank := o.adapters(*s, w); rank > 0 {
		n.take("lora", true, func() { s.LoRA = rank },
			"LoRA of rank %d: %d bytes of weights beyond the model's, and optimizer state for these alone", rank, w.extra)
		trained = w.extra
		n.take("lora-dropout", o.shows(dropout), func() { s.LoRADropout = 0.05 }, "dropout before the adapters")
	}
	name, how := o.optimizer(trained, w.copies)
	n.take("optimizer", name != "", func() { s.Optimizer = name }, "%s: by %s", name, how)
	n.take("master-weights", o.detail(classify.MasterWeights), func() { s.MasterWeights = true },
		"master weights: float32 copies in the optimizer's state")
	n.take("checkpointing", o.checkpoints(), func() { s.Checkpointing = "full" },
		"checkpointing: activations are made again in the backward pass")
	backwards := int64(o.backwards())
	n.take("accumulate", backwards > 1, func() { s.Accumulate = backwards }, "accumulation: %d backward passes in a step",
		backwards)
	n.take("use-cache", o.caches(), func() { s.UseCache = true }, "use_cache: keys and values are cached in training")
	n.take("keep-gradients", o.leaks(classify.GradientsKept), func() { s.KeepGradients = true },
		"gradients kept: zero_grad(set_to_none=False)")
	n.take("drop-outputs", o.dropsOutputs(), func() { s.DropOutputs = true }, "the outputs are let go before the backward pass")
	n.take("trainer", o.shows(converted), func() { s.Trainer = true }, "Accelerate: outputs are converted to float32")
	n.take("loss", o.shows(liger), func() { s.Loss = "fused" }, "loss: a fused kernel of head and cross entropy")
	n.take("loss", !o.shows(liger) && (o.shows(directLoss) && !o.shows(libraryLoss) || o.narrowLoss(s.Precision)),
		func() { s.Loss = "cross-entropy" }, "loss: cross entropy straight from the logits")
	n.take("gpus", w.shards == 1 && o.detail(classify.GradientBucket) && o.communicates(), func() { s.GPUs = 2 },
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

// narrowCompute reports whether float32 weights are computed with in 16 bits: by
// autocast, or as FSDP gathers them.
func (o *observed) narrowCompute(weights int64) bool {
	logits, ids := o.batch()
	switch words := o.config.Int("vocab_size") * ids; {
	case words > 0 && logits == 2*words:
		return true
	case words > 0 && logits == 4*words:
		return false
	}
	var copies int64
	o.within(func(id timeline.AllocationID) {
		if o.c.Category[id] == classify.AutocastCopies {
			copies += o.t.Requested(id)
		}
	})
	return copies > weights/8 // a quarter of them in half their size
}

// adapters is the rank of LoRA's adapters, 0 when all of the model is trained:
// what the weights hold beyond the model is what the optimizer has state for.
func (o *observed) adapters(s budget.Setting, w stored) int64 {
	state := o.stateBytes()
	if w.extra == 0 || state == 0 || w.extra*4 > w.bytes || state > 4*w.extra || w.copies > 1.5 {
		return 0
	}
	s = s.Defaults()
	s.Optimizer, s.Inference, s.FSDP, s.GPUs, s.LoRA = "adamw", false, "", 1, 1
	b, err := budget.Compute(o.config, s)
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

// allLogits reports whether the first logits are those of as many tokens as the
// batch has, a sequence being longer than one.
func (o *observed) allLogits() bool {
	logits, ids := o.batch()
	words := o.config.Int("vocab_size") * ids
	return words > 0 && (logits == 2*words || logits == 4*words)
}

// caches reports whether keys and values are kept in the events looked at.
func (o *observed) caches() bool {
	found := false
	o.within(func(id timeline.AllocationID) { found = found || o.c.Category[id] == classify.KVCache })
	return found
}

// checkpoints reports whether activations are made again, or would have been.
func (o *observed) checkpoints() bool {
	return o.inputsOnly || o.shows(checkpointing) || o.detail(classify.Recomputed) || o.detail(classify.CheckpointInput)
}

func (o *observed) communicates() bool {
	for i, d := range o.c.Detail {
		if d == classify.GradientBucket && o.c.Category[i] == classify.Communication {
			return true
		}
	}
	return false
}

// backwards counts the backward passes of the step that is compared.
func (o *observed) backwards() int {
	n := 0
	for i := 0; o.step != nil && i < len(o.step.Phases); i++ {
		if o.step.Phases[i].Phase == classify.Backward {
			n++
		}
	}
	return n
}

// firstBackward is the first backward pass that is compared, nil: there is none.
func (o *observed) firstBackward() *classify.PhaseSpan {
	first, _ := o.compared()
	for i := range o.c.Steps {
		for k := range o.c.Steps[i].Phases {
			if p := &o.c.Steps[i].Phases[k]; p.Phase == classify.Backward && p.FirstEvent >= first {
				return p
			}
		}
	}
	return nil
}

// dropsOutputs reports whether a forward pass makes logits of which none outlives the
// backward pass: what its graph has saved of them goes at its beginning. Where graphs
// are kept, the first ones alone tell, of which no copies are made yet.
func (o *observed) dropsOutputs() bool {
	backward := o.firstBackward()
	if backward == nil {
		return false
	}
	last := backward.LastEvent
	for last > backward.FirstEvent && o.t.Device.Events.Action[last] != snapshot.Alloc {
		last--
	}
	made, held, retained := false, false, o.leaks(classify.RetainedGraph)
	o.within(func(id timeline.AllocationID) {
		if o.c.Category[id] != classify.Logits || o.c.Phase[id] != classify.Forward || made && retained {
			return
		}
		made = true
		life := o.t.Life(id)
		held = held || life.Born < backward.FirstEvent && life.Freed >= last
	})
	return made && !held
}

// narrowLoss tells, where no stacks do, whether the logarithms of 16-bit logits have
// 16 bits, too: Transformers' own loss makes them float32 first.
func (o *observed) narrowLoss(precision string) bool {
	mixed := strings.HasSuffix(precision, "-mixed")
	if o.shows(stacks) || !mixed && precision != "bf16" && precision != "fp16" {
		return false
	}
	logits, _ := o.batch()
	narrow, wide, over := 0, 0, false
	o.within(func(id timeline.AllocationID) {
		over = over || o.c.Phase[id] == classify.Backward
		switch n := o.t.Requested(id); {
		case over || o.c.Category[id] != classify.Logits:
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

func (o *observed) leaks(kind string) bool {
	return slices.ContainsFunc(o.c.Leaks(), func(l classify.Leak) bool { return l.Kind == kind })
}
