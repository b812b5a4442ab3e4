// Package explain answers one question about a recording that was judged: what is known
// of one allocation, event, address, call site, finding, leak, failed request, category,
// rule or step, and what to ask next. Every list in an answer is short, so that the
// answer is, too, however long the recording.
//
//	answer, err := explain.Ask(explain.Subject{Report: doc, Device: 0, Pass: pass}, question)
//	fmt.Println(answer.Answer)
package explain

import (
	"github.com/vramscope/vramscope/report"
)

// Schema names the JSON form of a Document. Names keep their meaning within a number;
// new ones may be added.
const Schema = "vramscope.explain/1"

// Document is an answer. Sizes are bytes. A nil pointer is an unknown number or a part
// that the question isn't about; lists are never nil.
type Document struct {
	Schema    string    `json:"schema"`
	Tool      string    `json:"tool"`
	Command   []string  `json:"command"`
	Input     string    `json:"input"`
	Device    *int      `json:"device"` // nil: the finding is about the run, not a GPU of a recording
	Rank      *int      `json:"rank"`
	Question  Question  `json:"question"`
	Recording Recording `json:"recording"`
	Answer    string    `json:"answer"`

	Allocation *Allocation `json:"allocation"`
	Event      *Event      `json:"event"`
	Address    *Address    `json:"address"`
	Site       *Site       `json:"site"`
	Finding    *Finding    `json:"finding"`
	Leak       *Leak       `json:"leak"`
	OOM        *OOM        `json:"oom"`
	Category   *Category   `json:"category"`
	Rule       *Rule       `json:"rule"`
	Step       *Step       `json:"step"`

	Next []Next `json:"next"`
}

// Question is what was asked: a kind such as "allocation", and which one.
type Question struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// Recording says how far what is said can be trusted.
type Recording struct {
	History       string   `json:"history"`
	HistoryReason string   `json:"history_reason"`
	Stacks        string   `json:"stacks"`
	Events        int      `json:"events"`
	Allocations   int      `json:"allocations"`
	Caveats       []string `json:"caveats"`
}

// Next is a question that follows from the answer.
type Next struct {
	Question
	Why string `json:"why"`
}

// Brief is an allocation in a list.
type Brief struct {
	Allocation int     `json:"allocation"`
	Address    uint64  `json:"address"`
	Requested  int64   `json:"requested_bytes"`
	Allocated  int64   `json:"allocated_bytes"`
	Category   string  `json:"category"`
	Confidence float64 `json:"confidence"`
	AllocEvent *int    `json:"alloc_event"` // nil: older than the recording
	FreeEvent  *int    `json:"free_event"`  // nil: not freed within the recording
	Phase      string  `json:"phase"`
	Step       int     `json:"step"` // -1: before the first
	At         string  `json:"at"`   // the call site in a few words
}

// Allocation is everything that is known of one.
type Allocation struct {
	Brief
	Detail            *string    `json:"detail"`
	Name              *string    `json:"name"`
	Signal            string     `json:"signal"`
	Rule              *string    `json:"rule"`
	Reason            *string    `json:"reason"`
	FreeCompleted     *int       `json:"free_completed_event"`
	FreedIn           *int       `json:"freed_in_step"`
	BornMicros        *int64     `json:"alloc_time_us"`
	FreedMicros       *int64     `json:"free_time_us"`
	AtPeak            bool       `json:"alive_at_peak"`
	AtEnd             bool       `json:"alive_at_end"`
	AtFailures        []int      `json:"alive_at_ooms"`
	Leak              *int       `json:"leak"`
	Stream            uint64     `json:"stream"`
	Pool              string     `json:"pool"`
	UserMetadata      *string    `json:"user_metadata"`
	CompileContext    *string    `json:"compile_context"`
	Stack             []Frame    `json:"stack"` // innermost first
	StackRest         int        `json:"stack_left_out"`
	ForwardStack      []Frame    `json:"forward_stack"` // of the forward operation that a backward allocation belongs to
	FreedBy           []Frame    `json:"free_stack"`
	Segment           *Neighbors `json:"segment"`
	SameSite          Group      `json:"same_site"` // allocations with the same stack, this one among them
	HasStack          bool       `json:"has_stack"`
	CalledFrom        *string    `json:"called_from"`
	Holders           []string   `json:"holders"` // variables that hold it, or an autograd graph with it, at the dump
	FreedBeforeRecord bool       `json:"free_before_trace"`
}

// Frame is a line of a stack.
type Frame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     *int   `json:"line"`
	Owner    string `json:"owner"` // user, library, compiled, torch or native
	FX       *Node  `json:"fx"`    // that the line runs, where torch.fx wrote it
}

// Node is a node of a torch.fx graph, and the lines of the model's code that it stands for.
type Node struct {
	Op     string `json:"op"`
	Name   string `json:"name"`
	Target string `json:"target"`
	Info   string `json:"info"`
	Trace  string `json:"original_trace"`
}

// Neighbors is the segment that an allocation lies in at some moment.
type Neighbors struct {
	Moment     string  `json:"moment"` // peak, birth or end
	Event      *int    `json:"event"`
	Address    uint64  `json:"address"`
	Bytes      int64   `json:"bytes"`
	Used       int64   `json:"used_bytes"`
	Free       int64   `json:"free_bytes"`
	Largest    int64   `json:"largest_free_block_bytes"`
	Expandable bool    `json:"expandable"`
	Others     []Brief `json:"others"` // in the segment, largest first
	Rest       int     `json:"others_left_out"`
}

