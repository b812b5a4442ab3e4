package budget

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/settings"
	"github.com/vramscope/vramscope/gpus"
)

// Fit says whether a setting fits a device, and how far it could go there.
type Fit struct {
	GPU         gpus.GPU
	Fits        bool
	MaxBatch    int64   // at the setting's sequence; 0: not even one
	MaxSequence int64   // at the setting's batch
	MaxTokens   int64   // serving: tokens in all caches together
	AtOnce      float64 // serving by an engine: requests of full length in its pool
	HasSequence bool    // false for images and sound, which have one length
}

// fits says whether a budget fits a device. The table's capacities are what
// PyTorch reports as the device's total; the context and communicators are
// taken from it, as is what the allocator reserves.
func (b *Budget) fits(g gpus.GPU) bool { return b.need(g) <= g.Capacity }

// need is what a budget takes of a device, -1 for a setting that cannot be.
func (b *Budget) need(g gpus.GPU) int64 {
	if b == nil {
		return -1
	}
	n := b.engineTotal() - b.Setting.Device().Context + g.Context
	switch e, ok := b.Setting.Served(); {
	case ok && e.Outside:
		return max(n, int64(float64(b.WeightsBytes+b.oneRequest)/e.Share)+g.Context)
	case ok:
		return int64(float64(n) / e.Share)
	}
	return n
}

// solver remembers budgets of a configuration by batch and sequence.
type solver struct {
	c    *Config
	s    Setting
	seen map[[2]int64]*Budget
}

func (v *solver) at(batch, seq int64) *Budget {
	k := [2]int64{batch, seq}
	if b, ok := v.seen[k]; ok {
		return b
	}
	s := v.s
	s.Batch = batch
	b, err := Compute(v.c, s.WithSequence(seq))
	if err != nil {
		b = nil
	}
	v.seen[k] = b
	return b
}

// largest finds the largest multiple of unit whose size is within room. Sizes
// grow with n, nearly in a straight line, so the gap is closed by
// interpolation; a size below zero is one that cannot be.
// near is one whose size is known, or unit.
func largest(unit, near, limit, room int64, size func(int64) int64) int64 {
	ok := func(b int64) bool { return b >= 0 && b <= room }
	lo, a := unit, size(unit)
	if !ok(a) {
		return 0
	}
	hi := 2 * lo
	if near > hi && near%unit == 0 {
		hi = near
	}
	b := size(hi)
	for ok(b) && hi < limit {
		lo, a = hi, b
		hi *= 2
		b = size(hi)
	}
	for step := 0; hi-lo > unit; step++ {
		mid := lo + (hi-lo)/2
		if b > a && step%3 < 2 { // every third step halves, so that a curve cannot slow it down
			mid = lo + int64(float64(hi-lo)*float64(room-a)/float64(b-a))
			if step%3 == 1 { // the neighbour of the last guess is often the answer
				mid = lo + unit
			}
		}
		mid = min(max(mid/unit*unit, lo+unit), hi-unit)
		if c := size(mid); ok(c) {
			lo, a = mid, c
		} else {
			hi, b = mid, c
		}
	}
	return lo
}

// first completes a setting, and works it out.
func (c *Config) first(s Setting) (Setting, *Budget, error) {
	s, err := c.complete(s)
	if err != nil {
		return s, nil, err
	}
	b, err := Compute(c, s)
	return s, b, err
}

// Limits of what is searched for.
const (
	limitBatch    = 1 << 20
	limitSequence = 1 << 24
)

// Fits works the table over devices out.
func Fits(c *Config, s Setting, devices []gpus.GPU) ([]Fit, error) {
	s, here, err := c.first(s)
	if err != nil {
		return nil, err
	}
	v := &solver{c: c, s: s, seen: map[[2]int64]*Budget{}}
	v.seen[[2]int64{s.Batch, s.Sequence}] = here
	v.s.Reserve, v.s.Fullest = here.looseness(), here.fullest
	var fits []Fit
	for _, g := range devices {
		f := Fit{GPU: g, Fits: here.fits(g)}
		if s.Engine == "" {
			f.MaxBatch = largest(1, s.Batch, limitBatch, g.Capacity, func(n int64) int64 { return v.at(n, s.Sequence).need(g) })
		}
		unit := s.CP
		if s.Sequence > 64 && s.CP == 1 {
			unit = 64
		}
		if f.HasSequence = here.sequenceFree(); f.HasSequence && s.Engine == "" {
			f.MaxSequence = c.longest(unit, s.Sequence, g.Capacity, func(n int64) int64 { return v.at(s.Batch, n).need(g) })
		}
		if s.Engine != "" {
			_, f.MaxTokens = here.pool(g)
			f.AtOnce = atOnce(s, f.MaxTokens)
			f.MaxBatch, f.MaxSequence = int64(f.AtOnce), f.MaxTokens
			fits = append(fits, f)
			continue
		}
		if s.Inference && here.CacheToken > 0 {
			work := here.workingBytes() - here.WeightsBytes
			free := g.Capacity - g.Context - here.WeightsBytes - int64(float64(work)*reserveFactor(s))
			f.MaxTokens = max(0, int64(float64(free)/reserveFactor(s))/here.CacheToken) * s.CP // a token is on one of these ranks
		}
		fits = append(fits, f)
	}
	return fits, nil
}

