package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/timeline"
)

// Difference is a field of the setting of which files say one thing and the recording
// shows another, which is taken.
type Difference struct {
	Field    string `json:"field"`
	Claimed  string `json:"claimed"`
	Recorded string `json:"recorded"`
	Why      string `json:"why"`
	Sure     bool   `json:"sure"` // false: the peak alone speaks for it
}

// refuting is what speaks against what files claim: a recording of a whole step, with
// stacks or with all weights, shows what isn't there, too.
type refuting struct {
	*observed
	*notes
	s      *budget.Setting
	w      stored
	python bool // stacks tell whose code ran
	step   bool // a whole step with all of its passes
	whole  bool // every tensor of the model is here, uncut
}

func (o *observed) refuting(s *budget.Setting, w stored, n *notes) *refuting {
	return &refuting{observed: o, notes: n, s: s, w: w, python: o.shows(stacks), whole: w.whole(),
		step: o.step != nil}
}

// refute takes back what files claim of a flag and the recording shows not to be.
func (r *refuting) refute(flag string, wrong bool, set func(), why string) {
	if wrong && r.claimed[flag] && !r.given[flag] {
		set()
		r.note(flag, why)
	}
}

// shards takes how many ranks share the model, unless that is what files say, too.
func (r *refuting) shards() {
	s, d, n := r.s, r.s.Defaults(), r.w.shards
	same := s.FSDP != "" && s.Zero == 0 && shardsOf(&d) == n
	switch {
	case n < 2:
	case s.Zero == 3 && !r.shows(fsdp):
		r.take("gpus", d.GPUs != n*d.TP*d.PP, func() { s.GPUs = n * d.TP * d.PP },
			"ZeRO 3 over %d ranks: 1/%d of the model is here", n, n)
	default:
		r.take("fsdp", !same, func() { s.FSDP, s.Zero, s.Shards, s.GPUs = "full", 0, 0, n*d.TP*d.PP },
			"FSDP over %d ranks: 1/%d of every tensor is here", n, n)
	}
}

// precision takes the weights' type, and whether they are computed with in a narrower one.
func (r *refuting) precision() (mixed bool) {
	s, w := r.s, r.w
	if w.bits > 0 {
		r.take("precision", true, func() { s.Precision = fmt.Sprintf("int%d", w.bits) },
			"int%d: %d bits for each weight of the layers", w.bits, w.bits)
		r.take("prepare-kbit", true, func() { s.PrepareKbit = w.element == 4 },
			"%d bytes for each weight that isn't packed", w.element)
		return false
	}
	mixed = w.element == 4 && r.narrowCompute(w.bytes)
	name := precisionName(w.element, mixed, r.shows(scaler))
	r.take("precision", w.element > 0, func() { s.Precision = name }, "%s: %d bytes for each weight%s", name, w.element,
		precisionWhy(mixed, w))
	return mixed
}

// layout refutes what is said of how the model lies on GPUs.
func (r *refuting) layout() {
	s := r.s
	if r.whole && r.why["tp"] == "" {
		one := "every tensor of the model is here, uncut"
		r.refute("tp", s.TP > 1, func() { s.TP, s.SequenceParallel, s.AsyncTP = 1, false, false }, one)
		r.refute("pp", s.PP > 1, func() { s.PP = 1 }, one)
		r.refute("ep", s.EP > 1, func() { s.EP = 1 }, one)
		r.refute("fsdp", s.FSDP != "" && s.GPUs > 1, func() { s.FSDP = "" }, one)
		r.refute("zero", s.Zero == 3, func() { s.Zero = 0 }, one)
		if !r.detail(classify.GradientBucket) && s.FSDP == "" && s.Zero == 0 && s.TP*s.PP*s.EP*s.CP == 1 && !r.given["gpus"] {
			s.GPUs = min(s.GPUs, 1)
		}
	}
	r.refute("offload", s.Offload != "none" && 4*r.stateBytes() > r.w.bytes, func() { s.Offload = "none" },
		"the optimizer's state is on the device")
}

