package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
)

// Index is everything that the page over many runs says. Texts come from
// recordings and may hold anything; sizes are bytes, times microseconds since
// the Unix epoch as recorded.
type Index struct {
	Tool        string
	Title       string     // the user's, when all reports have the same
	Rows        []IndexRow // by path
	Left        int        // rows that the page leaves out, the least worrying
	Figures     IndexFigures
	OOMs        []OOMGroup   // most runs first
	Regressions []Regression // newest first
	Leaks       []LeakTrend  // largest growth first
	Budgets     []BudgetGap  // largest gap first
	Experiments int
}

// IndexFigures count over all runs.
type IndexFigures struct {
	Runs, Failed, OOM, Leaking, Warning, Fine int
	LeakingOOM                                int // of those leaking and out of memory, both
	FirstTime, LastTime                       *int64
}

// Status is the worst thing that a run's report says.
type Status string

// The statuses of a run.
const (
	StatusFailed  Status = "failed" // no report
	StatusOOM     Status = "oom"
	StatusLeak    Status = "leak"
	StatusWarning Status = "warning"
	StatusFine    Status = "fine"
)

// IndexRow is one run, by short names of which the page's script knows those of a row.
type IndexRow struct {
	Path       string   `json:"p"`
	Name       string   `json:"n"` // folder of its report below runs/
	Experiment string   `json:"e"`
	Status     Status   `json:"s"`
	Text       string   `json:"t"` // the verdict, or why there is none
	Brief      string   `json:"h"` // the same in a few words
	Fix        *string  `json:"f,omitempty"`
	SavesBytes *int64   `json:"b"`
	Effect     string   `json:"y,omitempty"` // what the peak becomes by the fix, "" where that isn't known
	Devices    int      `json:"d"`
	Capacity   *int64   `json:"c"`
	Allocated  *int64   `json:"a"` // peaks of the fullest device; nil without a recording
	Reserved   *int64   `json:"r"`
	Categories []int64  `json:"-"` // at that peak, by Categories
	LeakBytes  *int64   `json:"l"` // growth per step by defects
	Time       *int64   `json:"-"`
	Failures   []string `json:"g,omitempty"` // fingerprints of the requests that failed: to search for
	Facts      []Fact   `json:"-"`           // what the run may be compared by
}

// Fact is something by which runs may be compared: a batch size, a precision, a note of the user's.
type Fact struct {
	Name  string
	Value float64
	Text  string // in place of Value, "": that is it
}

// IndexLink names a run with where its report is.
type IndexLink struct{ Path, Name string }

// OOMGroup is one failure in many runs.
type OOMGroup struct {
	Fingerprint string
	Verdict     string
	Phase       string
	Cause       string // in words, "": not known
	Where       string // the call site in a few words
	At          string // the same with its line, "" where that isn't known or runs differ
	Runs        int
	Requests    int // that failed, in these runs
	First, Last *int64
	MinBytes    int64 // asked for
	MaxBytes    int64
	Fix         string
	FixID       string // a stable word for it
	FixRuns     int    // runs whose report advises this
	SavesBytes  *int64 // the median of what it saves
	Effect      string // what the peak becomes by it in that run, "" where that isn't known
	Examples    []IndexLink
}

// toldByLog is the verdict on a failure of which a log says only that it happened.
const toldByLog = "told by a log"

// LoggedVerdict is the verdict of a message of a log, which may know none.
func LoggedVerdict(verdict *string) string {
	if verdict == nil || *verdict == UnknownVerdict {
		return toldByLog
	}
	return *verdict
}

// Known reports whether anything tells why the requests failed.
func (g *OOMGroup) Known() bool {
	return g.Cause != "" || g.Verdict != toldByLog && g.Verdict != UnknownVerdict && g.Verdict != UnclearVerdict
}

// Why is the cause in words, or else the verdict.
func (g *OOMGroup) Why() string {
	switch {
	case g.Cause != "":
		return g.Cause
	case !g.Known():
		return "not known why"
	}
	return CategoryWords(g.Verdict)
}

// Regression is an experiment whose peak grew from one run to the next.
type Regression struct {
	Experiment    string
	Before, After int64
	OOM           bool // the later run no longer fits; After is what it would have held
	Since         *int64
	Last, First   IndexLink // fitting before, and the first that grew
	Peaks         []int64   // of all runs in the order of time
	Now           int64     // of the newest run
	Still         bool      // which is above Before, too
}

// LeakTrend is how an experiment's leaks went over its runs.
type LeakTrend struct {
	Experiment string
	Rates      []int64 // bytes per step, by run in the order of time
	Leaking    int     // runs that leak
	Since      *int64  // of the first of the last unbroken row of leaking runs
	Still      bool    // the newest run leaks
	Latest     int64   // bytes per step of the last that leaks
	Where      string  // the line that most of them name
	Kind       string
	Link       IndexLink // to the last that leaks
}

