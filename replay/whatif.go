package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/timeline"
)

// Schema is the name of the JSON document.
const Schema = "vramscope.whatif/1"

// Document is what a program would have needed under other settings, on other
// devices and with changes.
type Document struct {
	Schema          string    `json:"schema"`
	Device          int       `json:"device"`
	History         string    `json:"history"`
	MatchRate       *float64  `json:"match_rate"` // of addresses under the recorded settings; nil: nothing was replayed
	SegmentCallRate *float64  `json:"segment_call_rate"`
	FirstMismatch   *string   `json:"first_mismatch"`
	Refused         *string   `json:"refused"`
	Notes           []string  `json:"notes"`
	Verdict         string    `json:"verdict"`
	Failures        []Failure `json:"failures"`  // requests that could not be met when recorded
	Scenarios       []Outcome `json:"scenarios"` // the recorded one first, then by what they gain
	Solved          *Solved   `json:"solved"`    // nil: nothing was to be solved, or nothing fits
}

// Outcome is one scenario and what came of it; bytes of memory throughout.
type Outcome struct {
	Name               string   `json:"name"`
	Settings           string   `json:"settings"`       // PYTORCH_CUDA_ALLOC_CONF
	CapacityBytes      *int64   `json:"capacity_bytes"` // of the GPU as given, else what PyTorch could have as recorded
	UsableBytes        *int64   `json:"usable_bytes"`   // of it by PyTorch
	AllowedBytes       *int64   `json:"allowed_bytes"`  // by a memory fraction
	Changes            []string `json:"changes"`
	Assumptions        []string `json:"assumptions"`
	PeakAllocatedBytes int64    `json:"peak_allocated_bytes"`
	PeakReservedBytes  int64    `json:"peak_reserved_bytes"`
	FinalReservedBytes int64    `json:"final_reserved_bytes"`
	SavesBytes         int64    `json:"saves_bytes"` // of peak reserved memory, against the recorded scenario
	// at the end; of expandable ones each stretch of memory, as a snapshot lists them
	Segments    int    `json:"segments"`
	OOM         bool   `json:"oom"`
	OOMEvent    *int   `json:"oom_event"`
	Allocations int    `json:"allocations"` // requests met
	ShortBytes  int64  `json:"short_bytes"` // what the failed request lacked
	LeftBytes   *int64 `json:"left_bytes"`  // of what PyTorch could have, beyond peak allocated; nil: not known
	Retries     int    `json:"retries"`
	DeviceCalls int    `json:"device_calls"`
	// NeedsBytes is what the run allocates at its peak without a limit, as far as that is known; nil where no size was given.
	NeedsBytes *int64 `json:"needs_bytes"`
	// Complete is false when the program went another way than it was
	// recorded: the peaks are those up to LastEvent.
	Complete  bool `json:"complete"`
	Survived  bool `json:"survived"` // a request that failed when recorded was met
	LastEvent int  `json:"last_event"`
	// Fits says whether the run goes through; nil where that isn't known. If it doesn't, it
	// fails in this step and phase, at this line.
	Fits        *bool        `json:"fits"`
	Answer      words.Answer `json:"answer"` // the same, told apart
	FailedStep  *int         `json:"failed_step"`
	FailedPhase *string      `json:"failed_phase"`
	FailedAt    *Place       `json:"failed_at"`

	needsReserved int64  // the same of what it reserves
	given         int64  // bytes of the GPU that was asked for; 0: the recorded one
	most          int64  // that PyTorch could have; 0: not known
	leftThen      *int64 // of it, right after the last event, which the peak may have come before
	rest          int64  // what the step has yet to allocate after that
	restAll       bool   // and nothing else comes
}

// Spare is what the scenario leaves, in bytes, at its fullest so far and, where rest
// says that it is known, in what its step has yet to do; not known without a size
// of the GPU, and of a scenario that fails.
func (o *Outcome) Spare() (bytes int64, rest, known bool) {
	if o.LeftBytes == nil {
		return 0, false, false
	}
	if !o.restAll {
		return min(*o.LeftBytes, *o.leftThen), false, true
	}
	return min(*o.LeftBytes, *o.leftThen-o.rest), o.rest > 0, true
}

