package budget

import "cmp"

// Document is what the command says about a setting: the budget and what
// follows from it. Its JSON is the schema vramscope.budget/1.
type Document struct {
	Schema      string           `json:"schema"`
	Model       ModelInfo        `json:"model"`
	Setting     map[string]any   `json:"setting"`
	Categories  map[string]int64 `json:"categories"`
	Phases      []DocPhase       `json:"phases"`
	PeakBytes   int64            `json:"peak_bytes"`
	PeakPhase   string           `json:"peak_phase"`
	FirstStep   int64            `json:"first_step_peak_bytes"`
	Reserved    int64            `json:"reserved_bytes"`
	TotalDevice int64            `json:"total_device_bytes"`
	Weights     int64            `json:"weights_bytes"`
	CacheToken  int64            `json:"cache_bytes_per_token"`
	CacheFixed  int64            `json:"cache_bytes_fixed"`
	Fits        []DocFit         `json:"fits"`
	Ladder      []Measure        `json:"ladder"`
	Solved      *DocSolved       `json:"solved"`
	Vocabulary  *DocVocabulary   `json:"vocabulary_whatif"`
	Stages      []Stage          `json:"stages"` // of a pipeline
	Plans       []Plan           `json:"plans"`  // null unless asked for
	Notes       []string         `json:"notes"`
}

// DocPhase is one phase.
type DocPhase struct {
	Phase      string           `json:"phase"`
	PeakBytes  int64            `json:"peak_bytes"`
	EndBytes   int64            `json:"end_bytes"`
	Categories map[string]int64 `json:"categories"`
}

// DocFit is one row of the table over devices; MaxTokens only when serving.
type DocFit struct {
	GPU         string   `json:"gpu"`
	Capacity    int64    `json:"capacity_bytes"`
	Fits        bool     `json:"fits"`
	Verdict     string   `json:"verdict"`      // fits, tight, depends or short
	Spare       int64    `json:"spare_bytes"`  // negative where it is short
	If          string   `json:"unless_flags"` // what takes more than is spare
	MaxBatch    int64    `json:"max_batch"`
	MaxSequence *int64   `json:"max_sequence"`
	MaxTokens   *int64   `json:"max_concurrent_tokens"`
	AtOnce      *float64 `json:"requests_at_once"` // serving by an engine
}

// DocSolved answers --solve; 0 when nothing fits.
type DocSolved struct {
	What  string `json:"for"`
	GPU   string `json:"gpu"`
	Value int64  `json:"value"`
}

// DocVocabulary compares with another vocabulary.
type DocVocabulary struct {
	Vocabulary int64 `json:"vocabulary"`
	Parameters int64 `json:"parameters"`
	PeakBytes  int64 `json:"peak_bytes"`
	Saves      int64 `json:"saves_bytes"`
}

// NewDocument is a budget as a document, without the questions that need
// further budgets (Fits, Ladder, Solved, Vocabulary).
func NewDocument(b *Budget) *Document {
	d := &Document{
		Schema:  "vramscope.budget/1",
		Model:   b.Model,
		Setting: b.Setting.words(), Categories: b.Categories.Map(), PeakBytes: b.PeakBytes, PeakPhase: b.PeakPhase.String(),
		FirstStep: b.FirstStep,
		Reserved:  b.Reserved, TotalDevice: b.TotalDevice(), Weights: b.WeightsBytes, CacheToken: b.CacheToken,
		CacheFixed: b.CacheFixed, Stages: append([]Stage{}, b.Stages...),
		Fits: []DocFit{}, Ladder: []Measure{}, Notes: append([]string{}, b.Notes...),
	}
	for _, p := range b.Phases {
		d.Phases = append(d.Phases, DocPhase{Phase: p.Phase.String(), PeakBytes: p.Peak, EndBytes: p.End,
			Categories: p.Categories.Map()})
	}
	return d
}

// AddFits fills the table over devices in.
func (d *Document) AddFits(fits []Fit, serving bool) {
	for _, f := range fits {
		row := DocFit{GPU: f.GPU.Name, Capacity: f.GPU.Capacity, Fits: f.Fits, MaxBatch: f.MaxBatch}
		if f.HasSequence {
			row.MaxSequence = &f.MaxSequence
		}
		if serving {
			row.MaxTokens = &f.MaxTokens
		}
		if f.AtOnce > 0 {
			row.AtOnce = &f.AtOnce
		}
		d.Fits = append(d.Fits, row)
	}
}

