package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Streams are the program's. Output goes through to them as it is.
type Streams struct{ In, Out, Err *os.File }

// Program is one that runs.
type Program struct {
	Dir    string
	record *Record
	cmd    *exec.Cmd
	output *output
	gpus   *monitor
	relay  *relay
	over   func() // takes away what only a running program needs
	kills  int    // for host memory, before
	live   *live
	// simulated: no GPU is there to be watched, and addresses of the host are the same each time.
	simulated bool
	every     time.Duration
	kept      chan struct{}
	ended     chan struct{}
}

// Result is what came of it.
type Result struct {
	*Record
	Status    int // for the shell: the program's exit code, or 128 and the signal
	Signal    syscall.Signal
	Imported  int // processes that imported PyTorch
	Recorded  int // of those, processes with a dump
	OutOfMemo bool
	Ending    string // how the program ended, where that wants words
	Unseen    bool   // its output, on a screen that is gone
	Refused   string // why nothing can be simulated for it, told by a process of it
	started   bool   // a Python that could record
	raised    string // the last exception that its output tells of
}

// NotStarted is a command that doesn't run, with a shell's exit code for it.
type NotStarted struct {
	Code int
	Err  error
}

func (e *NotStarted) Error() string { return e.Err.Error() }

// Start starts the program, with its run's directory made and everything beside it running.
func Start(o Options, s Streams) (*Program, error) {
	path, err := exec.LookPath(o.Command[0])
	if err != nil {
		code := 127
		if errors.Is(err, fs.ErrPermission) {
			code = 126
		}
		return nil, &NotStarted{code, err}
	}
	p := &Program{every: o.Every, record: newRecord(o.Command, time.Now()), kept: make(chan struct{}), ended: make(chan struct{})}
	if p.Dir, err = o.Folder(); err != nil {
		return nil, err
	}
	hook, over, err := link(p.Dir)
	if err != nil {
		return nil, err
	}
	p.over = over
	if o.Live {
		p.live = startLive(p.Dir, p.record.Environment.Command, &s)
		o.Live = p.live != nil // else nobody has to be told
	}
	p.cmd = &exec.Cmd{Path: path, Args: o.Command, Stdin: s.In, Env: os.Environ()}
	for _, v := range o.Environment(p.Dir, hook, os.LookupEnv) {
		p.cmd.Env = append(p.cmd.Env, v.Name+"="+v.Value) // the last one counts
	}
	if err := p.simulate(&o); err != nil {
		p.live.end()
		over()
		return nil, err
	}
	if err := p.start(s); err != nil {
		p.live.end()
		over()
		return nil, err
	}
	return p, nil
}