// Options say what to try.
type Options struct {
	Confs      []string // PYTORCH_CUDA_ALLOC_CONF
	Capacities []int64  // bytes of GPUs
	Changes    []string
	GPU        int64 // bytes of the recorded GPU; 0: not known
	Outside    int64 // bytes of a GPU that PyTorch can't have; 0: found out, or Outside
	// MaxEvents bounds the work by the events replayed in all: scenarios that
	// would go beyond are left out, the last ones first, and a note says so. A
	// million take about half a second. 0: no bound.
	MaxEvents int
	// Solve is batch or seq: the largest that fits is looked for. SolveFrom is the recorded
	// one, 0 where it isn't known.
	Solve     string
	SolveFrom int64
}

// maxScenarios bounds what one run tries.
const maxScenarios = 1000

// WhatIf tries scenarios on a recording. Without any in the options it tries
// those settings and changes that usually matter. The classification may be
// nil where no changes are wanted.
func WhatIf(t *timeline.Timeline, classes *classify.Classification, o Options) (*Document, error) {
	if t.Device.Events.Len() == 0 && len(t.Device.Segments) == 0 {
		return refuse(newDocument(t), "the recording is empty"), nil
	}
	p, err := NewProgram(t)
	if err != nil {
		return refuse(newDocument(t), err.Error()), nil
	}
	return p.WhatIf(classes, o)
}

func newDocument(t *timeline.Timeline) *Document {
	return &Document{Schema: Schema, Device: t.Device.Ordinal, History: t.History.String(), Notes: []string{},
		Failures: []Failure{}, Scenarios: []Outcome{}}
}

// WhatIf tries scenarios on a program that is there already.
func (p *Program) WhatIf(classes *classify.Classification, o Options) (*Document, error) {
	t := p.Timeline
	doc := newDocument(t)
	w := whatIf{Document: doc, o: o, p: p, classes: classes, view: frames.New(t.Snapshot)}
	settings, changes, err := w.parse()
	if err != nil {
		return nil, err
	}
	if classes == nil && len(changes) > 0 {
		return nil, fmt.Errorf("changes to the program need its categories")
	}
	if n := t.Device.Events.Len(); o.MaxEvents > 0 && n > o.MaxEvents {
		return refuse(doc, fmt.Sprintf("it has %s events, more than the %s that may be replayed here", units.Count(n),
			units.Count(o.MaxEvents))), nil
	}
	check := p.Verify()
	doc.MatchRate, doc.SegmentCallRate = new(check.Rate()), new(check.CallRate())
	if check.First != "" {
		doc.FirstMismatch = new(check.First)
	}
	doc.Notes = append(doc.Notes, p.Notes...)
	w.notes(t)
	w.limits = p.Limits()
	if w.limits.Note != "" {
		doc.Notes = append(doc.Notes, w.limits.Note)
	}
	w.disproved()
	w.outside()
	w.failures()
	reason := check.Refusal()
	recorded := w.recorded()
	var others []piece
	if reason == "" {
		others = w.others(settings, changes, len(recorded.trials))
	}
	w.run(append([]piece{recorded}, others...))
	if reason != "" {
		doc.Refused = &reason
		doc.Verdict = "Other settings are not tried: " + reason + "."
		return doc, nil
	}
	if err := w.solve(); err != nil {
		return nil, err
	}
	w.sort()
	w.unsureNote()
	w.judge()
	return doc, nil
}

func refuse(doc *Document, reason string) *Document {
	doc.Refused = &reason
	doc.Verdict = "Nothing can be replayed: " + reason + "."
	return doc
}

// whatIf is the work on one document.
type whatIf struct {
	*Document
	o        Options
	p        *Program
	classes  *classify.Classification
	limits   Limits
	taken    int64    // bytes of a GPU that PyTorch can't have
	unsure   []string // scenarios whose outcome depends on a limit that isn't known exactly
	leftOut  string   // how many scenarios there are no replays of, in words
	refused  []string // why changes could not be made
	unsolved string   // why nothing was solved, in words
	view     *frames.View
	// peak reserved of the recorded settings with the first blocks packed; 0: there are none
	repackedPeak int64
}

func (w *whatIf) parse() ([]allocator.Settings, []change.Change, error) {
	var settings []allocator.Settings
	for _, text := range w.o.Confs {
		s, notes, err := allocator.ParseConf(text)
		if err != nil {
			return nil, nil, err
		}
		w.Notes = append(w.Notes, notes...)
		if s.Fraction > 0 && w.o.GPU == 0 && w.p.Recorded().GPU == 0 && len(w.o.Capacities) == 0 {
			w.Notes = append(w.Notes, "per_process_memory_fraction is a part of the GPU, whose size isn't known: it changes "+
				"nothing here until the size is given")
		}
		settings = append(settings, s)
	}
	var changes []change.Change
	for _, text := range w.o.Changes {
		c, err := change.Parse(text)
		if err != nil {
			return nil, nil, err
		}
		changes = append(changes, c)
	}
	n := (len(settings) + 1) * (len(w.o.Capacities) + 1) * (len(changes) + 2)
	if n > maxScenarios {
		return nil, nil, fmt.Errorf("%d scenarios: more than %d", n, maxScenarios)
	}
	return settings, changes, nil
}

