package batch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// fate is what became of a run, the worst first.
type fate int

const (
	ofGPU     fate       = iota // out of memory on the GPU
	ofHost                      // on the host
	ofKill                      // by signal 9, whose sender nobody names
	ofOther                     // for something else than memory
	ofStop                      // by a limit or somebody
	survived                    // a request failed, and the run went on
	leaking                     // no failure, but memory grows
	warned                      // something else to look at
	fine                        // nothing of these
	fates                       // how many there are
	succeeded = survived        // from here on it is no failure
)

// fateWords are how the fates are counted.
var fateWords = [fates]string{"out of memory", "out of the host's memory", "killed", "in something else than memory",
	"stopped", "out of memory and went on", "leaking", "with other warnings", ""}

// fate is what the report says became of its run.
func (r *Report) fate() fate {
	how := evidence.UnknownEnd
	if e := r.Document.Ended; e != nil {
		how = evidence.How(e.How)
	}
	wentOn := how == evidence.EndedWell || how == evidence.UnknownEnd && r.Document.Ended != nil && !recorded(r)
	switch status := r.Status(); {
	case status == report.StatusOOM && wentOn:
		return survived
	case how == evidence.HostMemory: // whatever was survived before
		return ofHost
	case status == report.StatusOOM, how == evidence.GPUMemory:
		return ofGPU
	case slices.ContainsFunc(r.Document.Findings, ofTheHost):
		return ofHost
	case how == evidence.Killed:
		return ofKill
	case how == evidence.Failed:
		return ofOther
	case how == evidence.Stopped:
		return ofStop
	case status == report.StatusLeak:
		return leaking
	case status == report.StatusWarning:
		return warned
	}
	return fine
}

// recorded reports whether a recording has a request that failed: what came of it, a log tells that says how the run ended.
// Of messages in a log alone, one after which nothing went on is such an end.
func recorded(r *Report) bool {
	return slices.ContainsFunc(r.Document.Devices, func(d report.Device) bool { return len(d.OOMs) > 0 })
}

func ofTheHost(f report.Finding) bool {
	return f.ID == "host_out_of_memory" && f.Severity == report.Critical
}

// alike are runs that had the same fate for the same reason.
type alike struct {
	fate  fate
	worst report.IndexRow
	runs  int
}

// mostAlike is how many of those the summary has lines for.
const mostAlike = 6

// Worst says how many runs failed, of what, and for each reason one run that shows it and what to change.
func Worst(out io.Writer, reports Reports) error {
	var counts [fates]int
	both := 0 // leak and are counted as something worse
	groups := map[string]*alike{}
	for r, err := range reports {
		if err != nil {
			return err
		}
		if r.Document == nil {
			continue
		}
		o := r.fate()
		if o <= survived && r.Leaks() {
			both++
		}
		if counts[o]++; o == fine {
			continue
		}
		row := report.IndexRow{Path: r.Path, Status: r.Status(), Fix: r.Document.Verdict.Fix}
		row.Text, _, _ = strings.Cut(units.Rounded(r.Document.Verdict.Text), ". ")
		if d := r.Document.Fullest(); d != nil {
			row.Allocated = new(d.Peaks.Allocated.Bytes)
		}
		key := fmt.Sprint(o, " ", r.reason(row.Text))
		g := groups[key]
		if g == nil {
			groups[key] = &alike{o, row, 1}
			continue
		}
		if g.runs++; report.WorstFirst([]report.IndexRow{g.worst, row})[0] == 1 {
			g.worst = row
		}
	}
	if text := tally(&counts, both); text != "" {
		fmt.Fprintln(out, text)
	}
	tellAlike(out, groups)
	return nil
}

// reason is what runs that failed alike have in common: the request that failed, or else the verdict but for its numbers.
func (r *Report) reason(verdict string) string {
	for i := range slices.Backward(r.Document.Devices) {
		if d := &r.Document.Devices[i]; len(d.OOMs) > 0 && d.OOMs[len(d.OOMs)-1].Fingerprint != nil {
			return *d.OOMs[len(d.OOMs)-1].Fingerprint
		}
	}
	if told := r.Document.OnlyLogged(); len(told) > 0 {
		return report.MessageFingerprint(&told[len(told)-1])
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsDigit(c) {
			return -1
		}
		return c
	}, verdict)
}

// tellAlike names a run of each reason, those of most runs first.
func tellAlike(out io.Writer, groups map[string]*alike) {
	var rows []*alike
	for _, g := range groups {
		rows = append(rows, g)
	}
	slices.SortFunc(rows, func(a, b *alike) int {
		return cmp.Or(cmp.Compare(a.fate, b.fate), cmp.Compare(b.runs, a.runs),
			cmp.Compare(evidence.Or(b.worst.Allocated, -1), evidence.Or(a.worst.Allocated, -1)),
			cmp.Compare(a.worst.Path, b.worst.Path))
	})
	for i, g := range rows {
		if i == mostAlike && len(rows) > mostAlike+1 {
			fmt.Fprintf(out, "  and %d reasons more, on the page\n", len(rows)-i)
			return
		}
		line := fmt.Sprintf("  %s: %s", g.worst.Path, g.worst.Text)
		if g.runs > 1 {
			line += fmt.Sprintf(" (%s like this)", units.Plural(g.runs, "run"))
		}
		fmt.Fprintln(out, view.Printable(line))
		if g.fate < warned && g.worst.Fix != nil && *g.worst.Fix != "" {
			fmt.Fprintln(out, view.Printable("    change: "+cut.Letters(units.Rounded(*g.worst.Fix), mostOfFix)))
		}
	}
}

// mostOfFix is how much of an advice the summary shows, in letters.
const mostOfFix = 240

// tally counts runs in words; both are those that leak and are counted as something worse.
func tally(counts *[fates]int, both int) string {
	var failed, other []string
	all, bad := 0, 0
	for o, n := range counts {
		o, words := fate(o), fateWords[o]
		if all += n; o < succeeded {
			bad += n
		}
		if o == leaking && both > 0 {
			n, words = n+both, fmt.Sprintf("leaking (%s of them counted already)", units.Count(both))
		}
		switch part := units.Count(n) + " " + words; {
		case n == 0 || o == fine:
		case o < succeeded:
			failed = append(failed, part)
		default:
			other = append(other, part)
		}
	}
	if bad > 0 {
		of := units.Plural(all, "run")
		failed = []string{fmt.Sprintf("%s of %s failed: %s", units.Count(bad), of, strings.Join(failed, ", "))}
	} else if all > 0 {
		failed = []string{"none failed, as far as they tell"}
	}
	return strings.Join(append(failed, other...), "; ")
}