// trained refutes what is said of the way in which a step is made.
func (r *refuting) trained() {
	s, state := r.s, r.stateBytes()
	r.take("liger", r.shows(ligerKernels), func() { s.Liger = true }, "Liger's kernels are on the stacks")
	r.take("activation-offload", r.shows(hostSaved) && s.Checkpointing != "offload", func() { s.ActivationOffload = true },
		"saved activations go to host memory")
	r.refute("lora", r.whole && s.LoRA > 0 && 1000*r.w.extra < r.w.bytes && 4*state > r.w.bytes, func() { s.LoRA = 0 },
		"the optimizer has state for all weights, and none are beyond the model's")
	if !r.step {
		return
	}
	r.refute("accumulate", s.PP == 1 && s.Accumulate > 1 && r.backwards() == 1, func() { s.Accumulate = 1 },
		"one backward pass in a step")
	bare := r.whole && s.Zero == 0 && !r.detail(classify.MasterWeights) && state < 4*r.w.bytes
	r.refute("master-weights", bare && s.MasterWeights, func() { s.MasterWeights = false },
		"no float32 copies are in the optimizer's state")
	if r.python {
		r.unseen()
	}
}

// unseen refutes what stacks would show.
func (r *refuting) unseen() {
	s := r.s
	r.refute("liger", !r.shows(ligerKernels), func() { s.Liger = false }, "none of Liger's kernels is on the stacks")
	r.refute("attention", s.Attention == "eager" && !r.shows(eager), func() { s.Attention = "sdpa" },
		"no scores of attention are written out")
	if r.shows(compiled) {
		return
	}
	r.refute("checkpointing", !r.checkpoints(), func() { s.Checkpointing = "none" },
		"nothing is made again in the backward pass")
	for _, flag := range []string{"compile", "cuda-graphs"} {
		r.refute(flag, true, func() { s.Compile, s.CUDAGraphs = false, false }, "no compiled code is on the stacks")
	}
}

// shared takes over how many GPUs ZeRO 1 and 2 share the optimizer's state: as many as its
// bytes say.
func (r *refuting) shared() {
	s, d := r.s, r.s.Defaults()
	ranks := d.GPUs / max(d.TP*d.PP*d.CP, 1)
	if s.Zero < 1 || s.Zero > 2 || ranks < 2 || r.observed.step == nil || r.given["gpus"] {
		return
	}
	n := math.Round(r.stateOf() * float64(ranks) / float64(max(r.stateBytes(), 1)))
	if n < 1 || n > 1<<16 || int64(n) == ranks || !r.hasStateOf(float64(ranks)/n) {
		return
	}
	s.GPUs = int64(n) * d.GPUs / ranks
	if n == 1 {
		s.Zero = 0
		r.note("gpus", "all of the optimizer's state is here")
		return
	}
	r.note("gpus", fmt.Sprintf("1/%.0f of the optimizer's state is here", n))
}

// stateOf is the optimizer's state by the setting's budget, 0 where that can't be.
func (r *refuting) stateOf() (bytes float64) {
	b, err := budget.Compute(r.config, *r.s)
	for i := 0; err == nil && i < len(b.Phases); i++ {
		bytes = max(bytes, float64(b.Phases[i].Categories[budget.OptimizerState]))
	}
	return bytes
}

// hasStateOf reports whether as much state is here as the setting has, so many times.
func (r *refuting) hasStateOf(times float64) bool {
	state := float64(r.stateBytes())
	return state > 0 && math.Abs(r.stateOf()*times/state-1) < 0.03
}

// loop takes whose code trains: a library's, Transformers' Trainer, or a loop of one's own.
func (r *refuting) loop() {
	s := r.s
	if drops, known := r.dropsOutputs(); known && !r.given["drop-outputs"] {
		s.DropOutputs = drops
	}
	if !r.python {
		return
	}
	name := r.library()
	r.code = name
	s.Framework, s.Trainer = r.takeWord("framework", s.Framework, name), r.trainer(name)
	if s.Framework == "" && s.ActivationOffload {
		s.Framework = "transformers" // not torchtune's, which has a stream of its own for it
	}
	switch {
	case r.given["trainer"]:
	case name == "":
		r.why["trainer"] = "no library's trainer is on the stacks"
	default:
		r.why["trainer"] = fmt.Sprintf("%s is on the stacks", loops[name])
	}
}

// takeWord is a word that the recording tells, unless the user did.
func (r *refuting) takeWord(flag, said, shown string) string {
	if r.given[flag] {
		return said
	}
	return shown
}

// trainer reports whether outputs are treated as Accelerate and the Trainer do it.
func (r *refuting) trainer(library string) bool {
	if r.given["trainer"] {
		return r.s.Trainer
	}
	theirs := library == "transformers" || library == "trl"
	return r.shows(converted) || theirs && (r.w.element == 4 || strings.HasSuffix(r.s.Optimizer, "-8bit") || r.shows(liger)) ||
		r.s.FSDP != "" && r.shows(accelerated)
}