// sequenceFree: images and sound have one length.
func (b *Budget) sequenceFree() bool {
	return !slices.Contains([]string{"vit", "deit", "dinov2", "dinov2_with_registers", "clip", "whisper", "wav2vec2", "hubert",
		network.UNetClass, "swin", "swinv2", "convnext", "convnextv2"},
		b.Model.Type)
}

func (b *Budget) oneLength() error {
	return fmt.Errorf("--solve seq: the inputs of %s have one length", b.Model.Type)
}

// looseness is reserved over allocated, for settings much like this one; 0 where nothing
// was served.
func (b *Budget) looseness() float64 {
	if b.Setting.Inference {
		return 0
	}
	return float64(b.Reserved) / float64(max(b.PeakBytes, b.FirstStep, 1))
}

// workingBytes is what serving takes without the cache.
func (b *Budget) workingBytes() int64 {
	n := b.WeightsBytes
	for _, ph := range b.Phases {
		n = max(n, ph.Peak-ph.Categories[KVCache])
	}
	return n
}

func reserveFactor(s Setting) float64 {
	if s.Reserve > 0 {
		return s.Reserve
	}
	if s.Allocator == "expandable" {
		return expandableReserve
	}
	return nativeReserve
}

// Solve finds the largest batch or sequence, or the fewest GPUs, for a device,
// and the setting with it; 0 and the setting as it is when none fits.
func Solve(c *Config, s Setting, what string, g gpus.GPU) (int64, Setting, error) {
	s, err := c.complete(s)
	if err != nil {
		return 0, s, err
	}
	v := &solving{c: c, s: s, g: g, unit: 1}
	first := s
	switch what {
	case "batch":
		v.rough, v.limit, v.with = true, limitBatch, Setting.WithBatch
		v.search = func() int64 { return largest(1, 1, limitBatch, g.Capacity, v.need) }
	case "seq":
		v.unit, v.limit, v.with = s.SequenceUnit(), limitSequence, Setting.WithSequence
		v.search = func() int64 { return c.longest(v.unit, v.unit, g.Capacity, v.need) }
	case "gpus":
		if s.Inference {
			first.TP = 1 // how many is what is asked
		}
		v.unit, v.with = first.Group(), Setting.OnGPUs
		first.GPUs, first.Zero, first.FSDP = v.unit, 0, ""
		v.search = func() int64 {
			return v.unit * fewest(func(n int64) bool { b := v.need(n * v.unit); return b >= 0 && b <= g.Capacity })
		}
	default:
		return 0, s, fmt.Errorf("--solve %q: batch, seq or gpus", network.Short(what))
	}
	if v.b, err = Compute(c, first); err != nil {
		return 0, s, err
	}
	if what == "seq" && !v.b.sequenceFree() {
		return 0, s, v.b.oneLength()
	}
	n, misfit := v.estimate()
	if v.limit > 0 {
		n = v.settled(n, misfit)
	}
	if n < v.unit {
		return 0, s, nil
	}
	return n, v.with(s, n), nil
}

// solving is a search for one number of a setting.
type solving struct {
	c           *Config
	s           Setting
	g           gpus.GPU
	unit, limit int64 // limit is 0 where the fewest are asked for
	with        func(Setting, int64) Setting
	search      func() int64
	rough       bool    // budgets of the search are estimates
	b           *Budget // the last one that was worked out for itself
}

// estimate finds the number, and the largest that was worked out for itself and doesn't fit. For batches, how much more is
// reserved than allocated is worked out for one, and taken for those near it; what is found is worked out for itself.
func (v *solving) estimate() (n, misfit int64) {
	defer v.near(nil)
	v.near(v.b)
	n = v.search()
	misfit = n
	for range 6 {
		v.near(nil)
		if n == 0 || v.fits(n) || v.b == nil {
			break
		}
		v.near(v.b)
		misfit = max(misfit, n)
		m := v.search()
		if m == n {
			break
		}
		n = m
	}
	return n, misfit
}