// Judge says of each device how sure its answer is.
func (d *Document) Judge(b *Budget, fits []Fit, band Band) {
	for i := range d.Fits {
		row, g := &d.Fits[i], fits[i].GPU
		row.Spare, row.Verdict = g.Capacity-b.need(g), b.Verdict(g, band)
		if row.Verdict == Depending {
			row.If = band.Flags
		}
	}
}

// servingWords adds those of a setting without training.
func (s Setting) servingWords(m map[string]any) {
	if e, ok := s.engine(); ok {
		m["engine"], m["gpu_share"], m["batch_tokens"], m["prefix_share"] = s.Engine, e.share, e.tokens, s.Shared
	}
	m["context"], m["new_tokens"], m["cache"], m["kv"], m["last_logit"] = s.Context, s.NewTokens, s.Cache, s.KV, s.LastLogit
	m["optimizer"], m["checkpointing"], m["loss"], m["zero"] = nil, nil, nil, nil
}

// words are a setting's fields under the names of the flags.
func (s Setting) words() map[string]any {
	m := map[string]any{
		"batch": s.Batch, "sequence": s.Sequence, "precision": s.Precision, "attention": s.Attention, "padding": s.Padding,
		"gpus": s.GPUs, "tp": s.TP, "pp": s.PP, "ep": s.EP, "cp": s.CP, "offload": s.Offload, "allocator": s.Allocator,
		"torch": s.Torch, "inference": s.Inference, "gpu": s.GPU,
	}
	if s.Inference {
		s.servingWords(m)
		return m
	}
	m["optimizer"], m["checkpointing"], m["loss"], m["zero"], m["fsdp"] = s.Optimizer, s.Checkpointing, s.Loss, s.Zero, s.FSDP
	m["accumulate"], m["keep_gradients"], m["use_cache"], m["drop_outputs"], m["master_weights"] = s.Accumulate, s.KeepGradients,
		s.UseCache, s.DropOutputs, s.MasterWeights
	if s.FSDP != "" {
		m["fsdp_version"], m["fsdp_shards"], m["keep_gathered"], m["reduce_dtype"] = cmp.Or(s.FSDPVersion, 2), s.Shards,
			s.KeepGathered, s.ReduceDtype
	}
	if s.FSDPEnds != "" {
		m["fsdp_ends"] = s.FSDPEnds
	}
	if s.ExpertLoad > 1 {
		m["expert_load"] = s.ExpertLoad
	}
	for name, on := range map[string]bool{"liger": s.Liger, "mixer_kernels": s.MixerKernels, "prepare_kbit": s.PrepareKbit,
		"sync_each_batch": s.SyncEachBatch} {
		if on {
			m[name] = on
		}
	}
	if s.GradientDtype != "" {
		m["gradient_dtype"] = s.GradientDtype
	}
	if s.Copies > 0 {
		m["copies"] = s.Copies
	}
	if s.Freeze > 0 {
		m["freeze"] = s.Freeze
	}
	m["decoder_sequence"], m["lora"] = s.DecoderSeq, s.LoRA
	m["compile"], m["optimizer_in_backward"], m["activation_offload"], m["float8"] = s.Compile, s.OptimizerInBackward,
		s.ActivationOffload, s.Float8
	if s.Float8 {
		m["float8_recipe"], m["float8_all_gather"] = s.Float8Recipe, s.Float8AllGather
	}
	if s.AsyncTP {
		m["async_tp"] = true
	}
	if s.MXFP8 {
		m["mxfp8"] = true
	}
	if s.CUDAGraphs {
		m["cuda_graphs"] = true
	}
	m["sequence_parallel"], m["micro_batches"], m["schedule"], m["framework"] = s.SequenceParallel, s.MicroBatches, s.Schedule,
		s.Framework
	if s.adapts() {
		m["adapter"], m["modules_to_save"] = s.Adapter, s.SaveModules
		m["lora_targets"], m["lora_dtype"], m["dora"] = s.LoRATargets, s.LoRADtype, s.Adapter == "dora"
	}
	return m
}