// loss takes how the logits come to a loss. What files say of pieces holds unless all logits
// are there at once.
func (r *refuting) loss() {
	s, whole := r.s, r.wholeLogits()
	pieces := s.Loss == "chunked" || s.Loss == "fused"
	r.refute("loss", pieces && whole, func() { s.Loss = "default" }, "the logits of all tokens are there at once")
	r.take("loss", r.shows(liger), func() { s.Loss = "fused" }, "loss: a fused kernel of head and cross entropy")
	r.take("loss", r.shows(smoothing), func() { s.Loss = "smoothed" }, "loss: smoothed labels, by the Trainer")
	direct := r.shows(directLoss) && !r.shows(libraryLoss) || r.narrowLoss(s.Precision)
	r.take("loss", !r.shows(liger) && direct && (whole || !pieces), func() { s.Loss = "cross-entropy" },
		"loss: cross entropy straight from the logits")
}

// shifted tells a loss of logits[..., :-1, :].contiguous() by the copy, which has a token less
// of each sequence.
func (r *refuting) shifted() {
	s, found := r.s, false
	rows := r.config.Int("vocab_size") * s.Batch * (s.Sequence - 1)
	r.within(func(id timeline.AllocationID) {
		n := r.t.Requested(id)
		found = found || r.c.Phase[id] == classify.Forward && rows > 0 && (n == 2*rows || n == 4*rows)
	})
	r.take("loss", found && s.Loss == "cross-entropy", func() { s.Loss = "shifted" }, "loss: of a copy of the logits, shifted")
}

