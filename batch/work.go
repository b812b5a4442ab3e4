package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
)

// Config says how a batch is done on one machine.
type Config struct {
	Out     *store.Place // of the results
	Build   string       // tells one version of the program from another, for resuming
	Options Options
	Workers int // runs at a time; 0: one for each core
	// MaxMemory is how many bytes all runs at a time may use; 0: no limit.
	// Options.MaxMemory is set from it.
	MaxMemory int64
	// Done is called when a run is done, by one goroutine at a time. May be nil.
	Done func(Progress)
	// Do does a run as Worker.Do does, but elsewhere; nil: this process does it.
	Do func(context.Context, Run) (Progress, error)
}

// Progress is one run that is done.
type Progress struct {
	Run     Run
	Err     error    // why it couldn't be analysed
	Without []string // inputs that the report is made without, and why
	Skipped bool     // nothing has changed since it was done
	Nothing bool     // text that says nothing: no run after all
}

// Work analyses runs and writes the folder of each, with as many at a time as
// there are cores and as memory allows. What is there already and wouldn't
// change is left. The error is about the folder of the results, or that ctx
// ended; a run that can't be analysed is no error.
func Work(ctx context.Context, runs []Run, c Config) error {
	if err := distinct(runs); err != nil {
		return err
	}
	w := NewWorker(c)
	do := w.Do
	if c.Do != nil {
		do = c.Do
	}
	queue := make(chan Run)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var done sync.WaitGroup
	for range min(cmp.Or(max(c.Workers, 0), runtime.GOMAXPROCS(0)), len(runs)) {
		done.Go(func() {
			for run := range queue {
				if ctx.Err() != nil {
					continue
				}
				if p, err := do(ctx, run); err != nil {
					stop(err)
				} else {
					w.report(p)
				}
			}
		})
	}
feed:
	for _, run := range runs {
		select {
		case queue <- run:
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
	done.Wait()
	return context.Cause(ctx)
}

// distinct refuses runs whose folders would be the same.
func distinct(runs []Run) error {
	seen := map[string]string{}
	for _, r := range runs {
		if other, ok := seen[r.Name]; ok {
			return fmt.Errorf("%s and %s would both be written to %s/%s", other, r.Path, runsFolder, r.Name)
		}
		seen[r.Name] = r.Path
	}
	return nil
}

// Worker does runs, several at a time if asked to; they share its memory.
type Worker struct {
	Config
	memory memory
	said   sync.Mutex
}

// NewWorker makes a worker.
func NewWorker(c Config) *Worker {
	if c.Options.Stores == nil {
		c.Options.Stores = &store.Pool{}
	}
	return &Worker{Config: c, memory: newMemory(c.MaxMemory)}
}

func (w *Worker) report(p Progress) {
	if w.Done == nil {
		return
	}
	w.said.Lock()
	defer w.said.Unlock()
	w.Done(p)
}

// Do analyses one run and writes its folder, unless that is there and wouldn't
// change. The error is about the folder of the results, or that ctx ended.
func (w *Worker) Do(ctx context.Context, run Run) (Progress, error) {
	p := Progress{Run: run}
	if old, err := readEntry(ctx, w.Out, run.Name); err == nil && old.Error == "" && old.Inputs == len(run.Files) &&
		old.whole(ctx, w.Out, w.memory.longest()) {
		sum, err := fingerprint(ctx, run, w.Build, w.Options, nil)
		if err == nil && sum != "" && sum == old.Fingerprint {
			w.Out.Sweep(path.Join(runsFolder, run.Name))
			p.Skipped = true
			return p, nil
		}
	}
	result, err := w.analyze(ctx, run)
	return w.write(ctx, run, result, err)
}

// Refuse writes, instead, why there is no report of a run.
func (w *Worker) Refuse(ctx context.Context, run Run, cause error) (Progress, error) {
	return w.write(ctx, run, failed(run, w.Options.redacted(fmt.Errorf("%s: %w", run.Place, cause), run)), nil)
}

func (w *Worker) write(ctx context.Context, run Run, result *Result, err error) (Progress, error) {
	p := Progress{Run: run}
	switch {
	case err != nil:
		return p, err
	case errors.Is(result.Err, ErrNothing) && !run.Sure:
		p.Nothing = true
		return p, removeRun(ctx, w.Out, run.Name)
	}
	p.Err, p.Without = result.Err, result.Without
	return p, result.Write(ctx, w.Out)
}

// analyze waits for the memory that a run is thought to need. One that needs
// more is done again with all there is.
func (w *Worker) analyze(ctx context.Context, run Run) (*Result, error) {
	need := w.memory.clip(cost(ctx, run, w.Options.Stores))
	for {
		if err := w.memory.Acquire(ctx, need); err != nil {
			return nil, context.Cause(ctx)
		}
		o := w.Options
		o.MaxMemory = w.memory.share(need)
		r := Analyze(ctx, run, w.Build, o)
		w.memory.Release(need)
		if n := int64(len(r.JSON)); n > w.memory.longest() {
			r = failed(run, w.Options.redacted(fmt.Errorf("%s: its report of %s is too long to be joined with others within "+
				"--max-memory", run.Place, units.Size(n)), run))
		}
		if !errors.Is(r.Err, snapshot.ErrMemory) || need == w.memory.all {
			return r, context.Cause(ctx)
		}
		need = w.memory.all
	}
}

// memory is what runs at a time share, in bytes.
type memory struct {
	*semaphore.Weighted
	all int64
}

const unlimited = 1 << 62

func newMemory(limit int64) memory {
	if limit <= 0 {
		limit = unlimited
	}
	return memory{semaphore.NewWeighted(limit), limit}
}

// longest is how many bytes of a report are joined with others, which takes five times as much.
func (m memory) longest() int64 { return min(m.all/8, maxReport) }

func (m memory) clip(need int64) int64 { return min(need, m.all) }

// share is the limit for a decoder whose run was given so much; 0: none. What is made of a
// recording takes half as much again.
func (m memory) share(need int64) int64 {
	if m.all == unlimited {
		return 0
	}
	return need / 3 * 2
}

// Write writes the folder of a run: its reports, or none, and then the entry
// that says that they are whole.
func (r *Result) Write(ctx context.Context, out *store.Place) error {
	out.Sweep(path.Join(runsFolder, r.Name))
	entry, err := json.MarshalIndent(&r.Entry, "", " ")
	if err != nil {
		return err
	}
	if r.JSON == nil { // what an earlier batch left
		if err := removeRun(ctx, out, r.Name); err != nil {
			return err
		}
	} else if err := out.Remove(ctx, in(r.Name, entryFile)); err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		text []byte
	}{{reportHTML, r.HTML}, {reportJSON, r.JSON}, {entryFile, append(entry, '\n')}} {
		if file.text == nil {
			continue
		}
		if err := out.Write(ctx, in(r.Name, file.name),
			func(w io.Writer) error { _, err := w.Write(file.text); return err }); err != nil {
			return err
		}
	}
	return nil
}
