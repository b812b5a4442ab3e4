package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// Figures for the ranking alone, of an H100: what its products and links reach in practice.
const (
	productRate = 400e12 // operations a second
	nearLink    = 300e9  // bytes a second between the GPUs of a node
	farLink     = 40e9   // and between nodes
	hostLink    = 25e9   // and to host memory
	nodeGPUs    = 8
	plansShown  = 5
	largestPlan = 64    // sequences of a micro-batch
	longPlan    = 32768 // tokens from which on sequences are divided over GPUs, too
)

// way is one of training a model.
type way struct {
	name  string
	take  func(*budget.Setting) bool // false: not this setting's
	shown int                        // plans of it, where there are others
	tp    bool                       // frameworks divide layers so
	other bool                       // shown though a way before it is as fast
	// seldom isn't searched for long sequences: the way before it is as good there.
	seldom bool
}

// goes makes a setting one of the way; false where it isn't this setting's, or its framework can't.
func (w *way) goes(s *budget.Setting) bool {
	return w.take(s) && has(s) && (s.TP <= 1 || w.tp && !s.Adapts() || s.Profile().DividesAdapters)
}

// called is the way's name, of which adapters on whole weights have another.
func (w *way) called(s *budget.Setting) string {
	if s.Adapts() && w.tp {
		return "adapters"
	}
	return w.name
}

// ways are from all parameters in full to adapters on packed weights: plans of a later one
// stand behind those of an earlier one.
var ways = []way{
	{"full training", func(s *budget.Setting) bool { return s.Precision != "bf16" || s.MasterWeights }, 3, true, false, false},
	{"full training in 16 bits", func(s *budget.Setting) bool { return s.Precision == "bf16" && !s.MasterWeights }, 2,
		true, false, false},
	{"8-bit optimizer state", func(s *budget.Setting) bool {
		s.Optimizer, s.Loss = "adamw-8bit", "chunked"
		return inFull(s)
	}, 2, false, false, false},
	{"8-bit state, steps in backward", func(s *budget.Setting) bool {
		s.Optimizer, s.Loss, s.OptimizerInBackward = "adamw-8bit", "chunked", true
		return inFull(s) && s.GPUs == 1 && s.Accumulate <= 1
	}, 2, false, false, false},
	{"state in host memory", func(s *budget.Setting) bool {
		none := s.Offload == "none" || s.Offload == ""
		s.Loss, s.Offload = "chunked", "params"
		if s.GPUs == 1 {
			s.Optimizer, s.Offload, s.OptimizerInBackward = "adamw-8bit", "optimizer", s.Accumulate <= 1
		}
		return inFull(s) && none
	}, 2, false, false, false},
	{"adapters", func(s *budget.Setting) bool { adapt(s); return s.Precision == "bf16" }, 2, false, true, false},
	{"adapters on 4-bit weights", func(s *budget.Setting) bool { adapt(s); return pack(s) }, 2, false, true, false},
	{"adapters on 4-bit weights, fused loss", func(s *budget.Setting) bool {
		adapt(s)
		free := s.Loss == "default" || s.Loss == ""
		s.Loss = "fused"
		return pack(s) && free
	}, 2, false, false, true},
}

// inFull says whether all parameters of 16 bits are trained.
func inFull(s *budget.Setting) bool { return !s.Adapts() && s.Precision == "bf16" && !s.MasterWeights }

// adapt trains adapters, those that are asked for already or LoRA's.
func adapt(s *budget.Setting) {
	if !s.Adapts() {
		s.LoRA, s.Freeze, s.MasterWeights = 16, 0, false
	}
}

// pack takes weights of four bits in the place of sixteen.
func pack(s *budget.Setting) bool {
	packed := s.Precision == "bf16"
	s.Precision = "int4"
	return packed
}

// has says whether the framework that is asked for can train so.
func has(s *budget.Setting) bool {
	if !s.Profile().OnlyWhole {
		return true
	}
	return !s.Adapts() && s.Optimizer != "adamw-8bit"
}

