package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/store"
)

// task is all that a worker must know; it travels with the pipeline.
type task struct {
	Roots     []string // folders, files and prefixes to look below
	List      string   // a file that names more of them, one per line; "": none
	Out       string
	Build     string
	Options   batch.Options
	Prune     bool   // remove runs that lie elsewhere, too
	MaxMemory int64  // bytes, of one worker process; 0: three quarters of what it has
	KeyMark   string // of the key for pseudonyms; "" without redaction
}

// build lays out the pipeline: find the runs, spread them over the workers,
// analyse each and write its reports there, join what was written.
func (t task) build() *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	found, lost := beam.ParDo2(s.Scope("Find"), &find{t}, beam.Impulse(s))
	spread := beam.Reshuffle(s.Scope("Spread"), found)
	outcomes := beam.ParDo(s.Scope("Analyse"), &analyse{Task: t}, spread)
	all := beam.Flatten(s, outcomes, lost)
	beam.ParDo0(s.Scope("Join"), &join{t}, beam.GroupByKey(s, beam.AddFixedKey(s, all)))
	return p
}

func init() { // Beam finds the code of a pipeline by these names on every worker
	register.DoFn4x1[context.Context, []byte, func(batch.Run), func(outcome), error](&find{})
	register.DoFn3x1[context.Context, batch.Run, func(outcome), error](&analyse{})
	register.DoFn3x1[context.Context, int, func(*outcome) bool, error](&join{})
	register.Emitter1[batch.Run]()
	register.Emitter1[outcome]()
	register.Iter1[outcome]()
	// Not Beam's rows, which its Java runners read otherwise than Go writes them
	// where a list is nil: what they can't read they pass on as it is.
	// (Workers find these by name, too, and can't tell generic ones apart.)
	beam.RegisterCoder(reflect.TypeFor[batch.Run](), encodeRun, decodeRun)
	beam.RegisterCoder(reflect.TypeFor[outcome](), encodeOutcome, decodeOutcome)
}

func encodeRun(r batch.Run) ([]byte, error) { return json.Marshal(r) }

func decodeRun(b []byte) (r batch.Run, err error) {
	err = json.Unmarshal(b, &r)
	return r, err
}

func encodeOutcome(o outcome) ([]byte, error) { return json.Marshal(o) }

func decodeOutcome(b []byte) (o outcome, err error) {
	err = json.Unmarshal(b, &o)
	return o, err
}

// find is the step that lists the runs: one worker does it, reading names and
// the beginnings of files.
type find struct{ Task task }

// ProcessElement finds the runs.
func (f *find) ProcessElement(ctx context.Context, _ []byte, emit func(batch.Run), lost func(outcome)) error {
	t := f.Task
	if err := t.key(); err != nil {
		return err
	}
	if err := dropSummary(ctx, t.Out); err != nil {
		return t.redacted(err)
	}
	var pool store.Pool
	defer pool.Close()
	roots, err := t.places(ctx, &pool)
	if err != nil {
		return t.redacted(err)
	}
	found, err := batch.Find(ctx, roots, batch.FindOptions{Skip: t.Out, Redact: t.Options.Redact, Key: t.Options.Key,
		Stores: &pool})
	if err != nil {
		return t.redacted(err, roots...)
	}
	for _, err := range found.Failed {
		lost(outcome{State: unread, Error: t.redacted(err, roots...).Error()})
	}
	for _, r := range found.Runs {
		emit(r)
	}
	return nil
}

// places are the folders and prefixes to look below.
func (t *task) places(ctx context.Context, pool *store.Pool) ([]string, error) {
	if t.List == "" {
		return t.Roots, nil
	}
	listed, err := readList(ctx, pool, t.List)
	return append(slices.Clone(t.Roots), listed...), err
}

// readList reads names, one per line; empty lines and those that begin with #
// are passed over.
func readList(ctx context.Context, pool *store.Pool, name string) ([]string, error) {
	r, err := pool.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	const most = 256 << 20
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, fmt.Errorf("%s: a list of more than %d MiB", store.Show(name), most>>20)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names, nil
}

// workers are the one worker of this process for each task. Beam makes an
// analyse for every bundle that runs at a time; memory and cores are the
// process's, which is why they are shared here.
var workers sync.Map // of func() (*batch.Worker, error), by task in JSON

// key gives the options this worker's key for pseudonyms.
func (t *task) key() error {
	if t.KeyMark == "" {
		return nil
	}
	t.Options.Key = os.Getenv(keyVariable)
	if keyMark(t.Options.Key) != t.KeyMark {
		return errors.New(keyVariable + " of a worker is not the one that the pipeline was started with")
	}
	return nil
}

// redacted is an error that names no place of the runs' and the results', where that is
// asked for.
func (t *task) redacted(err error, roots ...string) error {
	if !t.Options.Redact || err == nil {
		return err
	}
	o := &t.Options
	places := slices.Concat(t.Roots, roots, []string{t.List, t.Out, o.Config, o.Model}, o.Labels)
	return redact.New(os.Getenv(keyVariable)).Renamed(err, places...)
}

