// Package snapshot reads the pickle that torch.cuda.memory._dump_snapshot
// writes and turns it into typed columns. It never executes, imports or
// instantiates anything that the file asks for.
//
//	s, err := snapshot.Open("snapshot.pickle", snapshot.Options{})
//	if err != nil {
//		return err
//	}
//	for _, d := range s.Devices {
//		fmt.Println(d.Ordinal, d.Events.Len(), len(d.Segments))
//	}
//
// A snapshot has millions of events but few hundred distinct stacks: events
// are parallel slices, an event is an index into them, and strings, frames and
// stacks are interned and named by id.
package snapshot

// StringID names an interned string; 0 is the empty string.
type StringID uint32

// FrameID names an interned Frame.
type FrameID uint32

// StackID names an interned list of frames, innermost first; 0 is the empty
// stack, which also stands for "no stack recorded".
type StackID uint32

// Frame is one line of a recorded stack.
type Frame struct {
	Function StringID
	File     StringID // "??" or empty for C++ frames without debug information
	Line     int32
	FX       FXID // of a line that torch.fx generated; 0: of any other
}

// FXID names an interned FX.
type FXID uint32

// FX says which node of a torch.fx graph a generated line of code runs, and which
// code of the model the node stands for.
type FX struct {
	Op, Name, Target, Info StringID
	Trace                  StringID // fx_original_trace: lines of a traceback
}

// Action is what a trace entry records. Values from ActionOther on are names
// this package doesn't know; Snapshot.ActionName gives the text of all.
type Action uint8

// The actions of torch's TraceEntry (c10/cuda/CUDACachingAllocator.h).
const (
	Alloc Action = iota
	FreeRequested
	FreeCompleted
	SegmentAlloc
	SegmentFree
	SegmentMap
	SegmentUnmap
	OOM
	SnapshotTaken
	Annotate
	ActionOther
)

// Pool identifies a private memory pool as torch writes it: {0,0} is the
// default pool, {0,n} a CUDA graph's, {n,0} a user's MemPool.
type Pool [2]int64

// Events are the entries of one device's trace, oldest first, as parallel
// slices of one length. Columns marked "optional" may be nil, or hold nothing but
// zeros, when no event of the file has another value.
type Events struct {
	Action         []Action
	Address        []uint64
	Size           []int64    // bytes; alloc and free: requested; segment_*: whole; oom: rounded request
	TimeUS         []int64    // microseconds since the Unix epoch, optional; not unique, not always there
	Stack          []StackID  // optional
	Stream         []uint32   // index into Snapshot.Streams, optional
	Pool           []uint32   // index into Snapshot.Pools, optional
	CompileContext []StringID // optional; "N/A" is stored as 0
	Metadata       []StringID // user_metadata, optional
	Internal       []StringID // internal_metadata, optional
	ForwardStack   []StackID  // stack of the forward operation of a backward allocation, optional, in plain Python frames
	Category       []int32    // index into Snapshot.CategoryNames plus one, optional
}

// Len is the number of events.
func (e *Events) Len() int { return len(e.Action) }

// StackOf is the stack of event i, 0 when none was recorded.
func (e *Events) StackOf(i int) StackID { return at(e.Stack, i) }

// TimeOf is the time of event i in microseconds, 0 when none was recorded.
func (e *Events) TimeOf(i int) int64 { return at(e.TimeUS, i) }

// StreamOf is event i's index into Snapshot.Streams.
func (e *Events) StreamOf(i int) uint32 { return at(e.Stream, i) }

// PoolOf is event i's index into Snapshot.Pools.
func (e *Events) PoolOf(i int) uint32 { return at(e.Pool, i) }

// MetadataOf is event i's user_metadata.
func (e *Events) MetadataOf(i int) StringID { return at(e.Metadata, i) }

// InternalOf is event i's internal_metadata.
func (e *Events) InternalOf(i int) StringID { return at(e.Internal, i) }

// CompileContextOf is event i's compile_context, 0 for "N/A" and none.
func (e *Events) CompileContextOf(i int) StringID { return at(e.CompileContext, i) }

// ForwardStackOf is the stack of the forward operation that event i's backward
// allocation belongs to, 0 when none was recorded.
func (e *Events) ForwardStackOf(i int) StackID { return at(e.ForwardStack, i) }

func at[T any](column []T, i int) (zero T) {
	if column == nil {
		return zero
	}
	return column[i]
}

// Slice is the events from i up to j as a view on the same memory.
func (e *Events) Slice(i, j int) Events {
	return Events{
		Action: e.Action[i:j:j], Address: e.Address[i:j:j], Size: e.Size[i:j:j],
		TimeUS: part(e.TimeUS, i, j), Stack: part(e.Stack, i, j), Stream: part(e.Stream, i, j),
		Pool: part(e.Pool, i, j), CompileContext: part(e.CompileContext, i, j),
		Metadata: part(e.Metadata, i, j), Internal: part(e.Internal, i, j),
		ForwardStack: part(e.ForwardStack, i, j), Category: part(e.Category, i, j),
	}
}

func part[T any](column []T, i, j int) []T {
	if column == nil {
		return nil
	}
	return column[i:j:j]
}

// BlockState is the state of a block at the dump.
type BlockState uint8