// narrowLoss tells, where no stacks do, whether the logarithms of 16-bit logits have
// 16 bits, too: Transformers' own loss makes them float32 first.
func (r *refuting) narrowLoss(precision string) bool {
	mixed := strings.HasSuffix(precision, "-mixed")
	if r.shows(stacks) || !mixed && precision != "bf16" && precision != "fp16" {
		return false
	}
	logits, _ := r.batch()
	narrow, wide, over := 0, 0, false
	r.within(func(id timeline.AllocationID) {
		over = over || r.c.Phase[id] == classify.Backward
		switch n := r.t.Requested(id); {
		case over || r.c.Category[id] != classify.Logits:
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

// library is whose training runs, "" for a loop of one's own. TRL's counts only where the
// logits come in pieces, as they do there alone.
func (r *refuting) library() string {
	for _, name := range []string{"torchtitan", "torchtune", "litgpt", "nemo", "megatron"} {
		if r.libraries[name] {
			return name
		}
	}
	switch {
	case r.libraries["trl"] && !r.wholeLogits():
		return "trl"
	case r.libraries["transformers"]:
		return "transformers"
	case r.libraries["deepspeed"]:
		return "deepspeed"
	}
	return ""
}

// wholeLogits reports whether the logits of all tokens are there at once.
func (r *refuting) wholeLogits() bool { return r.training && r.allLogits() }

// loops are what libraries' trainings are called.
var loops = map[string]string{"": "a loop of its own", "transformers": "Transformers' Trainer", "trl": "TRL's trainer",
	"torchtitan": "torchtitan", "torchtune": "torchtune", "litgpt": "litgpt", "megatron": "Megatron", "nemo": "NeMo",
	"deepspeed": "DeepSpeed"}

// claim is a field of the setting that files speak of, in words.
type claim struct {
	field string
	flags []string // that say it
	words func(s *budget.Setting) string
	copy  func(to, from *budget.Setting) // of one that a recording may leave open, else nil
}

var claims = []claim{
	{"batch", []string{"batch"}, func(s *budget.Setting) string { return fmt.Sprint(s.Batch) }, nil},
	{"sequence", []string{"seq"}, func(s *budget.Setting) string { return fmt.Sprint(s.Sequence) }, nil},
	{"precision", []string{"precision"}, func(s *budget.Setting) string { return widths[s.Precision] }, nil},
	{"optimizer", []string{"optimizer"}, func(s *budget.Setting) string { return kindless(s.Optimizer) }, nil},
	{"master weights", []string{"master-weights"}, func(s *budget.Setting) string { return yesNo(s.MasterWeights) }, nil},
	{"checkpointing", []string{"checkpointing"}, func(s *budget.Setting) string { return s.Checkpointing },
		func(to, from *budget.Setting) { to.Checkpointing = from.Checkpointing }},
	{"accumulation", []string{"accumulate"}, func(s *budget.Setting) string {
		if s.Accumulate == 1 {
			return "none"
		}
		return fmt.Sprintf("%d micro-batches", s.Accumulate)
	}, nil},
	{"adapters", []string{"lora"}, func(s *budget.Setting) string {
		if s.LoRA == 0 {
			return "none"
		}
		return fmt.Sprintf("rank %d", s.LoRA)
	}, nil},
	{"layers with adapters", []string{"lora-targets"}, func(s *budget.Setting) string { return s.LoRATargets }, nil},
	{"sharding", []string{"fsdp", "zero", "fsdp-shards", "gpus"}, sharding, nil},
	{"tensor parallelism", []string{"tp"}, func(s *budget.Setting) string { return over(s.TP) }, nil},
	{"pipeline", []string{"pp"}, func(s *budget.Setting) string { return over(s.PP) }, nil},
	{"offload", []string{"offload"}, func(s *budget.Setting) string { return s.Offload },
		func(to, from *budget.Setting) { to.Offload = from.Offload }},
	{"loss", []string{"loss"}, func(s *budget.Setting) string {
		if s.Loss == "chunked" || s.Loss == "fused" {
			return s.Loss
		}
		return "whole logits"
	}, func(to, from *budget.Setting) { to.Loss = from.Loss }},
	{"torch.compile", []string{"compile", "cuda-graphs"}, func(s *budget.Setting) string { return yesNo(s.Compile) },
		func(to, from *budget.Setting) { to.Compile, to.CUDAGraphs = from.Compile, from.CUDAGraphs }},
	{"Liger's kernels", []string{"liger"}, func(s *budget.Setting) string { return yesNo(s.Liger) },
		func(to, from *budget.Setting) { to.Liger = from.Liger }},
	{"attention", []string{"attention"}, func(s *budget.Setting) string {
		if s.Attention == "eager" {
			return "eager"
		}
		return "fused"
	}, func(to, from *budget.Setting) { to.Attention = from.Attention }},
	{"optimizer in backward", []string{"optimizer-in-backward"}, func(s *budget.Setting) string {
		return yesNo(s.OptimizerInBackward)
	}, func(to, from *budget.Setting) { to.OptimizerInBackward = from.OptimizerInBackward }},
	{"offloaded activations", []string{"activation-offload"}, func(s *budget.Setting) string {
		return yesNo(s.ActivationOffload)
	}, func(to, from *budget.Setting) { to.ActivationOffload = from.ActivationOffload }},
	{"8-bit products", []string{"float8", "float8-all-gather", "float8-recipe", "mxfp8"}, func(s *budget.Setting) string {
		return yesNo(s.Float8 || s.MXFP8)
	}, func(to, from *budget.Setting) {
		to.Float8, to.Float8AllGather, to.MXFP8 = from.Float8, from.Float8AllGather, from.MXFP8
		to.Float8Recipe = from.Float8Recipe
	}},
	{"trained by", []string{"framework", "trainer"}, func(s *budget.Setting) string { return loops[s.Framework] },
		func(to, from *budget.Setting) { to.Framework, to.Trainer = from.Framework, from.Trainer }},
}

// over says over how many GPUs something is divided.
func over(n int64) string {
	if n < 2 {
		return "none"
	}
	return fmt.Sprintf("over %d GPUs", n)
}

func yesNo(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// widths are precisions in words; bf16 and fp16 take the same.
var widths = map[string]string{"fp32": "float32", "bf16": "16-bit weights", "fp16": "16-bit weights",
	"bf16-mixed": "float32 weights with 16-bit autocast", "fp16-mixed": "float32 weights with 16-bit autocast",
	"fp8-mixed": "float32 weights with 8-bit products", "int8": "8-bit weights", "int4": "4-bit weights"}

// kindless is an optimizer's name without how its step goes through the parameters.
func kindless(name string) string {
	for _, kind := range []string{"-fused", "-loop", "-foreach", "-capturable", "-hf"} {
		name = strings.TrimSuffix(name, kind)
	}
	return name
}

// sharding is what several GPUs share, in words.
func sharding(s *budget.Setting) string {
	switch ranks := s.GPUs / max(s.TP*s.PP*s.CP, 1); {
	case ranks < 2:
	case s.FSDP != "":
		return fmt.Sprintf("FSDP over %d GPUs", shardsOf(s))
	case s.Zero > 0:
		return fmt.Sprintf("ZeRO-%d over %d GPUs", s.Zero, ranks)
	}
	return "none"
}

// shardsOf is how many ranks share one copy of the model under FSDP.
func shardsOf(s *budget.Setting) int64 {
	ranks := s.GPUs / max(s.TP*s.PP, 1)
	if s.FSDP == "hybrid" {
		return cmp.Or(s.Shards, min(ranks, 8))
	}
	return cmp.Or(s.Shards, ranks)
}

// says reports whether files say a field that the user doesn't, and what the recording shows of it.
func (n *notes) says(x *claim) (says bool, why string) {
	for _, flag := range x.flags {
		says = says || n.claimed[flag] && !n.given[flag]
		why = cmp.Or(why, n.why[flag])
	}
	return says, why
}

// written reports whether files say a field in so many words, or by whose they are.
func (n *notes) written(x *claim) bool {
	return x.field == "trained by" || slices.ContainsFunc(x.flags, func(flag string) bool {
		return n.claimed[flag] && !n.unasked[flag]
	})
}

// differences are the fields of which files say something else than what was taken.
func (n *notes) differences(claimed, taken budget.Setting) []Difference {
	out := []Difference{}
	said := claimed.Framework
	if claimed, taken = claimed.Defaults(), taken.Defaults(); n.why["trainer"] != "" {
		claimed.Framework, taken.Framework = said, n.code
	}
	for i := range claims {
		x := &claims[i]
		says, why := n.says(x)
		was, is := x.words(&claimed), x.words(&taken)
		if says && n.written(x) && was != is && why != "" && !n.allowed(x.field, &claimed, &taken) {
			out = append(out, Difference{x.field, was, is, why, true})
		}
	}
	return out
}

// How far a budget may be off that tells what is so, and what share of the distance without
// that, at most.
const (
	fits   = 0.04
	better = 1.0 / 3
)

// doubt takes back the one thing that files say, of those which the recording neither shows nor
// refutes, without which its peak is that of the budget, or all of them: nil where none explains
// the difference.
func (g *gaps) doubt(theory *Theory, config *budget.Config, n *notes) *Result {
	if theory.Alone == nil || g.step == nil || g.r.off() < fits || slices.ContainsFunc(g.c.Leaks(), isDefect) {
		return nil
	}
	var best *Result
	all, bare := g.r.asked, &theory.Alone.Setting
	var fields []*claim
	for i := range claims {
		x := &claims[i]
		s := g.r.asked
		if says, why := n.says(x); !says || why != "" || x.copy == nil {
			continue
		}
		if x.copy(&s, bare); x.words(&s) == x.words(&g.r.asked) {
			continue
		}
		x.copy(&all, bare)
		fields = append(fields, x)
		if r := g.without(config, s, n, x); r != nil && (best == nil || r.off() < best.off()) {
			best = r
		}
	}
	if best == nil && len(fields) > 1 {
		best = g.without(config, all, n, fields...)
	}
	return best
}

// without is the result of a setting without some of what files say, nil where the peak isn't
// that of its budget.
func (g *gaps) without(config *budget.Config, s budget.Setting, n *notes, fields ...*claim) *Result {
	r, _, _, err := g.against(config, s)
	if err != nil || r.off() > min(fits, better*g.r.off()) {
		return nil
	}
	for _, x := range fields {
		if !n.written(x) {
			continue
		}
		r.Differs = append(r.Differs, Difference{x.field, x.words(&g.r.asked), x.words(&s), fmt.Sprintf("the peak fits so: "+
			"%s measured, %s expected, but %s with it", units.Bytes(r.Measured.PeakBytes), units.Bytes(r.Expected.PeakBytes),
			units.Bytes(g.r.Expected.PeakBytes)), false})
	}
	return r
}

// off is the share by which the measured peak is not the budget's.
func (r *Result) off() float64 {
	return math.Abs(float64(r.Measured.PeakBytes)/float64(max(r.Expected.PeakBytes, 1)) - 1)
}

func isDefect(l classify.Leak) bool {
	return l.Kind == classify.RetainedGraph || l.Kind == classify.GrowingList
}

// allowed reports whether what came is what a file allows: it names the longest sequence, and
// packing makes one long sequence of a batch.
func (n *notes) allowed(field string, claimed, taken *budget.Setting) bool {
	switch field {
	case "batch":
		return claimed.Batch*claimed.Sequence == taken.Batch*taken.Sequence && n.claimed["seq"]
	case "sequence":
		return taken.Sequence < claimed.Sequence || claimed.Batch*claimed.Sequence == taken.Batch*taken.Sequence
	}
	return false
}