// BudgetGap is what runs of one configuration took beside what they should have.
type BudgetGap struct {
	Model, Setting   string
	Runs             int
	Budget, Measured int64 // medians
	Link             IndexLink
}

var statusRank = map[Status]int{StatusOOM: 0, StatusLeak: 1, StatusWarning: 2, StatusFailed: 3, StatusFine: 4}

// WorstFirst is the order in which rows are shown: what needs somebody first,
// and of these the fullest.
func WorstFirst(rows []IndexRow) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &rows[i], &rows[j]
		return cmp.Or(statusRank[a.Status]-statusRank[b.Status],
			cmp.Compare(evidence.Or(b.Allocated, -1), evidence.Or(a.Allocated, -1)), strings.Compare(a.Path, b.Path))
	})
	return order
}

// Worst are the n rows that most need somebody, in their own order.
func Worst(rows []IndexRow, n int) []IndexRow {
	order := WorstFirst(rows)[:n]
	slices.Sort(order)
	out := make([]IndexRow, n)
	for i, k := range order {
		out[i] = rows[k]
	}
	return out
}

// OnlyLogged are the messages about failed requests of a run whose recordings
// have none.
func (d *Document) OnlyLogged() []evidence.OOMMessage {
	failed := func(x Device) bool { return len(x.OOMs) > 0 }
	if d.Evidence == nil || slices.ContainsFunc(d.Devices, failed) {
		return nil
	}
	return d.Evidence.OOMMessages
}

// Advice is what to change against a failed request.
type Advice struct {
	Fix        *string
	ID         *string // a stable word for the change
	SavesBytes *int64
	Effect     string // what the peak becomes, "" where that isn't known
}

// adviceOf is that of a finding. One without a word for its change has its own.
func adviceOf(f *Finding) Advice {
	return Advice{f.Fix, cmp.Or(f.FixID, &f.ID), f.SavesBytes, f.Falls()}
}

// VerdictAdvice is the verdict's, empty where that knows no change.
func (d *Document) VerdictAdvice() Advice {
	a := Advice{Fix: d.Verdict.Fix, SavesBytes: d.Verdict.SavesBytes}
	if c := d.Best(); c != nil {
		a.ID, a.Effect = c.FixID, c.Falls()
	}
	return a
}

// Best is the change that the verdict's Fix tells of, nil where nothing more is known of it.
func (d *Document) Best() *Change {
	if d.Verdict.Best != nil || d.Verdict.Fix == nil {
		return d.Verdict.Best
	}
	for i := range d.Devices { // of a report that was read back
		for k := range d.Devices[i].Changes {
			if c := &d.Devices[i].Changes[k]; c.Text == *d.Verdict.Fix {
				return c
			}
		}
	}
	return nil
}

// Advice is what to change against a failed request of a device, and what that
// saves: as its finding says, or the verdict where that one knows no change.
func (d *Document) Advice(on *Device, o *OOM) Advice {
	for i := range on.Findings {
		if f := &on.Findings[i]; f.ID == "oom_"+o.Verdict && f.Fix != nil {
			return adviceOf(f)
		}
	}
	return d.VerdictAdvice()
}

// MessageAdvice is the same for a request that a log tells of; a verdict on recordings is of other requests.
func (d *Document) MessageAdvice(m *evidence.OOMMessage) Advice {
	switch {
	case m.Fix == nil && len(d.Devices) > 0:
		return Advice{}
	case m.Fix == nil:
		return d.VerdictAdvice()
	}
	a, found := Advice{Fix: m.Fix}, 0
	for i := range d.Findings {
		if f := &d.Findings[i]; strings.HasPrefix(f.ID, "oom_") && f.Fix != nil && *f.Fix == *m.Fix {
			a = adviceOf(f)
			found++
		}
	}
	if found > 1 { // which of them is the message's isn't known
		a.SavesBytes, a.Effect = nil, ""
	}
	return a
}

// MessageFingerprint is the same for the same failure in another run, of which
// only a log tells: for the same reason, in the same phase and function.
func MessageFingerprint(m *evidence.OOMMessage) string {
	key := "log"
	for _, part := range []*string{m.Verdict, m.Phase, m.UserFile, m.UserFunction} {
		key += "\x00" + ShortFile(evidence.Or(part, ""))
	}
	switch {
	case m.UserFile != nil:
	case m.RequestedBytes != nil: // the same program asks for the same
		key += fmt.Sprint(*m.RequestedBytes)
	case m.Fix != nil: // other failures without a figure are others
		key += *m.Fix
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
