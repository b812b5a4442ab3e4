package budget

import (
	"fmt"
	"strconv"

	"github.com/vramscope/vramscope/budget/autograd"
)

// Encoders of images whose stages halve the sides and widen the channels: ConvNeXt and Swin. A block has a forward of its own,
// which begins, in a stage's first one, with what comes between two stages.

// pyramid reads what both have: channels of each stage, layers in each, and the sides of the first.
func pyramid(b *builder, widths, depths []int64, patch int64) (side int64, ok bool) {
	c := b.c
	if len(widths) == 0 || len(widths) > 16 || len(depths) != len(widths) || patch < 1 ||
		c.Need("image_size", "num_channels") != nil {
		b.fail("%s: stages of %v channels and %v layers", c.Type, widths, depths)
		return 0, false
	}
	for i := range widths {
		if widths[i] < 1 || widths[i] > 1<<20 || depths[i] < 1 || depths[i] > maxLayers {
			b.fail("%s: stages of %v channels and %v layers", c.Type, widths, depths)
			return 0, false
		}
	}
	if side = c.Int("image_size") / patch; side < 1 {
		b.fail("%s: patches of %d pixels do not fit into an image of %d", c.Type, patch, c.Int("image_size"))
		return 0, false
	}
	m := b.m
	m.hidden, m.patches, m.stepped = widths[len(widths)-1], side*side, true
	return side, true
}

// stagePatches is the convolution over patches, to the first stage's channels.
func stagePatches(b *builder, name string, width, patch int64) {
	m := b.m
	m.patch = b.patches(name, RoleEmbedding, width, patch)
	m.patch.bias, m.patch.width = b.param(name+".bias", RoleEmbedding, width), width
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
	side, ok := pyramid(b, widths, depths, c.Int("patch_size"))
	if !ok {
		return
	}
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
				x.between = b.norm("downsampling_layer.0", layerNormKind, from, true)
				x.halving = b.param("downsampling_layer.1.weight", RoleVision, out, from, 2, 2)
				x.halvingBias = b.param("downsampling_layer.1.bias", RoleVision, out)
			}
			x.build(b)
			m.blocks = append(m.blocks, &block{ff: x.ff, own: x.forward})
		})
		from = out
	}
	last := b.norm("layernorm", layerNormKind, from, true)
	b.prefix = ""
	if kind != headDefault && kind != headImage {
		if m.task, m.final = taskBackbone, last; kind != headNone {
			b.noHead()
		}
		return
	}
	m.headParts = []headPart{{kind: 2, norm: last}} // of the pixels' mean
	b.classifier(taskClassify, "classifier", from, c.Labels(), true)
}

func (x *convNext) build(b *builder) {
	h := x.width
	if b.c.Type == "convnext" && b.c.Float("layer_scale_init_value") > 0 {
		x.scale = &norm{kind: layerScaleKind, size: h, weight: b.param("layer_scale_parameter", RoleNorm, h)}
	}
	x.deep, x.deepB = b.param("dwconv.weight", RoleVision, h, 1, 7, 7), b.param("dwconv.bias", RoleVision, h)
	x.norm = b.norm("layernorm", layerNormKind, h, true)
	x.ff = &mlp{act: b.activation("hidden_act"), up: b.linear("pwconv1", RoleMLP, h, 4*h, true)}
	if b.c.Type == "convnextv2" {
		x.global, x.globalShift = b.param("grn.weight", RoleNorm, 1, 1, 1, 4*h), b.param("grn.bias", RoleNorm, 1, 1, 1, 4*h)
	}
	x.ff.down = b.linear("pwconv2", RoleMLP, 4*h, h, true)
}

func (x *convNext) forward(m *machine, in *value, c context) *value {
	n := c.self.batch * x.pixels * x.width
	y := m.Again(in)
	if x.between != nil {
		y = m.Replace(y, x.between.forward(m, y))
		y = m.Replace(y, m.convolution(y, x.halving, x.halvingBias, n, 0))
	}
	h := m.convolution(y, x.deep, x.deepB, n, 0)
	h = m.Replace(h, x.norm.forward(m, h))
	h = m.Replace(h, m.apply(h, x.ff.up))
	h = m.Replace(h, m.activate(h, x.ff.act))
	if x.global != nil {
		h = m.Replace(h, x.response(m, h, c.self.batch))
	}
	h = m.Replace(h, m.apply(h, x.ff.down))
	if x.scale != nil {
		h = m.Replace(h, x.scale.forward(m, h))
	}
	z := m.Add(y, h)
	m.Drop(y, h)
	return z
}

// response is ConvNeXt V2's global response normalization: each channel times its share of a picture's norms.
func (x *convNext) response(m *machine, h *value, batch int64) *value {
	in := m.WideUnderAutocast(h)
	norms := m.Tensor(batch*4*x.width, in.Width)
	b := in.Bytes()
	m.Record([]*value{norms}, []*value{in}, []*storage{in.Mem, norms.Mem}, func(g []*storage) []*storage {
		t := m.Alloc(b, Temporary)
		r := m.Alloc(b, Temporary)
		m.Release(t)
		return []*storage{r}
	})
	y := m.Mul(h, norms)
	m.Drop(in, norms)
	y = m.Replace(y, m.Mul(y, x.global.Val))
	y = m.Replace(y, m.AddBias(y, x.globalShift.Val))
	return m.Replace(y, m.Add(y, h))
}

