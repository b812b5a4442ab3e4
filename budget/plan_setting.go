package budget

import (
	"cmp"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
)

// Setting is how a model is trained or served. The zero value of a field is its default; Defaults fills in what has none.
// What each is, and what it may be, is in fields.txt, by the name of its flag.
type Setting struct {
	Batch, Sequence, DecoderSeq, Accumulate, Resolution         int64
	Precision, Optimizer, Checkpointing, Attention, Loss        string
	GradientDtype                                               string
	Padding, KeepGradients, UseCache, DropOutputs, Trainer      bool
	MasterWeights, SyncEachBatch                                bool
	Compile, CUDAGraphs, OptimizerInBackward, ActivationOffload bool
	MixerKernels, Liger                                         bool
	Float8, Float8AllGather, MXFP8                              bool
	Float8Recipe                                                string // torchao's names for its scales
	Framework                                                   string // empty: as the other fields suggest

	CachedLatents, FreezeVision                   bool
	Copies, References                            int64
	ExpertLoad                                    float64 // 0: 1
	Freeze                                        int64
	LoRA                                          int64 // rank, 0: full training
	LoRATargets, LoRADtype                        string
	LoRADropout                                   float64
	DoRA                                          bool // another name for the adapter "dora"
	Adapter, SaveModules                          string
	PrepareKbit, PlainScales                      bool
	Zero                                          int
	FSDP, FSDPEnds, ReduceDtype                   string
	FSDPVersion                                   int   // 0 and 2: parameters stay what they are
	Shards                                        int64 // 0: all of them, with hybrid those of a node
	KeepGathered, HostAhead, FreeGathers, OneUnit bool
	GPUs, TP, PP, EP, CP                          int64
	Offload                                       string
	ReduceBucket, LiveParameters, PrefetchBucket  int64 // DeepSpeed's; 0: their defaults
	OverlapComm, AsyncTP, SequenceParallel        bool
	MicroBatches, StagesPerRank                   int64
	Schedule                                      string

	Inference          bool
	Context, NewTokens int64
	Cache, KV, Engine  string
	Share, Shared      float64
	Tokens             int64
	LastLogit          bool // only the last token's logits are computed in the prefill, as generate() does

	Torch, Allocator string
	GPU              string // decides workspaces and context; empty: an H100

	unsaid          bool    // nobody has named the framework
	encoder         bool    // the sequence is an encoder's, of which a decoder's cache holds nothing
	reserve         float64 // reserved over allocated, where it is known already
	everyMicroBatch bool    // those of a pipeline that are alike are run, too
	fullest         int64   // of a pipeline's ranks, from 1 on; 0: not known
}

// Defaults fills in what a plain training loop has.
func (s Setting) Defaults() Setting {
	s.start()
	if s.DoRA {
		s.Adapter = cmp.Or(s.Adapter, "dora")
	}
	s.Adapter = cmp.Or(s.Adapter, "lora")
	if s.Float8 = s.Float8 || s.Float8AllGather || s.Float8Recipe != ""; s.Float8 {
		s.Float8Recipe = cmp.Or(s.Float8Recipe, "tensorwise")
	}
	if s.Framework == "" {
		s.Framework, s.unsaid = s.suggested(), true
	}
	s.Compile = s.Compile || s.CUDAGraphs
	if x := ProfileOf(s.Framework); !s.Inference || !x.trainer {
		s.DropOutputs = s.DropOutputs || x.dropsOutputs || x.trainer
		s.Trainer = s.Trainer || x.trainer
		if s.Loss == "default" && x.loss != "" {
			s.Loss = x.loss
		}
	}
	s.GPUs = cmp.Or(s.GPUs, s.group())
	s.DecoderSeq = cmp.Or(s.DecoderSeq, min(s.Sequence, 128))
	s.Context = cmp.Or(s.Context, s.Sequence)
	return s
}

// byRows says whether float8 has a scale for each row.
func (s Setting) byRows() bool { return strings.HasPrefix(s.Float8Recipe, "rowwise") }

// adapts says whether adapters are trained, beside which the model is frozen.
func (s Setting) adapts() bool { return s.LoRA > 0 || s.Adapter == "ia3" }

// suggested is the framework whose settings these are: words that only one of them has.
func (s Setting) suggested() string {
	switch {
	case s.Inference:
	case s.Checkpointing == "op" || s.Float8 || s.MXFP8 || s.SequenceParallel:
		return "torchtitan"
	case s.OptimizerInBackward || s.ActivationOffload || s.Compile && s.Loss == "chunked":
		return "torchtune"
	case s.LoRA > 0 && s.LoRADtype == "model" && s.Loss == "cross-entropy":
		return "litgpt"
	}
	return fallback
}

