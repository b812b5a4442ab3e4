package monitor

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// monitorState is the dmon or pmon listing being read; form 0 means none
// (the table is never a monitor).
type monitorState struct {
	form    Form
	columns []monitorColumn
	comma   bool // --format csv
	cells   [][]byte
}

type monitorColumn uint8

const (
	monOther monitorColumn = iota
	monGPU
	monDate
	monTime
	monFB
	monSM
	monPID
	monCommand
	monMIG
)

var monitorNames = map[string]monitorColumn{
	"gpu": monGPU, "date": monDate, "time": monTime, "fb": monFB, "sm": monSM,
	"pid": monPID, "command": monCommand, "name": monCommand, "mig": monMIG, "gi": monMIG, "ci": monMIG,
	"gi_id": monMIG, "ci_id": monMIG,
}

// header reads "# gpu    pwr  gtemp …"; the second line, of units,
// begins with '#' as well and changes nothing.
func (m *monitorState) header(line []byte) bool {
	if len(line) > 512 {
		return false
	}
	line = bytes.TrimLeft(line, " \t#")
	comma := bytes.IndexByte(line, ',') >= 0
	names := fieldsOf(nil, line, comma, 0)
	if len(names) < 3 {
		return false
	}
	first := bytes.ToLower(names[0])
	if m.form != 0 && (string(first) == "idx" || bytes.HasPrefix(first, []byte("yyyy")) ||
		bytes.HasPrefix(first, []byte("hh:"))) {
		return true
	}
	state := monitorState{form: Dmon, comma: comma, cells: m.cells}
	gpu, known := false, 0
	for _, name := range names {
		c := monitorNames[string(bytes.ToLower(name))]
		state.columns = append(state.columns, c)
		gpu = gpu || c == monGPU
		if c == monPID {
			state.form = Pmon
		}
		switch string(bytes.ToLower(name)) {
		case "pwr", "mem", "enc", "dec", "mclk", "pclk", "gtemp", "temp", "bar1", "rxpci", "txpci", "type", "pviol", "sbecc":
			known++
		}
		if c != monOther {
			known++
		}
	}
	if !gpu || known < 3 {
		return false
	}
	*m = state
	return true
}

// fieldsOf splits at blanks or commas, the n-th field taking all that is left
// (pmon's command may contain blanks); n 0 means no limit.
func fieldsOf(fields [][]byte, line []byte, comma bool, n int) [][]byte {
	if comma {
		return splitCells(fields, line, ',')
	}
	fields = fields[:0]
	for {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 {
			return fields
		}
		i := bytes.IndexAny(line, " \t")
		if i < 0 || n > 0 && len(fields) == n-1 {
			return append(fields, bytes.TrimRight(line, " \t"))
		}
		fields = append(fields, line[:i])
		line = line[i:]
	}
}

// row reads a row; the first line that is neither a row nor blank nor a
// comment ends the listing.
func (m *monitorState) row(all *gathered, line []byte) bool {
	first := firstByte(line)
	if first == 0 {
		return true
	}
	if first == '#' {
		if len(bytes.Trim(line, "# ")) > 0 && m.header(line) {
			return true
		}
		return false
	}
	m.cells = fieldsOf(m.cells, line, m.comma, len(m.columns))
	if len(m.cells) != len(m.columns) || !m.values(all) {
		*m = monitorState{cells: m.cells}
		return false
	}
	return true
}

func (m *monitorState) values(all *gathered) bool {
	gpu, id, part := -1, -1, false
	var day, clock, command []byte
	fb := Unknown
	s := evidence.Sample{UsedBytes: Unknown, UtilizationPercent: -1}
	for i, c := range m.columns {
		cell := m.cells[i]
		switch c {
		case monGPU:
			v, ok := gpuIn(cell)
			if !ok {
				return false
			}
			gpu = v
		case monPID:
			if v, ok := pidIn(cell); ok {
				id = v
			} else if !missing(cell) {
				return false
			}
		case monDate:
			day = cell
		case monTime:
			clock = cell
		case monFB:
			fb = memory(cell, mib)
		case monSM:
			s.UtilizationPercent = number(cell)
		case monCommand:
			command = cell
		case monMIG:
			part = part || !missing(cell)
		default:
			if len(cell) > 6 && !units.IsDigit(cell[0]) && cell[0] != '-' {
				return false
			}
		}
	}
	if gpu < 0 {
		return false
	}
	s.At = monitorTime(day, clock)
	all.rows[m.form]++
	u := all.byIndex(m.form, gpu)
	switch {
	case m.form == Pmon:
		u.see(s.At)
		if id >= 0 {
			u.process(s.At, id, command, fb)
		}
	case !part: // rows of MIG instances say nothing about the whole GPU
		s.UsedBytes = fb
		u.read(s, Unknown)
	}
	return true
}

// monitorTime joins the columns of `-o DT`: 20240104 and 13:54:35. A time of
// day alone is not a time.
func monitorTime(day, clock []byte) evidence.Stamp {
	if len(day) != 8 || len(clock) < 8 {
		return evidence.Stamp{}
	}
	text := make([]byte, 0, 32)
	text = append(append(text, day[:4]...), '-')
	text = append(append(text, day[4:6]...), '-')
	text = append(append(append(text, day[6:]...), ' '), clock...)
	s, _ := parseDateTime(text)
	return s
}
