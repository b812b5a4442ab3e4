package budget

import "cmp"

// image turns pixels into positions: a convolution over patches, perhaps a
// token in front, and learned positions.
func (r *run) image(mod *model, b batchOf) *value {
	m, pt := r.m, mod.patch
	n, width := mod.patches-pt.before, cmp.Or(pt.width, mod.hidden)
	pixels := &value{st: m.keep(b.pixels), n: r.p.Batch * pt.pixels, e: m.wide}
	x := m.replace(pixels, m.convolution(pixels, pt.weight, pt.bias, r.p.Batch*n*width, r.p.Batch*pt.pixels))
	if pt.class != nil {
		c := m.again(pt.class.val)
		both := m.cat(x, c)
		both.n = r.p.Batch * mod.patches * mod.hidden
		m.release(both.st)
		both.st = m.alloc(both.bytes(), Temporary)
		m.drop(x, c)
		x = both
	}
	y := x
	if mod.position != nil {
		y = m.replace(x, m.add(x, mod.position.val))
	}
	y = m.replace(y, mod.embedNorm.forward(m, y))
	return m.replace(y, m.dropout(y, mod.embedDrop))
}

// convolution keeps its input; columns is what unfolding the input takes.
func (m *machine) convolution(x *value, w, bias *parameter, out, columns int64) *value {
	in := m.cast(x, m.narrow(x.e))
	k := m.weight(w)
	ins := []*value{in, k}
	var b *value
	if bias != nil {
		b = m.weight(bias)
		ins = append(ins, b)
	}
	y := m.tensor(out, k.e)
	m.pulse(m.cublas, Workspace)
	saved := []*storage{in.st, k.st}
	xb, wb, wc, e := in.bytes(), k.bytes(), m.weightGrad(k), k.e
	needX, needW := in.needsGrad(), k.needsGrad()
	m.record([]*value{y}, ins, saved, func(g []*storage) []*storage {
		r := make([]*storage, len(ins))
		cols := m.alloc(columns*e, Temporary)
		if needX {
			r[0] = m.alloc(xb, Temporary)
		}
		if needW {
			r[1] = m.alloc(wb, wc)
		}
		if b.needsGrad() {
			r[2] = m.alloc(bias.val.n*e, wc)
		}
		m.release(cols)
		return r
	})
	m.drop(in, k, b)
	return y
}

// sound is whisper's front: two convolutions with gelu, and fixed positions.
func (r *run) sound(mod *model, b batchOf) *value {
	m, c := r.m, mod.conv
	in := &value{st: m.keep(b.pixels), n: r.p.Batch * c.frames * c.bins, e: m.wide}
	x := m.replace(in, m.convolution(in, c.w1, c.b1, r.p.Batch*c.frames*c.h, 3*r.p.Batch*c.frames*c.bins))
	x = m.replace(x, m.activate(x, actGelu))
	x = m.replace(x, m.convolution(x, c.w2, c.b2, r.p.Batch*mod.patches*c.h, 3*r.p.Batch*mod.patches*c.h))
	x = m.replace(x, m.activate(x, actGelu))
	y := m.replace(x, m.add(x, mod.position.val))
	return m.replace(y, m.dropout(y, mod.embedDrop))
}
