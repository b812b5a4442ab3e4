package report

import "strconv"

// categoryTitles are the categories in words for people.
var categoryTitles = map[string]string{"": "Allocated", "weights": "Weights", "gradients": "Gradients",
	"optimizer_state": "Optimizer state",
	"activations":     "Activations", "logits": "Logits", "kv_cache": "KV cache", "inputs": "Inputs",
	"autocast_copies": "Autocast copies",
	"communication":   "Communication", "workspace": "Workspace", "temporary": "Temporary", "unknown": "Unknown",
	"cache": "Cache"}

// CategoryTitle is a category in words for people.
func CategoryTitle(category string) string {
	if title, ok := categoryTitles[category]; ok {
		return title
	}
	return category
}

// Place is the file's name with its folder, and the line; "" when no file was
// recorded.
func (s *Site) Place() string { return shortPlace(s.File, s.Line) }

func shortPlace(file string, line *int) string {
	if file == "" || file == "??" {
		return ""
	}
	if line == nil {
		return ShortFile(file)
	}
	return ShortFile(file) + ":" + strconv.Itoa(*line)
}

// Short names a call site in a few words.
func (s *Site) Short() string {
	switch {
	case s.Function != "" && s.File != "":
		return s.Function + " " + s.Place()
	case s.Function != "":
		return s.Function
	case s.Op != "":
		return s.Op
	case s.Older:
		return "allocated before the recording"
	case !s.Known:
		return "no stack recorded"
	}
	return "no line of Python on the stack"
}

// PhaseText is a phase in a sentence.
var PhaseText = map[string]string{"setup": "setup", "data": "data loading", "forward": "the forward pass",
	"backward": "the backward pass", "optimizer": "the optimizer step", "zero_grad": "zero_grad",
	"generate": "generation", "other": "other work"}

// Verdicts on a failed request.
const (
	TrueShortage   = "true_shortage"
	Fragmentation  = "fragmentation"
	MemoryFraction = "memory_fraction"
	OtherProcess   = "other_process"
	UnknownVerdict = "unknown"
)