// start starts the program and what runs beside it.
func (p *Program) start(s Streams) error {
	err := p.record.write(p.Dir)
	if err != nil {
		return err
	}
	if p.output, err = newOutput(filepath.Join(p.Dir, LogFile), s); err != nil {
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = p.output.stdout, p.output.stderr
	p.gpus = &monitor{}
	if !p.simulated {
		p.gpus = startMonitor(p.Dir, p.record)
	}
	p.kills, _ = hostMemory(os.ReadFile)
	p.relay = newRelay(p.Dir) // before the start: a signal that comes at once is not lost
	start := p.cmd.Start
	if p.simulated {
		start = func() error { return startInPlace(p.cmd, p.record) }
	}
	if err := start(); err != nil {
		p.relay.stop()
		p.gpus.stop()
		p.output.wait(0)
		return &NotStarted{126, fmt.Errorf("%s: %w", p.cmd.Args[0], err)}
	}
	p.output.started()
	p.relay.to(p.cmd.Process)
	go p.keep()
	return nil
}

// keeping is how often run.json takes over what processes say of themselves.
var keeping = 5 * time.Second

// keep keeps run.json up to date: we may be killed before the program ends.
func (p *Program) keep() {
	defer close(p.kept)
	again := time.NewTicker(keeping)
	defer again.Stop()
	var regular <-chan time.Time
	if p.every > 0 {
		ticks := time.NewTicker(p.every)
		defer ticks.Stop()
		regular = ticks.C
	}
	var before time.Time
	for {
		select {
		case <-again.C:
		case <-regular:
			if os.WriteFile(filepath.Join(p.Dir, tickFile), nil, 0o600) == nil {
				p.relay.askRecorders()
			}
			continue
		case <-p.ended:
			return
		}
		if info, err := os.Stat(filepath.Join(p.Dir, processesFolder)); err == nil && info.ModTime() != before {
			before = info.ModTime()
			p.record.fill(processes(p.Dir))
			_ = p.record.write(p.Dir) // tried again in the end
		}
	}
}

// lingering is how long output of processes that the program left behind is waited for.
const lingering = 2 * time.Second

// Wait waits for the program and writes down what it left.
func (p *Program) Wait() *Result {
	_ = p.cmd.Wait() // an exit code that isn't 0 is no error here
	p.live.end()
	close(p.ended)
	<-p.kept
	if !p.output.wait(lingering) {
		p.record.Notes = append(p.record.Notes,
			"processes that the program left behind still write: what they print goes on, and is not in "+LogFile)
	}
	p.relay.stop()
	p.gpus.stop()
	p.over()
	r := &Result{Record: p.record, Unseen: p.live != nil}
	if _, err := os.Stat(filepath.Join(p.Dir, startedFile)); err == nil {
		r.started = true
	}
	p.record.Environment.Driver = driver(p.Dir)
	found := processes(p.Dir)
	p.record.fill(found)
	if p.simulated {
		r.Refused = refusedBy(p.Dir)
	}
	r.Imported = len(found)
	for _, one := range found {
		if slices.ContainsFunc(one.Dumps, func(d Dump) bool { return d.File != nil }) {
			r.Recorded++
		}
		r.OutOfMemo = r.OutOfMemo || one.OOMs > 0
	}
	p.record.End = new(time.Now().Format(time.RFC3339Nano))
	r.Status, r.Signal = status(p.cmd.ProcessState)
	if r.Signal != 0 {
		p.record.Signal = new(nameOfSignal(r.Signal))
	} else {
		p.record.ExitCode = &r.Status
	}
	kills, limit := hostMemory(os.ReadFile)
	log := lastOf(p.Dir)
	r.raised = exception(log)
	if r.Status != 0 {
		p.record.Exception = r.raised
	}
	if r.Ending = endingOf(r, log, kills-p.kills, limit); r.Ending != "" {
		p.record.Notes = append(p.record.Notes, r.Ending)
	}
	if err := p.record.write(p.Dir); err != nil {
		p.record.Notes = append(p.record.Notes, err.Error())
	}
	return r
}

// Failed reports whether the program failed, or ran out of memory and went on.
func (r *Result) Failed() bool { return r.Status != 0 || r.OutOfMemo }

// Missing says why nothing was recorded, with what to do; "" when something was.
func (r *Result) Missing() string {
	switch {
	case r.Recorded > 0:
		return ""
	case r.Imported == 0:
		return "nothing was recorded: no process imported PyTorch with the recorder in it\n  " + r.unreached() + "\n" +
			"  Processes on other machines, of Ray or in containers need the variables of `vramscope run --print-env -o DIR`."
	case len(r.Processes) == 0:
		return "nothing was recorded: PyTorch was imported, and no process used CUDA\n" +
			"  python -c 'import torch; print(torch.cuda.is_available())' says whether PyTorch sees a GPU.\n" +
			"  If so, the program doesn't move its model there.\n" +
			"  If not, `vramscope run --simulate GPU -- …` runs it on one that isn't there."
	}
	return "nothing was recorded: " + explain(r.Processes)
}

// unreached says why the recorder came into no process that imported PyTorch.
func (r *Result) unreached() string {
	if r.started {
		return "Python was started with the recorder within reach, and imported no PyTorch."
	}
	for i, word := range r.Command {
		if i == 0 && strings.Contains(filepath.Base(word), "python") {
			continue
		}
		if !strings.HasPrefix(word, "-") || strings.HasPrefix(word, "--") || word == "-c" || word == "-m" {
			break
		}
		if strings.ContainsAny(word, "IE") {
			return "Python started with " + word +
				" ignores the environment: leave it out, or pip install vramscope beside PyTorch."
		}
	}
	return "No Python was started that heeds PYTHONPATH: frozen programs, and Python with -I or -E, ignore the environment.\n" +
		"  Where PyTorch is a package of its own, pip install vramscope beside it."
}

// explain is the first word of a process on why it left nothing.
func explain(all []Process) string {
	for _, p := range all {
		switch {
		case p.Recording != nil && *p.Recording == "unwanted":
			return "--ranks names none of the ranks that ran"
		case p.Recording != nil && *p.Recording == "unavailable":
			return "this allocator keeps no history, and its counters alone are kept"
		case len(p.Notes) > 0:
			return p.Notes[0]
		}
	}
	return "the program was killed before its first dump, or allocated nothing (kill -USR2 on `vramscope run` has it dump)"
}
