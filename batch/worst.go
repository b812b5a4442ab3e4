package batch

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// Worst counts the runs by what their reports say, and names the three that the page
// shows first, runs of the same words once.
func Worst(out io.Writer, reports Reports) error {
	const most = 3
	counts := map[report.Status]int{}
	both := 0                  // leak and are out of memory
	var rows []report.IndexRow // one for each text, the fullest that says it
	place := map[string]int{}  // a text's place in rows
	var alike []int            // how many say it
	for r, err := range reports {
		if err != nil {
			return err
		}
		row := report.IndexRow{Path: r.Path, Status: r.Status()}
		if row.Status == report.StatusOOM && r.Leaks() {
			both++
		}
		if counts[row.Status]++; r.Document == nil || row.Status == report.StatusFine {
			continue
		}
		row.Text, _, _ = strings.Cut(units.Rounded(r.Document.Verdict.Text), ". ")
		if d := r.Document.Fullest(); d != nil {
			row.Allocated = new(d.Peaks.Allocated.Bytes)
		}
		same, known := place[row.Text]
		if !known {
			place[row.Text] = len(rows)
			rows, alike = append(rows, row), append(alike, 1)
			continue
		}
		alike[same]++
		if pair := []report.IndexRow{rows[same], row}; report.WorstFirst(pair)[0] == 1 {
			rows[same] = row
		}
	}
	parts := tally(counts, both)
	if len(parts) == 0 {
		return nil
	}
	fmt.Fprintln(out, strings.Join(parts, ", "))
	for _, i := range report.WorstFirst(rows)[:min(len(rows), most)] {
		line := fmt.Sprintf("  %s: %s", rows[i].Path, rows[i].Text)
		if n := alike[i]; n > 1 {
			line += fmt.Sprintf(" (%s say so)", units.Plural(n, "run"))
		}
		fmt.Fprintln(out, view.Printable(line))
	}
	return nil
}

// tally counts runs in words; both are those that leak and are out of memory.
func tally(counts map[report.Status]int, both int) (parts []string) {
	leaking := "leaking"
	if counts[report.StatusLeak] += both; both > 0 {
		leaking = fmt.Sprintf("leaking (%s of them out of memory, too)", units.Count(both))
	}
	for _, x := range []struct {
		status report.Status
		what   string
	}{{report.StatusOOM, "out of memory"}, {report.StatusLeak, leaking}, {report.StatusWarning, "with other warnings"}} {
		if n := counts[x.status]; n > 0 {
			parts = append(parts, units.Count(n)+" "+x.what)
		}
	}
	return parts
}
