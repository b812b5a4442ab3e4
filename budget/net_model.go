package budget

import (
	"fmt"
	"strconv"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// Role is what a weight is for.
type Role = modelfile.Role

// Roles of weights, as files and networks have them.
const (
	RoleEmbedding = modelfile.RoleEmbedding
	RolePosition  = modelfile.RolePosition
	RoleAttention = modelfile.RoleAttention
	RoleMLP       = modelfile.RoleMLP
	RoleExpert    = modelfile.RoleExpert
	RoleShared    = modelfile.RoleShared
	RoleRouter    = modelfile.RoleRouter
	RoleNorm      = modelfile.RoleNorm
	RoleSSM       = modelfile.RoleSSM
	RoleVision    = modelfile.RoleVision
	RoleHead      = modelfile.RoleHead
	RoleOther     = modelfile.RoleOther
)

// task is what a training step looks like.
type task int

const (
	taskCausal task = iota
	taskMasked
	taskClassify // one label per sequence or image
	taskTokens   // one label per token
	taskBackbone // no head: the loss is the mean of the output
	taskSeq2Seq
	taskSpeech
	taskContrast
)

// model is a network ready to be run by a machine.
type model struct {
	config       *Config
	task         task
	params       []*parameter
	embed        *parameter // token embeddings, nil for vision
	embedAdapter *adapter   // on them, nil without
	wordWidth    int64      // width of a token embedding
	position     *parameter
	types        *parameter
	embedNorm    *norm
	embedDrop    float64
	projectIn    *linear
	widen        *linear // from the width of the embeddings to the stream's
	projectOut   *linear
	blocks       []*block
	final        *norm
	headParts    []headPart // what stands between the last norm and the logits
	head         *linear    // nil for a backbone
	tied         bool
	hidden       int64
	vocab        int64 // columns of the logits
	softcap      bool
	ropeDim      int64 // width of the cos and sin tables, 0 without
	layers       int
	encoder      *model // of an encoder-decoder
	vision       *model
	patches      int64 // positions an image becomes
	directLoss   bool  // the class calls CrossEntropyLoss on its own logits
	scaled       bool  // embeddings are multiplied by a constant
	scaleHead    bool
	finalDrop    float64
	wideLogits   bool // logits are made float32 by the model itself (mamba)
	plusBias     bool // a constant row is added to the logits (bart)
	received     bool // a later pipeline stage: the stream comes from the one before
	sends        bool // an earlier one: the stream goes to the one after
	// buffers are bytes, and elements of the weights' width, that no file
	// lists but every model of the family allocates.
	buffers, wideBuffers float64
	deberta              *debertaStack
	patch                *patching
	conv                 *convolutions
	waves                *waves
	unet                 *unet
	own                  *ownInputs    // of layers, nil: none
	keepsOrigin          bool          // layers see the embeddings beside the stream
	stepped              bool          // its stages have widths of their own
	order                []int64       // of blocks that the stream goes through more than once, nil: each once
	quant                *quantization // nil: every weight has the setting's type
}

// generates says whether a model makes one token after another, and so keeps
// what came before: encoders see everything at once, and labels come alone.
func (m *model) generates() bool {
	switch m.task {
	case taskContrast, taskClassify, taskMasked, taskTokens:
		return false
	}
	a := m.first()
	return m.patch == nil && (a == nil || !a.bidirectional && !a.uncached)
}

// fillsCache says whether a model hands keys and values back, whatever its head does with them:
// Transformers' decoders do, unless use_cache says not.
func (m *model) fillsCache() bool {
	a := m.first()
	return a != nil && !a.bidirectional && !a.uncached && m.encoder == nil && m.vision == nil &&
		(!m.config.Has("use_cache") || m.config.Bool("use_cache"))
}

// headPart is one operation of a head: a projection, an activation or a norm.
type headPart struct {
	lin  *linear
	norm *norm
	act  activation
	kind int // 0 linear, 1 activation, 2 norm
}

func (h *headPart) forward(m *machine, x *value) *value {
	switch h.kind {
	case 0:
		return m.apply(x, h.lin)
	case 1:
		return m.activate(x, h.act)
	}
	return h.norm.forward(m, x)
}

// builder makes a model's parameters in the order Transformers lists them.
type builder struct {
	c      *modelfile.Config
	m      *model
	prefix string
	err    error
}

func (b *builder) param(name string, role Role, shape ...int64) *parameter {
	n := 1.0
	for _, d := range shape {
		n *= float64(d)
		if d <= 0 && b.err == nil {
			b.err = fmt.Errorf("%s: %s%s would have the shape %v: the configuration's sizes do not fit each other", b.c.Type,
				b.prefix, name, shape)
		}
	}
	if n > 1<<50 && b.err == nil {
		b.err = fmt.Errorf("%s: %s%s would have %.3g elements", b.c.Type, b.prefix, name, n)
	}
	p := &parameter{Tensor: modelfile.Tensor{Name: b.prefix + name, Shape: shape, Role: role}, Trainable: true}
	b.m.params = append(b.m.params, p)
	return p
}

func (b *builder) linear(name string, role Role, in, out int64, bias bool) *linear {
	l := &linear{layer: layer{In: in, Out: out, Weight: b.param(name+".weight", role, out, in)}}
	if bias {
		l.Bias = b.param(name+".bias", role, out)
	}
	return l
}

// conv1D is gpt2's linear layer, whose weight is stored transposed.
func (b *builder) conv1D(name string, role Role, in, out int64) *linear {
	return &linear{layer: layer{In: in, Out: out, Weight: b.param(name+".weight", role, in, out),
		Bias: b.param(name+".bias", role, out)}}
}

// weightAsItIs are the families whose norm multiplies in float32 by the weight
// itself; the others by one more than that.
var weightAsItIs = map[string]bool{"gemma3n_text": true, "gemma4_text": true, "olmo2": true, "olmo3": true,
	"helium": true, "gpt_oss": true, "nemotron_h": true}

func (b *builder) norm(name string, kind normKind, size int64, bias bool) *norm {
	n := &norm{kind: kind, size: size, weight: b.param(name+".weight", RoleNorm, size), plusOne: kind == rmsWideKind &&
		!weightAsItIs[b.c.Type]}
	if bias {
		n.bias = b.param(name+".bias", RoleNorm, size)
	}
	return n
}

// classifier is a head of n labels for whatever a task is about.
func (b *builder) classifier(t task, name string, in, n int64, bias bool) {
	b.m.task, b.m.vocab = t, n
	b.m.head = b.linear(name, RoleHead, in, n, bias)
}

// wordHead is the head over the vocabulary, tied to the embeddings unless the file says
// not.
func (b *builder) wordHead(t task, name string, in int64) {
	m := b.m
	m.task, m.tied = t, b.c.Tied()
	m.head = &linear{layer: layer{In: in, Out: m.vocab, Weight: m.embed}}
	if !m.tied {
		m.head.Weight = b.param(name+".weight", RoleHead, m.vocab, in)
	}
}

// attentionParts are a layer's projections of a stream of h under four names.
func (b *builder) attentionParts(at *attention, q, k, v, o string, h int64, bias bool) {
	at.q = b.linear(q, RoleAttention, h, at.heads*at.d, bias)
	at.k = b.linear(k, RoleAttention, h, at.kv*at.d, bias)
	at.v = b.linear(v, RoleAttention, h, at.kv*at.d, bias)
	at.o = b.linear(o, RoleAttention, at.heads*at.d, h, true)
}

// need checks the fields that every later product relies on.
func (b *builder) need(names ...string) bool {
	if err := b.c.Need(names...); err != nil {
		b.err = err
		return false
	}
	return true
}

func (b *builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// under runs f with a longer prefix.
func (b *builder) under(prefix string, f func()) {
	old := b.prefix
	b.prefix += prefix
	f()
	b.prefix = old
}

// maxLayers bounds the layers of a configuration.
const maxLayers = 4096

// layers runs f for each layer.
func (b *builder) layers(prefix string, n int64, f func(i int64)) {
	if n < 0 || n > maxLayers {
		b.fail("%s: %d layers", b.c.Type, n)
		return
	}
	for i := range n {
		before, blocks := len(b.m.params), len(b.m.blocks)
		b.under(prefix+strconv.FormatInt(i, 10)+".", func() { f(i) })
		if len(b.m.blocks) > blocks {
			b.m.blocks[blocks].params = b.m.params[before:]
		}
		if b.err != nil {
			return
		}
	}
}

// newModel builds the network of a configuration.
func newModel(c *Config) (*model, error) {
	m := &model{config: c}
	b := &builder{c: c.Config, m: m}
	familyOf(c.Type)(b)
	if c.extra > 0 {
		b.prefix = ""
		b.param("(the rest)", RoleOther, c.extra)
	}
	if b.err != nil {
		return nil, b.err
	}
	m.layers = len(m.passes())
	m.quant = c.quantization()
	if c.file != nil {
		m.store(c.file)
	}
	for _, e := range []*model{m.encoder, m.vision} {
		if e == nil {
			continue
		}
		for _, b := range e.blocks {
			if b.attn != nil {
				b.attn.uncached = true
			}
		}
	}
	return m, nil
}

// rest is what stands for the parameters that a configuration of a given size
// has beyond its shape, nil without.
func (m *model) rest() *parameter {
	if m.config.extra == 0 {
		return nil
	}
	return m.params[len(m.params)-1]
}

// RankTensors lists the weights that one rank of a setting holds before anything is sharded, and
// those of adapters.
func RankTensors(c *Config, s Setting) (model, adapters []modelfile.Tensor, err error) {
	defer c.broken(&err)
	if s, err = c.complete(s); err != nil {
		return nil, nil, err
	}
	p, err := newPlan(c, s)
	if err != nil {
		return nil, nil, err
	}
	for _, q := range p.adapters {
		adapters = append(adapters, q.Tensor)
	}
	for _, q := range p.model.params {
		model = append(model, q.Tensor)
	}
	return model, adapters, nil
}

// Tensors lists every weight of a configuration, by name and shape.
func Tensors(c *Config) ([]modelfile.Tensor, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	ts := make([]modelfile.Tensor, len(m.params))
	for i, p := range m.params {
		ts[i] = p.Tensor
	}
	return ts, nil
}
