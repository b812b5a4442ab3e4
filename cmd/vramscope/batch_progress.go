package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/store"
)

// teller says how a batch goes: a bar on a terminal, and one line for each
// failure wherever it goes.
type teller struct {
	err   io.Writer
	flags *batchFlags
	paths []string // to redact

	bar     progress.Writer // nil: no terminal
	tracker *progress.Tracker

	runs, all                 int // to do, done
	analysed, skipped, failed int
	silent                    []string // what should have been a run and says nothing
}

func newTeller(err io.Writer, f *batchFlags, paths []string) *teller {
	return &teller{err: err, flags: f, paths: paths}
}

// line prints a line above the bar, if there is one.
func (t *teller) line(text string) {
	text = "vramscope: " + strings.Join(strings.Fields(text), " ")
	if t.bar != nil {
		t.bar.Log("%s", text)
		return
	}
	fmt.Fprintln(t.err, text)
}

// found says what was passed over although it looked as if it was meant.
func (t *teller) found(f *batch.Found) {
	for _, err := range f.Failed {
		if t.flags.redact {
			err = redactNames(err, t.paths...)
		}
		t.line(err.Error())
	}
	t.passedOver(f.Pickles, "pickled, but no memory snapshot")
	t.passedOver(f.Links, "leads out of the given folders (give what the link leads to)")
	t.silent = f.Silent
}

// passedOver names the first of some files.
func (t *teller) passedOver(files []string, why string) {
	if len(files) == 0 {
		return
	}
	first, more := files[0], ""
	if t.flags.redact {
		first = newRedactor().Input(first)
	}
	if n := len(files); n > 1 {
		more = fmt.Sprintf(" and %d more", n-1)
	}
	t.line(fmt.Sprintf("%s%s: %s: passed over", first, more, why))
}

// saySilent tells of crashed runs, perhaps, of which nothing more is known.
func (t *teller) saySilent() {
	slices.Sort(t.silent)
	t.passedOver(t.silent, "nothing known in it")
}

// begin shows the bar, on a terminal.
func (t *teller) begin(runs []batch.Run) {
	f, ok := t.err.(*os.File)
	if !ok || t.flags.quiet || !term.IsTerminal(int(f.Fd())) {
		return
	}
	t.bar = progress.NewWriter()
	t.bar.SetOutputWriter(f)
	t.bar.SetAutoStop(true)
	t.bar.SetMessageLength(20)
	t.bar.SetTrackerLength(30)
	t.bar.SetTrackerPosition(progress.PositionRight)
	t.bar.SetUpdateFrequency(200 * time.Millisecond)
	t.bar.Style().Visibility.ETA = true
	t.bar.Style().Visibility.Value = true
	t.bar.Style().Options.ETAPrecision = time.Second
	t.bar.Style().Options.TimeInProgressPrecision = time.Second
	t.bar.Style().Options.TimeDonePrecision = time.Second
	var bytes int64
	for _, r := range runs {
		bytes += r.Bytes + perRun
	}
	t.tracker = &progress.Tracker{Message: units.Plural(len(runs), "run"), Total: bytes,
		Units: progress.Units{Formatter: func(n int64) string { return units.Bytes(n) }}}
	t.runs = len(runs)
	t.bar.AppendTracker(t.tracker)
	go t.bar.Render()
}

// perRun is what a run counts for in the bar besides its bytes.
const perRun = 64 << 10

func (t *teller) done(p batch.Progress) {
	if t.all++; t.tracker != nil {
		t.tracker.UpdateMessage(fmt.Sprintf("%d of %s", t.all, units.Plural(t.runs, "run")))
		t.tracker.Increment(p.Run.Bytes + perRun)
	}
	for _, file := range p.Without {
		t.line(file + ": the report is made without it")
	}
	switch {
	case p.Nothing:
		if i := slices.IndexFunc(p.Run.Files, sniff.CalledLog); i >= 0 {
			t.silent = append(t.silent, p.Run.Files[i])
		}
	case p.Err != nil:
		t.failed++
		message, _, _ := strings.Cut(p.Err.Error(), "\n")
		t.line(message)
	case p.Skipped:
		t.skipped++
		t.analysed++
	default:
		t.analysed++
	}
}

// end takes the bar away.
func (t *teller) end(err error) {
	if t.bar == nil {
		return
	}
	if err != nil {
		t.tracker.MarkAsErrored()
	} else {
		t.tracker.MarkAsDone()
	}
	for t.bar.IsRenderInProgress() {
		time.Sleep(10 * time.Millisecond)
	}
	t.bar = nil
}

// summary says what was done.
func (t *teller) summary(out io.Writer, removed, kept int, reports batch.Reports) error {
	if t.flags.quiet {
		return nil
	}
	parts := []string{units.Plural(t.analysed, "run") + " analysed"}
	for _, x := range []struct {
		n    int
		what string
	}{{t.skipped, "of them unchanged since the last time"}, {t.failed, "couldn't be read"},
		{len(t.silent), "with nothing known in it passed over"},
		{removed, "no longer there and removed"}, {kept, "of earlier batches kept (--prune removes them)"}} {
		if x.n > 0 {
			parts = append(parts, units.Count(x.n)+" "+x.what)
		}
	}
	fmt.Fprintf(out, "%s: %s/index.html\n", strings.Join(parts, ", "), strings.TrimSuffix(store.Show(t.flags.output), "/"))
	return batch.Worst(out, reports)
}
