package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/vramscope/vramscope/internal/whole"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/store"
)

// formats are the ways of writing an answer. Text looks as the style says on a
// terminal, and plain in a file.
type formats[T any] struct {
	sheet func(T, view.Edition) *view.Sheet
	json  func(io.Writer, T) error
	html  func(io.Writer, T) error // nil: the sheet as it is for a ticket
	junit func(io.Writer, T) error // of a gate's conditions; nil: none has been asked for
	sarif func(io.Writer, T) error // findings for code scanning; nil: it has none
	lines func(io.Writer, T) error // annotations of a GitHub workflow
	brief bool                     // text is a screen of it, unless all is asked for
}

// named are the formats by --format's word and by the ending of -o's files.
func (f *formats[T]) named(word string, style text.Style) func(io.Writer, T) error {
	switch word {
	case "json", ".json":
		return f.json
	case "junit", ".xml":
		return f.junit
	case "sarif", ".sarif":
		return f.sarif
	case "github":
		return f.lines
	case "markdown", ".md":
		return func(w io.Writer, v T) error { return markdown.Write(w, f.sheet(v, view.Ticket)) }
	case "html", ".html":
		if f.html != nil {
			return f.html
		}
		return func(w io.Writer, v T) error { return html.Sheet(w, f.sheet(v, view.Ticket)) }
	}
	return func(w io.Writer, v T) error { return text.Write(w, f.sheet(v, f.onTerminal(style)), style) }
}

// onTerminal is how much of an answer a terminal shows.
func (f *formats[T]) onTerminal(style text.Style) view.Edition {
	if f.brief && !style.Verbose {
		return view.Brief
	}
	return view.Terminal
}

// write writes an answer to the files that -o names, to all of them or none, and
// then to standard output.
func (f *formats[T]) write(cmd *cobra.Command, o *outputFlags, v T) error {
	var files []whole.Staged
	for _, name := range o.files {
		file, err := whole.Stage(name, func(w io.Writer) error {
			return f.named(ending(name), text.Style{Verbose: o.verbose})(w, v)
		})
		if err != nil {
			return err
		}
		defer file.Drop()
		files = append(files, file)
	}
	for _, file := range files {
		if err := file.Place(); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	if o.bound.most > 0 {
		return f.bounded(out, o, v)
	}
	return f.named(o.format, o.style(out))(out, v)
}

// outputFlags say where an answer goes and how it looks.
type outputFlags struct {
	format                  string
	files                   []string
	quiet, noColor, verbose bool
	bound                   boundFlag
	gate                    bool // it has conditions, which JUnit's XML can tell of
	review                  bool // it has findings with lines of code, which code reviews can show
}

func (o *outputFlags) flags(cmd *cobra.Command, quiet string) {
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "text", "what goes to standard output: text, json, markdown or html")
	flags.StringArrayVarP(&o.files, "output", "o", nil,
		"also write `FILE`, the format by its name: .html .json .md .txt (repeatable)")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, quiet)
	flags.BoolVar(&o.noColor, "no-color", false, "no colours on a terminal; NO_COLOR in the environment says the same")
	o.bound.flag(cmd)
}

// formatWords are what --format takes of a report.
var formatWords = []string{"text", "json", "markdown", "html"}

// gateWords are what it takes where conditions can fail.
var gateWords = append(slices.Clone(formatWords), "junit")

// anyOf lists words to choose from.
func anyOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// reviews allows the formats that show findings at lines of code.
func (o *outputFlags) reviews(cmd *cobra.Command) {
	o.review = true
	cmd.Flags().Lookup("format").Usage = "what goes to standard output: text, json, markdown, html, sarif (for code scanning), " +
		"github (a workflow's annotations) or junit, which is of --fail-on's conditions"
	cmd.Flags().Lookup("output").Usage = "also write `FILE`, the format by its name: .html .json .md .txt .sarif .xml " +
		"(repeatable)"
}

// check refuses what no format is for, before anything is read.
func (o *outputFlags) check() error {
	words, ends := formatWords, []string{".html", ".json", ".md", ".txt"}
	if o.gate {
		words, ends = gateWords, append(ends, ".xml")
	}
	if o.review {
		words, ends = append(slices.Clone(words), "sarif", "github"), append(ends, ".sarif")
	}
	if !slices.Contains(words, o.format) {
		return fmt.Errorf("--format %q: %s", o.format, anyOf(words))
	}
	if o.quiet && o.verbose {
		return errors.New("-q and -v: give one of them")
	}
	if err := o.bound.check(o.format); err != nil {
		return err
	}
	for _, name := range o.files {
		if !slices.Contains(ends, ending(name)) {
			return fmt.Errorf("-o %s: the name must end in %s", name, anyOf(ends))
		}
	}
	return nil
}

// any reports whether something is written in such a format, by --format's word or
// the ending of a file.
func (o *outputFlags) any(word, end string) bool {
	return o.format == word || slices.ContainsFunc(o.files, func(name string) bool { return ending(name) == end })
}

// style is how text looks on standard output.
func (o *outputFlags) style(w io.Writer) text.Style {
	s := text.Style{Quiet: o.quiet, Verbose: o.verbose}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	s.Color = !o.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// ending is that of a file's name, or of an object's in a store, as formats are
// known by it.
func ending(name string) string {
	e := strings.ToLower(filepath.Ext(store.Show(name)))
	if e == ".htm" {
		return ".html"
	}
	return e
}

// aboveFlags are what the user says of an answer, to stand above it.
type aboveFlags struct {
	title  string
	notes  []string
	hidden bool
}

func (a *aboveFlags) flags(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&a.title, "title", "", "a `TEXT` to stand above "+what)
	cmd.Flags().StringArrayVar(&a.notes, "note", nil, "a fact to stand above "+what+", `KEY=VALUE` (repeatable)")
	cmd.Flags().BoolVar(&a.hidden, "redact-title", false, "with --redact, a pseudonym for the title, too")
}

// redactor is one that hides as much of them as the flags ask for.
func (a *aboveFlags) redactor() *redact.Redactor {
	r := newRedactor()
	r.Titles = a.hidden
	return r
}

// parse reads KEY=VALUE.
func (a *aboveFlags) parse(redacted bool) ([]report.Note, error) {
	if a.hidden && (!redacted || a.title == "") {
		return nil, errors.New("--redact-title has no effect without --redact and --title")
	}
	var notes []report.Note
	for _, n := range a.notes {
		key, value, ok := strings.Cut(n, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--note %q is not KEY=VALUE", n)
		}
		notes = append(notes, report.Note{Key: key, Value: value})
	}
	return notes, nil
}
