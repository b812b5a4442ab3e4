package monitor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// Bounds on what a hostile stream can make the parser remember.
const (
	maxUnits     = 4096
	maxProcesses = 16384 // of all GPUs
)

// unit gathers what one identity (as one form prints it) showed. Several units
// may be the same GPU; Finish decides.
type unit struct {
	form     Form
	index    int // printed, -1: not
	position int // in its listing, -1: none
	ids      [4]string
	listing  *listing
	sweep    int

	gpu          evidence.GPU
	name         string
	first, last  evidence.Stamp
	turn         int // of the monitor: readings so far, or lists of processes
	at           evidence.Stamp
	otherSamples int // readings without memory
	unlisted     int // readings in a row beside which no process was listed
	mostUnlisted int // of them, the longest row
	processes    map[int]*process
	count        *int // of the stream's processes
}

// process is one on a unit, with the name as it was printed last or best.
type process struct {
	evidence.Process
	name string
}

func (all *gathered) newUnit(form Form) *unit {
	return &unit{form: form, index: -1, position: -1, count: &all.processes}
}

// addUnit remembers a new identity, or hands back the last one when there are
// more than any machine has.
func (all *gathered) addUnit(u *unit) *unit {
	if len(all.units) >= maxUnits {
		return all.units[len(all.units)-1]
	}
	all.units = append(all.units, u)
	return u
}

// byIndex finds the unit of a form that prints the index itself.
func (all *gathered) byIndex(form Form, index int) *unit {
	return all.unitOf(printed{form: form, index: index}, -1)
}

// byBus finds the unit of -q or XML, which print no index but a bus id.
func (all *gathered) byBus(form Form, bus string, position int) *unit {
	return all.unitOf(printed{form, -1, bus}, position)
}

// reading takes one of a form that prints the index.
func (all *gathered) reading(form Form, index int, s evidence.Sample, total int64) *unit {
	all.rows[form]++
	u := all.byIndex(form, index)
	u.read(s, total)
	return u
}

// printed is what a form prints of a GPU that tells it from the others.
type printed struct {
	form  Form
	index int
	bus   string
}

func (all *gathered) unitOf(id printed, position int) *unit {
	if u := all.known[id]; u != nil {
		return u
	}
	u := all.newUnit(id.form)
	u.index, u.ids[2], u.position = id.index, id.bus, position
	if len(all.units) >= maxUnits {
		return all.addUnit(u)
	}
	if all.known == nil {
		all.known = map[printed]*unit{}
	}
	all.known[id] = u
	return all.addUnit(u)
}

// read takes one reading of the GPU itself.
func (u *unit) read(s evidence.Sample, total int64) {
	g := &u.gpu
	u.turn, u.at = u.turn+1, s.At
	u.see(s.At)
	raise(&g.TotalBytes, total)
	if s.UsedBytes != Unknown {
		g.Samples++
		raise(&g.PeakUsedBytes, s.UsedBytes)
	} else {
		u.otherSamples++
	}
	g.Series.Add(s)
}

// raise takes another figure of which the largest counts.
func raise(most **int64, bytes int64) {
	switch {
	case bytes == Unknown:
	case *most == nil:
		first := bytes // a copy, so that only the first is on the heap
		*most = &first
	default:
		**most = max(**most, bytes)
	}
}

func (u *unit) see(at evidence.Stamp) {
	if at.Known() {
		u.first, u.last = span(u.first, u.last, at, at)
	}
}

// process takes one reading of a process.
func (u *unit) process(at evidence.Stamp, pid int, name []byte, used int64) {
	proc := u.processes[pid]
	if proc == nil {
		if *u.count >= maxProcesses {
			return
		}
		*u.count++
		if u.processes == nil {
			u.processes = map[int]*process{}
		}
		proc = &process{Process: evidence.Process{PID: pid, Instance: -1}, name: string(name)}
		u.processes[pid] = proc
	}
	if u.turn == 0 || u.turn == proc.Last || at != u.at { // the next list, without a reading of the GPU itself
		u.turn, u.at = u.turn+1, at
	}
	if proc.Last = u.turn; proc.First == 0 {
		proc.First = u.turn
	}
	u.see(at)
	proc.name = betterName(proc.name, string(name))
	if used == 0 { // what nvidia-smi prints in some containers: a context alone takes more
		used = Unknown
	}
	raise(&proc.PeakUsedBytes, used)
}

