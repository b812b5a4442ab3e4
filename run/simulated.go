package run

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/simulate"
)

const (
	accountFile = ".hook/account-%p" // of each process, by its number
	refusedFile = ".hook/refused"    // why a process of the program refused to go on
)

// Simulated is the GPU that a program ran on and that isn't there.
type Simulated evidence.Simulated

// simulate has the program find the GPU.
func (p *Program) simulate(o *Options) error {
	if o.Simulated == nil {
		return nil
	}
	caches, err := simulate.Caches()
	if err != nil {
		return err
	}
	p.simulated = true
	for _, v := range o.Simulated.Environment(o.Library, caches, filepath.Join(p.Dir, accountFile), os.LookupEnv) {
		p.cmd.Env = append(p.cmd.Env, v.Name+"="+v.Value)
	}
	p.record.Environment.Simulated = &Simulated{SimulatedCard: o.Simulated.Card()}
	p.record.Environment.Simulated.begin()
	return nil
}

// begin forgets what processes have said, to hear it again.
func (s *Simulated) begin() {
	if s != nil {
		*s = Simulated{SimulatedCard: s.SimulatedCard, Assumptions: []simulate.Assumption{}, Uncounted: map[string]int{},
			Unknown: map[string]int{}}
	}
}

// take adds what a process says.
func (s *Simulated) take(a *simulate.Account) {
	if a == nil {
		return
	}
	for _, d := range a.Devices {
		s.PeakBytes = max(s.PeakBytes, d.PeakBytes)
	}
	s.Assumptions = simulate.Together(s.Assumptions, a.Assumptions)
	for name, n := range a.Unknown {
		s.Unknown[name] += n
	}
	for name, n := range a.Uncounted {
		s.Uncounted[name] += n
	}
	if s.Ended == nil {
		s.Ended = a.Ended
	}
}

// startInPlace starts a program whose addresses the kernel doesn't vary: PyTorch frees what autocast made in the order of a
// hash map of the host's addresses.
func startInPlace(cmd *exec.Cmd, record *Record) error {
	fixed, err := fixAddresses(cmd.Start)
	if !fixed {
		record.Notes = append(record.Notes,
			"the kernel doesn't let addresses stay the same here: the order of some frees may vary")
	}
	return err
}

// maxRefusal bounds what is read of a refusal.
const maxRefusal = 1000

// refusedBy is why a process went no further than to import PyTorch, "" where none refused.
func refusedBy(dir string) string {
	f, err := os.Open(filepath.Join(dir, refusedFile))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxRefusal))
	lines := slices.Collect(strings.Lines(string(text)))
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[0])
}

// Peaks are the most that a device had allocated and reserved, of all processes.
func (r *Result) Peaks() (allocated, reserved int64) {
	for _, p := range r.Processes {
		for _, stats := range devicesOf(process{Process: p}) {
			allocated = max(allocated, stats["allocated_bytes.all.peak"])
			reserved = max(reserved, stats["reserved_bytes.all.peak"])
		}
	}
	return allocated, reserved
}

// Spare is what was left on a simulated GPU at its fullest.
func (r *Result) Spare() int64 {
	s := r.Environment.Simulated
	if s == nil {
		return 0
	}
	_, reserved := r.Peaks()
	return (*evidence.Simulated)(s).Spare(reserved)
}

// Lacks is PyTorch's sentence on the request that failed, "" without one.
func (r *Result) Lacks() string {
	_, text, found := strings.Cut(r.raised, "CUDA out of memory. ")
	if !found {
		return ""
	}
	first, _, _ := strings.Cut(text, ". GPU")
	_, free, found := strings.Cut(text, "of which ")
	if free, _, whole := strings.Cut(free, " is free"); found && whole {
		first += ", with " + free + " free on the device"
	}
	return strings.ToLower(first[:min(1, len(first))]) + first[min(1, len(first)):]
}
