// Package recorder makes memory snapshots for tests: a simulated caching
// allocator runs a random program and is dumped as the pickle that PyTorch
// would write, byte for byte, together with the truth that a reader must find.
//
//	run := recorder.Simulate(recorder.Program{Seed: 1, Events: 1000})
//	file := run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
//	fmt.Println(len(file), run.Truth[0].Peaks.Allocated)
//
// The same program and style give the same bytes.
package recorder

// Recording is what an allocator's recorder knows when it is dumped.
type Recording struct {
	Segments     []Segment
	Traces       [][]Event // by device ordinal
	HostSegments []Segment
	HostTraces   []Event
	Annotations  []Annotation
	Settings     []Item // allocator_settings
	Extra        []Item // further keys of the whole file
}

// Frame is one line of a stack. Its address is its identity.
type Frame struct {
	File, Name string
	Line       any // an int; C++ frames without a line have 0, or 2**64-1
	FX         []Item
}

// Stack is a list of frames, innermost first. Its address is its identity.
type Stack struct{ Frames []*Frame }

// Event is a trace entry.
type Event struct {
	Action     string
	Address    any // an integer, nil to leave the key out
	Size       any
	TimeUS     any // nil to leave the key out
	Stream     any
	Stack      *Stack // nil: the key is left out
	Forward    []string
	Compile    string // "N/A" when empty
	Metadata   string
	Internal   string
	Pool       [2]int64
	Category   any // nil to leave the key out
	DeviceFree any // of oom entries
	Extra      []Item
}

// Block is a piece of a segment.
type Block struct {
	Address   any
	Size      any
	Requested any
	State     string
	Stack     *Stack
	History   []Use // only written by V2_0
	Extra     []Item
}

// Use is a former or present use of a block.
type Use struct {
	Address  uint64
	RealSize int64
	Stack    *Stack
}

// Segment is a piece of device memory.
type Segment struct {
	Device     int
	Address    any
	Total      any
	Allocated  int64
	Active     int64
	Requested  int64
	Stream     uint64
	Pool       [2]int64
	Small      bool
	Expandable bool
	Stack      *Stack
	Blocks     []Block
	Extra      []Item
}

// Annotation is one end of a record_function range.
type Annotation struct {
	Stage, Name string
	Device      int
	TimeUS      int64
}

// Era is which PyTorch wrote the file.
type Era int

// The eras by which files differ, oldest first.
const (
	V2_0    Era = iota // history in blocks
	V2_1dev            // no time_us
	V2_1               // no settings
	V2_3               // settings, no annotations
	V2_5               // annotations
	V2_8               // compile_context
	V2_10              // user_metadata
	V2_11              // pool_id, the recorder's limits
	V2_15              // pinned host memory
	NumEras
)

// Style says how a recording is written.
type Style struct {
	Era      Era
	Protocol int
	JIT      bool  // by torch's own pickler; Protocol is not used
	OwnLists bool  // every event has a frame list of its own, as torch writes when its stacks are not shared
	Shuffle  int64 // not 0: the order of keys, by seed
	Bare     bool  // only the list of segments, as torch.cuda.memory_snapshot() returns it
	NoTraces bool  // include_traces=False
}

// Dump is the recording as a file.
func (r *Recording) Dump(s Style) []byte {
	v := r.Objects(s)
	if s.JIT {
		return PickleJIT(v)
	}
	return Pickle(v, s.Protocol)
}
