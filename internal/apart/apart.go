// Package apart does the runs of a batch in a process beside the batch's own. A run that takes
// more memory than that process may, or breaks down, ends it and not the batch; which of the
// runs at work it was, each shows alone in another process.
package apart

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/vramscope/vramscope/batch"
)

// Runs does runs, several at a time if asked to.
type Runs struct {
	Start  func(context.Context) (*exec.Cmd, error)                        // of the process, which calls Serve
	Refuse func(context.Context, batch.Run, error) (batch.Progress, error) // writes why a run has no report

	alone sync.RWMutex // for writing: no other run is at work

	mu  sync.Mutex
	now *process // nil: the next run starts one
}

// diedError is why a process gave no reply.
type diedError struct{ cause string }

func (e *diedError) Error() string { return e.cause }

// Do does one run.
func (r *Runs) Do(ctx context.Context, run batch.Run) (batch.Progress, error) {
	r.alone.RLock()
	p, err := r.ask(ctx, run)
	r.alone.RUnlock()
	died := (*diedError)(nil)
	if !errors.As(err, &died) || ctx.Err() != nil {
		return p, cmp.Or(context.Cause(ctx), err)
	}
	r.alone.Lock()
	defer r.alone.Unlock()
	r.End()
	defer r.End() // with what it took
	if p, err = r.ask(ctx, run); errors.As(err, &died) && ctx.Err() == nil {
		return r.Refuse(ctx, run, died)
	}
	return p, cmp.Or(context.Cause(ctx), err)
}

// ask has the process do a run.
func (r *Runs) ask(ctx context.Context, run batch.Run) (batch.Progress, error) {
	c, err := r.running(ctx)
	if err != nil {
		return batch.Progress{}, err
	}
	reply, err := c.ask(run)
	p := batch.Progress{Run: run, Without: reply.Without, Skipped: reply.Skipped, Nothing: reply.Nothing}
	if reply.Failed != "" {
		p.Err = errors.New(reply.Failed)
	}
	if reply.Fatal != "" {
		err = errors.New(reply.Fatal)
	}
	return p, err
}

// running is the process that does the runs.
func (r *Runs) running(ctx context.Context) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil && !r.now.over() {
		return r.now, nil
	}
	c, err := r.Start(ctx)
	if err == nil {
		r.now, err = begin(c)
	}
	return r.now, err
}

// End ends the process.
func (r *Runs) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		r.now.in.Close()
		<-r.now.ended
		r.now = nil
	}
}

// request and reply are what goes between the processes, as gob: names of files are
// bytes, and need not be text.
type request struct {
	Number int
	Run    batch.Run
}

type reply struct {
	Number           int
	Without          []string
	Skipped, Nothing bool
	Failed, Fatal    string // the error of the run, and of the batch
}

// process is a process that does runs.
type process struct {
	in    io.WriteCloser
	ended chan struct{}
	died  error // once it has ended

	mu      sync.Mutex
	out     *gob.Encoder
	number  int
	waiting map[int]chan reply
}

func begin(c *exec.Cmd) (*process, error) {
	said := &Head{Most: 8 << 10}
	c.Stderr = said
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.Cancel = in.Close // it leaves what it hasn't done
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := &process{in: in, ended: make(chan struct{}), out: gob.NewEncoder(in), waiting: map[int]chan reply{}}
	go func() {
		defer close(p.ended)
		for replies := gob.NewDecoder(out); ; {
			var x reply
			if err := replies.Decode(&x); err != nil {
				break
			}
			p.mu.Lock()
			to := p.waiting[x.Number]
			delete(p.waiting, x.Number)
			p.mu.Unlock()
			if to != nil {
				to <- x
			}
		}
		io.Copy(io.Discard, out)
		err := c.Wait()
		cause, ours := strings.CutPrefix(string(bytes.TrimSpace(said.Bytes())), "vramscope: ")
		if !ours {
			cause = fmt.Sprintf("the analysis broke down (%v)", err)
		}
		p.died = &diedError{cause}
	}()
	return p, nil
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// ask waits for the reply, or the end of the process.
func (p *process) ask(run batch.Run) (reply, error) {
	to := make(chan reply, 1)
	p.mu.Lock()
	p.number++
	p.waiting[p.number] = to
	_ = p.out.Encode(request{p.number, run}) // it ends if that can't be had
	p.mu.Unlock()
	select {
	case x := <-to:
		return x, nil
	case <-p.ended:
	}
	select {
	case x := <-to: // its last word
		return x, nil
	default:
		return reply{}, p.died
	}
}

// Serve does the runs that another process asks for. When nobody is there to ask more, it leaves what isn't done.
func Serve(ctx context.Context, w *batch.Worker, in io.Reader, out io.Writer) {
	const patience = 5 * time.Second
	ctx, stop := context.WithCancel(ctx)
	var doing sync.WaitGroup
	var said sync.Mutex
	replies := gob.NewEncoder(out)
	for requests := gob.NewDecoder(in); ; {
		var q request
		if err := requests.Decode(&q); err != nil {
			break
		}
		doing.Go(func() {
			p, err := w.Do(ctx, q.Run)
			a := reply{Number: q.Number, Without: p.Without, Skipped: p.Skipped, Nothing: p.Nothing}
			if p.Err != nil {
				a.Failed = p.Err.Error()
			}
			if err != nil {
				a.Fatal = err.Error()
			}
			said.Lock()
			defer said.Unlock()
			_ = replies.Encode(a) // whoever asked is gone, else
		})
	}
	stop()
	over := make(chan struct{})
	go func() { doing.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(patience):
	}
}

// Head is a buffer that keeps the beginning.
type Head struct {
	bytes.Buffer
	Most int
}

func (h *Head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, h.Most-h.Len()))])
	return len(p), nil
}
