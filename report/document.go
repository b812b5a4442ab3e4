// Package report is what vramscope says, as plain types with their names in JSON: a
// Document of one run, a Diff of two and an Index of many. Package view puts it into
// words, packages text, markdown and html write those.
//
//	doc, err := diagnose.Run(sources, evidence.New(), diagnose.Options{})
//	err = report.JSON(os.Stdout, doc)
package report

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
)

// Schema names the JSON form of a Document. Names keep their meaning within a
// number; new ones may be added.
const Schema = "vramscope.report/1"

// Document is everything that a report says about one run. Sizes are bytes.
// Fields are always present: a nil pointer is an unknown number, never 0, and
// lists are never nil.
type Document struct {
	Schema   string             `json:"schema"`
	Title    string             `json:"title"`
	Notes    []Note             `json:"notes"`
	Tool     string             `json:"tool"`    // name and version of the program
	Command  []string           `json:"command"` // that makes the report again, less what only says where it goes
	Inputs   []Input            `json:"inputs"`
	Verdict  Verdict            `json:"verdict"`
	Devices  []Device           `json:"devices"`
	Ranks    *Ranks             `json:"ranks"`    // nil for one process
	Trend    []Trend            `json:"trend"`    // of processes with several dumps
	Findings []Finding          `json:"findings"` // about the run, told by what is no recording: logs, nvidia-smi, traces
	Clocks   []Clock            `json:"clocks"`   // how other evidence lies in time against the recording
	Host     *HostMemory        `json:"host"`     // pinned host memory, when recorded
	Evidence *evidence.Evidence `json:"evidence"`
	Ended    *Ended             `json:"ended"` // nil: no evidence could tell
	// Environment is where the run ran, as far as any evidence tells.
	Environment Environment `json:"environment"`
	Budget      any         `json:"budget"`
	WhatIf      any         `json:"whatif"`
	Omitted     []Omitted   `json:"omitted"` // what lists lack that were too long

	Comparison *Comparison `json:"-"` // Budget, for people
	Trials     *Trials     `json:"-"` // WhatIf, for people

	// Source gives the lines of code around a place, the place's own first; nil: there is
	// no source at hand.
	Source func(p *Place, around int) []SourceLine `json:"-"`
	Top    int                                     `json:"-"` // call sites to show; 0: as many as usual
}

// Ended is how the process ended.
type Ended struct {
	How    string `json:"how"`    // well, gpu_memory, host_memory, killed, failed, stopped or unknown
	Text   string `json:"text"`   // what was said of it, "" where it isn't known
	Source *int   `json:"source"` // index into Inputs
	Line   *int   `json:"line"`
}

// SourceLine is a line of a program.
type SourceLine struct {
	Number int
	Text   string
}

// Fullest is the device with the largest allocated peak, the first of equals,
// nil without devices.
func (d *Document) Fullest() *Device {
	var fullest *Device
	for i := range d.Devices {
		if x := &d.Devices[i]; fullest == nil || x.Peaks.Allocated.Bytes > fullest.Peaks.Allocated.Bytes {
			fullest = x
		}
	}
	return fullest
}

// Clock says how one input's times lie against a reference: the recording's
// clock, or that of the input with most of them where there is no recording.
type Clock struct {
	Source int    `json:"source"` // index into Inputs
	What   string `json:"what"`   // nvidia_smi, log or trace
	GPU    *int   `json:"gpu"`
	Device *int   `json:"device"` // nil: no recording
	// Method is timestamps, curves, levels or steps; nil when it can't be said.
	Method        *string  `json:"method"`
	OffsetSeconds *float64 `json:"offset_seconds"` // to add to the input's times
	Confidence    *float64 `json:"confidence"`     // 0 to 1
	OutsideBytes  *int64   `json:"outside_bytes"`  // by which nvidia-smi's readings lie above what was reserved
	Reason        string   `json:"reason"`

	// Track is the input's curve on the recording's clock, for the pictures.
	Track []Instant `json:"-"`
}

// Instant is a level at a time, microseconds since the Unix epoch.
type Instant struct {
	MicrosUTC int64
	Bytes     int64
}

// Trials are what the same requests would have done under other settings.
type Trials struct {
	Index   int // into Devices
	Device  int
	Verdict string
	Rows    []Trial // the recorded settings first, then what gains most
}

