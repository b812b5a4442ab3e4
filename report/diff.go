package report

import "io"

// DiffSchema names the JSON form of a Diff.
const DiffSchema = "vramscope.diff/1"

// Diff is everything that a comparison of two runs or two ranks says. Sizes are
// bytes, those of categories and sites at each one's allocated peak. Fields are
// always present, as in a Document.
type Diff struct {
	Schema     string              `json:"schema"`
	Title      string              `json:"title"`
	Notes      []Note              `json:"notes"`
	Tool       string              `json:"tool"`
	Before     DiffSide            `json:"before"`
	After      DiffSide            `json:"after"`
	Verdict    Verdict             `json:"verdict"`
	Peaks      map[string]DiffSize `json:"peaks"`      // requested, allocated, active, reserved
	Categories []DiffCategory      `json:"categories"` // in the order of Categories
	Sites      []DiffSite          `json:"sites"`      // largest change first
	Steps      []DiffStep          `json:"steps"`
	Caveats    []string            `json:"caveats"` // what makes the comparison less than sure
}

// DiffSide is one of the two: the input that its device is recorded in, and
// how much can be known of it.
type DiffSide struct {
	Input
	Device    int    `json:"device"`
	History   string `json:"history"`
	Stacks    string `json:"stacks"`
	Moment    string `json:"moment"` // "peak", or "dump" where no history was recorded
	Event     *int   `json:"event"`
	Allocated int64  `json:"allocated_bytes"` // at that moment
	OOMs      int    `json:"ooms"`
	Defects   int    `json:"leaks"` // that are defects
}

// DiffSize is a size before and after.
type DiffSize struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// DiffCategory is what one category held.
type DiffCategory struct {
	Category string `json:"category"`
	DiffSize
}

// DiffSite is a call site that was found in one or both; a line is null where
// it wasn't.
type DiffSite struct {
	Function     string         `json:"function"`
	File         string         `json:"file"` // as the later one names it, if it has it
	BeforeLine   *int           `json:"before_line"`
	AfterLine    *int           `json:"after_line"`
	CalledFrom   *DiffPlace     `json:"called_from"` // the user's line, when Function is a library's
	Op           string         `json:"op"`
	Category     *string        `json:"category"`
	BeforeBytes  int64          `json:"before_bytes"`
	AfterBytes   int64          `json:"after_bytes"`
	BeforeBlocks int            `json:"before_blocks"`
	AfterBlocks  int            `json:"after_blocks"`
	In           DiffOccurrence `json:"in"`
	Known        bool           `json:"has_stack"`
	Older        bool           `json:"before_recording"`
	// OlderIn is the one, InBefore or InAfter, whose recording began after the memory
	// was made, so that only the other shows where; "" for any other site. Sites is how
	// many call sites of that other one the row stands for then; it names the largest.
	OlderIn DiffOccurrence `json:"before_recording_in"`
	Sites   int            `json:"sites"`
}

// DiffPlace is a line that may have moved.
type DiffPlace struct {
	Function   string `json:"function"`
	File       string `json:"file"`
	BeforeLine *int   `json:"before_line"`
	AfterLine  *int   `json:"after_line"`
}

// DiffOccurrence says in which of the two a site is.
type DiffOccurrence string

// The three occurrences.
const (
	InBoth   DiffOccurrence = "both"
	InBefore DiffOccurrence = "before"
	InAfter  DiffOccurrence = "after"
)

// DiffStep is a step's peak of allocated memory, nil where a run has no such step.
// Its numbers differ where one recording began later than the other; Step is the
// number in the one that began with the program.
type DiffStep struct {
	Step       int    `json:"step"`
	BeforeStep *int   `json:"before_step"`
	AfterStep  *int   `json:"after_step"`
	Before     *int64 `json:"before_peak_allocated_bytes"`
	After      *int64 `json:"after_peak_allocated_bytes"`
}

// Change is how much more there is after than before.
func (s DiffSize) Change() int64 { return s.After - s.Before }

// Change is how much more the site holds after than before.
func (s *DiffSite) Change() int64 { return s.AfterBytes - s.BeforeBytes }

// DiffJSON writes a comparison in the form that DiffSchema names.
func DiffJSON(w io.Writer, d *Diff) error { return encode(w, d) }
