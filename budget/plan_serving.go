package budget

import (
	"cmp"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/units"
)

// kvBytes is the width of one element of the cache, with what its scales add:
// int8 a float32 per head and token, int4 two bf16 numbers per 64 elements.
func (p *holding) kvBytes(elements, head int64) int64 {
	head = max(head, 1)
	switch p.KV {
	case "fp32":
		return 4 * elements
	case "bf16", "fp16":
		return 2 * elements
	case "fp8":
		return elements
	case "int8":
		return elements + 4*elements/head
	case "int4":
		return (elements+1)/2 + 4*((elements+63)/64)
	}
	if p.mixed && p.model.RotaryWidth > 0 {
		return 4 * elements // keys rotated under autocast are float32, and so is the cache
	}
	return p.width * elements
}

// cacheBytes is the cache of a context, of which a layer with a window keeps the last tokens only.
func (p *holding) cacheBytes(context int64) (bytes, fixed, layerKeys int64) {
	fixed = p.states()
	bytes = fixed
	for _, b := range p.model.Blocks {
		a := b.Attention
		if a == nil {
			continue
		}
		n := context
		if a.Window > 0 && n > a.Window {
			n = a.Window
		}
		e, head := a.Cached()
		bytes += p.kvBytes(p.Batch*n*e, head)
		layerKeys = max(layerKeys, p.kvBytes(p.Batch*n*a.KV*a.Width, head))
		if b.Cross != nil && p.model.Encoder != nil {
			ce, ch := b.Cross.Cached()
			c := p.kvBytes(p.Batch*p.crossLength()*ce, ch)
			bytes += c
			fixed += c
		}
	}
	return bytes, fixed, layerKeys
}

// states are the recurrent ones.
func (p *holding) states() (bytes int64) {
	for _, b := range p.model.Blocks {
		if b.Mixer != nil {
			bytes += b.Mixer.State(p.Batch, p.width)
		}
	}
	return bytes
}

// crossLength is what a decoder's attention to the encoder sees.
func (p *holding) crossLength() int64 {
	if e := p.model.Encoder; e != nil && e.Sound != nil {
		return e.Patches
	}
	return p.Sequence
}

// inPieces is the setting as an engine runs it: prompts of some requests go through the model together, the cache is a pool
// that holds one request of full length at least, and only the last token of each request has logits.
func (c *Config) inPieces(s Setting) Setting {
	e, ok := s.Served()
	if !ok {
		return s
	}
	s.Inference, s.Cache, s.LastLogit = true, "static", true
	s.Context = cmp.Or(s.Context, c.Positions(), c.Int("max_position_embeddings"), 1024)
	s.Batch = cmp.Or(s.Batch, e.Seqs)
	s.Sequence, s.NewTokens = min(e.Tokens, s.Context), 0
	return s
}

// engineTotal is what an engine counts of the device: vLLM the peak of what is allocated, and what lies outside of PyTorch.
func (b *Budget) engineTotal() int64 {
	if e, ok := b.Setting.Served(); ok && !e.Outside {
		return b.TotalDevice() - b.Reserved + b.top()
	}
	return b.TotalDevice()
}

// Pool is what the device's share leaves for the cache: its bytes, and the tokens in it.
func (b *Budget) Pool(g gpus.GPU) (bytes, tokens int64) {
	e, ok := b.Setting.Served()
	if !ok || b.CacheToken == 0 {
		return 0, 0
	}
	beside := b.engineTotal() - b.oneRequest - b.Setting.Device().Context + g.Context
	if e.Outside { // what is static is in the share of what was free when the ranks had met
		ranks := b.Context - b.Setting.Device().Context
		bytes = int64(e.Share*float64(g.Capacity-g.Context-ranks)) - b.WeightsBytes
		bytes = min(bytes, g.Capacity-beside)
	} else {
		bytes = int64(e.Share*float64(g.Capacity)) - beside
	}
	return bytes, max(bytes-b.Setting.Batch*b.CacheFixed, 0) / b.CacheToken / cacheBlock * cacheBlock * b.Setting.CP
}

// cacheBlock is how many tokens of one request a block of the pool holds.
const cacheBlock = 16

// AtOnce is how many requests of full length a pool holds, which share their beginning once.
func AtOnce(s Setting, tokens int64) float64 {
	shared := s.Shared * float64(s.Context)
	return max(float64(tokens)-shared, 0) / max(float64(s.Context)-shared, 1)
}

