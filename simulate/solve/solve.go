// Package solve has what `run` is told of a simulated GPU, and finds the largest value for which a program fits on it, each
// try a process of its own.
package solve

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	vrun "github.com/vramscope/vramscope/run"
)

// place is what a value takes in the command.
const place = "{}"

// try is a value with what came of it.
type try struct {
	value int
	Outcome
}

// Solver looks for the largest value that fits.
type Solver struct {
	Name    func(path string) string // how a path is shown
	options vrun.Options
	command []string
	to      io.Writer
	tries   []try
}

// Find tries values of LOW:HIGH in the place of {} in the command, shows the tries and what the next value lacks, and
// reports whether any fits.
func (s *Solver) Find(w io.Writer, text string, o *vrun.Options) (fits bool, err error) {
	low, high, err := read(text)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(o.Command, func(word string) bool { return strings.Contains(word, place) }) {
		return false, fmt.Errorf("run: --solve %s: the command has no %s, where a value would stand", text, place)
	}
	s.options, s.command, s.to = *o, o.Command, w
	s.options.Holders, s.options.Live = false, false
	if s.options.Dir, err = o.Empty(); err != nil {
		return false, err
	}
	best, next, err := s.search(low, high)
	s.tell(low, high, best, next, err == nil)
	if err != nil {
		err = fmt.Errorf("run: %w", err)
	}
	return best != nil, err
}

// read reads LOW:HIGH.
func read(text string) (low, high int, err error) {
	const largest = 1 << 30
	a, b, two := strings.Cut(text, ":")
	low, err = strconv.Atoi(a)
	if err == nil && two {
		high, err = strconv.Atoi(b)
	}
	if err != nil || !two || low < 0 || high < low || high > largest {
		return 0, 0, fmt.Errorf("--solve %q: LOW:HIGH as in 1:64", text)
	}
	return low, high, nil
}

// search halves the range until the largest value that fits and the smallest that doesn't lie side by side. What one more
// takes by the tries so far says where to look next.
func (s *Solver) search(low, high int) (best, next *try, err error) {
	for low <= high {
		middle := s.guess(low, high, best)
		t, err := s.try(middle)
		if err != nil {
			return best, next, err
		}
		s.tries = append(s.tries, *t)
		if t.Fits {
			best, low = t, middle+1
		} else {
			next, high = t, middle-1
		}
	}
	return best, next, nil
}

// guess is the value to try: the middle, or what two tries that fit let expect to be the last.
func (s *Solver) guess(low, high int, best *try) int {
	middle := low + (high-low)/2
	var before *try
	for i := range s.tries {
		if t := &s.tries[i]; t.Fits && (before == nil || t.value > before.value) && best != nil && t.value < best.value {
			before = t
		}
	}
	if before == nil || best.Reserved <= before.Reserved {
		return middle
	}
	each := (best.Reserved - before.Reserved) / int64(best.value-before.value)
	if each <= 0 {
		return middle
	}
	return min(max(best.value+int(min(best.Spare/each, int64(high))), low), high)
}

// Most runs a program again that was run into dir, with every size that depends on data at its largest, and says what that
// takes: the bound above what the first run said.
func (s *Solver) Most(w io.Writer, dir string, o *vrun.Options) error {
	s.options, s.to = *o, w
	setting := *o.Simulated
	setting.Sizes = most
	s.options.Simulated, s.options.Dir = &setting, dir+"-"+most
	s.options.Holders, s.options.Live = false, false
	t, err := s.run(&s.options, "with the largest sizes")
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	fmt.Fprintf(w, "SIMULATED %s · with every size that depends on data at its largest: ", setting.GPU.Name)
	if t.Fits {
		fmt.Fprintf(w, "fits, %s allocated, %s reserved, %s to spare\n", units.Size(t.Allocated), units.Size(t.Reserved),
			units.Size(t.Spare))
	} else {
		fmt.Fprintf(w, "doesn't fit: %s\n", t.Lacks)
	}
	fmt.Fprintf(w, "vramscope: more with `vramscope analyze %s`\n", vrun.Quote(s.Name(s.options.Dir)))
	return nil
}

// most is the word for the largest sizes.
const most = "most"

// try runs the program with a value.
func (s *Solver) try(value int) (*try, error) {
	o := s.options
	o.Command = make([]string, len(s.command))
	for i, word := range s.command {
		o.Command[i] = strings.ReplaceAll(word, place, strconv.Itoa(value))
	}
	o.Dir = filepath.Join(s.options.Dir, strconv.Itoa(value))
	t, err := s.run(&o, fmt.Sprintf("with %d", value))
	if err != nil {
		return nil, err
	}
	t.value = value
	s.said(t)
	return t, nil
}

// run runs a program, and says what came of it.
func (s *Solver) run(o *vrun.Options, how string) (*try, error) {
	t, err := Run(o)
	var failed *Failed
	if errors.As(err, &failed) {
		failed.Log = s.Name(failed.Log)
		return nil, fmt.Errorf("%s %w", how, failed)
	}
	if err != nil {
		return nil, err
	}
	return &try{Outcome: *t}, nil
}

// said shows a try as soon as it is known.
func (s *Solver) said(t *try) {
	if t.Fits {
		fmt.Fprintf(s.to, "  %8d  %10s allocated  %10s reserved  %10s to spare\n", t.value, units.Size(t.Allocated),
			units.Size(t.Reserved), units.Size(t.Spare))
		return
	}
	fmt.Fprintf(s.to, "  %8d  %10s allocated  %10s reserved  doesn't fit\n", t.value, units.Size(t.Allocated),
		units.Size(t.Reserved))
}

// tell is the answer, of a search that came to its end or was broken off.
func (s *Solver) tell(low, high int, best, next *try, ended bool) {
	gpu := s.options.Simulated.GPU.Name
	switch {
	case best == nil && next == nil:
		return
	case best == nil && !ended:
		fmt.Fprintf(s.to, "SIMULATED %s · the search broke off: %d doesn't fit, whether a smaller one does isn't known\n", gpu,
			next.value)
	case !ended:
		fmt.Fprintf(s.to, "SIMULATED %s · the search broke off: %d fits, larger ones may, too\n", gpu, best.value)
	case best == nil:
		fmt.Fprintf(s.to, "SIMULATED %s · nothing of %d to %d fits\n", gpu, low, high)
	case next == nil:
		fmt.Fprintf(s.to, "SIMULATED %s · %d fits, the largest that was asked for\n", gpu, best.value)
	default:
		fmt.Fprintf(s.to, "SIMULATED %s · %d is the largest of %d to %d that fits\n", gpu, best.value, low, high)
	}
	if best != nil {
		fmt.Fprintf(s.to, "Needs %s of %s (%s reserved): %s to spare.\n", units.Size(best.Allocated),
			units.Size(best.Capacity), units.Size(best.Reserved), units.Size(best.Spare))
	}
	if next != nil {
		fmt.Fprintf(s.to, "With %d: %s.\n", next.value, next.Lacks)
	}
	fmt.Fprintf(s.to, "vramscope: more with `vramscope analyze %s`, a folder for each value\n", vrun.Quote(s.Name(s.options.Dir)))
}
