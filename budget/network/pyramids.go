package network

import (
	"strconv"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/internal/words"
)

// Encoders of images whose stages halve the sides and widen the channels: ConvNeXt and Swin. A block has a forward of its own,
// which begins, in a stage's first one, with what comes between two stages.

// pyramid reads what both have: channels of each stage, layers in each, and the sides of the first.
func pyramid(b *builder, widths, depths []int64, patch int64) (side int64) {
	c := b.c
	if len(widths) == 0 || len(widths) > 16 || len(depths) != len(widths) || patch < 1 ||
		c.Need("image_size", "num_channels") != nil {
		b.fail("%s: stages of %v channels and %v layers", c.Type, widths, depths)
	}
	for i := range widths {
		if widths[i] < 1 || widths[i] > 1<<20 || depths[i] < 1 || depths[i] > MaxLayers {
			b.fail("%s: stages of %v channels and %v layers", c.Type, widths, depths)
		}
	}
	if side = c.Int("image_size") / patch; side < 1 {
		b.fail("%s: patches of %d pixels do not fit into an image of %d", c.Type, patch, c.Int("image_size"))
	}
	m := b.m
	m.Hidden, m.Patches, m.Stepped = widths[len(widths)-1], side*side, true
	return side
}

// stagePatches is the convolution over patches, to the first stage's channels.
func stagePatches(b *builder, name string, width, patch int64) {
	channels, side := b.c.Int("num_channels"), b.c.Int("image_size")
	b.m.Patch = &patching{pixels: channels * side * side, width: width,
		weight: b.param(name+".weight", RoleEmbedding, width, channels, patch, patch),
		bias:   b.param(name+".bias", RoleEmbedding, width)}
}

// convNext is a layer: a depthwise convolution and a feed-forward on each pixel.
type convNext struct {
	between             *norm // in front of the convolution that halves the sides, in a stage's first layer
	halving, deep       *parameter
	halvingBias, deepB  *parameter
	norm                *norm
	ff                  *mlp
	scale               *norm
	global, globalShift *parameter
	width, pixels       int64 // per picture
}

func buildConvNext(b *builder) {
	c, m := b.c, b.m
	widths, depths := c.Ints("hidden_sizes"), c.Ints("depths")
	side := pyramid(b, widths, depths, c.Int("patch_size"))
	kind := b.headUnder(c.Type + ".")
	stagePatches(b, "embeddings.patch_embeddings", widths[0], c.Int("patch_size"))
	m.embedNorm = b.norm("embeddings.layernorm", layerNormKind, widths[0], true)
	from := widths[0]
	for i, out := range widths {
		if i > 0 {
			side /= 2
		}
		b.layers("encoder.stages."+strconv.Itoa(i)+".layers.", depths[i], func(j int64) {
			x := &convNext{width: out, pixels: side * side}
			if i > 0 && j == 0 {
				b.make(parts{to: []any{x}, role: RoleVision, sizes: sizes{"from": from}}, "between=downsampling_layer.0+:from "+
					"halving=downsampling_layer.1.weight:width,from,2,2 halvingBias=downsampling_layer.1.bias:width")
			}
			x.build(b)
			m.Blocks = append(m.Blocks, &Block{FF: x.ff, own: x.forward})
		})
		from = out
	}
	last := b.norm("layernorm", layerNormKind, from, true)
	b.prefix = ""
	if kind != headDefault && kind != headImage {
		if m.Task, m.final = TaskBackbone, last; kind != headNone {
			b.noHead()
		}
		return
	}
	m.headParts = []any{last} // of the pixels' mean
	b.classifier(TaskClassify, "classifier", from, c.Labels(), true)
}

func (x *convNext) build(b *builder) {
	h := x.width
	if b.c.Type == "convnext" && b.c.Float("layer_scale_init_value") > 0 {
		x.scale = &norm{kind: layerScaleKind, size: h, weight: b.param("layer_scale_parameter", RoleNorm, h)}
	}
	b.make(parts{to: []any{x}, role: RoleVision}, "deep=dwconv.weight:width,1,7,7 deepB=dwconv.bias:width norm=layernorm+:width")
	x.ff = &mlp{act: b.activation("hidden_act"), up: b.linear("pwconv1", RoleMLP, h, 4*h, true)}
	if b.c.Type == "convnextv2" {
		x.global, x.globalShift = b.param("grn.weight", RoleNorm, 1, 1, 1, 4*h), b.param("grn.bias", RoleNorm, 1, 1, 1, 4*h)
	}
	x.ff.down = b.linear("pwconv2", RoleMLP, 4*h, h, true)
}