// swin is a layer with attention within windows, every second one's windows shifted by half.
type swin struct {
	b             *block
	merge         *norm // of four pixels' channels in one, in a stage's first layer
	merged        *linear
	table         *parameter
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
		return
	}
	widths := make([]int64, len(depths))
	for i := range widths {
		widths[i] = c.Int("embed_dim") << i
	}
	side, ok := pyramid(b, widths, depths, c.Int("patch_size"))
	if !ok {
		return
	}
	kind := b.headUnder("swin.")
	stagePatches(b, "embeddings.patch_embeddings.projection", widths[0], c.Int("patch_size"))
	if c.Bool("use_absolute_embeddings") {
		m.position = b.param("embeddings.position_embeddings", RolePosition, 1, side*side, widths[0])
	}
	m.embedNorm = b.norm("embeddings.norm", layerNormKind, widths[0], true)
	swinStages(b, widths, depths, heads, side)
	m.final = b.norm("layernorm", layerNormKind, m.hidden, true)
	if m.task, b.prefix = taskBackbone, ""; kind == headDefault || kind == headImage {
		b.classifier(taskClassify, "classifier", m.hidden, c.Labels(), true)
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
				x.merged = b.linear("downsample.reduction", RoleVision, 2*h, h, false)
				x.merge = b.norm("downsample.norm", layerNormKind, 2*h, true)
			}
			x.build(b, heads[i])
			m.blocks, done = append(m.blocks, x.b), done+1
		})
	}
}

func (x *swin) build(b *builder, heads int64) {
	c, h := b.c, x.width
	if heads < 1 || h%heads != 0 {
		b.fail("%s: %d channels and %d heads", c.Type, h, heads)
		return
	}
	at := &attention{heads: heads, kv: heads, d: h / heads, dv: h / heads, bidirectional: true, t5: true, plainSoftmax: true,
		dropout: c.Float("attention_probs_dropout_prob")}
	b.attentionParts(at, "attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj", h, c.Bool("qkv_bias"))
	w := 2*c.Int("window_size") - 1
	x.table = b.param("attention.relative_position_bias.relative_position_bias_table", RolePosition, w*w, heads)
	inner := int64(c.Float("mlp_ratio") * float64(h))
	x.b = &block{attn: at, attnIn: b.norm("layernorm_before", layerNormKind, h, true),
		mlpIn: b.norm("layernorm_after", layerNormKind, h, true), drop: c.Float("hidden_dropout_prob"), own: x.forward}
	x.b.ff = &mlp{act: b.activation("hidden_act"), up: b.linear("mlp.fc1", RoleMLP, h, inner, true),
		down: b.linear("mlp.fc2", RoleMLP, inner, h, true)}
}

func (x *swin) forward(m *machine, in *value, c context) *value {
	y := m.Again(in)
	if x.merge != nil {
		y = m.Replace(y, m.CopyOf(y)) // four pixels' channels beside each other
		y = m.Replace(y, x.merge.forward(m, y))
		y = m.Replace(y, m.apply(y, x.merged))
	}
	y = m.Replace(y, x.b.part(m, y, x.b.attnIn, nil, func(v *value) *value { return x.within(m, v, c.self.batch) }))
	return m.Replace(y, x.b.part(m, y, x.b.mlpIn, nil, func(v *value) *value { return x.b.ff.forward(m, v) }))
}

// within is attention within windows: pixels are padded, shifted and put together by window, and back again.
func (x *swin) within(m *machine, v *value, batch int64) *value {
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
	s.bias = x.biases(m, tokens)
	if x.shift > 0 { // each window has a mask of its own
		all := m.Tensor(windows*x.b.attn.heads*tokens*tokens, s.bias.Width)
		small := s.bias.Bytes()
		m.Record([]*value{all}, []*value{s.bias}, nil, func(g []*storage) []*storage {
			return []*storage{m.Alloc(small, Temporary)}
		})
		s.bias, s.biasOf = m.Replace(s.bias, all), windows
	}
	y = m.Replace(y, x.b.attn.forward(m, y, y, s))
	m.Drop(s.bias)
	y = m.Replace(y, moved(y, times))
	if x.drop > 0 && !m.opts.Inference {
		y = m.Replace(y, m.Scale(y))
		y = m.Replace(y, m.Scale(y))
	}
	y.N = v.N
	return y
}

// biases are a window's, looked up in the table of differences.
func (x *swin) biases(m *machine, tokens int64) *value {
	heads := x.b.attn.heads
	ids := m.Alloc(8*tokens*tokens, Temporary)
	y := m.Embedding(x.table, tokens*tokens, heads, ids)
	m.Release(ids)
	return m.Replace(y, m.CopyOf(y))
}

// stepwise refuses what a model whose stages have widths of their own can't be divided into.
func stepwise(p *plan) error {
	if p.model.stepped && p.PP > 1 {
		return fmt.Errorf("--pp %d: pipeline stages of %s are not supported", p.PP, p.model.config.Type)
	}
	return nil
}
