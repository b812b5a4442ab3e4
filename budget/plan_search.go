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

// ways are those of training, from all parameters in full to adapters on packed weights: the
// first that fits anywhere is the one that plans are made of.
var ways = []func(*Setting) bool{
	func(*Setting) bool { return true },
	func(s *Setting) bool {
		s.Optimizer, s.Loss = "adamw-8bit", "chunked"
		return s.LoRA == 0 && s.Precision == "bf16"
	},
	func(s *Setting) bool {
		s.Optimizer, s.Loss, s.OptimizerInBackward = "adamw-8bit", "chunked", true
		return s.LoRA == 0 && s.GPUs == 1 && s.Precision == "bf16"
	},
	func(s *Setting) bool { s.LoRA = 16; return s.Precision == "bf16" },
	func(s *Setting) bool { s.LoRA, s.Precision = 16, "int4"; return true },
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
	for _, way := range ways {
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
						plans = append(plans, p)
					}
				}
			}
		}
		if plans = bestPlans(plans); len(plans) > 0 {
			return confirmed(c, plans, g), nil
		}
	}
	return nil, nil
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
		if s.LoRA > 0 {
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

// bestPlans are the five that cost least.
func bestPlans(ps []Plan) []Plan {
	slices.SortStableFunc(ps, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.TotalDevice, b.TotalDevice))
	})
	ps = ps[:min(len(ps), plansShown)]
	for i := len(ps) - 1; i >= 0; i-- {
		ps[i].Cost /= ps[0].Cost
	}
	return ps
}

// confirmed works plans out for themselves, and leaves out one whose requests the allocator
// cannot meet after all.
func confirmed(c *Config, ps []Plan, g GPU) (good []Plan) {
	for _, p := range ps {
		for p.Setting.reserve = 0; p.Setting.Batch > 0; p.Setting.Batch /= 2 {
			b, err := Compute(c, p.Setting)
			if err == nil && b.fits(g) {
				cost := p.Cost
				p.weigh(b)
				p.Cost = cost
				good = append(good, p)
				break
			}
		}
	}
	return good
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
	if s.LoRA > 0 {
		add("--lora %d", s.LoRA)
	}
	if s.OptimizerInBackward {
		add("--optimizer-in-backward")
	}
	if s.Framework != "" && s.Framework != "transformers" {
		add("--framework %s", s.Framework)
	}
	return strings.Join(fs, " ")
}
