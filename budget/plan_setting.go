package budget

import (
	"cmp"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/schedule"
	"github.com/vramscope/vramscope/budget/settings"
)

// Complete fills in what has a default, where it is the model's, too: the cache
// of an encoder-decoder holds the target sequence, not the encoder's, and
// where the encoder hears sound, the target has the only tokens: as many as
// its table of positions at most.
func (c *Config) Complete(s Setting) (_ Setting, err error) {
	defer c.broken(&err)
	m, err := c.seen()
	if err != nil {
		return s, err
	}
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
	d.Encoder = true
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

// setup is a setting, and what follows from it whatever the model is.
type setup struct {
	Setting
	profile  *settings.Profile
	mixed    bool
	width    int64 // bytes of the compute type
	wide     int64 // bytes of a trained parameter as the layers see it
	kept     int64 // bytes of a parameter as it is kept between steps, with its gradient and state
	dp       int64 // ranks that have the same weights: data-parallel ones, and context-parallel ones among them
	expertTP int64 // ranks that an expert's matrices are cut over
	expertDP int64 // ranks that have the same experts
}

// holding is what one rank of it holds of a model.
type holding struct {
	setup
	config   *Config // as the framework builds it
	model    *network.Model
	adapters []*parameter
	whole    network.Counts // of the model before it is divided
	all      *network.Model // parameters of all of a pipeline rank's pieces, nil: these are the model's
}

// plan is a rank's step, as the machine runs it.
type plan struct {
	holding
	notes   []string
	logging bool            // the machine's requests are kept
	chunked []*plan         // a pipeline rank's pieces of the model
	moved   []schedule.Move // and its schedule
	rank    int64           // in the pipeline
}

// compiledLoss says whether the loss is compiled, too: torchtune's always is; torchtitan's
// since 2025, when its optimizer became the fused one.
func (p *setup) compiledLoss() bool {
	with := p.profile.CompilesLoss || p.profile.LossWithFused && strings.HasSuffix(p.Optimizer, "-fused")
	return p.Compile && with || p.compiledWhole()
}

// compiledWhole says whether the model is compiled as one, with its loss, as Transformers'
// Trainer does it, which has to be named; what is gathered or sent in between breaks it into
// pieces.
func (p *setup) compiledWhole() bool {
	alone := !p.sharded() && p.Zero == 0 && p.Offload == "none" && p.PP == 1 && p.TP == 1 && p.CP == 1
	return p.Compile && p.profile.CompilesWhole && !p.Unsaid && alone
}

// keepsPackedInputs says whether a product with packed weights keeps its input, though
// nothing needs it: bitsandbytes did until 0.44, and litgpt pinned a version before that until 2025. It
// is no saved tensor, but hangs on the graph, and goes when the next loss replaces this one.
func (p *holding) keepsPackedInputs() bool {
	return p.fabric() && p.packing() != nil && p.pinnedBitsandbytes()
}

// pinnedBitsandbytes says whether litgpt is as old as what it has published of packed weights: a PyTorch since 2.5 has to be
// named for another.
func (p *setup) pinnedBitsandbytes() bool { return p.Torch == "" || p.torchBefore(5) }

// inMixedInt8 says whether packed products are bitsandbytes' in 8 bits. These keep their inputs on the
// graph, which checkpointing knows nothing of.
func (p *holding) inMixedInt8() bool {
	z := p.packing()
	return !p.Inference && (p.Precision == "int8" || z != nil && z.Method == "bitsandbytes" && z.Bits == 8)
}

// megatron says whether the model is Megatron-LM's.
func (p *setup) megatron() bool { return p.profile != nil && p.profile.OwnParallelism }

// mixerKernels: mamba-2's mixers run in kernels written for them, as frameworks that have the kernels
// as a requirement run them.
func (p *setup) mixerKernels() bool { return p.MixerKernels || p.megatron() }

func (p *setup) eager() bool { return p.Attention == "eager" }
func (p *setup) flash() bool { return p.Attention == "flash" || p.Attention == "flex" }
