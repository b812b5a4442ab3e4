package report

// Pictures is one device's history in the form in which the HTML page draws
// it: columns, not objects. Only the page needs them, so they are worked out
// when it is asked for and are no part of the JSON.
type Pictures struct {
	Events int
	// TimeUS are microseconds since the Unix epoch at every TimeEvery-th event;
	// nil when the recording has no clock.
	TimeUS    []int64
	TimeEvery int

	// Bands are the allocations that are drawn one by one, by id.
	Bands Bands
	// Rest is the sum of all others, nil when there are none.
	Rest *Rest

	Kinds      []Kind            // what Bands.Kind indexes
	Rules      map[string]string // of Kinds: one line on why each says what it says
	Categories []string          // the categories of Kinds, [""] when nothing was classified
	Sites      []Site            // call sites without figures, what Stacks name
	Stacks     []Stack           // index 0: no stack recorded
	Frames     []Frame
	Nodes      []StackNode // index 0 is the root

	// Curve is the allocated memory by category, at the instants of Moments.
	Curve  CategoryCurve
	Spans  []Span   // what the program called its parts, by first event
	Maps   []Layout // at the end, and at the moments that matter
	Growth *Growth  // nil without steps
}

// Bands are allocations as parallel columns.
type Bands struct {
	ID    []uint32 // the allocation's id on its device; nil: its index
	Older int      // how many of them are older than the recording
	Born  []uint32 // event; meaningless for the older ones
	Freed []uint32 // event at which the free was requested; NotFreed
	Bytes []int64
	Kind  []uint16
	Stack []uint32 // index into Stacks
}

// NotFreed is the death of an allocation that outlives the recording.
const NotFreed = ^uint32(0)

// Kind is what an allocation is for, and how that is known.
type Kind struct {
	Category   int    `json:"category"` // index into Categories
	Detail     string `json:"detail"`
	Confidence int    `json:"confidence"` // percent
	Signal     string `json:"signal"`
	Phase      string `json:"phase"`
	Rule       string `json:"rule"` // that decided, "": none
}

// Rest is memory that is not drawn allocation by allocation: a level for each
// category, sampled where the device held most within a stretch of events.
type Rest struct {
	Allocations int
	Events      []int     // where each level begins
	Bytes       [][]int64 // by category, then by event
}

// CategoryCurve is the memory of each category at some events, chosen so that
// the largest total of every stretch survives.
type CategoryCurve struct {
	Events   []int
	Bytes    [][]int64 // by category, then by event
	Reserved []int64
}

// Span is a named range of events.
type Span struct {
	Name       string `json:"name"`
	FirstEvent int    `json:"first"`
	LastEvent  int    `json:"last"`
}

// Stack is a recorded stack: a way from a node up to the root, innermost
// frame first.
type Stack struct {
	Site int // index into Sites, -1: none
	Node int
}

// StackNode is a frame and what called it: stacks share their outer parts.
type StackNode struct{ Frame, Parent int }

// Frame is one line of a stack.
type Frame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Fold     bool   `json:"fold"` // machinery of torch, Python or C++ that few want to see
}

// Layout is how the memory lies at an instant.
type Layout struct {
	Name     string // "end", "peak", "oom"
	Event    int
	Segments []LayoutSegment
}

// LayoutSegment is a piece of device memory, by address.
type LayoutSegment struct {
	Address    uint64
	Bytes      int64
	Pool       string // "" for the default pool
	Small      bool
	Expandable bool
	Blocks     []LayoutBlock
}

// LayoutBlock is a piece of a segment.
type LayoutBlock struct {
	Bytes      int64
	State      BlockState
	Allocation uint32 // id, when in use
	Kind       uint16
	Stack      uint32
}

// BlockState says who may use a block.
type BlockState uint8

// The states of a block.
const (
	BlockFree BlockState = iota
	BlockUsed
	BlockPending // its free was requested, but the device may still use it
)

// Growth is what was made within the loop and is alive after each step.
type Growth struct {
	Steps []int     // step numbers
	Sites []int     // index into Sites; the last one, -1, is all others
	Bytes [][]int64 // by site, then by step
}
