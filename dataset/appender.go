package dataset

import (
	"fmt"
	"io"

	"github.com/vramscope/vramscope/report"
)

// Appender writes one of RunTables run by run. What it writes depends on the
// sequence of rows alone.
type Appender struct {
	table *Table
	sink  Sink
	rows  *rows
	next  source
}

// NewAppender begins a table.
func NewAppender(w io.Writer, f Format, t *Table) (*Appender, error) {
	if t.rows == nil {
		return nil, fmt.Errorf("dataset: the table %s isn't made from reports", t.Version)
	}
	sink, err := NewSink(w, f, t)
	if err != nil {
		return nil, err
	}
	return &Appender{table: t, sink: sink, rows: newRows(t, sink)}, nil
}

// Called says what a batch calls the next run besides its path: the folder of
// its report, and what runs of its kind have in common.
func (a *Appender) Called(report, experiment string) {
	a.next = source{report: report, experiment: experiment}
}

// Document appends a run's rows, made from its report.
func (a *Appender) Document(run string, d *report.Document) error {
	s := a.next
	s.run, s.doc, a.next = run, d, source{}
	a.table.rows(&s, a.rows.add)
	return a.rows.err
}

// Failed appends a run that couldn't be analysed: a row of Runs with the
// reason, nothing to the other tables.
func (a *Appender) Failed(run, reason string) error {
	s := a.next
	s.run, s.failed, s.doc, a.next = run, reason, &report.Document{}, source{}
	if a.table == Runs {
		runRows(&s, a.rows.add)
	}
	return a.rows.err
}

// Close writes what is left and what ends the table. It doesn't close what is
// written to.
func (a *Appender) Close() error {
	err := a.rows.flush()
	a.rows.release()
	if closing := a.sink.Close(); err == nil {
		err = closing
	}
	return err
}
