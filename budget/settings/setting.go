// Package settings has what a training or a server is set to: the fields and their flags (fields.txt), what frameworks take where
// nobody says anything, what can't be together, and a setting as frameworks' own commands say it (dialects.txt).
//
//	s := settings.Setting{Framework: "torchtitan", GPUs: 8}.Defaults()
//	err := s.Check()
//
// It knows no models. Sizes are in tokens, sequences, ranks or elements, as the flags have them.
package settings

import (
	"cmp"
	"strconv"
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
	MasterWeights, SyncEachBatch, OutputsStay, ZeroedLate       bool
	Compile, CUDAGraphs, OptimizerInBackward, ActivationOffload bool
	MixerKernels, Liger                                         bool
	Float8, Float8AllGather, MXFP8                              bool
	Float8Recipe                                                string // torchao's names for its scales
	Framework                                                   string // empty: as the other fields suggest

	CachedLatents, OtherVAE, FreezeVision         bool
	Copies, References, OutputPieces              int64
	ExpertLoad, Labelled                          float64 // 0: 1
	Freeze                                        int64
	Frozen, Trained, TrainedDtype                 string // names of weights
	LoRA                                          int64  // rank, 0: full training
	LoRATargets, LoRADtype                        string
	LoRADropout                                   float64
	DoRA                                          bool // another name for the adapter "dora"
	Adapter, SaveModules                          string
	PrepareKbit, PlainScales, PlainAdapters       bool
	Zero                                          int
	FSDP, FSDPEnds, ReduceDtype                   string
	FSDPVersion                                   int   // 0 and 2: parameters stay what they are
	Shards                                        int64 // 0: all of them, with hybrid those of a node
	KeepGathered, HostAhead, FreeGathers, OneUnit bool
	GPUs, TP, PP, EP, CP                          int64
	Offload                                       string
	ReduceBucket, LiveParameters, PrefetchBucket  int64 // DeepSpeed's; 0: their defaults
	SubGroup                                      int64
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

	Unsaid          bool    // nobody has named the framework
	NamesByFile     bool    // Frozen and Trained are a recipe's, whose names may be none of the model's
	Encoder         bool    // the sequence is an encoder's, of which a decoder's cache holds nothing
	Reserve         float64 // reserved over allocated, where it is known already
	EveryMicroBatch bool    // those of a pipeline that are alike are run, too
	Fullest         int64   // of a pipeline's ranks, from 1 on; 0: not known
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
		s.Framework, s.Unsaid = s.suggested(), true
	}
	s.Compile = s.Compile || s.CUDAGraphs
	if x := ProfileOf(s.Framework); !s.Inference || !x.Trainer {
		s.DropOutputs = s.DropOutputs || x.DropsOutputs || x.Trainer
		s.Trainer = s.Trainer || x.Trainer
		if s.Loss == "default" && x.Loss != "" {
			s.Loss = x.Loss
		}
	}
	s.GPUs = cmp.Or(s.GPUs, s.Group())
	s.DecoderSeq = cmp.Or(s.DecoderSeq, min(s.Sequence, 128))
	s.Context = cmp.Or(s.Context, s.Sequence)
	return s
}

// ByRows says whether float8 has a scale for each row.
func (s Setting) ByRows() bool { return strings.HasPrefix(s.Float8Recipe, "rowwise") }

// Adapts says whether adapters are trained, beside which the model is frozen.
func (s Setting) Adapts() bool { return s.LoRA > 0 || s.Adapter == "ia3" }

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
	return Fallback
}

// Group is the fewest GPUs that the model can be divided over as the setting
// says; more of them are multiples of it.
func (s Setting) Group() int64 {
	ways := s.TP * s.CP
	return s.PP * (ways / gcd(ways, s.EP) * s.EP)
}

// OnGPUs is the setting on n GPUs: served by more tensor-parallel ranks,
// trained by more data-parallel ones, which share the state.
func (s Setting) OnGPUs(n int64) Setting {
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

// WithBatch is the setting with n sequences of a micro-batch.
func (s Setting) WithBatch(n int64) Setting { s.Batch = n; return s }

// SequenceUnit is the step in which sequences are tried, which context parallelism divides.
func (s *Setting) SequenceUnit() int64 { return max(64/max(s.CP, 1)*s.CP, s.CP, 1) }

// WithSequence is the setting with sequences of n tokens, and as many more in
// the cache as before.
func (s Setting) WithSequence(n int64) Setting {
	if !s.Encoder {
		s.Context = max(s.Context-s.Sequence, 0) + n
	}
	s.Sequence = n
	return s
}

// EveryNth is the N of checkpointing every Nth block.
func (s Setting) EveryNth() (int64, bool) {
	n, err := strconv.ParseInt(s.Checkpointing, 10, 64)
	return n, err == nil && n > 0 && n <= network.MaxLayers
}

// Recomputes says whether whole blocks run again in backward.
func (s Setting) Recomputes() bool {
	_, n := s.EveryNth()
	return n || s.Checkpointing == "full" || s.Checkpointing == "offload"
}

// ExpertRanks is how experts lie on the GPUs of a stage: each on one of the
// expert-parallel ranks, cut there over as many of the tensor-parallel ranks
// as the GPUs suffice for (with --tp 8 --ep 8 on 8 GPUs over none: each GPU
// has whole experts, as vLLM lays them). copies is how many ranks have the same.
func (s Setting) ExpertRanks() (tp, copies int64) {
	n := s.GPUs / s.PP / s.EP
	tp = gcd(s.TP, n)
	return tp, n / tp
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// namesFramework says whether the framework's name makes a difference.
func (s Setting) namesFramework() bool {
	return s.Framework != "" && (s.Framework != Fallback || !s.Unsaid && (s.Compile || s.Trainer))
}