// betterName prefers a whole name to one that nvidia-smi cut short: the table
// drops the beginning, pmon the end.
func betterName(a, b string) string {
	switch {
	case a == "" || missing([]byte(a)):
		return b
	case b == "" || missing([]byte(b)):
		return a
	}
	if cutA, cutB := strings.HasPrefix(a, "..."), strings.HasPrefix(b, "..."); cutA != cutB {
		if cutA {
			return b
		}
		return a
	}
	if len(b) > len(a) && (strings.HasSuffix(b, a) || strings.Contains(b, a)) {
		return b
	}
	return a
}

// addRow files a CSV row under its GPU.
func (all *gathered) addRow(r *row, form Form, l *listing) {
	all.rows[form]++
	if all.clock.Known() && l.nameless() && !r.at.Known() {
		// one run of nvidia-smi over all GPUs, whose order is what names them
		r.ids[0], r.at = strconv.AppendInt(nil, int64(all.below), 10), all.clock
		all.below++
		l.below, l.present[0] = true, true
	}
	u := all.rowUnit(r, form, l)
	l.join(u, r)
	if form == AppsCSV {
		u.process(r.at, r.pid, r.process, r.memory)
		return
	}
	u.gpu.Unshown = u.gpu.Unshown || r.unshown
	u.read(evidence.Sample{At: r.at, UsedBytes: r.used, UtilizationPercent: r.utilization}, r.total)
}

// rowUnit finds the row's GPU by all its id columns together. Rows come in
// the same order again and again, so the next one is tried first.
func (all *gathered) rowUnit(r *row, form Form, l *listing) *unit {
	if l.next >= len(l.units) {
		l.next = 0
	}
	for k := range l.units {
		i := (l.next + k) % len(l.units)
		if u := l.units[i]; u.matches(r) {
			l.next = i + 1
			return u
		}
	}
	u := all.newUnit(form)
	u.listing, u.position = l, len(l.units)
	for k := range r.ids {
		u.ids[k] = string(r.ids[k])
	}
	u.name = string(r.name)
	if len(l.units) >= 1024 {
		return l.units[len(l.units)-1]
	}
	l.units = append(l.units, u)
	l.next = len(l.units)
	return all.addUnit(u)
}

// nameless tells rows that don't say of which GPU they are.
func (l *listing) nameless() bool { return l.below || l.present == [4]bool{} }

func (u *unit) matches(r *row) bool {
	for k := range r.ids {
		if string(r.ids[k]) != u.ids[k] {
			return false
		}
	}
	return true
}

// sweepGap is the longest that one run of nvidia-smi over all GPUs takes.
const sweepGap = int64(500 * time.Millisecond)

// join notes which GPUs were listed at the same time: an id column that is
// equal for two of them does not tell GPUs apart.
func (l *listing) join(u *unit, r *row) {
	apart := r.at.Known() && l.start.Known() && units.Abs(r.at.Nanoseconds()-l.start.Nanoseconds()) > sweepGap
	again := u.sweep == l.number+1 && (u.form != AppsCSV || slices.Contains(l.sweep, sweepRow{u, r.pid}))
	if apart || again || len(l.sweep) > 256 {
		l.number++
		l.sweep = l.sweep[:0]
	}
	if len(l.sweep) == 0 {
		l.start = r.at
	}
	if u.sweep != l.number+1 {
		for _, other := range l.sweep {
			for k := range l.clash {
				if other.unit != u && other.unit.ids[k] == u.ids[k] {
					l.clash[k] = true
				}
			}
		}
	}
	u.sweep = l.number + 1
	l.sweep = append(l.sweep, sweepRow{u, r.pid})
}

// gpuIn is the number of a GPU.
func gpuIn[T string | []byte](text T) (int, bool) {
	v, ok := atoi(string(text))
	return v, ok && v < 1024
}

// pidIn is the number of a process.
func pidIn(text []byte) (int, bool) {
	v, err := strconv.Atoi(string(text))
	return v, err == nil && v >= 0
}

func atoi(s string) (int, bool) {
	v, err := strconv.Atoi(s)
	return v, err == nil && v >= 0 && v < 1<<20
}