func (x *convNext) forward(m *Machine, in *value, c context) *value {
	n := c.self.batch * x.pixels * x.width
	y := m.Again(in)
	if x.between != nil {
		y = m.into(y, x.between, convolves{x.halving, x.halvingBias, n, 0})
	}
	h := m.of(y, convolves{x.deep, x.deepB, n, 0}, x.norm, x.ff.up, x.ff.act)
	if x.global != nil {
		h = m.Replace(h, x.response(m, h, c.self.batch))
	}
	return m.into(y, adds{m.into(h, x.ff.down, x.scale)})
}

// response is ConvNeXt V2's global response normalization: each channel times its share of a picture's norms.
func (x *convNext) response(m *Machine, h *value, batch int64) *value {
	in := m.WideUnderAutocast(h)
	norms := m.Tensor(batch*4*x.width, in.Width)
	b := in.Bytes()
	m.Record([]*value{norms}, []*value{in}, []*storage{in.Mem, norms.Mem}, func(g []*storage) []*storage {
		return []*storage{m.Amid(b, words.Temporary, b)}
	})
	y := m.of(h, multiplies{norms})
	m.Drop(in)
	y = m.into(y, times{x.global.Val})
	y = m.Replace(y, m.AddBias(y, x.globalShift.Val))
	return m.into(y, plus{h})
}

// swin is a layer with attention within windows, every second one's windows shifted by half.
type swin struct {
	b             *Block
	merge         *norm // of four pixels' channels in one, in a stage's first layer
	merged        *Linear
	table         *parameter
	cosine        *cosineHeads // in the place of the table: the second version
	width, side   int64
	window, shift int64
	drop          float64 // stochastic depth
}

func buildSwin(b *builder) {
	c, m := b.c, b.m
	depths, heads := c.Ints("depths"), c.Ints("num_heads")
	if w := c.Int("window_size"); len(depths) > 16 || len(heads) != len(depths) || w < 1 || w > 1<<10 ||
		c.Float("mlp_ratio") <= 0 {
		b.fail("%s: stages of %v layers and %v heads, windows of %d", c.Type, depths, heads, w)
	}
	widths := make([]int64, len(depths))
	for i := range widths {
		widths[i] = c.Int("embed_dim") << i
	}
	side := pyramid(b, widths, depths, c.Int("patch_size"))
	kind := b.headUnder(c.Type + ".")
	stagePatches(b, "embeddings.patch_embeddings.projection", widths[0], c.Int("patch_size"))
	if c.Bool("use_absolute_embeddings") {
		first := int64(0)
		if c.Type == "swinv2" { // one for a token that it doesn't have
			first = 1
		}
		m.Position = b.param("embeddings.position_embeddings", RolePosition, 1, side*side+first, widths[0])
	}
	m.embedNorm = b.norm("embeddings.norm", layerNormKind, widths[0], true)
	swinStages(b, widths, depths, heads, side)
	m.final = b.norm("layernorm", layerNormKind, m.Hidden, true)
	if m.Task, b.prefix = TaskBackbone, ""; kind == headDefault || kind == headImage {
		b.classifier(TaskClassify, "classifier", m.Hidden, c.Labels(), true)
	} else if kind != headNone {
		b.noHead()
	}
}

// swinStages are the layers, of which later ones are left out more often.
func swinStages(b *builder, widths, depths, heads []int64, side int64) {
	c, m := b.c, b.m
	var all, done int64
	for _, d := range depths {
		all += d
	}
	for i, h := range widths {
		if i > 0 {
			side = (side + 1) / 2
		}
		b.layers("encoder.layers."+strconv.Itoa(i)+".blocks.", depths[i], func(j int64) {
			x := &swin{width: h, side: side, window: min(c.Int("window_size"), side),
				drop: c.Float("drop_path_rate") * float64(done) / float64(max(all-1, 1))}
			if j%2 == 1 && side > c.Int("window_size") {
				x.shift = c.Int("window_size") / 2
			}
			if i > 0 && j == 0 {
				x.mergeFour(b, h)
			}
			if c.Type == "swinv2" {
				x.buildCosine(b, heads[i])
			} else {
				x.build(b, heads[i])
			}
			m.Blocks, done = append(m.Blocks, x.b), done+1
		})
	}
}