// Plans are the five best settings of a training that fit a device: precision, sharding,
// checkpointing and micro-batch are searched, everything else is as the setting says. Where
// none fits, least is the one that takes the least.
func Plans(c *budget.Config, s budget.Setting, g gpus.GPU, precisions []string) (best []budget.Plan, least *budget.Plan,
	err error) {
	_, b, err := first(c, s)
	if err != nil {
		return nil, nil, err
	}
	s.Reserve = b.Looseness()
	v := search{c: c, g: g, halves: len(precisions) > 1 && !g.Bfloat16()}
	precisions = planned(&s, precisions)
	var more []budget.Plan
	for i, w := range ways {
		plans := worth(v.plans(s, i, precisions), append(slices.Clone(best), more...), w.other)
		n := min(len(plans), w.shown)
		best, more = append(best, plans[:n]...), append(more, plans[n:]...)
		if len(best) >= plansShown {
			break
		}
	}
	best = append(best[:min(len(best), plansShown)], more[:min(len(more), max(plansShown-len(best), 0))]...)
	slices.SortStableFunc(best, func(a, b budget.Plan) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Cost, b.Cost))
	})
	for i := len(best) - 1; i >= 0; i-- {
		best[i].Cost /= best[0].Cost
	}
	return best, v.least, nil
}

// planned are the precisions that a search goes through.
func planned(s *budget.Setting, precisions []string) []string {
	switch { // what is trained beside frozen weights leaves them in 16 bits; Megatron-LM has copies in 32
	case len(precisions) > 1 && s.Adapts():
		return []string{"bf16"}
	case len(precisions) > 1 && s.Profile().OwnParallelism:
		s.MasterWeights, s.GradientDtype = true, "fp32"
		return []string{"bf16"}
	}
	return precisions
}

// worth are those of a way's plans that take less than twice the time of its best, and less
// than every plan of a way before it, unless the way is another kind of training.
func worth(plans, before []budget.Plan, other bool) []budget.Plan {
	if len(plans) == 0 {
		return nil
	}
	limit := 2 * plans[0].Cost
	return slices.DeleteFunc(plans, func(p budget.Plan) bool {
		return p.Cost > limit || !other && slices.ContainsFunc(before, func(q budget.Plan) bool { return q.Cost <= p.Cost })
	})
}

// search is one for plans.
type search struct {
	c     *budget.Config
	g     gpus.GPU
	least *budget.Plan
	way   string
	// halves: nobody asked for bfloat16, which the GPU has no matrix units for.
	halves bool
}

// asHalves is a setting in float16. Weights of it aren't trained in full: steps on them need bfloat16's range.
func asHalves(s *budget.Setting) bool {
	if inFull(s) {
		return false
	}
	switch s.Precision {
	case "bf16":
		s.Precision = "fp16"
	case "bf16-mixed":
		s.Precision = "fp16-mixed"
	}
	return true
}

// plans are those of a way that fit, the fastest first.
func (v *search) plans(s budget.Setting, of int, precisions []string) []budget.Plan {
	var plans []budget.Plan
	w := &ways[of]
	for _, precision := range precisions {
		for _, t := range shardings(s) {
			t.Precision = precision
			if !w.goes(&t) {
				continue
			}
			for _, how := range []string{"none", "op", "full"} {
				if how == "op" && !s.Profile().PerOperation {
					continue
				}
				t.Checkpointing, v.way = how, w.called(&t)
				if p, ok := v.plan(t); ok {
					p.Order, p.Way = of, v.way
					plans = append(plans, p)
				}
			}
		}
	}
	return confirmed(v.c, byCost(plans), v.g)
}

// shardings divide a model over the setting's GPUs, and long sequences of a decoder.
func shardings(s budget.Setting) (all []budget.Setting) {
	gpus := max(s.GPUs, 1)
	s.GPUs, s.TP, s.FSDP, s.Zero = gpus, 1, "", 0
	if gpus == 1 {
		return []budget.Setting{s}
	}
	contexts := []int64{max(s.CP, 1)}
	for n := int64(2); s.CP <= 1 && s.Sequence >= longPlan && n <= min(nodeGPUs, gpus) && dividesSequences(&s); n *= 2 {
		contexts = append(contexts, n)
	}
	for _, n := range contexts {
		for t := int64(1); t <= min(nodeGPUs, gpus); t *= 2 {
			x := s
			x.TP, x.SequenceParallel, x.CP = t, t > 1, n
			if gpus%(t*n) != 0 {
				continue
			}
			if gpus > t {
				x.FSDP = "full"
			}
			all = append(all, x)
		}
	}
	return all
}

// dividesSequences says whether the framework does, where one is named.
func dividesSequences(s *budget.Setting) bool { return s.Framework == "" || s.Profile().Contexts }

