package budget

import (
	"cmp"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
)

// What DeepSpeed has beside the model (deepspeed/runtime/zero): a bucket that gradients are
// reduced in, and under ZeRO 3 as many gathered parameters as may live at once.

// Defaults of a DeepSpeed configuration, in elements.
const (
	reduceBucket   = 500_000_000
	liveParameters = 1_000_000_000
	reuseDistance  = 1_000_000_000 // stage3_max_reuse_distance
	subGroup       = 1_000_000_000 // sub_group_size
)

// deepspeed says whether ZeRO is DeepSpeed's: Megatron has the word for its own optimizer.
func (p *setup) deepspeed() bool { return p.Zero > 0 && p.dp > 1 && !p.Inference && !p.megatron() }

// gathersLate says whether gradients stay whole until a step's last backward is over: DeepSpeed's
// ZeRO 1 has its bucket from the step's first one on, and fills it then.
func (p *setup) gathersLate() bool { return p.deepspeed() && p.Zero == 1 }

// bucketElements is how large DeepSpeed's bucket for gradients is.
func (p *holding) bucketElements() int64 {
	if p.ReduceBucket < 0 { // "auto", as Transformers fills it in
		return p.model.Hidden * p.model.Hidden
	}
	return cmp.Or(p.ReduceBucket, reduceBucket)
}

// buckets are communication buffers that live for the whole run, and what is gathered of the
// parameters until the optimizer's step: DDP's flat copy of all gradients, or ZeRO 3's.
// Experts that no other rank has are in none: nothing is added to their gradients.
func (p *holding) buckets() (bucket, gathered int64) {
	gradients, experts := p.gradientParts()
	if p.expertDP > 1 {
		gradients += experts
	}
	switch {
	case p.dp < 2 || p.FSDP != "" || p.wideGradients():
		return 0, 0
	case p.Zero == 0:
		return gradients, 0
	case !p.deepspeed():
		return min(2*reduceBucket*p.width, 2*gradients), 0
	case p.Zero == 3:
		return p.bucketElements() * p.width, p.live() * p.width
	case p.Offload == "optimizer":
		return p.largest() * p.width, 0
	}
	return 0, 0
}

// bucketBytes is how much DDP sends at once (bucket_cap_mb).
const bucketBytes = 25 << 20

// besideSteps asks for what is there all the time beside the model, and is no part of a step.
func (r *run) besideSteps() {
	m, p := r.M, r.p
	bucket, gathered := p.buckets()
	one := bucket
	if p.Zero == 0 {
		one = bucketBytes
	}
	for _, n := range autograd.Pieces(bucket, one) {
		m.Ask(n)
	}
	m.Ask(p.gradientsAhead())
	m.Stream = autograd.GatherStream
	for _, q := range p.model.Params {
		n := min(q.Elements()*p.width, gathered)
		m.Ask(n)
		gathered -= n
	}
	m.Stream = autograd.MainStream
}

// subGroup is how many elements ZeRO 3 steps with at once.
func (p *setup) subGroup() int64 { return cmp.Or(p.SubGroup, subGroup) }

// ownTrained is how many elements a rank steps with.
func (p *holding) ownTrained() int64 {
	count := func(experts bool) int64 {
		n := network.Elements(p.everything(), func(q *parameter) bool { return q.Trainable && q.Expert() == experts })
		return min(autograd.Parts(n, p.shards(experts)), n)
	}
	return max(count(false)+count(true), 1)
}

// live is how many elements ZeRO 3 has gathered at its peak: what backward needs again soon
// isn't let go after forward, and from the second step on as much is gathered ahead as may
// live at once.
func (p *holding) live() int64 {
	n := network.Elements(p.model.Params, nil)
	again := int64(reuseDistance / 2) // there and back
	if p.PrefetchBucket >= 0 {
		again = max(again, cmp.Or(p.LiveParameters, liveParameters))
	}
	return min(n, again)
}

// largest is the largest parameter's elements: a buffer of that size is between gradients
// and the host, where the optimizer lies there.
func (p *holding) largest() (n int64) {
	for _, q := range p.model.Params {
		n = max(n, q.Elements())
	}
	return n
}

// gradientsAhead are gradients whose memory is there before they are: ZeRO 3 has a buffer
// for its part of them, Megatron-LM for all of them in float32.
func (p *holding) gradientsAhead() int64 {
	if p.deepspeed() && p.Zero == 3 || p.wideGradients() {
		return p.gradients()
	}
	return 0
}

// ranks is what a machine's gradients wait for, and in.
type ranks struct {
	*network.Machine
	p      *plan
	bucket *storage  // that ZeRO 1 and 2 reduce gradients in
	filled int64     // elements in it
	shards *sharding // whose groups gradients wait for, nil where parameters lie whole
}

// intoBucket takes a gradient of n elements to those that are reduced together. Where it
// doesn't fit any more, the others are reduced: as one more copy, made for that.
func (m *ranks) intoBucket(n int64) {
	m.openBucket()
	if m.filled+n > m.p.bucketElements() {
		m.reduceBucket()
	}
	m.filled += n
}

// openBucket makes room for gradients, with a step's first one.
func (m *ranks) openBucket() {
	if m.bucket != nil {
		return
	}
	copies := int64(1)
	if m.p.OverlapComm {
		copies = 2
	}
	m.bucket = m.Alloc(copies*m.p.bucketElements()*m.p.width, Communication)
}

func (m *ranks) reduceBucket() {
	m.Pulse(m.filled*m.p.width, Communication)
	m.filled = 0
}

// emptyBucket ends a backward. ZeRO 1 has reduced nothing until then, and each rank keeps its
// part from then on.
func (m *ranks) emptyBucket() {
	if m.bucket != nil {
		if m.p.gathersLate() {
			for _, q := range m.p.everything() {
				if s := m.Held[q]; s != nil {
					m.Release(s)
					m.Held[q] = m.Alloc(autograd.Parts(s.Bytes, m.p.shards(q.Expert())), Gradients)
				}
			}
		}
		m.reduceBucket()
		if own := min(m.p.largest(), m.p.ownTrained()); m.p.Offload == "optimizer" { // the norm in float64, a copy in float32
			m.Pulse(8*own, Temporary)
			m.Pulse(4*own, Temporary)
		}
		m.Release(m.bucket)
		m.bucket = nil
	}
}
