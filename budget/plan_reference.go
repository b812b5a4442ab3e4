package budget

import "github.com/vramscope/vramscope/budget/network"

// frozen is what FSDP has gathered of a model that only goes forward, by block, nil for what is outside of them: what stays
// gathered from forward to backward is let go in backward alone, which never comes.
type frozen map[*network.Block]*storage

// keptGathered makes that of one model.
func keptGathered(r *run) frozen {
	f := frozen{}
	if !r.p.sharded() || r.p.FSDP == "" {
		return f
	}
	if r.p.staysGathered(true) {
		f[nil] = r.M.Alloc(r.groupOf(nil).gathered, Communication)
	}
	for _, b := range r.Model.Blocks {
		if g := r.groupOf(b); staysFor(r, g, b) {
			f[b] = r.M.Alloc(g.gathered, Communication)
		}
	}
	r.shards, r.ranks.shards = nil, nil
	return f
}

// references run a step's sequences through the models beside it, when the loss of the one that is trained is there.
func references(r *run, batch network.Batch) {
	m := r.M
	if r.p.PP > 1 {
		return
	}
	shards := r.shards
	for _, kept := range r.frozen {
		m.Grad, m.Phase, r.shards = false, Loss, nil
		if r.p.sharded() {
			for b, s := range kept {
				r.groupOf(b).whole = []*storage{m.Keep(s)}
			}
			r.unshard(r.groupOf(nil), false)
		}
		h := r.Forward(batch)
		if r.p.Loss == "chunked" || r.p.Loss == "fused" {
			r.rootDone(h)
		} else {
			y := r.ofLabelled(h)
			m.Logit(y)
			if r.rootDone(y); r.p.ofLogProbs() {
				y = r.returned(y)
			}
			m.Drop(m.Replace(y, r.loss.Of(y, batch, false)))
		}
		m.Drop(h)
		if r.shards != nil {
			m.Release(r.shards.flat)
			r.reshard(r.groupOf(nil))
			for _, g := range r.shards.ends {
				r.reshard(g)
			}
		}
		m.Grad, r.shards, r.ranks.shards = true, shards, shards
	}
}
