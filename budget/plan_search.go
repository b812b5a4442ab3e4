package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Plan is a setting that fits, and what it costs in time.
type Plan struct {
	Flags       string  `json:"flags"`
	Framework   string  `json:"framework_flags"` // the same as the framework asked for has it
	TotalDevice int64   `json:"total_device_bytes"`
	Batch       int64   `json:"batch"`
	Recompute   float64 `json:"recompute_share"`                    // of the forward and backward without it
	Traffic     int64   `json:"communicated_bytes_per_micro_batch"` // by one GPU
	Cost        float64 `json:"relative_cost"`                      // time per token against the best plan, estimated
	Setting     Setting `json:"-"`
	way         int     // of training, a place in ways
}

// Figures for the ranking alone, of an H100: what its products and links reach in practice.
const (
	productRate = 400e12 // operations a second
	nearLink    = 300e9  // bytes a second between the GPUs of a node
	farLink     = 40e9   // and between nodes
	nodeGPUs    = 8
	plansShown  = 5
	largestPlan = 64 // sequences of a micro-batch
)

// ways are those of training, from all parameters in full to adapters on packed weights:
// plans of a later one stand behind those of an earlier one.
var ways = []func(*Setting) bool{
	func(*Setting) bool { return true },
	func(s *Setting) bool {
		s.Optimizer, s.Loss = "adamw-8bit", "chunked"
		return !s.adapts() && s.Precision == "bf16"
	},
	func(s *Setting) bool {
		s.Optimizer, s.Loss, s.OptimizerInBackward = "adamw-8bit", "chunked", true
		return !s.adapts() && s.GPUs == 1 && s.Accumulate <= 1 && s.Precision == "bf16"
	},
	func(s *Setting) bool { s.adapt(); return s.Precision == "bf16" },
	func(s *Setting) bool {
		s.adapt()
		packed := s.Precision == "bf16"
		s.Precision = "int4"
		return packed
	},
}

// adapt trains adapters, those that are asked for already or LoRA's.
func (s *Setting) adapt() {
	if !s.adapts() {
		s.LoRA, s.Freeze, s.MasterWeights = 16, 0, false
	}
}

// Plans are the five best settings of a training that fit a device: precision, sharding,
// checkpointing and micro-batch are searched, everything else is as the setting says.
func Plans(c *Config, s Setting, g GPU, precisions []string) ([]Plan, error) {
	full, err := c.complete(s)
	if err != nil {
		return nil, err
	}
	b, err := Compute(c, full)
	if err != nil {
		return nil, err
	}
	s.reserve = b.looseness()
	var best []Plan
	for i, way := range ways {
		var plans []Plan
		for _, precision := range precisions {
			for _, t := range shardings(s) {
				t.Precision = precision
				if !way(&t) {
					continue
				}
				for _, how := range []string{"none", "op", "full"} {
					if how == "op" && s.Framework != "torchtitan" {
						continue
					}
					t.Checkpointing = how
					if p, ok := planOf(c, t, g); ok {
						p.way = i
						plans = append(plans, p)
					}
				}
			}
		}
		if best = confirmed(c, best, byCost(plans), g); len(best) == plansShown {
			break
		}
	}
	for i := len(best) - 1; i >= 0; i-- {
		best[i].Cost /= best[0].Cost
	}
	return best, nil
}

// shardings divide a model over the setting's GPUs.
func shardings(s Setting) (all []Setting) {
	gpus := max(s.GPUs, 1)
	s.GPUs, s.TP, s.FSDP, s.Zero = gpus, 1, "", 0
	if gpus == 1 {
		return []Setting{s}
	}
	for t := int64(1); t <= min(nodeGPUs, gpus); t *= 2 {
		x := s
		x.TP, x.SequenceParallel = t, t > 1
		if gpus%t != 0 {
			continue
		}
		if gpus > t {
			x.FSDP = "full"
		}
		all = append(all, x)
	}
	return all
}

// planOf is a setting with the largest micro-batch that fits.
func planOf(c *Config, s Setting, g GPU) (p Plan, ok bool) {
	var b *Budget
	for n := int64(1); n <= largestPlan; n *= 2 {
		s.Batch = n
		x, err := Compute(c, s)
		if err != nil || !x.fits(g) {
			break
		}
		b, p.Setting = x, s
	}
	if b == nil {
		return p, false
	}
	p.weigh(b)
	return p, true
}

