package monitor

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// monitorState is the listing of nvidia-smi's dmon or pmon, or of `dcgmi dmon`, that is being read; form 0 means
// none (the table is never one).
//
//	# gpu     fb   bar1     sm          #Entity   GPUTL  FBUSD  FBTTL
//	# Idx     MB     MB      %          ID
//	    0    239      3      6          GPU 0     98     60000  81920
type monitorState struct {
	form    Form
	columns []column
	comma   bool // --format csv
	cells   [][]byte
}

// monitorNames are the columns that are read, and those by which such a head is known.
var monitorNames = map[string]role{
	"gpu": gpuIndex, "date": dateOnly, "time": clockOnly, "fb": usedMemory, "sm": utilization,
	"pid": pid, "command": processName, "name": processName, "mig": instance, "gi": instance, "ci": instance,
	"gi_id": instance, "ci_id": instance, "fbusd": usedMemory, "fbttl": totalMemory, "gputl": utilization,
	"pwr": other, "mem": other, "enc": other, "dec": other, "mclk": other, "pclk": other, "gtemp": other, "temp": other,
	"bar1": other, "rxpci": other, "txpci": other, "type": other, "pviol": other, "sbecc": other,
}

// header reads the line that names the columns; the one below it, of units, changes nothing.
func (m *monitorState) header(line []byte) bool {
	if len(line) > 1024 {
		return false
	}
	line = bytes.ToLower(bytes.TrimLeft(line, " \t#"))
	comma := bytes.IndexByte(line, ',') >= 0
	names := fieldsOf(nil, line, comma, 0)
	if len(names) < 2 {
		return false
	}
	if first := names[0]; m.form != 0 && (string(first) == "idx" || bytes.HasPrefix(first, []byte("yyyy")) ||
		bytes.HasPrefix(first, []byte("hh:"))) {
		return true
	}
	state := monitorState{form: Dmon, comma: comma, cells: m.cells}
	if string(names[0]) == "entity" { // "GPU 0" are two
		state.form, state.columns = DCGM, []column{{}, {role: gpuIndex}}
		names = names[1:]
	}
	gpu, known := state.form == DCGM, 0
	for _, name := range names {
		r, isKnown := monitorNames[string(name)]
		state.columns = append(state.columns, column{role: r, unit: mib})
		gpu = gpu || r == gpuIndex
		if r == pid {
			state.form = Pmon
		}
		if isKnown {
			known++
		}
	}
	if !gpu || known < 3 && state.form != DCGM {
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
	switch firstByte(line) {
	case 0:
		return true
	case '#':
		return len(bytes.Trim(line, "# ")) > 0 && m.header(line)
	}
	m.cells = fieldsOf(m.cells, line, m.comma, len(m.columns))
	if m.form == DCGM && string(m.cells[0]) != "GPU" { // what a MIG instance holds says nothing about the whole GPU
		return bytes.HasPrefix(m.cells[0], []byte("GPU-")) || string(m.cells[0]) == "ID" && len(m.cells) == 1
	}
	if len(m.cells) == len(m.columns) && m.values(all) {
		return true
	}
	if m.form != DCGM {
		*m = monitorState{cells: m.cells}
	}
	return false
}

func (m *monitorState) values(all *gathered) bool {
	r, part := noRow, false
	for i, c := range m.columns {
		switch cell := m.cells[i]; {
		case c.role == instance:
			part = part || !missing(cell)
		case c.role == pid && missing(cell):
		case c.role == other && len(cell) > 6 && !units.IsDigit(cell[0]) && cell[0] != '-', !r.take(c, cell):
			return false
		}
	}
	r.join()
	gpu, ok := gpuIn(r.ids[0])
	if !ok {
		return false
	}
	all.rows[m.form]++
	u := all.byIndex(m.form, gpu)
	switch {
	case m.form == Pmon:
		u.see(r.at)
		if r.pid >= 0 {
			u.process(r.at, r.pid, r.process, r.used)
		}
	case !part: // rows of MIG instances say nothing about the whole GPU
		u.read(evidence.Sample{At: r.at, UsedBytes: r.used, UtilizationPercent: r.utilization}, r.total)
	}
	return true
}
