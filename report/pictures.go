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
	// Others are the events that no band tells of, by event: where bands are
	// thinned out, only those of segments, failed requests and snapshots.
	Others []Event
	// Segments are what is reserved at the end, in the recording's order.
	Segments []Segment
	Streams  []string // what Stream indexes
	Pools    []string // what Pool indexes; "" for the default pool
	Actions  []string // what Event.Action indexes, in PyTorch's words
	// Completions tells that a free of which only one event is known was completed
	// by it, not requested.
	Completions bool
	// Rest is the sum of all others, nil when there are none.
	Rest *Rest
	// Moments are events at which Bands nevertheless hold every block.
	Moments []int

	Names      []string          // of Bands.Name: user metadata, labels, names of tensors; the first is ""
	Kinds      []Kind            // what Bands.Kind indexes
	Rules      map[string]string // of Kinds: one line on why each says what it says
	Categories []string          // the categories of Kinds, [""] when nothing was classified
	Sites      []Site            // call sites without figures, what Stacks name
	Stacks     []Stack           // index 0: no stack recorded
	Frames     []Frame
	Nodes      []StackNode // index 0 is the root

	// Curve is the allocated memory by category, at instants of the device's curve.
	Curve  CategoryCurve
	Spans  []Span  // what the program called its parts, by first event
	Growth *Growth // nil without steps
}

// Bands are allocations as parallel columns.
type Bands struct {
	ID    []uint32 // the allocation's id on its device; nil: its index
	Older int      // how many of them are older than the recording
	Born  []uint32 // event; meaningless for the older ones
	Freed []uint32 // event at which the free was requested; NotFreed, FreedBefore
	Bytes []int64  // of its block
	Kind  []uint16
	Stack []uint32 // index into Stacks
	Name  []uint32 // index into Names; nil where nothing has a name
	// Forward is where the forward operation of a backward allocation ran, as in Stack;
	// nil where that wasn't recorded.
	Forward []uint32
	// What only the events and the map of segments need; nil where there are none.
	Completed []uint32 // event at which the block was free again; NotFreed
	Address   []uint64
	Requested []int64 // bytes
	Stream    []uint32
	Pool      []uint32
	FreeStack []uint32 // of the free, as in Stack
}

// Alive reports whether a band is allocated right after an event; -1 asks for the
// instant before the first.
func (b *Bands) Alive(i, event int) bool {
	if i >= b.Older && int(b.Born[i]) > event {
		return false
	}
	freed := b.Freed[i]
	return freed == NotFreed || freed != FreedBefore && int(freed) > event
}

// Deaths that are no event.
const (
	NotFreed    = ^uint32(0)     // the allocation outlives the recording
	FreedBefore = ^uint32(0) - 1 // its free was requested before the first event
)

// Event is one that no band tells of.
type Event struct {
	Event        int
	Action       int
	Address      uint64
	Bytes        int64
	Stream, Pool uint32
	Stack        uint32
	Band         int // index into Bands, -1: none
}

// Segment is a piece of device memory that the allocator holds.
type Segment struct {
	Address      uint64
	Bytes        int64
	Stream, Pool uint32
	Small        bool
	Expandable   bool
}

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
	FX       string `json:"fx,omitempty"`   // node of a torch.fx graph that a generated line runs
	Code     string `json:"code,omitempty"` // lines of the model that the node stands for
	Fold     bool   `json:"fold"`           // machinery of torch, Python or C++ that few want to see
	// Silent is of the machinery: what took down the stack, dispatches or has no name.
	Silent bool `json:"silent,omitempty"`
}

// Growth is what was made within the loop and is alive after each step.
type Growth struct {
	Steps []int     // step numbers
	Sites []int     // index into Sites; the last one, -1, is all others
	Bytes [][]int64 // by site, then by step
}