// complete fills in what has a default, where it is the model's, too: the cache
// of an encoder-decoder holds the target sequence, not the encoder's, and
// where the encoder hears sound, the target has the only tokens: as many as
// its table of positions at most.
func (c *Config) complete(s Setting) (_ Setting, err error) {
	defer c.broken(&err)
	m, err := c.network()
	if err != nil {
		return s, err
	}
	c.spare.Store(m)
	s = c.inPieces(s)
	if s.Sequence == 0 && s.Inference && m.Encoder == nil {
		s.Sequence = s.Context
	}
	if n := m.Positions(); s.Sequence == 0 && n > 0 {
		s.Sequence = min(n, 1024)
	}
	d := s.Defaults()
	if m.UNet != nil {
		d.Resolution = cmp.Or(d.Resolution, m.UNet.Side*network.PerLatent)
	}
	if m.Encoder == nil {
		return d, nil
	}
	d.encoder = true
	if m.Encoder.Sound != nil {
		if s.DecoderSeq == 0 {
			d.DecoderSeq = min(d.Sequence, m.Position.Shape[0])
		}
		d.Sequence = d.DecoderSeq
	}
	if s.Context == 0 {
		d.Context = d.DecoderSeq
	}
	return d, nil
}

// group is the fewest GPUs that the model can be divided over as the setting
// says; more of them are multiples of it.
func (s Setting) group() int64 {
	ways := s.TP * s.CP
	return s.PP * (ways / gcd(ways, s.EP) * s.EP)
}

// onGPUs is the setting on n GPUs: served by more tensor-parallel ranks,
// trained by more data-parallel ones, which share the state.
func (s Setting) onGPUs(n int64) Setting {
	s.GPUs = n
	switch {
	case s.Inference:
		s.TP = n / (s.PP * s.CP)
	case n == s.TP*s.PP:
		s.Zero, s.FSDP = 0, ""
	case s.Zero == 0 && s.FSDP == "":
		s.Zero = 3
	}
	return s
}

// plan is a setting as the machine reads it.
type plan struct {
	Setting
	profile  *Profile
	config   *Config // as the framework builds it
	model    *network.Model
	mixed    bool
	width    int64 // bytes of the compute type
	wide     int64 // bytes of a trained parameter as the layers see it
	kept     int64 // bytes of a parameter as it is kept between steps, with its gradient and state
	dp       int64 // ranks that have the same weights: data-parallel ones, and context-parallel ones among them
	expertTP int64 // ranks that an expert's matrices are cut over
	expertDP int64 // ranks that have the same experts
	adapters []*parameter
	whole    network.Counts // of the model before it is divided
	notes    []string
	logging  bool           // the machine's requests are kept
	chunked  []*plan        // a pipeline rank's pieces of the model
	moved    []move         // and its schedule
	rank     int64          // in the pipeline
	all      *network.Model // parameters of all of its pieces
}

// compiledLoss says whether the loss is compiled, too: torchtune's always is; torchtitan's
// since 2025, when its optimizer became the fused one.
func (p *plan) compiledLoss() bool {
	with := p.profile.compilesLoss || p.profile.lossWithFused && strings.HasSuffix(p.Optimizer, "-fused")
	return p.Compile && with || p.compiledWhole()
}

// compiledWhole says whether the model is compiled as one, with its loss, as Transformers'
// Trainer does it, which has to be named; what is gathered or sent in between breaks it into
// pieces.
func (p *plan) compiledWhole() bool {
	alone := !p.sharded() && p.Zero == 0 && p.Offload == "none" && p.PP == 1 && p.TP == 1 && p.CP == 1
	return p.Compile && p.profile.compilesWhole && !p.unsaid && alone
}

// keepsPackedInputs says whether a product with packed weights keeps its input, though
// nothing needs it: bitsandbytes did until 0.44, and litgpt pinned a version before that until 2025. It
// is no saved tensor, but hangs on the graph, and goes when the next loss replaces this one.
func (p *plan) keepsPackedInputs() bool {
	return p.fabric() && p.packing() != nil && p.pinnedBitsandbytes()
}

// pinnedBitsandbytes says whether litgpt is as old as what it has published of packed weights: a PyTorch since 2.5 has to be
// named for another.
func (p *plan) pinnedBitsandbytes() bool { return p.Torch == "" || p.torchBefore(2, 5) }

// inMixedInt8 says whether packed products are bitsandbytes' in 8 bits. These keep their inputs on the
// graph, which checkpointing knows nothing of.
func (p *plan) inMixedInt8() bool {
	z := p.packing()
	return !p.Inference && (p.Precision == "int8" || z != nil && z.Method == "bitsandbytes" && z.Bits == 8)
}

// megatron says whether the model is Megatron-LM's.
func (p *plan) megatron() bool { return p.profile != nil && p.profile.ownParallelism }

// mixerKernels: mamba-2's mixers run in kernels written for them, as frameworks that have the kernels
// as a requirement run them.
func (p *plan) mixerKernels() bool { return p.MixerKernels || p.megatron() }

func (p *plan) eager() bool { return p.Attention == "eager" }
func (p *plan) flash() bool { return p.Attention == "flash" || p.Attention == "flex" }
