package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/report"
	pages "github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/store"
)

// ErrNothing is wrapped by the error about a run of which no file says anything.
var ErrNothing = open.ErrNothing

// Result is what became of one run: its report, or the reason why there is none.
type Result struct {
	Entry
	HTML, JSON []byte // nil without a report
	Err        error  `json:"-"` // Entry.Error, whole
	// Without are the inputs that could not be got at, each with its reason: the report is of
	// the others, and the next batch makes it anew.
	Without []string `json:"-"`
}

// Analyze makes the report of one run, as the analyze command does of its files.
// Build tells versions of the program apart. A panic becomes an error: one file
// must not end the work on a thousand.
func Analyze(ctx context.Context, run Run, build string, o Options) *Result {
	r := failed(run, nil)
	if err := r.analyze(ctx, run, build, o); err != nil {
		return failed(run, err)
	}
	return r
}

// failed is the result of a run that can't be analysed, or hasn't been yet.
func failed(run Run, err error) *Result {
	r := &Result{Entry: Entry{Schema: entrySchema, Path: run.Path, Name: run.Name, Experiment: run.Experiment,
		Inputs: len(run.Files)}, Err: err}
	if err != nil {
		r.Error = open.OneLine(err)
	}
	return r
}

func (r *Result) analyze(ctx context.Context, run Run, build string, o Options) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = o.redacted(fmt.Errorf("%s: the analysis broke down (%v) %s", run.Place, p, where(debug.Stack())), run)
		}
	}()
	options := open.Options{MaxMemory: o.MaxMemory, Partial: o.Partial, Lenient: true, Context: ctx, Stores: o.Stores}
	before := versionsOf(ctx, run, o.Stores)
	in, err := open.Files(run.Files, options)
	if errors.Is(err, ErrNothing) && run.Sure { // say what is wrong with it
		options.Lenient = false
		in, err = open.Files(run.Files[:1], options)
	}
	if err != nil {
		return o.redacted(err, run)
	}
	defer in.Close()
	d, err := o.diagnosis(in)
	if err != nil {
		return o.redacted(err, run)
	}
	digests := map[string]func() (string, int64){}
	for _, s := range in.Sources {
		digests[s.Path] = s.Digest
	}
	if o.Redact {
		r := redact.New(o.Key)
		r.Titles = o.RedactTitle
		in.Redact(r, d)
	}
	doc, err := diagnose.Run(in.Sources, in.Evidence, *d)
	if err != nil {
		return o.redacted(err, run)
	}
	if err := in.Unread(); err != nil {
		return o.redacted(err, run)
	}
	doc.Command = o.command(doc)
	var page, data bytes.Buffer
	if err := o.page(&page, doc, &r.Script); err != nil {
		return o.redacted(err, run)
	}
	if err := report.JSON(&data, doc); err != nil {
		return o.redacted(err, run)
	}
	r.HTML, r.JSON, r.Without = page.Bytes(), data.Bytes(), in.Without()
	if r.Without != nil || !slices.Equal(before, versionsOf(ctx, run, o.Stores)) { // made anew the next time
		return nil
	}
	r.Fingerprint, err = fingerprint(ctx, run, build, o, digests)
	return err
}

// versionsOf reports whether a run's files are what they were, where they lie in folders:
// a store's are read as what they were when they were listed, or not at all.
func versionsOf(ctx context.Context, run Run, stores *store.Pool) []string {
	var out []string
	for _, name := range run.Files {
		if _, local := store.Path(name); local {
			f, _ := stores.Stat(ctx, name) // that there is none is a version, too
			out = append(out, f.Version)
		}
	}
	return out
}

// page writes a report, and the name of the script that it shares with others.
func (o *Options) page(w io.Writer, doc *report.Document, script *string) error {
	if o.Standalone {
		return pages.Document(w, doc)
	}
	shares, err := pages.Beside(w, doc, "../..") // from runs/NAME
	if shares {
		*script = pages.ScriptName()
	}
	return err
}

// diagnosis is how a run is judged.
func (o *Options) diagnosis(in *open.Run) (*diagnose.Options, error) {
	d := &diagnose.Options{Tool: o.Tool, Title: o.Title, Device: o.Device, Notes: append([]report.Note{}, o.Notes...),
		Capacity: o.Capacity, Pictures: true}
	var given *budget.Config
	if o.Config != "" {
		var err error
		if given, err = open.ReadConfig(o.Config); err != nil {
			return nil, err
		}
	}
	d.Theory = in.Theory(given, o.Redact)
	var names open.Names
	if err := names.Labels(o.Labels...); err != nil { // those beside recordings are found by load
		return nil, err
	}
	if err := names.Tensors(o.Model, given); err != nil {
		return nil, err
	}
	if o.Redact {
		names.Redact(redact.New(o.Key))
	}
	d.Names = names.Options
	return d, nil
}

// redacted is an error that names no file of the run's.
func (o *Options) redacted(err error, run Run) error {
	if !o.Redact {
		return err
	}
	return redact.New(o.Key).Renamed(err, append([]string{o.Config, o.Model}, append(o.Labels, run.Files...)...)...)
}

// command is the command line that makes the same report again.
func (o *Options) command(doc *report.Document) []string {
	out := []string{"vramscope", "analyze"}
	add := func(flag, value string) {
		if value != "" {
			if o.Redact && flag != "gpu" {
				value = redact.New(o.Key).Input(value)
			}
			out = append(out, "--"+flag+"="+value)
		}
	}
	add("config", o.Config)
	if o.Device != nil {
		out = append(out, "--device="+strconv.Itoa(*o.Device))
	}
	add("gpu", o.GPU)
	for _, l := range o.Labels {
		add("labels", l)
	}
	add("model", o.Model)
	if o.Partial {
		out = append(out, "--partial")
	}
	for _, in := range doc.Inputs {
		out = append(out, in.Path)
	}
	return out
}

// where is the innermost line of our own in a panic's stack.
func where(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	broke := false
	for _, l := range lines {
		if strings.HasPrefix(l, "panic(") {
			broke = true
		}
		if at := strings.LastIndex(l, ".go:"); broke && strings.HasPrefix(l, "\t") && at > 0 &&
			!strings.Contains("/"+l[1:], "/runtime/") { // a name may be relative (-trimpath)
			file := l[1:at]
			line, _, _ := strings.Cut(l[at+4:], " ")
			if _, err := strconv.Atoi(line); err == nil {
				return "at " + report.ShortFile(file) + ".go:" + line + "; please report it with the file if you can"
			}
		}
	}
	return ""
}