// Trial is one of them; AtLeast marks peaks of a program that would have gone on.
type Trial struct {
	Name                        string
	PeakReserved, PeakAllocated int64
	AtLeast                     bool
	Retries, Segments           int
	Outcome                     string
	Settings                    string // of the allocator, where nothing else is changed; "": those recorded
	Answer                      words.Answer
}

// Comparison is what was measured beside what should have been.
type Comparison struct {
	Index      int // into Devices
	Device     int
	Model      string
	Inferred   []string // what of the setting was read from the recording
	Peak       Compared
	Phases     []Compared
	Categories []Compared // largest difference first
}

// Compared is one line of a comparison, in bytes; Measured is nil where the
// recording has none such.
type Compared struct {
	Name     string
	Budget   int64
	Measured *int64
	Reason   *string
}

// Note is a fact that the user adds with --note.
type Note struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Input is one file or stream, as given.
type Input struct {
	Path     string     `json:"path"`
	Kind     string     `json:"kind"`
	Contains []string   `json:"contains"`
	Bytes    int64      `json:"bytes"`
	SHA256   string     `json:"sha256"`
	Era      *string    `json:"era"` // which PyTorch wrote it, as far as the fields tell
	Damage   []string   `json:"damage"`
	Partial  bool       `json:"partial"`
	Settings []KeyValue `json:"allocator_settings"`
	Unknown  []Unknown  `json:"unknown_keys"`
	Notes    []string   `json:"notes"` // how the input is used
}

// About is the input that a report is of: the first recording, else the first input; nil
// without any. A model's or a framework's settings are there beside it.
func (d *Document) About() *Input {
	for i := range d.Inputs {
		if d.Inputs[i].Kind == "snapshot" {
			return &d.Inputs[i]
		}
	}
	if len(d.Inputs) == 0 {
		return nil
	}
	return &d.Inputs[0]
}

