package monitor

import (
	"bytes"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
)

// looseState keeps rows that say neither what they are nor of which GPU: a column
// of memory alone (`--query-gpu=memory.used --format=csv,noheader`), and the rows
// of figures that `nvidia-smi | grep MiB` leaves of the table. They count where a
// whole file is nothing else, which only its end tells.
type looseState struct {
	unit    *unit
	form    Form
	rows    int
	counts  int     // rows of numbers without a unit, which may be anything
	used    []int64 // of the first rows
	foreign bool    // some line is none of these
}

const (
	looseFew  = 10  // rows that tell one GPU's readings from a list of GPUs
	looseMany = 512 // rows that are enough for that
	looseGPUs = 16
)

// row keeps a row, while no line was anything else.
func (l *looseState) row(all *gathered, line []byte) {
	if l.foreign || firstByte(line) == 0 {
		return
	}
	if all.clock.Known() && len(line) <= 64 {
		if _, isDate := parseCtime(line); isDate {
			return // which a loop prints above
		}
	}
	if justCounts().Match(line) {
		l.counts++
		return
	}
	s, total, form := looseReading(line)
	if s.UsedBytes == Unknown || l.rows > 0 && form != l.form {
		*l = looseState{foreign: true}
		return
	}
	if l.rows == 0 {
		l.unit, l.form = all.newUnit(form), form
		l.unit.index = 0
	}
	if l.rows++; len(l.used) < looseMany {
		l.used = append(l.used, s.UsedBytes)
	}
	s.At = all.clock
	l.unit.read(s, total)
	all.clock = evidence.Stamp{}
}

var (
	justCounts = pattern.Of(`^[ \t]*-?[\d.]{1,64}(?:, *-?[\d.]{1,64})? *$`)
	justMiB    = pattern.Of(`^[ \t]*\d{1,9} MiB *$`)
)

// looseReading is what such a row tells, Unknown for any other.
func looseReading(line []byte) (s evidence.Sample, total int64, form Form) {
	s, total = evidence.Sample{UsedBytes: Unknown, UtilizationPercent: -1}, Unknown
	if justMiB().Match(line) {
		s.UsedBytes = memory(line, mib)
		return s, total, CSV
	}
	cells := bytes.Split(bytes.Trim(line[:min(len(line), 256)], "| \t"), []byte("|"))
	if line[0] == '|' && len(cells) == 3 && bytes.Contains(cells[1], []byte("MiB /")) && bytes.IndexByte(cells[2], '%') > 0 {
		s.UsedBytes, total, _ = usedOf(cells[1])
		s.UtilizationPercent = number(cells[2])
	}
	return s, total, Table
}

// finish takes the rows for one GPU's, or counts them as rows that can't be named.
func (l *looseState) finish(all *gathered) {
	switch {
	case l.foreign || len(all.units) > 0 || l.rows+l.counts == 0:
	case l.counts == 0 && (l.rows == 1 && l.form == Table || l.rows >= looseFew && l.ofOne() && !l.isTotal()):
		all.addUnit(l.unit)
		all.rows[l.form] += l.rows
	case l.rows+l.counts > 1:
		all.unnamed++
	}
}

// isTotal tells a column of all of a card's memory from what is in use of it.
func (l *looseState) isTotal() bool {
	return l.form == CSV && isCapacity(float64(l.used[0])/mib) && slices.Min(l.used) == slices.Max(l.used)
}

// ofOne tells readings of one GPU from those of several in turn: there, a row is
// much more like the one a few rows before than like its neighbour.
func (l *looseState) ofOne() bool {
	next := l.change(1)
	for k := 2; k <= looseGPUs && 3*k <= len(l.used); k++ {
		if l.change(k) < next/2 {
			return false
		}
	}
	return true
}

// change is the usual difference of rows that are so far apart.
func (l *looseState) change(rows int) float64 {
	sum := 0.0
	for i := rows; i < len(l.used); i++ {
		sum += float64(units.Abs(l.used[i] - l.used[i-rows]))
	}
	return sum / float64(len(l.used)-rows)
}
