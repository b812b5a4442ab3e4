package network

import (
	"fmt"
	"strconv"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/cut"
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

// Task is what a training step looks like.
type Task int

const (
	TaskCausal Task = iota
	taskMasked
	TaskClassify // one label per sequence or image
	TaskTokens   // one label per token
	TaskBackbone // no head: the loss is the mean of the output
	taskSeq2Seq
	taskSpeech
	TaskContrast
)

// Model is a network ready to be run by a machine.
type Model struct {
	Config       *modelfile.Config // that it was built of
	extra        bool              // the last parameter stands for what a configuration of a given size has beyond its shape
	Task         Task              // what a training step looks like
	Params       []*parameter      // all of its weights
	Embed        *parameter        // token embeddings, nil for vision
	embedAdapter *adapter          // on them, nil without
	WordWidth    int64             // width of a token embedding
	Position     *parameter        // learned positions, nil without
	types        *parameter
	embedNorm    *norm
	embedDrop    float64
	projectIn    *Linear
	widen        *Linear // from the width of the embeddings to the stream's
	projectOut   *Linear
	Blocks       []*Block // its layers
	final        *norm
	headParts    []any   // steps between the last norm and the logits
	Head         *Linear // nil for a backbone
	Tied         bool    // the head has the weight of the embeddings
	Hidden       int64   // elements of the stream for each token
	Vocab        int64   // columns of the logits
	softcap      bool
	RotaryWidth  int64  // width of the cos and sin tables, 0 without
	Layers       int    // that a token goes through
	Encoder      *Model // of an encoder-decoder
	Vision       *Model // an encoder of pictures, nil without
	Patches      int64  // positions an image becomes
	DirectLoss   bool   // the class calls CrossEntropyLoss on its own logits
	scaled       bool   // embeddings are multiplied by a constant
	scaleHead    bool
	finalDrop    float64
	wideLogits   bool // logits are made float32 by the model itself (mamba)
	plusBias     bool // a constant row is added to the logits (bart)
	Received     bool // a later pipeline stage: the stream comes from the one before
	Sends        bool // an earlier one: the stream goes to the one after
	// bytes, and elements as wide as weights, that no file lists
	Buffers, WideBuffers float64
	Deberta              *debertaStack // nil without
	Patch                *patching     // of models that take pictures, nil without
	Sound                *Sound        // of encoders of spectra, nil without
	Waves                *Waves        // of encoders of samples, nil without
	UNet                 *UNet         // nil without
	own                  *ownInputs    // of layers, nil: none
	keepsOrigin          bool          // layers see the embeddings beside the stream
	Stepped              bool          // its stages have widths of their own
	order                []int64       // of blocks that the stream goes through more than once, nil: each once
	Packing              *Packing      // nil: every weight has the setting's type
}

// Generates says whether a model makes one token after another, and so keeps
// what came before: encoders see everything at once, and labels come alone.
func (m *Model) Generates() bool {
	switch m.Task {
	case TaskContrast, TaskClassify, taskMasked, TaskTokens:
		return false
	}
	a := m.First()
	return m.Patch == nil && (a == nil || !a.bidirectional && !a.uncached)
}

// FillsCache says whether a model hands keys and values back, whatever its head does with them:
// Transformers' decoders do, unless use_cache says not.
func (m *Model) FillsCache() bool {
	a := m.First()
	return a != nil && !a.bidirectional && !a.uncached && m.Encoder == nil && m.Vision == nil &&
		(!m.Config.Has("use_cache") || m.Config.Bool("use_cache"))
}

// builder makes a model's parameters in the order Transformers lists them.
type builder struct {
	c      *modelfile.Config
	m      *Model
	prefix string
}

func (b *builder) param(name string, role Role, shape ...int64) *parameter {
	n := 1.0
	for _, d := range shape {
		n *= float64(d)
		if d <= 0 {
			b.fail("%s: %s%s would have the shape %v: the configuration's sizes do not fit each other", b.c.Type, b.prefix, name,
				shape)
		}
	}
	if n > 1<<50 {
		b.fail("%s: %s%s would have %.3g elements", b.c.Type, b.prefix, name, n)
	}
	p := &parameter{Tensor: modelfile.Tensor{Name: b.prefix + name, Shape: shape, Role: role}, Trainable: true}
	b.m.Params = append(b.m.Params, p)
	return p
}

// timesWithin is a product that doesn't overflow: one whose factors were cut is too large for param.
func timesWithin(a, b int64) int64 { return max(min(a, 1<<31), 0) * max(min(b, 1<<31), 0) }

func (b *builder) linear(name string, role Role, in, out int64, bias bool) *Linear {
	l := &Linear{layer: layer{In: in, Out: out, Weight: b.param(name+".weight", role, out, in)}}
	if bias {
		l.Bias = b.param(name+".bias", role, out)
	}
	return l
}

// weightAsItIs are the families whose norm in float32 doesn't add one to its weight.
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
func (b *builder) classifier(t Task, name string, in, n int64, bias bool) {
	b.m.Task, b.m.Vocab = t, n
	b.m.Head = b.linear(name, RoleHead, in, n, bias)
}

// wordHead is the head over the vocabulary, tied to the embeddings unless the file says not.
func (b *builder) wordHead(t Task, name string, in int64) {
	m := b.m
	m.Task, m.Tied = t, b.c.Tied()
	m.Head = &Linear{layer: layer{In: in, Out: m.Vocab, Weight: m.Embed}}
	if !m.Tied {
		m.Head.Weight = b.param(name+".weight", RoleHead, m.Vocab, in)
	}
}

// need checks the fields that every later product relies on.
func (b *builder) need(names ...string) {
	if err := b.c.Need(names...); err != nil {
		panic(unfit{err})
	}
}

// unfit is why there is no network of a configuration: it ends the building.
type unfit struct{ error }

func (b *builder) fail(format string, args ...any) { panic(unfit{fmt.Errorf(format, args...)}) }

// fits makes an error of what is unfit.
func fits(err *error) {
	switch e := recover().(type) {
	case nil:
	case unfit:
		*err = e.error
	default:
		panic(e)
	}
}

// under runs f with a longer prefix.
func (b *builder) under(prefix string, f func()) {
	old := b.prefix
	b.prefix += prefix
	f()
	b.prefix = old
}

// MaxLayers bounds the layers of a configuration.
const MaxLayers = 4096

// layers runs f for each layer.
func (b *builder) layers(prefix string, n int64, f func(i int64)) {
	if n < 0 || n > MaxLayers {
		b.fail("%s: %d layers", b.c.Type, n)
	}
	for i := range n {
		before, blocks := len(b.m.Params), len(b.m.Blocks)
		b.under(prefix+strconv.FormatInt(i, 10)+".", func() { f(i) })
		if len(b.m.Blocks) > blocks {
			b.m.Blocks[blocks].Params = b.m.Params[before:]
		}
	}
}

// New builds the network of a configuration.
// Extra parameters have no place in it; the weights are packed as in a checkpoint's file, nil: as the configuration says.
func New(c *modelfile.Config, extra int64, file *modelfile.Packed) (_ *Model, err error) {
	defer fits(&err)
	m := &Model{Config: c, extra: extra > 0}
	b := &builder{c: c, m: m}
	build := familyOf(c.Type)
	if build == nil {
		return nil, fmt.Errorf("no network of %q is known", Short(c.Type))
	}
	build(b)
	if m.extra {
		b.prefix = ""
		b.param("(the rest)", RoleOther, extra)
	}
	m.Layers = len(m.passes())
	if z := c.Packing(); z != nil {
		m.Packing = &Packing{Packing: z}
	}
	if file != nil {
		m.store(file)
	}
	for _, e := range []*Model{m.Encoder, m.Vision} {
		if e == nil {
			continue
		}
		for _, b := range e.Blocks {
			if b.Attention != nil {
				b.Attention.uncached = true
			}
		}
	}
	return m, nil
}

// rest stands for parameters that a configuration of a given size has beyond its shape, nil without.
func (m *Model) rest() *parameter {
	if !m.extra {
		return nil
	}
	return m.Params[len(m.Params)-1]
}

// Positions are the table's rows that tokens use.
func (m *Model) Positions() int64 {
	if m.Position == nil || m.Patch != nil {
		return 0
	}
	n := m.Position.Shape[0]
	switch m.Config.Type {
	case "opt", "bart": // two rows in front are for nothing
		n -= 2
	case "roberta", "xlm-roberta", "camembert": // positions begin behind that of the padding
		n -= m.Config.IntOr("pad_token_id", 1) + 1
	}
	return n
}

// Elements are those of the parameters for which something holds, nil: of all.
func Elements(qs []*parameter, holds func(*parameter) bool) (n int64) {
	for _, q := range qs {
		if holds == nil || holds(q) {
			n += q.Elements()
		}
	}
	return n
}

// atEnd are parameters that are used behind the blocks, wherever they are listed.
func (m *Model) atEnd() map[*parameter]bool {
	end := map[*parameter]bool{}
	if n := m.final; n != nil {
		end[n.weight], end[n.bias] = true, true
	}
	if l := m.projectOut; l != nil {
		end[l.Weight] = true
	}
	return end
}

// Counts are a model's parameters.
type Counts struct {
	Total     int64          // all of them
	Active    int64          // those one token passes through: routed experts count once per choice
	Embedding int64          // those of tables of words
	ByRole    map[Role]int64 // by what they are for
	Trainable int64          // those that training changes
}

// Counts counts the model's parameters.
func (m *Model) Counts() Counts {
	n := Counts{ByRole: map[Role]int64{}}
	for _, p := range m.Params {
		if p.Buffer && !p.Listed { // what the optimizer never sees is no parameter
			continue
		}
		e := p.Elements()
		n.Total += e
		n.ByRole[p.Role] += e
		if p.Trainable {
			n.Trainable += e
		}
	}
	n.Embedding = n.ByRole[RoleEmbedding]
	n.Active = n.Total
	for _, b := range m.Blocks {
		if x, ok := b.FF.(*Experts); ok && x.count > 0 {
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

// Short keeps a hostile name from filling the terminal.
func Short(s string) string { return cut.Letters(s, 61) }

// Stage is the part of a model on one of n pipeline ranks that has some of its blocks.
// What lies outside the blocks belongs to the first stage, the last or both.
func (m *Model) Stage(blocks []*Block, first, last bool, n int64) *Model {
	part := *m
	part.Blocks = blocks
	if !last {
		part.Head, part.headParts, part.final, part.projectOut, part.Task = nil, nil, nil, nil, TaskBackbone
		part.Sends = true
	}
	mine, inBlocks, atEnd := ParamsOf(blocks), ParamsOf(m.Blocks), m.atEnd()
	part.Params = nil
	part.Received = !first
	after := false // the blocks: what is listed before them is the first stage's
	for _, x := range m.Params {
		after = after || inBlocks[x]
		switch {
		case x == m.rest(): // of all stages
			some := *x
			some.Shape = []int64{(x.Elements() + n - 1) / n}
			part.Params = append(part.Params, &some)
		case inBlocks[x] && !mine[x]:
		case mine[x], last && (after || atEnd[x] || x == m.Embed && m.Tied), first && !after && !atEnd[x]:
			part.Params = append(part.Params, x)
		}
	}
	return &part
}

// ParamsOf are the weights of some blocks.
func ParamsOf(blocks []*Block) map[*parameter]bool {
	of := map[*parameter]bool{}
	for _, b := range blocks {
		for _, x := range b.Params {
			of[x] = true
		}
	}
	return of
}

// LookedUp are the weights that a stack begins with, nil where it has none.
func (m *Model) LookedUp() []*parameter { return []*parameter{m.Embed, m.Position, m.types} }

// HeadWeights are those of the head and of what stands in front of it, nil where it has none.
func (m *Model) HeadWeights() (qs []*parameter) {
	if m.Head == nil {
		return nil
	}
	qs = []*parameter{m.Head.Weight, m.Head.Bias}
	for _, part := range m.headParts {
		if l, ok := part.(*Linear); ok {
			qs = append(qs, l.Weight, l.Bias)
		}
	}
	return qs
}

// Pictures says whether the model takes pictures alone, whose size is its own.
func (m *Model) Pictures() bool { return m.Patch != nil || m.UNet != nil }

// TakesMore says whether layers take more than one stream.
func (m *Model) TakesMore() bool {
	return m.keepsOrigin || m.own != nil || m.Config.Type == "kimi_linear"
}
