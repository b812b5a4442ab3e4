package budget

import "fmt"

// tensorParallel makes this rank's part of the model: heads, inner sizes and
// the vocabulary divided, norms and routers whole.
func (p *plan) tensorParallel() error {
	t, e := p.TP, p.EP
	if t == 1 && e == 1 {
		return nil
	}
	mod := p.model
	done := map[*parameter]bool{}
	cut := func(q *parameter, dim int, by int64, what string) error {
		if q == nil || done[q] || by == 1 {
			return nil
		}
		done[q] = true
		if dim >= len(q.Shape) {
			return nil
		}
		if q.Shape[dim]%by != 0 {
			if q == mod.embed || mod.head != nil && q == mod.head.weight { // vocabularies are padded
				q.Shape[dim] = (q.Shape[dim] + by - 1) / by
				return nil
			}
			return fmt.Errorf("%s: %d of %s cannot be divided by %d", q.Name, q.Shape[dim], what, by)
		}
		s := append([]int64(nil), q.Shape...)
		s[dim] /= by
		q.Shape = s
		return nil
	}
	column := func(l *linear) error {
		if l == nil || t == 1 {
			return nil
		}
		if l.out%t != 0 {
			return fmt.Errorf("--tp %d does not divide %s's %d outputs", t, l.weight.Name, l.out)
		}
		dim := 0
		if len(l.weight.Shape) == 2 && l.weight.Shape[0] == l.in && l.weight.Shape[1] == l.out && l.in != l.out {
			dim = 1
		}
		l.out /= t
		if err := cut(l.weight, dim, t, "outputs"); err != nil {
			return err
		}
		return cut(l.bias, 0, t, "outputs")
	}
	row := func(l *linear) error {
		if l == nil || t == 1 {
			return nil
		}
		if l.in%t != 0 {
			return fmt.Errorf("--tp %d does not divide %s's %d inputs", t, l.weight.Name, l.in)
		}
		dim := 1
		if l.weight.Shape[0] == l.in && l.weight.Shape[1] == l.out && l.in != l.out {
			dim = 0
		}
		l.in /= t
		return cut(l.weight, dim, t, "inputs")
	}
	all := mod.blocks
	if mod.encoder != nil {
		all = append(append([]*block{}, all...), mod.encoder.blocks...)
	}
	for _, b := range all {
		for _, a := range []*attention{b.attn, b.cross} {
			if a == nil {
				continue
			}
			if a.heads%t != 0 {
				return fmt.Errorf("--tp %d does not divide the %d attention heads", t, a.heads)
			}
			if a.kv > 1 && a.kv%t != 0 && t%a.kv != 0 {
				return fmt.Errorf("--tp %d and %d key-value heads do not fit each other", t, a.kv)
			}
			if err := p.shardAttention(a, column, row); err != nil {
				return err
			}
		}
		switch f := b.ff.(type) {
		case *mlp:
			for _, l := range []*linear{f.gate, f.up} {
				if err := column(l); err != nil {
					return err
				}
			}
			if err := row(f.down); err != nil {
				return err
			}
		case *experts:
			if f.count%e != 0 {
				return fmt.Errorf("--ep %d does not divide the %d experts", e, f.count)
			}
			f.local = e
			for _, q := range []*parameter{f.gateUp, f.down, f.upBias, f.downBias} {
				if err := cut(q, 0, e, "experts"); err != nil {
					return err
				}
			}
			if f.inner%t != 0 {
				return fmt.Errorf("--tp %d does not divide the experts' inner size of %d", t, f.inner)
			}
			done = map[*parameter]bool{}
			for i, q := range []*parameter{f.gateUp, f.down} {
				dim := 1 + i
				if f.oss {
					dim = 2 - i
				}
				if err := cut(q, dim, t, "inner size"); err != nil {
					return err
				}
			}
			f.inner /= t
		}
	}
	if err := cut(mod.embed, 0, t, "vocabulary"); err != nil {
		return err
	}
	if mod.head != nil {
		mod.head.out = (mod.head.out + t - 1) / t
		if !mod.tied {
			return cut(mod.head.weight, 0, t, "vocabulary")
		}
	}
	return nil
}

func (p *plan) shardAttention(a *attention, column, row func(*linear) error) error {
	t := p.TP
	if a.latent != nil {
		for _, l := range []*linear{a.latent.qb, a.latent.kvb} {
			if err := column(l); err != nil {
				return err
			}
		}
		if a.latent.qa == nil {
			if err := column(a.q); err != nil {
				return err
			}
		}
		a.heads, a.kv = a.heads/t, a.kv/t
		return row(a.o)
	}
	if a.fused && a.kv < t { // a shared key and value head is copied to every rank
		hq, hk := a.heads*a.d, a.kv*a.d
		a.q.out = hq/t + 2*hk
		a.q.weight.Shape = []int64{a.q.out, a.q.in}
		a.heads /= t
		return row(a.o)
	}
	if err := column(a.q); err != nil {
		return err
	}
	if !a.fused && a.kv >= t {
		for _, l := range []*linear{a.k, a.v} {
			if err := column(l); err != nil {
				return err
			}
		}
	}
	if !a.fused && a.kv < t && a.kv > 1 {
		share := a.kv // each rank keeps the one head its queries use
		for _, l := range []*linear{a.k, a.v} {
			l.out /= share
			l.weight.Shape = []int64{l.out, l.in}
			if l.bias != nil {
				l.bias.Shape = []int64{l.out}
			}
		}
		a.kv = 1
	} else {
		a.kv = max(a.kv/t, 1)
	}
	a.heads /= t
	return row(a.o)
}