func (w *whatIf) notes(t *timeline.Timeline) {
	if len(t.OOMs) > 0 {
		w.Notes = append(w.Notes, "the recorded program ran out of memory: where another scenario meets that request, what "+
			"the program would have needed later isn't recorded, and its peaks are those up to there")
	}
}

// disproved drops the size that was given for the GPU where the recording shows
// more: with it the recorded program could not have come as far as it did.
func (w *whatIf) disproved() {
	t := w.p.Timeline
	if least := max(t.Capacity(), t.Peaks.Reserved.Bytes); w.o.GPU > 0 && w.o.GPU < least {
		w.Notes = append(w.Notes, fmt.Sprintf("the recorded GPU isn't of %s as given: PyTorch could have at least %s of it",
			units.Bytes(w.o.GPU), units.Bytes(least)))
		w.o.GPU = 0
	}
}

// outside finds what of the GPU PyTorch can't have: the context, other
// processes.
func (w *whatIf) outside() {
	switch {
	case w.o.Outside > 0:
		w.taken = w.o.Outside
	case w.o.GPU > 0 && w.limits.Usable > 0 && w.limits.Usable < w.o.GPU:
		w.taken = w.o.GPU - w.limits.Usable
	default:
		w.taken = Outside
	}
	if len(w.o.Capacities) > 0 {
		w.Notes = append(w.Notes, fmt.Sprintf("of a GPU's capacity PyTorch can have all but %s, for the CUDA context and "+
			"other processes", units.Bytes(w.taken)))
	}
}

// unsureNote names the scenarios whose outcome a limit decides that isn't
// known exactly.
func (w *whatIf) unsureNote() {
	if len(w.unsure) == 0 {
		return
	}
	slices.Sort(w.unsure)
	w.Notes = append(w.Notes, fmt.Sprintf("the limit lies between %s and %s; which of these run out of memory depends on it: %s",
		units.Bytes(w.limits.From), units.Bytes(w.limits.To), strings.Join(w.unsure, "; ")))
}

// keepRecorded takes over the outcomes of those.
func (w *whatIf) keepRecorded(list []trial) {
	w.keep(&list[0])
	first := &w.Scenarios[0]
	if peaks := &w.p.Timeline.Peaks; first.PeakReservedBytes != peaks.Reserved.Bytes ||
		first.PeakAllocatedBytes != peaks.Allocated.Bytes {
		w.Notes = append(w.Notes, fmt.Sprintf("left to itself, the replay of the recorded settings peaks at %s allocated and "+
			"%s reserved, recorded were %s and %s",
			units.Bytes(first.PeakAllocatedBytes), units.Bytes(first.PeakReservedBytes), units.Bytes(peaks.Allocated.Bytes),
			units.Bytes(peaks.Reserved.Bytes)))
	}
	if len(list) > 1 {
		w.keep(&list[1])
		w.repackedPeak = w.Scenarios[1].PeakReservedBytes
		w.Scenarios[1].SavesBytes = 0
		w.Notes = append(w.Notes, "the recording begins with memory in use or cached: settings that cut blocks otherwise, and "+
			"changes to the program, begin with those blocks laid out one after the other and nothing cached, and their gain "+
			"is against the recorded settings begun in the same way; what the program needed before the recording is not in it")
	}
}

// sort puts the scenarios that gain most first: those that meet a request
// which fails otherwise, then those whose
// peak is the most below the recorded one. Of those that meet
// it, what is allocated tells how much room is left for what comes next:
// reserved memory that is free can be used again.
func (w *whatIf) sort() {
	slices.SortStableFunc(w.Scenarios[1:], func(a, b Outcome) int {
		if a.Survived && b.Survived {
			return cmp.Or(cmp.Compare(a.PeakAllocatedBytes, b.PeakAllocatedBytes), cmp.Compare(a.PeakReservedBytes,
				b.PeakReservedBytes))
		}
		return cmp.Or(fails(a)-fails(b), cmp.Compare(b.SavesBytes, a.SavesBytes))
	})
}

func fails(o Outcome) int {
	if o.OOM {
		return 1
	}
	return 0
}
