package network

import "github.com/vramscope/vramscope/budget/autograd"

// Layout is how a framework's own model is written, where that differs from what Transformers builds of a configuration.
type Layout struct {
	FusedNorms    bool // in one kernel
	WideNorms     bool // keep a float32 result
	NarrowNorms   bool // keep one where kernels of 16 bits can't
	ComplexRotary bool // rotations of pairs as complex numbers
	SpreadsHeads  bool // keys and values are copied for every query head
	JoinedQKV     bool // views of one product
}

// Modes are what a setting comes down to for a network: the values that decide how its layers work, the same for a whole pass.
type Modes struct {
	Layout
	Eager         bool    // scores of attention are written out
	Flash         bool    // or its kernels know windows and padding
	Padding       bool    // sequences carry a mask
	MixerKernels  bool    // mamba-2's mixers run in kernels written for them
	Liger         bool    // Liger's kernels, which write gradients over what they are made of
	ByRow         bool    // products in 8 bits have a scale for each row
	WholeGraph    bool    // the compiler takes the model as one
	WholeLogits   bool    // tensor parallelism gathers the logits of all words
	LastLogit     bool    // of each sequence, the last token's alone
	FillsCache    bool    // keys and values go into a cache in training, too
	FusesAdapters bool    // kernels run layers with their adapters
	SharesDropout bool    // one for the adapters of queries, keys and values
	Dropout       float64 // of what goes into adapters

	Cache      string                           // of keys and values while serving: dynamic, static or none
	CacheBytes func(elements, head int64) int64 // of keys or values in a cache whose type isn't the model's; nil: it is

	ContextRanks int64 // that a sequence is divided over
	PassesRound  bool  // keys and values go round them, and aren't gathered
	KeepsKeys    bool  // what is gathered stays for backward

	Checkpointing string // none (or ""), full, selective, op or offload
	Nth           int64  // or every so many layers; 0: as the name says
	Recomputes    bool   // whole layers run again in backward
	EntersInputs  bool   // embeddings are made to need a gradient
	Offloads      bool   // saved tensors wait in host memory

	Sequence, Target int64 // tokens (of sound: samples) of a sequence, and of a decoder's beside an encoder
	Resolution       int64 // pixels at a side of a picture that diffusion trains on, 0: the model's
	Encodes          bool  // such pictures and their texts are encoded within a step
	WidePixels       bool  // and the pictures in float32
}

// othersKeys are the bytes of other ranks' keys and values beside a rank's own, joined for it: PyTorch's ring attention gathers
// those of all (_attention.py, _AllGatherRotater); Megatron-LM's and engines' passes them round.
func (o *Modes) othersKeys(mine int64) int64 {
	if o.PassesRound {
		return 2 * mine
	}
	return (1 + o.ContextRanks) * mine
}

// Machine is what networks run on: the operations, and what their layers ask of a setting.
type Machine struct {
	autograd.Machine
	Modes  Modes      // the same for all of a pass
	Cached []*storage // keys and values that a cache holds
	shared *value     // what dropout has left of the input of more than one adapter, nil without
}

// linear is a layer without its adapter.
func (m *Machine) linear(x *value, l *Linear) *value { return m.Product(x, &l.layer) }

// Around is what a step does around parts of a network: what these need is gathered, fetched or received before they run.
type Around interface {
	// Layer runs a layer as a whole, of which f may run parts again in backward.
	Layer(b *Block, x *value, f func(*value) *value) *value
	// Once is each of these runs.
	Once(b *Block, x *value, f func(*value) *value) *value
	// Table looks up what a stack begins with.
	Table(mod *Model, f func() *value) *value
	// Unit runs what takes one weight outside of the layers.
	Unit(q *parameter, x *value, f func(*value) *value) *value
	// Arriving is what another stage of a pipeline sends.
	Arriving() *value
}

// Step takes one batch through a network.
type Step struct {
	M      *Machine // that counts it
	Model  *Model   // that it goes through
	Around Around   // what is done between its parts
}
