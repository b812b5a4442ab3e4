package evidence

// Simulated is the GPU that a program ran on and that wasn't there, with what hangs on that.
type Simulated struct {
	SimulatedCard
	Assumptions []Assumption   `json:"assumptions"`   // sizes that depend on data, most bytes first
	Uncounted   map[string]int `json:"uncounted"`     // workspaces whose size nobody knows, by what needs them, with calls
	Unknown     map[string]int `json:"unknown_calls"` // of CUDA's libraries, that nothing answered for
	Ended       *string        `json:"ended"`         // why before the program's own end; nil: it ran to it
	PeakBytes   int64          `json:"peak_bytes"`    // of the fullest device, in pages, without the context

	// Fits is whether the program went through on the card, and SpareBytes what was left at its fullest; nil: not known.
	Fits       *bool  `json:"fits"`
	SpareBytes *int64 `json:"spare_bytes"`
}

// Spare is what was left of the card at its fullest, where PyTorch had reserved so much at most.
func (s *Simulated) Spare(reserved int64) int64 {
	return s.CapacityBytes - s.ContextBytes - s.OtherBytes - max(reserved, s.PeakBytes)
}

// SimulatedCard is what of the simulated machine decides the bytes.
type SimulatedCard struct {
	GPU             string `json:"gpu"` // as the table of devices calls it
	Device          string `json:"device"`
	Count           int    `json:"count"`
	Capability      string `json:"compute_capability"`
	Multiprocessors int    `json:"multiprocessors"`
	CapacityBytes   int64  `json:"capacity_bytes"`
	ContextBytes    int64  `json:"context_bytes"`
	OtherBytes      int64  `json:"other_bytes"`
	Sizes           string `json:"assume"`     // of sizes that depend on data
	WorldSize       int    `json:"world_size"` // of a rank whose others weren't there; 0: all were
	Rank            int    `json:"rank"`
	NoWeights       bool   `json:"no_weights"`
}

// Assumption is a size that depends on data, and what it was taken to be.
type Assumption struct {
	What      string `json:"what"` // nonzero, unique, a condition
	File      string `json:"file"`
	Line      int    `json:"line"`
	Function  string `json:"function"`
	Calls     int    `json:"calls"`
	Rows      int64  `json:"rows"`       // of all calls
	MostRows  int64  `json:"most_rows"`  // that there can be
	Bytes     int64  `json:"bytes"`      // of the largest call's tensors that hang on it
	MostBytes int64  `json:"most_bytes"` // with all rows there can be
	Taken     string `json:"taken"`      // what a condition was taken to be
}
