package solve

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/device"
)

// Outcome is what came of a program on a simulated GPU.
type Outcome struct {
	Dir       string // of the run, with its recording and its output
	Allocated int64  // at most, by the process that allocated most
	Reserved  int64
	Capacity  int64 // of the GPU
	Spare     int64 // what was left of it at its fullest
	Fits      bool
	Lacks     string // what failed, where it doesn't fit

	// Simulated has the context's size, and what the answer rests on: assumptions and workspaces that weren't counted.
	Simulated vrun.Simulated
	Torch     string // version, "" where nobody told
}

// Failed is a program that ended otherwise than by memory, of which no peak can be told.
type Failed struct {
	Ending string
	Log    string // the file of its output
}

func (f *Failed) Error() string {
	return "the program failed otherwise than by memory: " + f.Ending + "; its output is " + f.Log
}

// Run runs a program on the GPU of o.Simulated, and says what it took:
//
//	s, err := simulate.Read("A100 40GB")
//	if err == nil {
//		outcome, err = solve.Run(&run.Options{Command: []string{"python", "train.py"}, Simulated: s})
//	}
//
// Nothing of the program is shown. Options that are left empty are what they usually are. The error is a
// *simulate.Refusal where nothing can be simulated, and a *Failed where the program fails by itself.
func Run(o *vrun.Options) (*Outcome, error) {
	options := *o
	if err := complete(&options); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p, err := vrun.Start(options, vrun.Streams{In: null, Out: null, Err: null})
	if err != nil {
		return nil, err
	}
	return outcome(p.Dir, p.Wait())
}

// complete refuses what can't be run, and sets what was left empty.
func complete(o *vrun.Options) error {
	if err := simulate.Here.Check(); err != nil {
		return err
	}
	if o.Simulated == nil || len(o.Command) == 0 {
		return fmt.Errorf("a simulated GPU and a command are needed")
	}
	if err := o.Simulated.CheckNumbers(); err != nil {
		return err
	}
	o.Stacks, o.Ring = cmp.Or(o.Stacks, "all"), cmp.Or(o.Ring, vrun.DefaultRing)
	if err := o.Check(); err != nil || o.Library != "" {
		return err
	}
	caches, err := simulate.Caches()
	if err == nil {
		o.Library, err = device.Library(caches)
	}
	return err
}

// outcome reads what a run left.
func outcome(dir string, r *vrun.Result) (*Outcome, error) {
	t := &Outcome{Dir: dir, Spare: r.Spare()}
	t.Allocated, t.Reserved = r.Peaks()
	if s := r.Environment.Simulated; s != nil {
		t.Simulated, t.Capacity = *s, s.CapacityBytes
	}
	if r.Environment.Torch != nil {
		t.Torch = *r.Environment.Torch
	}
	switch {
	case r.Refused != "":
		return nil, &simulate.Refusal{Text: r.Refused}
	case r.OutOfMemo:
		t.Lacks = cmp.Or(r.Lacks(), "out of memory")
	case r.Status != 0:
		return nil, &Failed{cmp.Or(r.Ending, fmt.Sprintf("exit code %d", r.Status)), filepath.Join(dir, vrun.LogFile)}
	case r.Recorded == 0 && t.Reserved == 0: // the peaks are told without a recording, too, for which the disk may have no room
		return nil, fmt.Errorf("%s", r.Missing())
	default:
		t.Fits = true
	}
	return t, nil
}