// near takes what is reserved from a budget, or from none.
func (v *solving) near(b *Budget) {
	v.s.Reserve, v.s.Fullest = 0, 0
	if b != nil && v.rough {
		v.s.Reserve, v.s.Fullest = b.looseness(), b.fullest
	}
}

func (v *solving) need(n int64) int64 {
	b, err := Compute(v.c, v.with(v.s, n))
	if err != nil {
		return -1
	}
	return b.need(v.g)
}

func (v *solving) fits(n int64) bool {
	b, err := Compute(v.c, v.with(v.s, n))
	if v.b = b; err != nil {
		v.b = nil
		return false
	}
	return b.fits(v.g)
}

// between is a size from lo on, which fits, to hi, which doesn't, with one that doesn't after it.
func between(lo, hi, unit int64, fits func(int64) bool) int64 {
	for hi-lo > unit {
		mid := lo + (hi-lo)/unit/2*unit
		if fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// settled is the size near an estimated one that fits, though the next one does not.
func (v *solving) settled(n, misfit int64) int64 {
	unit := v.unit
	if n < unit && v.fits(unit) { // as much more is reserved in what was tried, not in less
		n = between(unit, misfit, unit, v.fits)
	}
	for i := 0; i < neighbours && n >= unit && !v.fits(n); i++ {
		n -= unit
	}
	for i := 0; i < neighbours && n >= unit && n < v.limit && v.fits(n+unit); i++ {
		n += unit
	}
	return n
}

// neighbours is how many sizes beside an estimated one are tried.
const neighbours = 32

// fewest tries powers of two and what lies between the last two.
func fewest(ok func(int64) bool) int64 {
	for n := int64(1); n <= 1<<16; n *= 2 {
		if !ok(n) {
			continue
		}
		i := sort.Search(int(n-n/2), func(i int) bool { return ok(n/2 + 1 + int64(i)) })
		for k := n/2 + 1 + int64(i); k < n; k++ {
			if ok(k) {
				return k
			}
		}
		return n
	}
	return 0
}

// Measure is one step of the ladder: a change and what it saves on top of
// the changes before it.
type Measure struct {
	Change      string  `json:"change"` // as a reader would say it
	Flags       string  `json:"flags"`  // as the command takes it
	Costs       string  `json:"costs"`  // what it costs in turn
	Saves       int64   `json:"saves_bytes"`
	TotalDevice int64   `json:"total_device_bytes"` // reserved and context after it
	Fits        bool    `json:"fits"`
	Setting     Setting `json:"-"`
}

// rung is a measure, where a setting has it to take.
type rung struct {
	change, flags, costs string
	open                 func(s *Setting) bool
	apply                func(s *Setting) // nil: what the flag says
}

// take applies the measure.
func (r *rung) take(s *Setting) {
	if r.apply != nil {
		r.apply(s)
		return
	}
	flag, value, _ := strings.Cut(strings.TrimPrefix(r.flags, "--"), " ")
	s.SetFlag(flag, cmp.Or(value, "true"))
}

// rungs are the measures in training, cheapest first.
var rungs = []rung{
	{"let gradients go with zero_grad(set_to_none=True)", "without --keep-gradients", "nothing",
		func(s *Setting) bool { return s.KeepGradients }, func(s *Setting) { s.KeepGradients = false }},
	{"switch the KV cache off in training", "without --use-cache", "nothing",
		func(s *Setting) bool { return s.UseCache }, func(s *Setting) { s.UseCache = false }},
	{"reduce each micro-batch's gradients (Accelerate's sync_each_batch)", "--sync-each-batch", "communication",
		func(s *Setting) bool { return s.Trainer && s.FSDP != "" && s.Accumulate > 1 && !s.SyncEachBatch }, nil},
	{"fused optimizer", "--optimizer adamw-fused", "nothing",
		func(s *Setting) bool { return s.Optimizer == "adamw" || s.Optimizer == "adamw-loop" }, nil},
	{"flash attention through sdpa", "--attention sdpa", "nothing", func(s *Setting) bool { return s.Attention == "eager" }, nil},
	{"a kernel for attention where sdpa has none", "--attention flash", "nothing",
		func(s *Setting) bool { return s.Attention == "sdpa" && s.Precision != "fp32" }, nil},
	{"expandable segments", "--allocator expandable", "nothing",
		func(s *Setting) bool { return s.Allocator == "native" }, nil},
	{"chunked or fused cross entropy", "--loss chunked", "a little time in the loss",
		func(s *Setting) bool { return s.Loss == "default" || s.Loss == "cross-entropy" }, nil},
	{"sharding over the GPUs (FSDP)", "--fsdp full", "communication",
		func(s *Setting) bool { return s.FSDP == "" && s.Zero < 3 && s.GPUs > s.TP*s.PP },
		func(s *Setting) { s.FSDP, s.Zero = "full", 0 }},
	{"pictures and texts encoded beforehand, no encoders on the GPU", "--cached-latents", "a pass over the data set first",
		func(s *Setting) bool { return s.Resolution > 0 && s.Adapts() && !s.CachedLatents },
		func(s *Setting) { s.CachedLatents = true }},
	{"gradient checkpointing", "--checkpointing full", "about a third more compute",
		func(s *Setting) bool { return s.Checkpointing != "full" }, nil},
	{"half the micro-batch, twice the accumulation", "--batch N/2 --accumulate 2",
		"smaller matrix products, gradients kept between micro-batches", func(s *Setting) bool { return s.Batch > 1 },
		func(s *Setting) { s.Accumulate, s.Batch = 2*s.Accumulate, (s.Batch+1)/2 }},
	{"8-bit optimizer state", "--optimizer adamw-8bit", "bitsandbytes; a little noise",
		func(s *Setting) bool { return strings.HasPrefix(s.Optimizer, "adam") && s.Optimizer != "adamw-8bit" },
		func(s *Setting) { s.Optimizer, s.MasterWeights = "adamw-8bit", false }},
	{"LoRA, rank 16", "--lora 16", "trains adapters only", func(s *Setting) bool { return !s.Adapts() },
		func(s *Setting) { s.LoRA, s.Freeze, s.Optimizer, s.MasterWeights = 16, 0, "adamw", false }},
	{"4-bit base weights (QLoRA)", "--precision int4", "slower, a little noise in the base",
		func(s *Setting) bool { return s.Adapts() && (s.Precision == "bf16" || s.Precision == "fp16") }, nil},
	{"optimizer on the CPU", "--offload optimizer", "PCIe traffic every step",
		func(s *Setting) bool { return s.Offload == "none" }, nil},
	{"shorter sequences, by half", "--seq N/2", "shorter context", func(s *Setting) bool { return s.Sequence > 256 },
		func(s *Setting) { *s = s.WithSequence(s.Sequence / 2) }},
}

func always(*Setting) bool { return true }

// servingRungs are the measures for a server.
var servingRungs = []rung{
	{"logits of the last token only", "without --all-logits", "nothing", always, func(s *Setting) { s.LastLogit = true }},
	{"flash attention through sdpa", "--attention sdpa", "nothing", always, nil},
	{"expandable segments", "--allocator expandable", "nothing", always, nil},
	{"a cache in 8 bits", "--kv fp8", "a little noise", always, nil},
	{"weights in 8 bits", "--precision int8", "slower products", always, nil},
	{"weights in 4 bits", "--precision int4", "a little noise", always, nil},
	{"half the sequences at once", "--batch N/2", "less throughput", always, func(s *Setting) { s.Batch = (s.Batch + 1) / 2 }},
}

// Ladder applies the measures one after another, keeping those that save,
// until the setting fits the device (or, without one, to the end).
func Ladder(c *Config, s Setting, g *gpus.GPU) ([]Measure, error) {
	s, b, err := c.first(s)
	if err != nil {
		return nil, err
	}
	all := rungs
	if s.Inference {
		all = servingRungs
	}
	var ms []Measure
	for _, r := range all {
		if g != nil && b.fits(*g) {
			break
		}
		t := s
		if !r.open(&t) {
			continue
		}
		t.Reserve, t.Fullest = b.looseness(), b.fullest
		r.take(&t)
		if t.Allocator != s.Allocator {
			t.Reserve = 0
		}
		if t.Precision != s.Precision && c.packedBits() <= settings.WeightBits[t.Precision] {
			continue
		}
		n, err := Compute(c, t)
		if err != nil || n.TotalDevice() >= b.TotalDevice() {
			continue
		}
		ms = append(ms, Measure{Change: r.change, Flags: r.flags, Costs: r.costs, Setting: t, TotalDevice: n.TotalDevice(),
			Saves: b.TotalDevice() - n.TotalDevice(), Fits: g != nil && n.fits(*g)})
		t.Reserve, t.Fullest = 0, 0
		ms[len(ms)-1].Setting = t
		s, b = t, n
	}
	return ms, nil
}

// WithVocabulary is the configuration with another vocabulary.
func WithVocabulary(c *Config, v int64) (*Config, error) {
	if v < 1 || v > 1<<31 {
		return nil, fmt.Errorf("--vocab %d: at least 1", v)
	}
	return c.of(c.WithText("vocab_size", float64(v))), nil
}
