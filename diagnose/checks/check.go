// Package checks finds what is worth knowing about a recording. Each check is a
// value with its id, what it says to users, what it needs to know and what it
// runs; Run weighs what all of them found.
//
//	for _, f := range checks.Run(pass) {
//		fmt.Println(f.Severity, f.Title)
//	}
package checks

import (
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
)

// Check is one thing to look for.
type Check struct {
	ID       string
	Group    *Group
	Severity string
	// Doc says to users when the finding appears, Saves what its saving stands for,
	// "" where it has none.
	Doc, Saves string
	// Needs are the facts that Run asks for.
	Needs []facts.Need
	// Run gives drafts whose IDs are the check's own; nil where something else than a
	// look at one device finds it.
	Run func(*facts.Pass) []Draft
}

// Group is a chapter of the document about findings.
type Group struct{ Title, Doc string }

// Groups are all of them.
var Groups = []*Group{failed, mistakes, peak, allocator, recording, outside}

var (
	failed    = &Group{"Failed requests", "A log's message is judged by its own figures. It is a warning where the run went on."}
	mistakes  = &Group{"Mistakes in the program", ""}
	peak      = &Group{"What fills the peak", "These are no mistakes. They are left out when the change doesn't lower the peak."}
	allocator = &Group{"The allocator", ""}
	recording = &Group{"Expected, or about the recording", ""}
	outside   = &Group{"Told by logs, monitors, traces and other ranks", ""}
)

// ByDesign is how grave it is what costs memory by design.
const ByDesign = "warning where memory runs short, otherwise info"

// Draft is a finding whose savings are still to be worked out.
type Draft struct {
	report.Finding
	Change  string        // what a replay would change about the program; "": nothing that it knows
	Setting string        // what would take its place in PYTORCH_CUDA_ALLOC_CONF
	Spells  []facts.Spell // memory that wouldn't be there
	// Worth is the percentage of the peak from which on changing what is no
	// mistake is worth a word.
	Worth int64
	// Most is what a change can save at most, where a replay lays out what is left
	// with less waste besides; 0: as much as the replay says.
	Most int64
	// Without says in words what the peak falls by, as in "without the graphs".
	Without string
}

// advise makes an advice of the catalogue that of the finding; pairs fill in its placeholders.
func (d *Draft) advise(id string, pairs ...string) {
	a := advice.Find(id, pairs...)
	d.Fix, d.Code = &a.Text, a.Code
}

// change does the same with a change that goes by the advice's id.
func (d *Draft) change(id string, pairs ...string) {
	d.advise(id, pairs...)
	d.FixID = &id
}

// fits does the same with a change by which the run fits, as something shows.
func (d *Draft) fits(basis, id string, pairs ...string) {
	d.change(id, pairs...)
	d.Basis = &basis
	d.Settle(words.Fits)
}

// happens begins the evidence with what a line of the program does, if it's known.
func (d *Draft) happens(did string, line frames.Line) {
	if line.File == "" {
		return
	}
	d.Evidence = append(d.Evidence, did+" "+facts.LineText(line))
	if d.At == nil {
		d.At, d.Did = facts.PlaceOf(line), did
	}
}

// Run is what all checks find about a device, in their order. No check knows of
// another: what several of them need are facts.
func Run(p *facts.Pass) []report.Finding { return settle(p, collect(p, Device())) }

// collect runs some checks.
func collect(p *facts.Pass, list []Check) (drafts []Draft) {
	for i := range list {
		drafts = append(drafts, list[i].drafts(p)...)
	}
	return drafts
}

func (c *Check) drafts(p *facts.Pass) []Draft {
	drafts := c.Run(p)
	for i := range drafts {
		d := &drafts[i]
		d.ID = c.ID
		if d.Evidence == nil {
			d.Evidence = []string{}
		}
	}
	return drafts
}
