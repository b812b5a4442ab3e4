// Package engine answers what a page asks about files that were given to it, as analyze and diff answer on a command line.
//
//	a := engine.Answer(&engine.Request{Inputs: []string{"run42"}}, engine.Options{Version: "0.9.0", Put: keep})
//	fmt.Println(a.Verdict)
//
// It imports what judges and writes, and nothing of tables, stores and protocols: a browser loads it.
package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diff"
	"github.com/vramscope/vramscope/internal/answers"
	"github.com/vramscope/vramscope/internal/code"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/snapshot"
)

// Request is what a page asks.
type Request struct {
	// Plan asks how files that came together are to be read, and nothing else.
	Plan []string `json:"plan,omitempty"`
	// Inputs are files and folders, as a command line would name them.
	Inputs  []string `json:"inputs"`
	Compare bool     `json:"compare,omitempty"` // the two inputs
	Partial bool     `json:"partial,omitempty"` // read what a damaged file still holds
	Formats []string `json:"formats,omitempty"` // html, md, json
}

// Result is the answer.
type Result struct {
	Verdict    string   `json:"verdict,omitempty"`
	Text       string   `json:"text,omitempty"` // a screen of it, below the verdict
	All        string   `json:"all,omitempty"`  // all of it as text
	PassedOver []string `json:"passed_over,omitempty"`
	Error      string   `json:"error,omitempty"`
	// Advice is what to do about the error, and Offer what a page can do itself: "partial".
	Advice string  `json:"advice,omitempty"`
	Offer  string  `json:"offer,omitempty"`
	Plan   []Group `json:"plan,omitempty"`
}

// Options are what is the same for all requests.
type Options struct {
	Version   string
	MaxMemory int64                                     // bytes that reading may take, 0: no limit
	Sum       func(name string, size int64) string      // a file's SHA-256, where the browser works it out
	Put       func(format string, content []byte) error // takes a report in one of the request's formats
}

// Answer reads the inputs and judges them.
func Answer(q *Request, o Options) (r Result) {
	defer func() {
		if x := recover(); x != nil {
			r = Result{Error: fmt.Sprintf("The engine failed: %v", x),
				Advice: "This is a fault of vramscope. A recording that shows it makes it possible to mend."}
		}
	}()
	if q.Plan != nil {
		return Result{Plan: Plan(q.Plan)}
	}
	job := job{q, o, &r}
	err := job.run()
	if err != nil {
		r.Error, r.Advice, r.Offer = explained(err)
	}
	return r
}

type job struct {
	*Request
	Options
	result *Result
}

func (j *job) run() error {
	if j.Compare {
		return j.compare()
	}
	doc, err := j.read(j.Inputs)
	if err != nil {
		return err
	}
	doc.Command = append([]string{"vramscope", "analyze"}, j.flags()...)
	if doc.Source, err = code.Lines(""); err != nil {
		return err
	}
	j.result.Verdict = units.Rounded(doc.Verdict.Text)
	if j.result.Text, err = belowVerdict(view.Document(doc, view.Web)); err != nil {
		return err
	}
	if j.result.All, err = asText(view.Document(doc, view.Terminal), text.Style{Verbose: true}); err != nil {
		return err
	}
	return j.write(map[string]func(io.Writer) error{
		"html": func(w io.Writer) error { return html.Document(w, doc) },
		"md":   func(w io.Writer) error { return markdown.Write(w, view.Document(doc, view.Ticket)) },
		"json": func(w io.Writer) error { return answers.JSON(w, doc) },
	})
}

// flags are the rest of the command line that makes the same report.
func (j *job) flags() []string {
	if j.Partial {
		return append([]string{"--partial"}, j.Inputs...)
	}
	return j.Inputs
}

func asText(s *view.Sheet, style text.Style) (string, error) {
	var b bytes.Buffer
	err := text.Write(&b, s, style)
	return b.String(), err
}

// belowVerdict is an answer's text without its verdict, which a page shows by itself.
func belowVerdict(s *view.Sheet) (string, error) {
	whole, err := asText(s, text.Style{})
	rest := whole
	for _, word := range strings.Fields(units.Rounded(s.Verdict.Text)) {
		after, found := strings.CutPrefix(strings.TrimLeft(rest, " \n"), word)
		if !found {
			return whole, err
		}
		rest = after
	}
	return strings.TrimLeft(rest, "\n"), err
}

// read judges one run.
func (j *job) read(inputs []string) (*report.Document, error) {
	run, err := open.Files(inputs, open.Options{MaxMemory: j.MaxMemory, Partial: j.Partial, Sum: j.Sum})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	for _, err := range run.PassedOver {
		j.result.PassedOver = append(j.result.PassedOver, open.OneLine(err))
	}
	var names open.Names
	if err := names.Labels(open.LabelsBeside(nil)...); err != nil {
		return nil, err
	}
	o := diagnose.Options{Tool: "vramscope " + j.Version, Pictures: true, Theory: run.Theory(nil, false), Names: names.Options}
	if !j.Compare {
		programs, err := code.Beside("", inputs)
		if err != nil {
			return nil, err
		}
		o.Code = programs.Text
	}
	doc, err := diagnose.Run(run.Sources, run.Evidence, o)
	if unread := run.Unread(); unread != nil {
		return nil, unread
	}
	return doc, err
}

func (j *job) compare() error {
	if len(j.Inputs) != 2 {
		return fmt.Errorf("two recordings can be compared, not %d", len(j.Inputs))
	}
	var docs [2]*report.Document
	for i := range docs {
		var err error
		if docs[i], err = j.read(j.Inputs[i : i+1]); err != nil {
			return err
		}
	}
	d, err := diff.Compute(docs[0], docs[1])
	if err != nil {
		return err
	}
	j.result.Verdict = units.Rounded(d.Verdict.Text)
	if j.result.Text, err = belowVerdict(view.Diff(d, view.Terminal)); err != nil {
		return err
	}
	page := answers.Comparison(docs[0], docs[1])
	return j.write(map[string]func(io.Writer) error{
		"html": func(w io.Writer) error { return page(w, d) },
		"md":   func(w io.Writer) error { return markdown.Write(w, view.Diff(d, view.Ticket)) },
		"json": func(w io.Writer) error { return report.DiffJSON(w, d) },
	})
}

func (j *job) write(writers map[string]func(io.Writer) error) error {
	for _, format := range j.Formats {
		write := writers[format]
		if write == nil {
			return fmt.Errorf("no such format: %.20q", format)
		}
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		if err := j.Put(format, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// explained is an error in the program's own sentence, with what a page can do about it instead of flags.
func explained(err error) (sentence, advice, offer string) {
	var e *snapshot.Error
	if !errors.As(err, &e) || e.Advice == "" {
		return err.Error(), "", ""
	}
	said := *e
	said.Advice = ""
	for _, w := range words {
		if before, after, ok := strings.Cut(e.Advice, w.flag); ok {
			return said.Error(), before + w.instead + after, w.offer
		}
	}
	return said.Error(), e.Advice, ""
}