// weigh estimates a plan's time per token.
func (p *Plan) weigh(b *Budget) {
	s := b.Setting
	tokens := float64(s.Batch * s.Sequence)
	p.Recompute = map[string]float64{"full": 1.0 / 3, "op": 1.0 / 8}[s.Checkpointing]
	compute := 6 * float64(b.Model.Active) * tokens / float64(s.TP) * (1 + p.Recompute) / productRate
	var far, near float64
	if s.FSDP != "" { // gathered twice in 16 bits, reduced once in 32
		far = 8 * float64(b.Model.Parameters) / float64(s.TP)
		if s.adapts() {
			far /= 2
		}
	}
	if s.TP > 1 { // two gathers and two reductions in each block, forward and backward
		near = 8 * 2 * tokens * float64(b.Model.Hidden*b.Model.Layers) * (1 + p.Recompute)
	}
	p.Traffic = int64(far + near)
	link := nearLink
	if s.GPUs > nodeGPUs {
		link = farLink
	}
	gather := far / link
	p.Cost = (max(compute, gather) + min(compute, gather)/8 + near/nearLink) / (tokens / float64(s.TP))
	p.Batch, p.TotalDevice = s.Batch, b.TotalDevice()
	p.Flags, p.Framework = s.flags(), p.Setting.framework()
}

// byCost sorts plans by the time that they take.
func byCost(ps []Plan) []Plan {
	slices.SortStableFunc(ps, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.TotalDevice, b.TotalDevice))
	})
	return ps
}

// confirmed adds the best of some plans to those there are, as many as are shown, each worked
// out for itself: where the allocator cannot meet its requests after all, with a smaller
// micro-batch.
func confirmed(c *Config, there, ps []Plan, g GPU) []Plan {
	var good []Plan
	for _, p := range ps {
		if len(there)+len(good) == plansShown {
			break
		}
		for p.Setting.reserve = 0; p.Setting.Batch > 0; p.Setting.Batch /= 2 {
			b, err := Compute(c, p.Setting)
			if err != nil || !b.fits(g) {
				continue
			}
			p.weigh(b)
			same := func(q Plan) bool { return q.Flags == p.Flags }
			if !slices.ContainsFunc(there, same) && !slices.ContainsFunc(good, same) {
				good = append(good, p)
			}
			break
		}
	}
	return append(there, byCost(good)...)
}

// namesFramework says whether the framework's name makes a difference.
func (s Setting) namesFramework() bool {
	return s.Framework != "" && (s.Framework != "transformers" || s.Compile && !s.unsaid)
}

// flags are a plan's, as the command takes them.
func (s Setting) flags() string {
	var fs []string
	add := func(format string, args ...any) { fs = append(fs, fmt.Sprintf(format, args...)) }
	add("--precision %s --optimizer %s --batch %d --seq %d --checkpointing %s --loss %s", s.Precision, s.Optimizer, s.Batch,
		s.Sequence, s.Checkpointing, s.Loss)
	if s.GPUs > 1 {
		add("--gpus %d", s.GPUs)
	}
	if s.FSDP != "" {
		add("--fsdp %s", s.FSDP)
	}
	if s.TP > 1 {
		add("--tp %d --sequence-parallel", s.TP)
	}
	for _, w := range []struct {
		on    bool
		words string
		value any
	}{
		{s.LoRA > 0, "--lora %d", s.LoRA}, {s.adapts() && s.Adapter != "lora", "--adapter %s", s.Adapter},
		{s.adapts() && s.LoRATargets != "all", "--lora-targets %s", s.LoRATargets},
		{s.adapts() && s.LoRADtype != "fp32", "--lora-dtype %s", s.LoRADtype},
		{s.LoRADropout > 0, "--lora-dropout %v", s.LoRADropout}, {s.SaveModules != "", "--modules-to-save %s", s.SaveModules},
		{s.Accumulate > 1, "--accumulate %d", s.Accumulate}, {s.Attention != "sdpa", "--attention %s", s.Attention},
		{s.ExpertLoad > 1, "--expert-load %g", s.ExpertLoad}, {s.Freeze > 0, "--freeze %d", s.Freeze},
		{s.Offload != "none", "--offload %s", s.Offload},
	} {
		if w.on {
			add(w.words, w.value)
		}
	}
	for _, w := range []struct {
		on    bool
		words string
	}{{s.Compile && !s.CUDAGraphs, "--compile"}, {s.CUDAGraphs, "--cuda-graphs"},
		{s.Padding, "--padding"}, {s.PlainScales, "--plain-scales"}, {s.Trainer, "--trainer"},
		{s.MasterWeights, "--master-weights"}, {s.KeepGradients, "--keep-gradients"}, {s.Float8, "--float8"},
		{s.ActivationOffload, "--activation-offload"}, {s.OptimizerInBackward, "--optimizer-in-backward"}} {
		if w.on {
			add("%s", w.words)
		}
	}
	if s.namesFramework() {
		add("--framework %s", s.Framework)
	}
	return strings.Join(fs, " ")
}