// Block states in torch's words.
const (
	Inactive BlockState = iota
	ActiveAllocated
	ActivePendingFree
)

// String is the state as torch writes it.
func (s BlockState) String() string {
	return [...]string{"inactive", "active_allocated", "active_pending_free"}[s]
}

// Block is one piece of a segment, in use or free, at the dump.
type Block struct {
	Address      uint64
	Size         int64 // bytes, rounded, an unsplit tail included
	Requested    int64 // bytes the program asked for; meaningless when Inactive; -1: not recorded
	State        BlockState
	Stack        StackID
	ForwardStack StackID
	History      int32 // how many entries of Snapshot.Histories belong to it (up to PyTorch 2.0)
	FirstHistory int32
}

// History is one former or present use of a block, as PyTorch up to 2.0
// recorded instead of a trace; newest first within a block.
type History struct {
	Address  uint64
	RealSize int64 // requested bytes
	Stack    StackID
}

// Segment is one piece of device memory that the allocator holds at the dump:
// a cudaMalloc, or one contiguous mapped range of an expandable segment.
type Segment struct {
	Address      uint64
	TotalSize    int64 // bytes
	Allocated    int64 // bytes of blocks in use, as torch counted them; -1: not recorded
	Active       int64 // with blocks pending free; -1: not recorded
	Requested    int64 // bytes asked for by active blocks; -1: not recorded
	Stream       uint32
	Pool         uint32
	Small        bool // of the pool for requests up to 1 MiB
	Expandable   bool
	Stack        StackID
	ForwardStack StackID
	Blocks       []Block // by address, contiguous
}

// Device is what a snapshot holds about one GPU, or about pinned host memory.
type Device struct {
	Ordinal  int
	Events   Events
	Segments []Segment // in the file's order
	OOMs     []OutOfMemory
	// FirstEvent is the position of Events[0] in the whole file.
	FirstEvent int
	// TraceMax is the recorder's max_entries, 0 when the file doesn't say.
	TraceMax int64
	// Overflowed is the recorder's own word on its ring buffer.
	Overflowed Known
	// Unpaired is how many allocations or frees are unknown actions by now, as
	// none of the other kind was recorded.
	Unpaired int
}

// Known is a yes or no that a file may not contain.
type Known uint8

// The three answers.
const (
	NotSaid Known = iota
	No
	Yes
)

// OutOfMemory is what only an oom entry records.
type OutOfMemory struct {
	Event      int   // index into the device's events
	DeviceFree int64 // bytes the driver had left after the cache was released; -1: not recorded
}

// Annotation is the start or the end of a record_function range.
type Annotation struct {
	Start  bool
	Name   StringID
	Device int
	TimeUS int64
}

// Setting is one entry of allocator_settings; nested dictionaries are flattened
// with a dot.
type Setting struct{ Key, Value string }

// Settings are the allocator's settings as the file gives them, in its order.
type Settings []Setting

// Get is the value of a setting, "" when absent.
func (s Settings) Get(key string) string {
	for _, x := range s {
		if x.Key == key {
			return x.Value
		}
	}
	return ""
}

// Unknown is a key that this package doesn't know, with one of its values.
type Unknown struct {
	Where, Key, Example string
	Count               int
}

// Snapshot is the whole recording.
type Snapshot struct {
	Era      string // which PyTorch wrote it, as far as the fields tell
	Protocol int    // of the pickle

	Strings []string // by StringID
	Frames  []Frame  // by FrameID
	FX      []FX     // by FXID
	Streams []uint64 // raw cudaStream_t handles; index 0 is the default stream
	Pools   []Pool   // index 0 is the default pool

	Devices []Device // by ordinal, every one with a segment or an event
	Host    *Device  // pinned host memory, nil when not recorded

	Annotations   []Annotation
	Settings      Settings
	Histories     []History
	CategoryNames []string // of Events.Category, in files made by profile_plot
	HasTraces     bool     // the file has a device_traces key at all
	BareSegments  bool     // the file is the list that torch.cuda.memory_snapshot() returns

	Unknown []Unknown // keys this package doesn't know
	Damage  []string  // what can't be right in the file, in words
	// Cut is where a truncated file ended, when Options.Partial let it pass; else -1.
	Cut int64

	otherActions []string
	stacks       stackTable
}

// String is the text of an interned string.
func (s *Snapshot) String(id StringID) string { return s.Strings[id] }

// Stack is a stack's frames, innermost first. The slice must not be changed.
func (s *Snapshot) Stack(id StackID) []FrameID { return s.stacks.frames(id) }

// NumStacks is the number of distinct stacks, the empty one included.
func (s *Snapshot) NumStacks() int { return s.stacks.len() }

var actionNames = [...]string{"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
	"segment_map", "segment_unmap", "oom", "snapshot", "annotate"}

// ActionName is the action as the file writes it.
func (s *Snapshot) ActionName(a Action) string {
	if a < ActionOther {
		return actionNames[a]
	}
	if i := int(a - ActionOther); i < len(s.otherActions) {
		return s.otherActions[i]
	}
	return "other"
}

// Device finds a device by its ordinal.
func (s *Snapshot) Device(ordinal int) *Device {
	for i := range s.Devices {
		if s.Devices[i].Ordinal == ordinal {
			return &s.Devices[i]
		}
	}
	return nil
}
