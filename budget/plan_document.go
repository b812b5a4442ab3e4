package budget

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
	Host        int64            `json:"host_bytes"` // what an offload keeps in host memory for each GPU
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
	// WithMargin leaves as much spare as published measurements were off by; 0 where none does, or nobody asks.
	WithMargin int64 `json:"value_with_margin"`
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
		Setting: b.Setting.Words(), Categories: b.Categories.Map(), PeakBytes: b.PeakBytes, PeakPhase: b.PeakPhase.String(),
		FirstStep: b.FirstStep, Host: b.Host,
		Reserved: b.Reserved, TotalDevice: b.TotalDevice(), Weights: b.WeightsBytes, CacheToken: b.CacheToken,
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
		row.Spare, row.Verdict = g.Capacity-b.Need(g), b.Verdict(g, band)
		if row.Verdict == Depending {
			row.If = band.Flags
		}
	}
}

// Plan is a setting that fits, and what it costs in time.
type Plan struct {
	Way         string  `json:"way"` // what is trained, and how much of it in full
	Flags       string  `json:"flags"`
	Command     string  `json:"command"`         // that makes it again, with the model and the GPU; "": whoever asks knows them
	Framework   string  `json:"framework_flags"` // the same as the framework asked for has it
	TotalDevice int64   `json:"total_device_bytes"`
	Host        int64   `json:"host_bytes"` // for each GPU
	Batch       int64   `json:"batch"`
	Sequence    int64   `json:"sequence"`
	Recompute   float64 `json:"recompute_share"`                    // of the forward and backward without it
	Traffic     int64   `json:"communicated_bytes_per_micro_batch"` // by one GPU
	Cost        float64 `json:"relative_cost"`                      // time per token against the best plan, estimated
	Setting     Setting `json:"-"`
	Order       int     `json:"-"` // of its way among the ways of training, from 0 on
}
