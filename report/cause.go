package report

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/evidence"
)

// Cause is a part of what filled a GPU, or of what a run needs: a defect of the program, something around it, or
// a category of memory that the job needs by design.
type Cause struct {
	Cause    string  `json:"cause"`
	Bytes    int64   `json:"bytes"`     // that it explains
	At       *Place  `json:"at"`        // the line that made it, or that asked
	StoredAt *Place  `json:"stored_at"` // the line that stores it
	Holder   *string `json:"holder"`    // the variable that holds it, where recorded
	FixID    *string `json:"fix_id"`

	// What sentences say besides.
	Leak   *Leak `json:"-"` // that it tells of
	Count  int   `json:"-"` // of tensors that variables hold, of models that were made
	Most   int64 `json:"-"` // bytes that Holder holds, where others hold some, too
	Length int64 `json:"-"` // of which a request is the square
	Unsure bool  `json:"-"` // what the memory is for is a guess
}

// Causes beside the categories of memory, which are told by their own names; Temporaries stands for temporary memory.
const (
	LeakCause     = "leak"
	RetainedGraph = "retained_graph"
	SecondModel   = "second_model"
	KeptException = "kept_exception"
	CycleCause    = "reference_cycle"
	HeldCause     = "held" // by a variable; nothing tells what for
	FractionCause = "memory_fraction"
	DriverLimit   = "driver_limit"
	Pieces        = "pieces"
	PrivatePool   = "private_pool"
	Sleeping      = "sleeping_allocator"
	TooLarge      = "request_too_large"
	Temporaries   = "temporaries"
	Unclear       = "unclear"
)

// FreePieces is what was free for a request that failed, on the device and in PyTorch's cache.
type FreePieces struct {
	Bytes   int64 `json:"bytes"`
	Largest int64 `json:"largest"`
}

// Free is what was free when a request failed, and the largest piece of it; nil where that isn't known.
func (o *OOM) Free() *FreePieces {
	if o.DeviceFreeBytes == nil && o.LargestFreeBlock == nil {
		return nil
	}
	device := evidence.Or(o.DeviceFreeBytes, 0)
	return &FreePieces{o.ReservedBytes - o.AllocatedBytes + device, max(device, evidence.Or(o.LargestFreeBlock, 0))}
}

// Why is in a few words why a request failed: a mistake or something around the program by its name, else the verdict.
func (o *OOM) Why() string {
	if len(o.Causes) == 0 || slices.Contains(Categories, o.Causes[0].Cause) || o.Causes[0].Cause == Unclear ||
		o.Causes[0].Cause == Temporaries || o.Causes[0].Cause == o.Verdict {
		return CategoryWords(o.Verdict)
	}
	return CauseWords(o.Causes[0].Cause)
}

// Cause is what filled the GPU, or kept the request from its memory, in words; "" where that isn't known.
func (o *OOM) Cause() string {
	if len(o.Causes) == 0 || o.Causes[0].Cause == Unclear {
		return ""
	}
	return CauseWords(o.Causes[0].Cause)
}

var causeWords = map[string]string{
	LeakCause: "a leak", RetainedGraph: "graphs that are kept", SecondModel: "a second set of weights",
	KeptException: "a failed attempt that is held", CycleCause: "a reference cycle", HeldCause: "held by variables",
	OtherProcess: "other processes", FractionCause: "a memory limit", Pieces: "fragmentation", PrivatePool: "private pools",
	TooLarge: "a request too large for the GPU",
}

// CauseWords is a cause in two words or three.
func CauseWords(cause string) string { return cmp.Or(causeWords[cause], CategoryWords(cause)) }
