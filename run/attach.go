package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vramscope/vramscope/python"
)

// Attachment says which running program is looked into, and how.
type Attachment struct {
	PID    int
	Dir    string        // "": vramscope-pid-PID-N in the working folder
	Record time.Duration // for how long events are recorded; 0: what is held now, alone
	Wait   time.Duration // for the program to come back to Python
	Stacks string        // all, python or none
	Ring   int64         // bytes of host memory for events and their dumps
}

// shortestRecording is the least that is worth two visits.
const shortestRecording = time.Second

// Check refuses what can't be meant.
func (a *Attachment) Check() error {
	if a.Record != 0 && a.Record < shortestRecording {
		return fmt.Errorf("--record %s: at least %s", a.Record, shortestRecording)
	}
	if a.Wait < time.Second {
		return fmt.Errorf("--wait %s: at least a second", a.Wait)
	}
	return a.options().Check()
}

func (a *Attachment) options() *Options {
	return &Options{Dir: a.Dir, Command: []string{fmt.Sprintf("pid-%d", a.PID)}, Stacks: a.Stacks, Ring: a.Ring, Holders: true}
}

// Attach has a running program, or all of PyTorch's below it, dump what it holds, and gives the run's directory.
// A process that can't be reached is told in the result's notes, or is the error where there is no other.
func Attach(ctx context.Context, a Attachment) (dir string, r *Result, err error) {
	found, err := reachable(a.PID)
	if err != nil {
		return "", nil, err
	}
	o := a.options()
	if dir, err = o.Folder(); err != nil {
		return "", nil, err
	}
	record := newRecord(commandOf(a.PID), time.Now())
	visits := visitor{dir: dir, options: o.text(), wait: a.Wait}
	first := "look"
	if a.Record > 0 {
		first = "begin"
	}
	if reached := visits.all(ctx, found, first); a.Record > 0 && len(reached) > 0 {
		select {
		case <-time.After(a.Record):
		case <-ctx.Done(): // ends the recording, which stays in no program
		}
		visits.all(context.WithoutCancel(ctx), reached, "end")
	}
	r = &Result{Record: record}
	record.fill(processes(dir))
	for _, p := range record.Processes {
		if len(p.Dumps) > 0 {
			r.Recorded++
		}
	}
	if r.Recorded == 0 {
		os.RemoveAll(dir)
		return "", nil, errors.Join(visits.refused...)
	}
	for _, e := range visits.refused {
		record.Notes = append(record.Notes, e.Error())
	}
	record.End = new(time.Now().Format(time.RFC3339Nano))
	return dir, r, record.write(dir)
}

// visitor has processes run the recorder's visits, one after the other.
type visitor struct {
	dir, options string
	wait         time.Duration
	n            int
	refused      []error // why, of those that didn't answer
}

// all visits processes, and gives those that answered.
func (v *visitor) all(ctx context.Context, found []running, what string) (reached []running) {
	for _, p := range found {
		if err := v.visit(ctx, p, what); err != nil {
			v.refused = append(v.refused, fmt.Errorf("process %d: %w", p.pid, err))
		} else {
			reached = append(reached, p)
		}
	}
	return reached
}

// visit returns when the process has answered.
func (v *visitor) visit(ctx context.Context, p running, what string) error {
	v.n++
	base := filepath.Join(v.dir, ".hook", fmt.Sprintf("visit-%d", v.n))
	answer := base + ".json"
	if err := os.WriteFile(base+".py", []byte(v.script(p, what, answer)), 0o600); err != nil {
		return err
	}
	if err := p.give(v.dir); err != nil {
		return err
	}
	if err := p.seen(base + ".py"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, v.wait)
	defer cancel()
	if err := p.inject(ctx, base+".py"); err != nil {
		return err
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("its main thread didn't come back to Python in %s\n"+
				"  It is in native code, or waits: try again, or --wait longer", v.wait)
		}
		switch text, err := os.ReadFile(answer); {
		case err == nil:
			return answered(text)
		case !errors.Is(err, os.ErrNotExist):
			return err
		case !alive(p.pid):
			return errors.New("it ended")
		}
	}
}

func answered(text []byte) error {
	var said struct {
		Done bool   `json:"done"`
		Why  string `json:"why"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	if !said.Done {
		return errors.New(said.Why)
	}
	return nil
}

// script is the visit as Python. The recorder's package has a name of its own: the program may have another of them.
func (v *visitor) script(p running, what, answer string) string {
	name := fmt.Sprintf("_vramscope_attached_%d_%d", os.Getpid(), p.pid)
	folder := filepath.Join(v.dir, hookFolder, "vramscope_hook")
	return fmt.Sprintf(python.Visit, literal(name), literal(folder), literal(v.dir), literal(v.options), literal(what),
		literal(answer))
}

// literal is a text as Python's source; JSON's strings are Python's, too.
func literal(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// commandOf is a process' command line.
func commandOf(pid int) []string {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return []string{"pid", strconv.Itoa(pid)}
	}
	defer f.Close()
	const most = 64 << 10
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}
