package compare

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// notes collects what is taken from the recording, unless the user said it.
type notes struct {
	given, claimed, unasked map[string]bool   // flags of the user's, of files beside, and what none of their fields says
	why                     map[string]string // by flag, what the recording shows
	code                    string            // whose training it shows, where why has a word of the trainer
	said                    []string
}

func (n *notes) take(flag string, found bool, set func(), format string, args ...any) {
	if found && !n.given[flag] {
		set()
		n.note(flag, fmt.Sprintf(format, args...))
	}
}

// note notes what the recording shows of a flag.
func (n *notes) note(flag, text string) {
	n.why[flag] = text
	if !slices.Contains(n.said, text) {
		n.said = append(n.said, text)
	}
}

// infer completes the setting with what the recording shows, and says what it
// took from where.
func (o *observed) infer(theory Theory) (budget.Setting, stored, *notes) {
	s := theory.Setting
	n := &notes{given: theory.Given, claimed: theory.Claimed, unasked: theory.Unasked, why: map[string]string{}, said: []string{}}
	if most := o.config.Positions(); most > 0 && !theory.Given["seq"] && s.Sequence > most {
		s.Sequence, s.Context = most, most
	}
	n.take("inference", !o.training, func() { s.Inference = true }, "inference: no backward pass is in the recording")
	w := o.storedWeights()
	if w.foreign() {
		w = n.divided(o, &s, w)
	}
	r := o.refuting(&s, w, n)
	mixed := r.precision()
	if w.foreign() && o.parameters > 0 {
		n.said = append(n.said, fmt.Sprintf("the weights are another model's: %d bytes of them fit the configuration's %d "+
			"parameters in no type", w.bytes, o.parameters))
	}
	r.shards()
	r.layout()
	if s.Inference {
		if !theory.Given["engine"] {
			s.Engine = "" // what it would have at once: the recording shows what ran
		}
		n.take("all-logits", s.LastLogit && o.allLogits(), func() { s.LastLogit = false },
			"the logits of every token are computed, not of the last alone")
		n.take("cache", !o.caches(), func() { s.Cache = "none" }, "no cache: no keys and values are kept")
	} else {
		o.inferTraining(&s, w, n)
		r.trained()
		r.loop()
		r.loss()
		r.shared()
	}
	width := w.element
	if mixed || width == 1 || w.bits > 0 {
		width = 2
	}
	o.inferBatch(&s, theory, w, width, n)
	r.shifted()
	if s.Inference && s.Context > 0 {
		s.Context = max(s.Context, s.Sequence)
	}
	return s, w, n
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
		n.note("batch", fmt.Sprintf("batch %d x sequence %d: %d tokens in %s%s", s.Batch, s.Sequence, tokens, how, split))
		n.why["seq"] = n.why["batch"]
	} else if tokens == 0 && !theory.Given["batch"] && !theory.Given["seq"] {
		n.said = append(n.said, "batch and sequence: nothing in the recording tells them, give --batch and --seq")
	}
	n.take("attention", o.shows(eager) || tokens > 0 && o.scores(s), func() { s.Attention = "eager" },
		"eager attention: its scores are written out")
	_, ids := o.batch()
	written := false // to ask whether there is any padding takes a little, too
	o.within(func(id timeline.AllocationID) {
		written = written || o.masking[o.t.Stack(id)] && o.t.Requested(id) > 8*ids
	})
	n.take("padding", written || tokens > 0 && s.Attention != "eager" && o.masks(s), func() { s.Padding = true },
		"an attention mask is written out, as for padding or packing")
}

// inferTraining is the part of the setting that only training has.
func (o *observed) inferTraining(s *budget.Setting, w stored, n *notes) {
	trained := o.parameters * w.element / w.shards
	if a := o.adapters(*s, w); a.rank > 0 {
		n.take("lora", true, func() { s.LoRA = a.rank },
			"LoRA of rank %d: %d bytes of weights beyond the model's, and optimizer state for these alone", a.rank, a.bytes)
		n.take("lora-targets", a.targets != s.LoRATargets, func() { s.LoRATargets = a.targets }, "adapters on %s: by their sizes",
			a.targets)
		dtype := a.dtype(w)
		n.take("lora-dtype", dtype != s.LoRADtype && (dtype == "model") == (s.LoRADtype != "model"),
			func() { s.LoRADtype = dtype }, "%d bytes for each of the adapters' weights", a.width)
		trained = a.bytes
		wide := w.extra-a.bytes > o.parameters/32 // four bytes for each 64 numbers, not one
		n.take("plain-scales", w.bits == 4 && wide != s.PlainScales, func() { s.PlainScales = wide },
			"%d bytes of scales", w.extra-a.bytes)
		n.take("lora-dropout", o.shows(dropout), func() { s.LoRADropout = 0.05 }, "dropout before the adapters")
	}
	name, how := o.optimizer(trained, w.copies)
	r := o.refuting(s, w, n)
	claimed := n.claimed["optimizer"] && len(o.optimizers) == 0 && r.hasStateOf(1)
	n.take("optimizer", name != "" && !claimed, func() { s.Optimizer = name }, "%s: by %s", name, how)
	n.take("master-weights", o.detail(classify.MasterWeights), func() { s.MasterWeights = true },
		"master weights: float32 copies in the optimizer's state")
	n.take("checkpointing", o.checkpoints() && (s.Checkpointing == "none" || s.Checkpointing == ""),
		func() { s.Checkpointing = "full" }, "checkpointing: activations are made again in the backward pass")
	backwards := int64(o.backwards())
	n.take("accumulate", backwards > 1, func() { s.Accumulate = backwards }, "accumulation: %d backward passes in a step",
		backwards)
	n.take("use-cache", o.caches(), func() { s.UseCache = true }, "use_cache: keys and values are cached in training")
	n.take("keep-gradients", o.leaks(classify.GradientsKept), func() { s.KeepGradients = true },
		"gradients kept: zero_grad(set_to_none=False)")
	drops, _ := o.dropsOutputs()
	n.take("drop-outputs", drops, func() { s.DropOutputs = true }, "the outputs are let go before the backward pass")
	n.take("trainer", o.shows(converted), func() { s.Trainer = true }, "Accelerate: outputs are converted to float32")
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
	tensors := map[int64]bool{}
	for _, x := range o.tensors {
		tensors[x.Elements()] = len(x.Shape) > 1
	}
	var copies int64
	narrow, wide := 0, 0 // tensors that FSDP gathers
	o.within(func(id timeline.AllocationID) {
		switch n := o.t.Requested(id); o.c.Category[id] {
		case classify.AutocastCopies:
			copies += n
		case classify.Communication:
			if tensors[n/2] {
				narrow++
			}
			if tensors[n/4] {
				wide++
			}
		}
	})
	return copies > weights/8 || narrow > wide // a quarter of them in half their size
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
// are kept, the first ones alone tell, of which no copies are made yet. Without logits
// none is known.
func (o *observed) dropsOutputs() (drops, known bool) {
	backward := o.firstBackward()
	if backward == nil {
		return false, false
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
	return made && !held, made
}

func (o *observed) leaks(kind string) bool {
	return slices.ContainsFunc(o.c.Leaks(), func(l classify.Leak) bool { return l.Kind == kind })
}