// mergeFour comes between two stages; the second version norms what became of the four, and has it behind the stage before.
func (x *swin) mergeFour(b *builder, h int64) {
	norms := 2 * h
	if b.c.Type == "swinv2" {
		norms = h
	}
	x.merged = b.linear("downsample.reduction", RoleVision, 2*h, h, false)
	x.merge = b.norm("downsample.norm", layerNormKind, norms, true)
}

// divides says whether heads have whole channels.
func (x *swin) divides(b *builder, heads int64) {
	if heads < 1 || x.width%heads != 0 {
		b.fail("%s: %d channels and %d heads", b.c.Type, x.width, heads)
	}
}

func (x *swin) build(b *builder, heads int64) {
	c, h := b.c, x.width
	x.divides(b, heads)
	at := b.looks(h, heads, c.Float("attention_probs_dropout_prob"), 0)
	at.t5 = true
	x.b = &Block{Attention: at, FF: &mlp{act: b.activation("hidden_act")}, drop: c.Float("hidden_dropout_prob"), own: x.forward}
	inner := int64(c.Float("mlp_ratio") * float64(h))
	b.fill(x.b, nil, h, inner, looksPlain)
	w := 2*c.Int("window_size") - 1
	x.table = b.param("attention.relative_position_bias.relative_position_bias_table", RolePosition, w*w, heads)
	b.fill(x.b, nil, h, inner, "attnIn=layernorm_before+ mlpIn=layernorm_after+ up=mlp.fc1+ down=mlp.fc2+")
}

func (x *swin) forward(m *Machine, in *value, c context) *value {
	y := m.Again(in)
	if x.merge != nil {
		steps := []any{m.CopyOf, x.merge, x.merged} // four pixels' channels beside each other
		if x.cosine != nil {
			steps[1], steps[2] = steps[2], steps[1]
		}
		y = m.into(y, steps...)
	}
	if x.cosine != nil {
		attended := x.normed(m, x.within(m, y, c.self.batch), x.b.attnIn)
		y = m.into(y, plus{attended})
		f := x.normed(m, x.b.FF.forward(m, y), x.b.mlpIn)
		m.Drop(attended)
		return m.into(y, adds{f})
	}
	y = m.Replace(y, x.b.part(m, y, x.b.attnIn, nil, func(v *value) *value { return x.within(m, v, c.self.batch) }))
	return m.Replace(y, x.b.part(m, y, x.b.mlpIn, nil, func(v *value) *value { return x.b.FF.forward(m, v) }))
}

// within is attention within windows: pixels are padded, shifted and put together by window, and back again.
func (x *swin) within(m *Machine, v *value, batch int64) *value {
	across := autograd.Parts(x.side, x.window)
	windows, tokens := batch*across*across, x.window*x.window
	n := windows * tokens * x.width
	moved := func(v *value, times int) *value {
		v = m.Again(v)
		for range times {
			v = m.Replace(v, m.Gather(v, n))
		}
		return v
	}
	times := 1
	if x.shift > 0 {
		times = 2
	}
	h := moved(v, times)
	y := m.Replace(h, m.Shift(h)) // by window, whose gradient lies as it does
	s := shape{batch: windows, queries: tokens, keys: tokens, biasOf: 1}
	if x.cosine != nil {
		y = m.Replace(y, x.cosine.attend(m, y, s, x))
		y = m.Replace(y, moved(y, times))
		y.N = v.N
		return y
	}
	s.bias = x.biases(m, tokens)
	if x.shift > 0 { // each window has a mask of its own
		s.bias, s.biasOf = m.Replace(s.bias, m.Gather(s.bias, windows*x.b.Attention.Heads*tokens*tokens)), windows
	}
	y = m.Replace(y, x.b.Attention.forward(m, y, y, s))
	m.Drop(s.bias)
	y = x.normed(m, m.Replace(y, moved(y, times)), nil)
	y.N = v.N
	return y
}

// biases are a window's, looked up in the table of differences.
func (x *swin) biases(m *Machine, tokens int64) *value {
	heads := x.b.Attention.Heads
	ids := m.Alloc(8*tokens*tokens, words.Temporary)
	y := m.Embedding(x.table, tokens*tokens, heads, ids)
	m.Release(ids)
	return m.into(y, m.CopyOf)
}

