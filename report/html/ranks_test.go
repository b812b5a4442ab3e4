package html_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// jobOf is a document of many ranks, each alike another or not, with dumps.
func jobOf(ranks, kinds, dumps int, sure bool) *report.Document {
	doc := &report.Document{Tool: "vramscope test", Evidence: evidence.New(), Verdict: report.Verdict{Severity: report.Info, Text: "Nothing failed."}}
	r := &report.Ranks{Count: ranks, Told: "by the names of the files", Sure: sure, Groups: make([]report.Like, kinds)}
	for i := range ranks {
		peak := int64(10<<30) - int64(i%kinds)<<26
		doc.Inputs = append(doc.Inputs, report.Input{Path: fmt.Sprintf("job/<b>rank%d</b>.pickle", i), Kind: "snapshot"})
		d := report.Device{Input: i, History: "complete", Stacks: "all", Peaks: report.Peaks{Allocated: report.Peak{Bytes: peak}, Reserved: report.Peak{Bytes: peak + 1<<30}}}
		row := report.Rank{Input: i, Index: i, PeakAllocated: peak, PeakReserved: peak + 1<<30, Dumps: dumps, Verdict: "fine", Group: i % kinds}
		if sure {
			d.Rank, row.Rank, row.RankFrom = &i, &i, "name"
		}
		doc.Devices, r.Rows = append(doc.Devices, d), append(r.Rows, row)
		g := &r.Groups[i%kinds]
		g.Rows = append(g.Rows, i)
		g.Shown = g.Rows[0]
		if dumps > 1 {
			t := report.Trend{Index: i, Rank: row.Rank, Told: "they are of one rank", Text: "grows from dump to dump by 1.00 GiB"}
			for k := range dumps {
				t.Dumps = append(t.Dumps, report.Dump{Input: i, Events: k, AtEnd: int64(k) << 30})
			}
			doc.Trend = append(doc.Trend, t)
		}
	}
	r.Shown = []int{0}
	if kinds > 1 {
		r.Shown = append(r.Shown, 1)
		r.Imbalance = &report.Imbalance{Highest: 0, Usual: kinds / 2, Bytes: r.Rows[0].PeakAllocated - r.Rows[kinds/2].PeakAllocated,
			Categories: []report.CategoryExcess{{Category: "activations", More: int64(kinds/2) << 26, Than: 1 << 30}},
			Sites:      []report.SiteExcess{{Site: report.Site{Function: "forward", File: "/app/model.py", Line: new(7), Known: true}, More: 1 << 30}}}
		r.FirstOOM = &report.FirstOOM{Row: 1, Failed: 3, NextUS: 1_500_000}
	}
	r.Missing = []int{ranks, ranks + 1, ranks + 2, ranks + 9}
	doc.Ranks = r
	return doc
}

func onTerminal(t *testing.T, doc *report.Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := text.Write(&b, view.Document(doc, view.Terminal), text.Style{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestManyRanksStayReadable: however many there are, and however different.
func TestManyRanksStayReadable(t *testing.T) {
	for _, kinds := range []int{1, 2, 512} {
		t.Run(fmt.Sprint(kinds, " kinds"), func(t *testing.T) {
			doc := jobOf(512, kinds, 40, true)
			if n := strings.Count(onTerminal(t, doc), "\n"); n > 180 {
				t.Errorf("%d lines on the terminal", n)
			}
			var ticket bytes.Buffer
			if err := markdown.Write(&ticket, view.Document(doc, view.Ticket)); err != nil || ticket.Len() > 20_000 {
				t.Errorf("a ticket of %d bytes, %v", ticket.Len(), err)
			}
			few := len(written(t, jobOf(2, min(kinds, 2), 2, true)))
			if n := len(written(t, doc)) - few; n > 300_000 {
				t.Errorf("the page has %d bytes more than one of two ranks", n)
			}
		})
	}
}

// TestRanksInWords: the sentences that stand below the table.
func TestRanksInWords(t *testing.T) {
	text := strings.Join(strings.Fields(onTerminal(t, jobOf(9, 3, 1, true))), " ")
	for _, want := range []string{
		"9 ranks of one job, told by the names of the files",
		"0, 3, 6 0 10.00 GiB 11.00 GiB unknown fine",
		"no recording of ranks 9-11, 18",
		"rank 1 ran out of memory first of 3, the next one 1.5s later",
		"rank 0 holds 64.00 MiB more at its peak than rank 1, which is in the middle: activations +64.00 MiB; +1.00 GiB at forward app/model.py:7",
		"Device 0 of rank 0, standing for ranks 0, 3, 6",
		"Device 0 of rank 1, standing for ranks 1, 4, 7",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q isn't said in %s", want, text)
		}
	}
	if strings.Contains(text, "Device 0 of rank 2") {
		t.Error("a device that is not to be shown is")
	}
}

// TestRecordingsOfNoKnownRank go by their files' names, which are no markup.
func TestRecordingsOfNoKnownRank(t *testing.T) {
	doc := jobOf(3, 3, 1, false)
	if text := onTerminal(t, doc); !strings.Contains(text, "3 recordings, each of a process by itself") || !strings.Contains(text, "<b>rank2</b>.pickle") {
		t.Error(text)
	}
	if page := string(written(t, doc)); strings.Contains(page, "<b>rank2</b>") || !strings.Contains(page, "&lt;b&gt;rank2&lt;/b&gt;") {
		t.Error("a name became markup on the page")
	} else if !strings.Contains(page, "<title>job · GPU memory report</title>") {
		t.Error("the page isn't named after the job's folder")
	}
}

// TestJobsFolder names the page of a job, never a recording in it.
func TestJobsFolder(t *testing.T) {
	for want, paths := range map[string][]string{
		"job":  {"job/r1", "job/r10", "job/r12"}, // the first begins all others
		"one":  {"one/r1", "one/r1", "one/r1"},
		"deep": {"/data/deep/a/r1.pickle", "/data/deep/r1.pickle", "/data/deep/b/r1.pickle"},
		"win":  {`C:\win\r1`, `C:\win\r10`, `C:\win\r2`},
		"r1":   {"r1", "r10", "r12"}, // no folder: the first input's name
	} {
		doc := jobOf(3, 1, 1, false)
		for i := range doc.Inputs {
			doc.Inputs[i].Path = paths[i]
		}
		if page := string(written(t, doc)); !strings.Contains(page, "<title>"+want+" · GPU memory report</title>") {
			_, title, _ := strings.Cut(page, "<title>")
			t.Errorf("%v: named %.40q, want %q", paths, title, want)
		}
	}
}

func TestSpans(t *testing.T) {
	for want, numbers := range map[string][]int{"": nil, "3": {3}, "0, 1": {1, 0}, "0-2": {2, 1, 0, 1}, "0-2, 5, 7-9": {0, 1, 2, 5, 7, 8, 9}} {
		if got := report.Spans(numbers); got != want {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
}
