package budget

// Counts are a model's parameters.
type Counts struct {
	Total     int64
	Active    int64 // those one token passes through: routed experts count once per choice
	Embedding int64
	ByRole    map[Role]int64
	trainable int64
}

// Count counts the parameters of a configuration.
func Count(c *Config) (_ Counts, err error) {
	defer c.broken(&err)
	m, err := newModel(c)
	if err != nil {
		return Counts{}, err
	}
	return m.counts(), nil
}

func (m *model) counts() Counts {
	n := Counts{ByRole: map[Role]int64{}}
	for _, p := range m.params {
		if p.Buffer && !p.Listed { // what the optimizer never sees is no parameter
			continue
		}
		e := p.Elements()
		n.Total += e
		n.ByRole[p.Role] += e
		if p.Trainable {
			n.trainable += e
		}
	}
	n.Embedding = n.ByRole[RoleEmbedding]
	n.Active = n.Total
	for _, b := range m.blocks {
		if x, ok := b.ff.(*experts); ok && x.count > 0 {
			var routed int64
			for _, p := range []*parameter{x.gateUp, x.down, x.upBias, x.downBias} {
				if p != nil {
					routed += p.Elements()
				}
			}
			n.Active -= routed / x.count * (x.count - x.topK)
		}
	}
	return n
}