// cosineHeads are what Swin's second version has in attention: scores of vectors of length 1, times a number for each head, and
// a small network that makes biases of distances.
type cosineHeads struct {
	scale         *parameter
	first, second *Linear
}

func (x *swin) buildCosine(b *builder, heads int64) {
	c, h := b.c, x.width
	x.divides(b, heads)
	at := b.looks(h, heads, c.Float("attention_probs_dropout_prob"), 0)
	at.plainSoftmax, at.eagerOnly = false, true
	x.b = &Block{Attention: at, FF: &mlp{act: b.activation("hidden_act"), drop: c.Float("hidden_dropout_prob")}, own: x.forward}
	x.cosine = &cosineHeads{}
	x.cosine.scale = b.param("attention.self.logit_scale", RoleAttention, heads, 1, 1)
	b.make(parts{to: []any{x.cosine}, role: RolePosition, sizes: sizes{"heads": heads}},
		"first=attention.self.continuous_position_bias_mlp.0+:2>512 "+
			"second=attention.self.continuous_position_bias_mlp.2:512>heads")
	w := 2*x.window - 1
	b.m.Buffers += float64(8*w*w + 8*x.window*x.window*x.window*x.window)
	b.fill(x.b, nil, h, int64(c.Float("mlp_ratio")*float64(h)), "q=attention.self.query?qkv_bias "+
		"k=attention.self.key v=attention.self.value?qkv_bias o=attention.output.dense+ attnIn=layernorm_before+ "+
		"mlpIn=layernorm_after+ up=intermediate.dense+ down=output.dense+")
}

// normed is a part's result as it is added: behind its norm in the second version, and left out now and then.
func (x *swin) normed(m *Machine, y *value, n *norm) *value {
	y = m.into(y, n)
	if x.drop > 0 && !m.Pass.Inference {
		y = m.into(y, m.Scale, m.Scale)
	}
	return y
}

// attend writes its scores out: there is no kernel for a number for each head.
func (k *cosineHeads) attend(m *Machine, v *value, s shape, x *swin) *value {
	a, n := x.b.Attention, s.batch*x.b.Attention.Heads*s.queries*s.keys
	q, key, val := m.apply(v, a.q), m.apply(v, a.k), m.apply(v, a.v)
	uq, uk := unitLength(m, q, s.batch*s.queries*a.Heads), unitLength(m, key, s.batch*s.keys*a.Heads)
	w := scores(m, uq, uk, n, s)
	m.Drop(uq, uk)
	f := m.of(k.scale.Val, m.WideUnderAutocast, byOutput)
	old := m.Again(w) // its factor has a name until the module returns
	w = m.into(w, times{f})
	bias := k.biases(m, x.window, s)
	w = m.into(w, plus{bias})
	if x.shift > 0 { // the mask is added twice
		w = m.into(w, m.Shift, m.Shift)
	}
	p := m.into(m.Replace(w, m.Softmax(w, false)), a.dropout)
	cp, cv := m.Cast(p, m.Narrow(p.Width)), m.physical(val, s.batch)
	y := m.Matmul(cp, cv, s.batch*s.queries*a.Heads*a.dv)
	m.Drop(cp, cv)
	z := m.into(y, m.CopyOf, a.o)
	m.Drop(q, key, val, bias, f, old, p)
	return m.into(z, a.dropout)
}

// biases of a window's pixels are 16 times a sigmoid of what the network makes of their distances.
func (k *cosineHeads) biases(m *Machine, window int64, s shape) *value {
	rows, heads := (2*window-1)*(2*window-1), k.second.Out
	table := &value{Mem: m.Alloc(0, words.Temporary), N: 2 * rows, Width: 4}
	h := m.into(table, k.first, byOutput, k.second)
	return m.into(m.Replace(h, m.Gather(h, s.queries*s.keys*heads)), m.CopyOf, byOutput, m.Scale)
}

// unitLength is F.normalize over heads, of so many rows: each divided by its norm.
func unitLength(m *Machine, x *value, rows int64) *value {
	norms := m.Tensor(rows, x.Width)
	m.UnaryNode(norms, x, words.Temporary, x.Mem, norms.Mem)
	return m.Replace(norms, m.Mul(x, norms))
}
