package budget

// Which parameters outside of the blocks FSDP gathers together, and how long they stay.

// staysGathered says whether a unit's parameters stay from forward to backward: the root's
// do unless the framework asks for it to go, as torchtitan and torchtune do; before PyTorch 2.8 a root wasn't asked,
// and torchtune's last release, 0.6.1, is older than that.
func (p *setup) staysGathered(root bool) bool {
	goes := p.profile.RootGoes || p.profile.RootGoes28 && p.Torch != "" && !p.torchBefore(8)
	return p.KeepGathered || p.profile.StagesKeep && p.PP > 1 || root && (!goes || p.flatUnits())
}

// ownUnits says whether embeddings and head are units of their own, as custom_sharded_layers makes them: torchtune's
// recipes that train Llama 3 in full have them so, those with adapters and of other models don't. Accelerate does with FSDP2.
func (p *holding) ownUnits() bool {
	accelerate := p.headStays()
	if !p.profile.OwnUnits && !accelerate || !p.sharded() || p.model.Tied {
		return false
	}
	if p.FSDPEnds != "" {
		return p.FSDPEnds == "apart"
	}
	return accelerate || !p.Adapts() && p.model.Config.Type == "llama" && p.model.Vocab > wordsOfLlama2
}

// headStays: Accelerate gathers the head for forward, and it stays for backward (fsdp2_prepare_model).
func (p *setup) headStays() bool {
	return p.Trainer && p.FSDP != "" && !p.flatUnits() && p.profile.EndsApart
}

// wordsOfLlama2 is a bound between vocabularies: Llama 2 has 32,000 words, Llama 3 128,256.
const wordsOfLlama2 = 100_000

func (p *holding) ownUnit(q *parameter) bool {
	return p.ownUnits() && (q == p.model.Embed || p.model.Head != nil && q == p.model.Head.Weight)
}

// Unit runs f with one weight outside of the blocks gathered, where it is a unit of its own.
func (r *run) Unit(q *parameter, x *value, f func(*value) *value) *value {
	if q == nil || !r.p.ownUnit(q) {
		return f(x)
	}
	s := r.shards
	g := s.ends[q]
	if g == nil {
		g = &group{params: []*parameter{q}, before: s.last}
		if q == r.Model.Embed {
			g.before = nil
		} else {
			g.stays = r.p.headStays()
		}
		g.gathered = r.p.gatheredBytes(g.params)
		s.ends[q] = g
	}
	in := x
	if x != nil {
		in = r.M.Again(x)
		hook(r.M, in, x, func() { r.reduce(g) })
	}
	g.calls++
	r.unshard(g, false)
	y := f(in)
	r.M.Drop(in)
	if !g.stays {
		r.reshard(g)
	}
	r.beforeBackward(y, g)
	return y
}
