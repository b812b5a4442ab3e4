package replay

import "slices"

// OnePool is the program whose CUDA graphs share one private pool, that of the first; false where fewer than two pools are
// of graphs alone. Graphs that share one must never run at the same time.
func (p *Program) OnePool() (*Program, bool) {
	pools := map[uint16]uint16{} // of each graph's own pool, the first one's
	first := uint16(0)
	for _, pair := range p.pairs {
		if pair.Pool == 0 || p.Timeline.Snapshot.Pools[pair.Pool][1] != 0 {
			continue // made by the program, which may share it already
		}
		if first == 0 {
			first = pair.Pool
		}
		pools[pair.Pool] = first
	}
	if len(pools) < 2 {
		return nil, false
	}
	p.Verify() // once, for all copies
	q := *p
	q.changed = len(p.layout.Segments) > 0
	q.pairs = slices.Clone(p.pairs)
	to := make([]uint16, len(p.pairs))
	for i, pair := range p.pairs {
		to[i] = uint16(i)
		if shared, ok := pools[pair.Pool]; ok {
			pair.Pool = shared
			at := slices.Index(q.pairs, pair)
			if at < 0 {
				at, q.pairs = len(q.pairs), append(q.pairs, pair)
			}
			to[i] = uint16(at)
		}
	}
	q.ops = slices.DeleteFunc(slices.Clone(p.ops), func(o op) bool { // others still use it
		return o.kind == opOrphan && pools[uint16(o.slot)] != 0
	})
	for i := range q.ops {
		q.ops[i].pair = to[q.ops[i].pair]
	}
	q.older = slices.Clone(p.older)
	for i := range q.older {
		q.older[i].pair = to[q.older[i].pair]
	}
	return &q, true
}

// OnePoolSaves is what one pool for all graphs takes off peak reserved memory, in bytes; 0 where there aren't several.
func (p *Program) OnePoolSaves() int64 {
	q, ok := p.OnePool()
	if !ok {
		return 0
	}
	before := p.Run(Scenario{Settings: p.Settings, Packed: len(p.layout.Segments) > 0})
	return before.PeakReserved - q.Run(Scenario{Settings: p.Settings}).PeakReserved
}