// serve fills in prefill and decode.
func (p *plan) serve(b *Budget) {
	once := !p.model.Generates() // all tokens at once, and none after them
	if once && !p.model.FillsCache() {
		p.Cache = "none"
		b.Setting.Cache = p.Cache
	}
	if p.PP > 1 {
		n := (int64(len(p.model.Blocks)) + p.PP - 1) / p.PP
		p.model = p.stage(p.model.Blocks[:n], true, true).model
		b.note("one of %d pipeline stages, with embeddings and head", p.PP)
	}
	r := newRun(p)
	m := r.M
	load := r.ends[Load]
	b.WeightsBytes = load.Cats[Weights]
	total := (p.Context + p.NewTokens + p.CP - 1) / p.CP // context-parallel ranks share the cache, too
	static, _, _ := p.cacheBytes(total)
	seqs := p.Batch
	if e, ok := p.Served(); ok {
		one := *p
		one.Batch, p.Batch = 1, max(e.Tokens/p.Sequence, 1)
		m.Pass.Batch = p.Batch
		static, _, _ = one.cacheBytes(total)
		b.oneRequest = static
	}
	if p.Cache == "static" {
		m.Alloc(static, KVCache)
	}
	if p.sharded() {
		r.unshard(r.groupOf(nil), false)
	}
	m.Phase = Prefill
	batch := r.Inputs()
	m.Release(batch.Labels)
	batch.Labels = nil
	m.Mixed = p.mixed
	h := r.Forward(batch)
	logits := m.Replace(h, r.logits(h))
	if p.Engine != "" && p.model.Head != nil { // each request's, whole on a rank in float32, and what the sampler makes of them
		m.Pulse(seqs*p.model.Head.Out*max(p.TP, 1)*samplerBytes, Logits)
	}
	p.Batch = seqs
	if p.sharded() {
		r.reshard(r.shards.root)
		r.finishSharding()
	}
	r.end(Prefill)
	pre := m.Peaks[Prefill]
	b.Phases = append(b.Phases, loading(p, b, load),
		PhaseBytes{Phase: Prefill, Peak: pre.Bytes, End: r.ends[Prefill].Bytes, Categories: pre.Cats})
	outputs := logits.Bytes()
	for _, s := range m.Cached {
		outputs += s.Bytes
	}
	m.Drop(logits)
	if p.Cache != "none" && !once {
		p.decode(b, load, total)
	}
	b.peak()
	if !once {
		b.serving(p)
	} else if outputs > b.PeakBytes/50 {
		b.note("a loop that still holds the last batch's outputs while the next batch runs needs %s more", units.Size(outputs))
	}
}

// loading is the phase that ends with all weights on the GPU.
func loading(p *plan, b *Budget, load autograd.Instant) PhaseBytes {
	whole := p.unpackedWhileLoading()
	cats := load.Cats
	cats[Temporary] += whole
	if whole > 0 {
		b.note("bitsandbytes packs each matrix on the GPU while it loads, and has it there in 16 bits twice: a checkpoint that " +
			"is packed already doesn't need them")
	}
	return PhaseBytes{Phase: Load, Peak: load.Bytes + whole, End: load.Bytes, Categories: cats}
}

// samplerBytes are those of a word of one request: the logits in float32 twice, sorted with their places.
const samplerBytes = 4 + 4 + 4 + 8

// unpackedWhileLoading are the two 16-bit copies of its largest matrix that packing takes.
func (p *holding) unpackedWhileLoading() (bytes int64) {
	if z := p.packing(); z == nil || z.Method != "bitsandbytes" || z.File != nil || p.Engine != "" {
		return 0
	}
	for _, q := range p.model.Params {
		if p.packing().Has(q) {
			bytes = max(bytes, 2*2*q.Elements())
		}
	}
	return bytes
}

// decode is one token on a full context: a dynamic cache copies a layer's
// keys (then its values) to append to them.
func (p *plan) decode(b *Budget, load autograd.Instant, total int64) {
	cache, _, keys := p.cacheBytes(total)
	if p.Engine != "" {
		cache = b.oneRequest
	}
	c := load.Cats
	c[KVCache] = cache
	ws := p.workspace()
	if p.Cache == "dynamic" && keys > ws {
		c[KVCache] += keys
	} else {
		c[Workspace] += ws
	}
	if p.eager() {
		if a := p.model.First(); a != nil {
			c[Temporary] += 3 * p.width * p.Batch * total * a.Heads * a.Width
		}
	}
	if p.mixed {
		for _, q := range p.model.Params {
			if len(q.Shape) > 1 {
				c[AutocastCopies] += 2 * q.Elements()
			}
		}
	}
	if p.model.Head != nil {
		c[Logits] += p.Batch * p.model.Head.Out * p.width
	}
	c[Temporary] += 8 * p.Batch * p.model.Hidden * p.width
	end := c
	c[Communication] += p.arriving()
	if p.Cache == "dynamic" && keys > ws {
		end[KVCache] -= keys
	}
	b.Phases = append(b.Phases, PhaseBytes{Phase: Decode, Peak: c.Sum(), End: end.Sum(), Categories: c})
}

// serving notes what one more token costs.
func (b *Budget) serving(p *plan) {
	one := *p
	one.Batch = 1
	if p.Cache == "none" {
		return
	}
	x, fixed, _ := one.cacheBytes(1)
	y, _, _ := one.cacheBytes(0)
	b.CacheToken, b.CacheFixed = x-y, fixed
}