// plan is a setting with the largest micro-batch that fits.
func (v *search) plan(s budget.Setting) (p budget.Plan, ok bool) {
	var b *budget.Budget
	if v.halves && !asHalves(&s) {
		return p, false
	}
	for n := int64(1); n <= largestPlan; n *= 2 {
		s.Batch = n
		x, err := budget.Compute(v.c, s)
		if err != nil {
			break
		}
		if !x.Fits(v.g) {
			if n == 1 && (v.least == nil || x.TotalDevice() < v.least.TotalDevice) {
				v.least = &budget.Plan{Setting: s, Way: v.way}
				weigh(v.least, x)
			}
			break
		}
		b, p.Setting = x, s
	}
	if b == nil {
		return p, false
	}
	weigh(&p, b)
	return p, true
}

// weigh estimates a plan's time per token.
func weigh(p *budget.Plan, b *budget.Budget) {
	s := b.Setting
	tokens := float64(s.Batch * s.Sequence)
	p.Recompute = map[string]float64{"full": 1.0 / 3, "op": 1.0 / 8}[s.Checkpointing]
	here := tokens / float64(s.TP*s.CP) // that this GPU works out
	compute := 6 * float64(b.Model.Active) * here * (1 + p.Recompute) / productRate
	var far, near float64
	if s.FSDP != "" { // gathered twice in 16 bits, reduced once in 32
		far = 8 * float64(b.Model.Parameters) / float64(s.TP)
		if s.Adapts() {
			far /= 2
		}
	}
	if s.TP > 1 { // two gathers and two reductions in each block, forward and backward
		near = 8 * 2 * tokens / float64(s.CP) * float64(b.Model.Hidden*b.Model.Layers) * (1 + p.Recompute)
	}
	// Keys and values of others twice, more often where they are made again, and their gradients in 32 bits.
	near += (2 + p.Recompute*3 + 2) * 4 * here * float64(s.CP-1) * float64(b.Model.Hidden*b.Model.Layers)
	p.Traffic = int64(far + near)
	if s.Offload == "params" { // brought twice, and gradients taken away
		far += 6 * float64(b.Model.Parameters) / float64(max(s.GPUs, 1)) / hostLink * nearLink
	}
	link := nearLink
	if s.GPUs > nodeGPUs {
		link = farLink
	}
	gather := far / link
	p.Cost = (max(compute, gather) + min(compute, gather)/8 + near/nearLink) / here
	p.Batch, p.Sequence, p.TotalDevice, p.Host = s.Batch, s.Sequence, b.TotalDevice(), b.Host
	p.Flags, p.Framework = s.Flags(), p.Setting.FrameworkFlags()
}

// NoBfloat16 says which of the GPUs that were asked about lack matrix units for a setting's bfloat16.
func NoBfloat16(s *budget.Setting, asked []string, gs []gpus.GPU) (notes []string) {
	if len(asked) != len(gs) || !strings.HasPrefix(s.Precision, "bf16") {
		return nil
	}
	for _, g := range gs {
		if !g.Bfloat16() {
			notes = append(notes, fmt.Sprintf("%s has compute capability %d.%d, which multiplies bfloat16 without matrix "+
				"units: take --precision fp16-mixed, or fp16 below adapters", g.Name, g.Major, g.Minor))
		}
	}
	return notes
}

// byCost sorts plans by the time that they take.
func byCost(ps []budget.Plan) []budget.Plan {
	slices.SortStableFunc(ps, func(a, b budget.Plan) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.TotalDevice, b.TotalDevice))
	})
	return ps
}

// confirmed are the best of some plans, each worked out for itself: where the allocator
// cannot meet its requests after all, with a smaller micro-batch.
func confirmed(c *budget.Config, ps []budget.Plan, g gpus.GPU) []budget.Plan {
	var good []budget.Plan
	for _, p := range ps {
		if len(good) == plansShown {
			break
		}
		for p.Setting.Reserve = 0; p.Setting.Batch > 0; p.Setting.Batch /= 2 {
			b, err := budget.Compute(c, p.Setting)
			if err != nil || !b.Fits(g) {
				continue
			}
			weigh(&p, b)
			if !slices.ContainsFunc(good, func(q budget.Plan) bool { return q.Flags == p.Flags }) {
				good = append(good, p)
			}
			break
		}
	}
	return byCost(good)
}