// worker is what does this work here.
func (t task) worker() (*batch.Worker, error) {
	if err := t.key(); err != nil {
		return nil, err
	}
	limit := t.MaxMemory
	if limit == 0 {
		limit = batch.MachineMemory() / 4 * 3
	}
	if limit > 0 {
		debug.SetMemoryLimit(limit) // the collector works harder before the limit, not later
	}
	stores := &store.Pool{} // for as long as the process lives
	out, err := stores.Place(context.Background(), t.Out)
	if err != nil {
		return nil, err
	}
	t.Options.Stores = stores
	return batch.NewWorker(batch.Config{Out: out, Build: t.Build, Options: t.Options, MaxMemory: limit / 10 * 9}), nil
}

func workerOf(t task) (*batch.Worker, error) {
	key, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	prepare := sync.OnceValues(t.worker)
	once, _ := workers.LoadOrStore(string(key), prepare)
	return once.(func() (*batch.Worker, error))()
}

// analyse makes the reports of runs, several of a bundle at a time: some
// runners give a process a single bundle with everything.
type analyse struct {
	Task task

	worker *batch.Worker
	slots  chan struct{}
	bundle sync.WaitGroup
	mu     sync.Mutex
	ready  []outcome
	err    error
}

// Setup is called once for each copy.
func (a *analyse) Setup() (err error) {
	a.worker, err = workerOf(a.Task)
	return err
}

// StartBundle begins with nothing.
func (a *analyse) StartBundle(context.Context, func(outcome)) {
	a.slots, a.ready, a.err = make(chan struct{}, a.atATime()), nil, nil
}

// atATime is how many runs of a bundle are worked on together.
func (a *analyse) atATime() int { return max(1, runtime.GOMAXPROCS(0)) }

// ProcessElement begins with a run when one before it is done.
func (a *analyse) ProcessElement(ctx context.Context, run batch.Run, emit func(outcome)) error {
	a.slots <- struct{}{}
	a.bundle.Go(func() {
		defer func() { <-a.slots }()
		o, err := a.one(ctx, run)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ready = append(a.ready, o)
		a.err = errors.Join(a.err, err)
	})
	return a.emit(emit)
}

// one analyses a run. The error is about the place of the results.
func (a *analyse) one(ctx context.Context, run batch.Run) (outcome, error) {
	p, err := a.worker.Do(ctx, run)
	o := outcome{Path: run.Path}
	switch {
	case p.Err != nil:
		o.State = failed
		o.Error, _, _ = strings.Cut(p.Err.Error(), "\n") // without advice
	case p.Skipped:
		o.State = unchanged
	case p.Nothing:
		o.State = nothing
	}
	return o, err
}

// emit passes on what is done by now.
func (a *analyse) emit(emit func(outcome)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.ready {
		emit(o)
	}
	a.ready = a.ready[:0]
	return a.err
}

// FinishBundle waits for the last ones.
func (a *analyse) FinishBundle(_ context.Context, emit func(outcome)) error {
	a.bundle.Wait()
	return a.emit(emit)
}

// join makes the tables and the page of what the workers wrote.
type join struct{ Task task }

// ProcessElement is called once, with all outcomes.
func (j *join) ProcessElement(ctx context.Context, _ int, next func(*outcome) bool) error {
	t := j.Task
	s := summary{Schema: summarySchema, Failed: []string{}, Unread: []string{}}
	var runs []batch.Run
	for o := (outcome{}); next(&o); {
		if s.add(o); o.State == done || o.State == unchanged || o.State == failed {
			runs = append(runs, batch.Run{Path: o.Path, Name: batch.FolderName(o.Path)})
		}
	}
	slices.SortFunc(runs, func(a, b batch.Run) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(s.Failed)
	slices.Sort(s.Unread)
	out, err := store.Open(ctx, t.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	if len(runs) == 0 { // more likely a wrong place to look than the end of all runs
		return s.write(ctx, out)
	}
	gone, err := t.gone(ctx, len(s.Unread) > 0)
	if err != nil {
		return err
	}
	removed, kept, err := batch.TidyBelow(ctx, out, runs, gone)
	if err != nil {
		return err
	}
	s.Removed = removed
	reports := batch.Stored(ctx, out, batch.ByPath(append(kept, runs...))...)
	if err := batch.Combine(ctx, out, t.Options.Tool, reports); err != nil {
		return err
	}
	return s.write(ctx, out)
}

// gone tells which runs of an earlier batch are no longer there, as batch does.
func (t *task) gone(ctx context.Context, unread bool) (func(place string) bool, error) {
	switch {
	case t.Prune:
		return func(string) bool { return true }, nil
	case t.Options.Redact, unread:
		return func(string) bool { return false }, nil
	}
	roots, err := t.places(ctx, &store.Pool{})
	return batch.Below(roots), err
}