// Group is some allocations together.
type Group struct {
	Allocations int              `json:"allocations"`
	PeakBlocks  int              `json:"blocks_at_peak"`
	PeakBytes   int64            `json:"bytes_at_peak"`
	EndBlocks   int              `json:"blocks_at_end"`
	EndBytes    int64            `json:"bytes_at_end"`
	Categories  map[string]int64 `json:"categories_at_peak"`
	Rules       []Deciding       `json:"rules"`   // that decided, by bytes at the peak
	Sites       []report.Site    `json:"sites"`   // at the peak, most bytes first
	Largest     []Brief          `json:"largest"` // alive at the peak, else of all
	SitesRest   int              `json:"sites_left_out"`
	LargestRest int              `json:"largest_left_out"`
}

// Deciding is a rule with what it decided of a group.
type Deciding struct {
	Rule        *string `json:"rule"` // nil: none spoke
	Category    string  `json:"category"`
	Allocations int     `json:"allocations"`
	PeakBytes   int64   `json:"bytes_at_peak"`
}

// Event is one entry of a device's trace.
type Event struct {
	Event      int       `json:"event"`
	Action     string    `json:"action"`
	Address    uint64    `json:"address"`
	Bytes      int64     `json:"bytes"`
	Micros     *int64    `json:"time_us"`
	Stream     uint64    `json:"stream"`
	Pool       string    `json:"pool"`
	Phase      *string   `json:"phase"`
	RestsOn    []Resting `json:"phases_rest_on"`
	Step       *int      `json:"step"`
	Allocation *Brief    `json:"allocation"`
	OOM        *int      `json:"oom"` // index into the failed requests
	Allocated  int64     `json:"allocated_bytes"`
	Reserved   int64     `json:"reserved_bytes"`
	Moment
	Around []Entry `json:"around"` // entries before and after it

	UserMetadata     *string `json:"user_metadata"`
	InternalMetadata *string `json:"internal_metadata"`
	CompileContext   *string `json:"compile_context"`
	ForwardStack     []Frame `json:"forward_stack"`
}

// Moment is what is allocated right after an event, and the event's stack.
type Moment struct {
	Categories map[string]int64 `json:"categories"`
	Sites      []report.Site    `json:"sites"`
	SitesRest  int              `json:"sites_left_out"`
	Stack      []Frame          `json:"stack"`
	StackRest  int              `json:"stack_left_out"`
}

// Resting is a signal of phases, and what it told.
type Resting struct {
	Signal *string  `json:"signal"` // nil: rules told
	Phases []string `json:"phases"`
	Reason string   `json:"reason"`
}

// Entry is an entry of the trace in a list.
type Entry struct {
	Event      int    `json:"event"`
	Action     string `json:"action"`
	Bytes      int64  `json:"bytes"`
	Allocation *int   `json:"allocation"`
	At         string `json:"at"`
}

// Address is what lay at an address.
type Address struct {
	Address uint64     `json:"address"`
	Uses    []Brief    `json:"allocations"` // whose block had it, the last first
	Rest    int        `json:"allocations_left_out"`
	Segment *Neighbors `json:"segment"` // at the end, or at the peak where it was given back by then
}

// Site is what was allocated under a line of code.
type Site struct {
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Functions []string `json:"functions"`
	Files     []string `json:"files"`          // that the name fits
	Innermost int      `json:"innermost"`      // allocations whose innermost line of the user's it is
	Through   int      `json:"called_through"` // allocations made by what it called
	near      []int    // lines of the file that are on stacks
	Group
}

// Finding is a finding of the report, and what it looks for.
type Finding struct {
	ID    string           `json:"id"`
	About string           `json:"about"`
	Saves *string          `json:"saving_means"`
	Found []report.Finding `json:"found"`
}

// Leak is a leak of the report, with what it keeps.
type Leak struct {
	Index int `json:"leak"`
	report.Leak
	Kept Group `json:"kept"`
}

// OOM is a failed request of the report, with what there was.
type OOM struct {
	Index int `json:"oom"`
	report.OOM
	Step *int `json:"step"`
	Moment
	Pending  int64    `json:"pending_free_bytes"` // given back, but a stream may still use them
	Findings []string `json:"findings"`
}

// Category is what a category holds.
type Category struct {
	Category string `json:"category"`
	Total    int64  `json:"allocated_at_peak"`
	Group
}

// Rule is a rule of the classification with what it decided.
type Rule struct {
	Rule   string   `json:"rule"`
	About  string   `json:"about"`
	Signal string   `json:"signal"`
	Needs  []string `json:"needs"`
	Group
}

// Step is a step of the report, and what it made.
type Step struct {
	report.Step
	RestsOn    []Resting        `json:"phases_rest_on"`
	PeakEvent  int              `json:"peak_event"`
	Categories map[string]int64 `json:"categories_at_its_peak"`
	Start      int64            `json:"allocated_before_bytes"`
	End        int64            `json:"allocated_after_bytes"`
	Made       Group            `json:"made"`
	Survivors  Group            `json:"survivors"` // made in it, alive when the next one has ended
}
