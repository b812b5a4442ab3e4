package solve

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/device"
)

// Flags are those of `run` for a GPU that isn't there.
type Flags struct {
	GPU       string // "": the machine's own
	Solve     string // LOW:HIGH of a value in the command
	assume    string
	Most      bool // run it again with all sizes at their largest
	noWeights bool
	world     int
	rank      int
}

// Define adds them to the command's.
func (f *Flags) Define(flags *pflag.FlagSet) {
	flags.StringVar(&f.GPU, "simulate", "",
		"run on a GPU that isn't there, `GPU[:COUNT]` as in \"A100 40GB\" or 24GiB:2, to the third step of the optimizer "+
			"(--steps N: the Nth, end: the program's end)")
	flags.StringVar(&f.assume, "assume", "even",
		"simulated: what sizes that depend on data are: even, most, none or a `SHARE` of the largest; both runs the program\n"+
			"with even and again with most")
	flags.BoolVar(&f.noWeights, "no-weights", false,
		"simulated: take checkpoints by their headers, and missing ones by the model's configuration")
	flags.StringVar(&f.Solve, "solve", "",
		"simulated: find the largest value of `LOW:HIGH` that fits, in the place of {} in the command")
	flags.IntVar(&f.world, "world-size", 0, "simulated: one rank alone, of a world of `N`")
	flags.IntVar(&f.rank, "rank", 0, "simulated: which rank of --world-size that is")
}

// both stands for a run with even sizes, and one with the largest.
const both = "both"

// launchers start ranks by themselves.
var launchers = []string{"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun"}

// untilTheEnd is what --steps says of a program that is to run on.
const untilTheEnd = "end"

// Set has a program run on a simulated GPU, if it is to; given says which flags the user gave.
func (f *Flags) Set(given func(name string) bool, o *vrun.Options) error {
	if f.GPU == "" {
		for _, name := range []string{"assume", "no-weights", "solve", "world-size", "rank"} {
			if given(name) {
				return fmt.Errorf("--%s has no effect without --simulate", name)
			}
		}
		return nil
	}
	if err := simulate.Here.Check(); err != nil {
		return err
	}
	s, err := simulate.Read(f.GPU)
	if err != nil {
		return fmt.Errorf("--simulate: %w", err)
	}
	if f.Most = f.assume == both; f.Most {
		f.assume = simulate.Assumptions[0]
	}
	if f.Most && f.Solve != "" {
		return fmt.Errorf("--assume %s has no effect with --solve: give even or most", both)
	}
	s.Sizes, s.NoWeights, s.World, s.Rank = f.assume, f.noWeights, f.world, f.rank
	if err := s.CheckNumbers(); err != nil {
		return err
	}
	if s.World > 0 && slices.Contains(launchers, filepath.Base(o.Command[0])) {
		return fmt.Errorf("--world-size %d: one rank alone is started without %s, as in `-- python train.py`", s.World,
			filepath.Base(o.Command[0]))
	}
	if s.Steps, err = lastStep(o, s.Steps); err != nil {
		return err
	}
	caches, err := simulate.Caches()
	if err != nil {
		return err
	}
	o.Simulated = s
	o.Library, err = device.Library(caches)
	return err
}

// lastStep is the step after which the program is ended. Where --steps names one alone, nothing is dumped before it.
func lastStep(o *vrun.Options, usual int) (int, error) {
	switch {
	case o.Steps == untilTheEnd:
		o.Steps = ""
		return 0, nil
	case o.Steps == "":
		return usual, nil
	case strings.HasSuffix(o.Steps, ":"):
		return 0, nil
	}
	var first, last int
	if n, _ := fmt.Sscanf(o.Steps, "%d:%d", &first, &last); n < 1 {
		return 0, errors.New("--steps: a number, A:B or end")
	}
	if last == 0 {
		o.Steps, last = "", first
	}
	return last, nil
}