// KeyValue is one setting.
type KeyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Unknown is a key that this version doesn't know.
type Unknown struct {
	Where   string `json:"where"`
	Key     string `json:"key"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// Severity ranks a verdict or finding.
type Severity string

// The three severities.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Words are a severity in a sentence.
func (s Severity) Words() string {
	if s == Critical || s == Warning {
		return string(s)
	}
	return "for information"
}

// Place is where a severity stands in a report, the worst first.
func (s Severity) Place() int { return slices.Index([]Severity{Critical, Warning, Info}, s) }

// Verdict is the report in one sentence.
type Verdict struct {
	Severity   Severity `json:"severity"`
	Text       string   `json:"text"`
	Fix        *string  `json:"fix"`
	SavesBytes *int64   `json:"saves_bytes"`
	// About is the device and the finding that the text is about, nil where it's
	// about none.
	About *About `json:"-"`
	// The same for other programs: indexes, null for none.
	Device  *int `json:"device"`
	Finding *int `json:"finding"`
	// Causes are what filled the GPU, what grows, or what a run that fits needs most; the first one is what Text tells.
	Causes []Cause `json:"causes"`
	// Best is the change that Fix tells of, nil where nothing is known of what comes of it.
	Best *Change `json:"-"`
}

// About names a finding by its place in the document.
type About struct {
	Device  int // index into Devices, -1: the finding is one of the document's own
	Finding int // index into the device's or the document's findings, -1: none in particular
}

// Device is one GPU of the recording.
type Device struct {
	Device         int     `json:"device"`
	Input          int     `json:"input"` // index into Inputs
	Rank           *int    `json:"rank"`
	Alike          *int    `json:"alike"`   // index of the device that is shown in its place
	Summary        bool    `json:"summary"` // of many: only the largest sites are listed, and no steps
	CapacityBytes  *int64  `json:"capacity_bytes"`
	CapacitySource *string `json:"capacity_source"`
	// CapacityDisproved was given as the GPU's size, but the recording shows more.
	CapacityDisproved *int64 `json:"capacity_disproved_bytes"`

	Events        int        `json:"events"`
	Allocations   int        `json:"allocations"`
	Older         int        `json:"allocations_before_recording"`
	History       string     `json:"history"`
	HistoryReason string     `json:"history_reason"`
	Stacks        string     `json:"stacks"`
	Actions       []KeyCount `json:"actions"`
	FirstTime     *int64     `json:"first_time_us"` // microseconds since the Unix epoch
	LastTime      *int64     `json:"last_time_us"`

	Peaks      Peaks  `json:"peaks"`
	AtPeak     Moment `json:"at_peak"`
	AtEnd      Moment `json:"at_end"`
	Sites      []Site `json:"sites"` // alive at the allocated peak, most bytes first
	SitesAtEnd []Site `json:"sites_at_end"`
	// AtFailure is the moment of the last request that failed, nil where none did.
	AtFailure      *Moment `json:"at_failure"`
	SitesAtFailure []Site  `json:"sites_at_failure"` // none where Sites are the same
	// AtEvent is the moment that was asked for, nil where none was.
	AtEvent      *Moment `json:"at_event"`
	SitesAtEvent []Site  `json:"sites_at_event"`
	// UserMetadata is what the program said of what is allocated at the peak, most
	// bytes first; none where nobody said anything.
	UserMetadata []UserMetadata  `json:"user_metadata"`
	Segments     SegmentsSummary `json:"segments"`
	Pools        []PoolSummary   `json:"pools"`

	Steps        []Step `json:"steps"`
	StepsLeftOut int    `json:"steps_left_out"` // of a summary
	OOMs         []OOM  `json:"ooms"`
	// OOMsUntold are failures with fingerprints that none of those listed has.
	OOMsUntold int       `json:"ooms_untold"`
	Leaks      []Leak    `json:"leaks"`
	Findings   []Finding `json:"findings"`
	Causes     []Cause   `json:"-"` // what filled it when the last request failed, or at the peak
	// Changes are what is worth changing, what makes the run go through first.
	Changes    []Change    `json:"changes"`
	Holders    []Holder    `json:"holders"`    // at the dump, most bytes first; none where nobody recorded them
	Projection *Projection `json:"projection"` // nil where nothing was still to come, or nobody can tell
	Damage     []string    `json:"damage"`

	Curve      Curve     `json:"-"` // for the pictures
	StepEndsUS []int64   `json:"-"` // when each step ended, since the Unix epoch
	Clocks     []Clock   `json:"-"` // the document's, those against this device
	Pictures   *Pictures `json:"-"` // nil unless asked for
}

// KeyCount counts something by name.
type KeyCount struct {
	Key   string `json:"key"`
	Count int    `json:"count"`
}

// Peaks are the four quantities that circulate as "peak".
type Peaks struct {
	Requested Peak `json:"requested"`
	Allocated Peak `json:"allocated"`
	Active    Peak `json:"active"`
	Reserved  Peak `json:"reserved"`
}

// Peak is a largest value and its first event; nil: before the first event.
type Peak struct {
	Bytes int64 `json:"bytes"`
	Event *int  `json:"event"`
}

// Before reports whether more may have been allocated before the recording than
// within it: as much was reserved before its first event as ever after.
func (d *Device) Before() bool {
	return d.History != "complete" && d.Events > 0 && d.Peaks.Reserved.Event == nil &&
		d.Peaks.Reserved.Bytes > d.Peaks.Allocated.Bytes
}

// Moment is the state at one instant.
type Moment struct {
	Event          *int  `json:"event"`
	AllocatedBytes int64 `json:"allocated_bytes"`
	ReservedBytes  int64 `json:"reserved_bytes"`
	// reserved - allocated, blocks pending free included; negative where a file contradicts itself
	CacheBytes int64 `json:"cache_bytes"`
	// What the GPU holds besides, in bytes; nil where no evidence tells.
	CUDAContext    *int64           `json:"cuda_context"` // with NCCL and other libraries of this process
	OtherProcesses *int64           `json:"other_processes"`
	Unaccounted    *int64           `json:"unaccounted"`
	Blocks         int              `json:"blocks"`
	Categories     map[string]int64 `json:"categories"` // nil when not classified
	// most of what is called weights may be anything that setup or the first pass made
	GuessedWeights bool `json:"-"`
}

// Site is a line of code with what it holds.
type Site struct {
	Function   string  `json:"function"`
	File       string  `json:"file"`
	Line       *int    `json:"line"`
	CalledFrom *Place  `json:"called_from"` // the user's line, when Function is a library's
	Op         string  `json:"op"`          // autograd node or operator that allocated, or torch.compile
	Category   *string `json:"category"`
	Bytes      int64   `json:"bytes"`
	Blocks     int     `json:"blocks"`
	Largest    int64   `json:"largest_bytes"`
	Leaked     int64   `json:"leaked_bytes"` // that defects keep from step to step
	Held       int64   `json:"held_bytes"`   // that variables hold besides, where recorded
	Known      bool    `json:"has_stack"`
	Older      bool    `json:"before_recording"`
	Rule       *string `json:"rule"` // that says what its largest block is for; null: none spoke, or it isn't known
}

var temporary = words.Temporary.String()

// Categories in words of people alone: memory that defects keep, and temporary memory that variables hold.
const (
	Leaked = "leaked"
	Held   = "held"
)

// CategoryWord is what a call site's memory is: "leaked" where defects keep most of it, "held" where variables hold
// most of temporary memory; "" for what isn't known.
func (s *Site) CategoryWord() string {
	switch {
	case s.Category == nil:
		return ""
	case 2*s.Leaked > s.Bytes:
		return Leaked
	case s.nameless() && 2*(s.Leaked+s.Held) > s.Bytes:
		return Held
	}
	return *s.Category
}

// nameless reports whether the category says no more than that the memory is there.
func (s *Site) nameless() bool {
	return s.Category != nil && (*s.Category == temporary || *s.Category == words.Unknown.String())
}

// Split is the moment of some call sites with what is leaked or held as categories of their own.
func (m *Moment) Split(sites []Site) *Moment {
	out, all := *m, int64(0)
	out.Categories = maps.Clone(m.Categories)
	move := func(to, from string, bytes int64) {
		if bytes > 0 && out.Categories[from] >= bytes {
			out.Categories[to] += bytes
			out.Categories[from] -= bytes
		}
	}
	for i := range sites {
		x := &sites[i]
		if all += x.Bytes; x.Category == nil {
			continue
		}
		if move(Leaked, *x.Category, x.Leaked); x.nameless() {
			move(Held, *x.Category, x.Held)
		}
	}
	if all != m.AllocatedBytes { // not all call sites are listed
		return m
	}
	return &out
}

// Shown is the moment that a report is about, with its call sites: that of the last failure, the peak, or without a
// history the dump.
func (d *Device) Shown() (*Moment, []Site) {
	switch {
	case d.AtFailure != nil && len(d.SitesAtFailure) == 0:
		return d.AtFailure, d.Sites
	case d.AtFailure != nil:
		return d.AtFailure, d.SitesAtFailure
	case d.History == "none":
		return &d.AtEnd, d.SitesAtEnd
	}
	return &d.AtPeak, d.Sites
}

// Place is a line of code.
type Place struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     *int   `json:"line"`
}

// SegmentsSummary is how the memory lies at the end of the recording.
type SegmentsSummary struct {
	Count           int   `json:"count"`
	Bytes           int64 `json:"bytes"`
	FreeBytes       int64 `json:"free_bytes"`
	LargestFree     int64 `json:"largest_free_block_bytes"`
	Empty           int   `json:"empty_segments"`
	EmptyBytes      int64 `json:"empty_segment_bytes"` // what empty_cache() would return
	Small           int   `json:"small_segments"`
	Expandable      int   `json:"expandable_segments"`
	PinnedSegments  int   `json:"pinned_segments"` // more free than in use, kept by a live block
	PinnedFreeBytes int64 `json:"pinned_free_bytes"`
}

// PoolSummary is one private pool at the end of the recording.
type PoolSummary struct {
	Pool string `json:"pool"`
	// cuda_graph: one capture's own; mem_pool: made by the program, a MemPool or a pool that graphs share
	Kind     string `json:"kind"`
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
	Used     int64  `json:"used_bytes"`
}

// HostMemory is the pinned host memory of the recording.
type HostMemory struct {
	Segments  int   `json:"segments"`
	Bytes     int64 `json:"bytes"`
	Used      int64 `json:"used_bytes"`
	Events    int   `json:"events"`
	PeakBytes int64 `json:"peak_allocated_bytes"`

	PeakEvent   *int   `json:"peak_event"` // of its own trace; nil: before its first event
	Allocations int    `json:"allocations"`
	Sites       []Site `json:"sites"` // in use at the peak, most bytes first

	Curve Curve `json:"-"` // for the page
}

// UserMetadata is what a program said of some of its allocations, by
// torch.cuda.memory._set_memory_metadata.
type UserMetadata struct {
	Text   string `json:"user_metadata"`
	Bytes  int64  `json:"bytes"`
	Blocks int    `json:"blocks"`
}

// Step is one training step, or one call of an inference loop.
type Step struct {
	Step               int     `json:"step"`
	FirstEvent         int     `json:"first_event"`
	LastEvent          int     `json:"last_event"`
	PeakAllocatedBytes int64   `json:"peak_allocated_bytes"`
	Phases             []Phase `json:"phases"`
}

// Phase is a part of a step.
type Phase struct {
	Phase      string `json:"phase"`
	FirstEvent int    `json:"first_event"`
	LastEvent  int    `json:"last_event"`
}

// OOM is a request that failed.
type OOM struct {
	Event            int     `json:"event"`
	RequestedBytes   int64   `json:"requested_bytes"`
	Verdict          string  `json:"verdict"`
	Phase            *string `json:"phase"`
	Fingerprint      *string `json:"fingerprint"`
	AllocatedBytes   int64   `json:"allocated_bytes"`
	ReservedBytes    int64   `json:"reserved_bytes"`
	DeviceFreeBytes  *int64  `json:"device_free_bytes"`
	LargestFreeBlock *int64  `json:"largest_free_block_bytes"`
	// MissingBytes is by how much what was in use and still needed exceeds what
	// PyTorch could have; nil: not known, 0: memory was there, in pieces or refused.
	MissingBytes *int64 `json:"missing_bytes"`
	// LargerTimes is how many times as large the batch is on which it failed as in all steps before, by its inputs, or
	// where those don't tell, as in the last one, by what its pass makes (LargerPass), or as in all, by what the step holds
	// beyond what was there when it began (LargerStep); nil: it isn't, or no steps tell.
	LargerTimes *float64 `json:"larger_times"`
	// CacheGrows is how many bytes of keys and values came with each of the steps before it; nil: none did.
	CacheGrows *int64 `json:"cache_grows_bytes"`
	LargerPass bool   `json:"-"`
	LargerStep bool   `json:"-"`
	PinnedBy   []Pin  `json:"pinned_by"`
	Site       *Site  `json:"site"` // who asked
	// LeakedBytes is what of the temporary memory defects kept then.
	LeakedBytes int64            `json:"leaked_bytes"`
	InUse       map[string]int64 `json:"in_use"`      // by category then; of the last one of a device
	FreePieces  *FreePieces      `json:"free_pieces"` // what was free then
	Causes      []Cause          `json:"causes"`      // what filled the GPU, what explains the failure first
	// Repeats are further failures with the same fingerprint, which aren't listed.
	Repeats int `json:"repeats"`
	// Index is which of the recording's failures it is, from 0.
	Index int `json:"-"`
	// StepsAfter are the steps that the program made afterwards, without another failure.
	StepsAfter int `json:"-"`
}

// Failed is how many requests failed, those that aren't listed included.
func (d *Device) Failed() int {
	n := len(d.OOMs) + d.OOMsUntold
	for i := range d.OOMs {
		n += d.OOMs[i].Repeats
	}
	return n
}

// Pin is a live block that keeps free memory from being given back.
type Pin struct {
	Address  uint64  `json:"address"`
	Bytes    int64   `json:"bytes"`
	Category *string `json:"category"`
	Function *string `json:"function"`
	File     *string `json:"file"`
	Line     *int    `json:"line"`
}

// Leak is memory that grows from step to step, or looks as if it did.
type Leak struct {
	Kind         string     `json:"kind"`
	Defect       bool       `json:"defect"`
	Suspected    bool       `json:"suspected"`
	File         *string    `json:"file"`
	Line         *int       `json:"line"`
	Function     *string    `json:"function"`
	MadeIn       *Place     `json:"made_in"`     // the line that made most of it, when that is another one
	CalledFrom   *Place     `json:"called_from"` // the user's line of the loop that called Function
	Sites        []LeakSite `json:"sites"`
	Category     *string    `json:"category"`
	BytesPerStep *int64     `json:"bytes_per_step"`
	Steps        int        `json:"steps"`
	TotalBytes   int64      `json:"total_bytes"`
	Confidence   float64    `json:"confidence"`
	Fix          string     `json:"fix"`
	FixCode      string     `json:"fix_code"`
	FullAtStep   *int       `json:"full_at_step"` // the step at which it will hit the capacity
	Holders      []Holder   `json:"holders"`      // the variables that hold what is kept, where recorded; bytes are of the leak
	// The statement that keeps it, where the program's text is at hand and it is sure.
	StoredFile *string `json:"stored_file"`
	StoredLine *int    `json:"stored_line"`
	StoredCode *string `json:"stored_code"`
	Older      int64   `json:"-"` // of TotalBytes, made by steps before the recording
	// Part tells that what is stored is a part of a tensor, whose memory is kept whole.
	Part bool `json:"-"`
	// Awaited tells that the program runs one backward pass of all that is kept.
	Awaited bool `json:"-"`
	// Gathered tells that the pass is of something made of all that is kept, and not of its sum.
	Gathered bool `json:"-"`
}

// Uneven reports whether steps differ in what they leave: what the recorded ones left isn't that many times what they usually do.
func (l *Leak) Uneven() bool {
	off := l.TotalBytes - l.Older - int64(l.Steps)**l.BytesPerStep
	return max(off, -off)*20 > l.TotalBytes
}

// Each says what a step leaves behind, "" where no step does so. Of uneven steps it is the mean of the recorded ones.
func (l *Leak) Each() string {
	switch {
	case l.BytesPerStep == nil || *l.BytesPerStep <= 0:
		return ""
	case l.Uneven():
		return "about " + units.Size((l.TotalBytes-l.Older)/int64(max(1, l.Steps)))
	}
	return units.Size(*l.BytesPerStep)
}

// Made is the line that makes what leaks, nil where no stack shows one.
func (l *Leak) Made() *Place {
	if l.File == nil {
		return nil
	}
	return &Place{Function: *l.Function, File: *l.File, Line: l.Line}
}

// Stored is the statement that keeps what leaks, nil where it isn't known.
func (l *Leak) Stored() *Place {
	if l.StoredFile == nil {
		return nil
	}
	return &Place{File: *l.StoredFile, Line: l.StoredLine}
}

// Holder is a variable of the program, and what it keeps alive.
type Holder struct {
	Path       string `json:"path"`
	Tensors    int    `json:"tensors"`
	Bytes      int64  `json:"bytes"`       // of the tensors
	Cycle      bool   `json:"cycle"`       // no variable: objects that only each other refers to, by class and attribute
	GraphBytes int64  `json:"graph_bytes"` // that only the autograd graphs behind them hold
	Bound      *int64 `json:"bound"`       // elements that its container may hold at most; null without a bound
	Elements   *int64 `json:"elements"`    // that it holds, where it has one
	// ShownBytes are those of Bytes that the tensors show: the rest is of what they are parts of. It is null where that's all.
	ShownBytes *int64 `json:"shown_bytes"`
}

// IsPart reports whether less than half of what the tensors hold is what they show, as of a slice.
func (h *Holder) IsPart() bool { return h.ShownBytes != nil && *h.ShownBytes*2 < h.Bytes }

// LeakSite is a user's line on the stacks of what survives.
type LeakSite struct {
	File     string `json:"file"`
	Line     *int   `json:"line"`
	Function string `json:"function"`
	Bytes    int64  `json:"bytes"`
}

// Finding is one thing worth knowing, with what to do about it.
type Finding struct {
	ID         string   `json:"id"`
	Severity   Severity `json:"severity"`
	Title      string   `json:"title"`
	Evidence   []string `json:"evidence"`
	Fix        *string  `json:"fix"`
	SavesBytes *int64   `json:"saves_bytes"`
	Confidence float64  `json:"confidence"`
	Outcome             // of the fix
	// Code is what to paste, "" when the fix needs none.
	Code string `json:"code"`
	At   *Place `json:"at"` // the line of code that it names first, nil: none
	// What judgements read of a finding instead of its words:
	Kind   FindingKind `json:"-"`
	Did    string      `json:"-"` // what the program does there: "called in", "made at"
	Leak   *Leak       `json:"-"` // the leak that it tells of
	Others []Change    `json:"-"` // further changes, where a request failed
	Causes []Cause     `json:"-"` // of a failure that a log tells of
}

// Verdicts on a failed request.
const (
	TrueShortage   = "true_shortage"
	Fragmentation  = "fragmentation"
	MemoryFraction = "memory_fraction"
	OtherProcess   = "other_process"
	PendingFree    = "pending_free"   // what was freed waits for another stream
	DriverRefused  = "driver_refused" // there was room; the driver or a limit refused
	UnclearVerdict = "unclear"        // a failure that isn't understood
	WorkspaceFull  = "workspace_full" // a library's workspace, not the GPU
	UnknownVerdict = "unknown"
)

// FindingKind tells apart findings that share an ID.
type FindingKind uint8

const (
	PlainKind FindingKind = iota
	MadeAgain             // a model, an optimizer or a copy was made while the earlier ones were there
)

// Curve is the four quantities over the events, thinned out so that every
// peak survives.
type Curve struct {
	Events    []int
	Requested []int64
	Allocated []int64
	Active    []int64
	Reserved  []int64
	TimeUS    []int64 // since the Unix epoch; nil when the recording has no clock
}
