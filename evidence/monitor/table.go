package monitor

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
)

// tableState is where in nvidia-smi's default table the parser is.
type tableState struct {
	section   section
	prefixed  bool // the table stands behind a log's time or rank
	headless  bool // only some of its rows were kept (grep), not the heads
	width     int  // of every line
	gpu       *unit
	listed    []tableReading // the GPUs of this table
	clock     evidence.Stamp
	form      Form // Table or Nvitop
	between   int  // columns of nvitop's list between memory and command
	ids       bool // the process list has columns for MIG instances
	alone     bool // the table's rows of GPUs were left out
	ruled     bool // the rule below the list's head has come
	processes int  // rows of the list
	idle      int  // lines since the last row
}

// tableReading is what one table shows of a GPU.
type tableReading struct {
	unit *unit
	used int64
}

type section uint8

const (
	outside section = iota
	gpuRows
	migRows
	processRows
)

// line reads one line of the table, which begins with '|' or '+', perhaps
// behind a prefix. A line of another width is the table's only if it is a row
// beyond doubt, of a table copied by hand: others draw lines between bars, too.
func (t *tableState) line(all *gathered, line []byte) bool {
	bar := bytes.IndexAny(line, "|+")
	if bar < 0 || len(line) > 1024 {
		t.rest()
		return false
	}
	cells := line[bar:]
	if form, ok := titleOf(cells); ok {
		*t = tableState{form: form, section: gpuRows, prefixed: bar > 0, width: width(cells), clock: all.clock}
		all.driver, all.cuda = versionAfter(cells, "Driver Version:"), versionAfter(cells, "CUDA Version:")
		all.clock = evidence.Stamp{}
		return true
	}
	if t.section == outside {
		section := partOf(cells)
		if section == outside {
			return false
		}
		*t = tableState{section: section, prefixed: bar > 0, headless: true, alone: section != gpuRows, width: width(cells),
			clock: all.clock}
		all.clock = evidence.Stamp{}
	}
	if cells[0] == '+' && t.section == processRows {
		t.endOfList()
	}
	if end := bytes.TrimRight(cells, " \t"); end[len(end)-1] != '|' && end[len(end)-1] != '+' {
		t.rest() // a bar that docker compose puts before every line, or a progress bar's
		return false
	}
	return t.keeps(cells, cells[0] != '+' && t.row(all, cells), 0)
}

// versionAfter is a version behind its name in the head of a table, "" where there is none.
func versionAfter(line []byte, name string) string {
	_, rest, _ := bytes.Cut(line, []byte(name))
	return version(bytes.TrimLeft(rest, " "))
}

// version is the one that a text begins with.
func version(text []byte) string {
	const longest = 20
	n := 0
	for n < min(len(text), longest) && (text[n] == '.' || text[n] >= '0' && text[n] <= '9') {
		n++
	}
	return string(text[:n])
}

// keeps reports whether a line is the table's: a row that was understood, or one as
// wide as all of them but for a few letters.
func (t *tableState) keeps(line []byte, understood bool, slack int64) bool {
	if !understood && units.Abs(int64(width(line)-t.width)) > slack {
		t.rest()
		return false
	}
	t.idle = 0
	return true
}

// row reads a row, or the title of a part; false when it holds neither.
func (t *tableState) row(all *gathered, cells []byte) bool {
	switch {
	case bytes.Contains(cells, []byte("MIG devices")):
		t.section = migRows
	case bytes.Contains(cells, []byte("Processes:")), bytes.Contains(cells, []byte("Compute processes")):
		t.section = processRows
		t.ids, t.ruled, t.processes = false, false, 0
		if all.clock.Known() { // of lists that follow one another without the GPUs' rows
			t.clock, all.clock = all.clock, evidence.Stamp{}
		}
	case t.section == migRows:
		t.migRow(all, cells)
	case t.section == gpuRows && t.headless && bytes.Count(cells, []byte{'|'}) == 2:
		return t.processRow(all, cells)
	case t.section == gpuRows:
		return t.gpuRow(all, cells)
	case t.section == processRows && bytes.HasPrefix(cells, []byte("|==")):
		t.ruled = true
	case t.section == processRows:
		return t.processRow(all, cells)
	default:
		return false
	}
	return true
}

// width of a line as a terminal shows it.
func width(line []byte) int { return utf8.RuneCount(bytes.TrimRight(line, " \t")) }

func (t *tableState) rest() {
	if t.idle++; t.idle > foreignLines {
		*t = tableState{}
	}
}

// titles are the words of a table's first row.
var titles = []struct {
	words string
	form  Form
}{{"NVIDIA-SMI", Table}, {"HL-SMI", HLSMI}}

func titleOf(line []byte) (Form, bool) {
	for _, t := range titles {
		if bytes.Contains(line, []byte(t.words)) {
			return t.form, true
		}
	}
	return 0, false
}

// partOf tells which part of a table begins in a line, where the parts before were
// left out; outside for none.
func partOf(line []byte) section {
	switch {
	case isGPUHead(line):
		return gpuRows
	case bytes.Contains(line, []byte("| MIG devices:")):
		return migRows
	case bytes.HasPrefix(line, []byte("| Processes:")), bytes.HasPrefix(line, []byte("| Compute processes:")),
		ofProcess().Match(line):
		return processRows
	}
	return outside
}

// ofProcess is a row of the process list beyond doubt: it has a process's kind and its memory.
var ofProcess = pattern.Of(`^[| \t]*\d{1,6}\s+(?:N/A\s+\S+\s+)?\d+\s+(?:C|G|C\+G|M\+C)\s+\S.*\s\S*iB[| \t]*$`)

// endOfList ends a process list, which may have had no row: old drivers print it
// blank where newer ones say that they found no process.
func (t *tableState) endOfList() {
	if t.ruled && t.processes == 0 {
		t.unlisted()
	}
	t.ruled, t.listed = false, t.listed[:0]
}

// unlisted counts readings beside which no process was listed.
func (t *tableState) unlisted() {
	for _, r := range t.listed {
		r.unit.gpu.UnlistedBytes = max(r.unit.gpu.UnlistedBytes, r.used)
		r.unit.unlisted++
		r.unit.mostUnlisted = max(r.unit.mostUnlisted, r.unit.unlisted)
	}
	t.listed = t.listed[:0]
}

// isGPUHead tells the row of a GPU's name and bus id without the table around it.
func isGPUHead(line []byte) bool {
	cells := bytes.Split(bytes.Trim(line, "| \t"), []byte("|"))
	if len(cells) != 3 {
		return false
	}
	bus, _, _ := bytes.Cut(bytes.TrimLeft(cells[1], " \t"), []byte(" "))
	return len(bus) >= 12 && bytes.Count(bus, []byte(":")) == 2 && bus[len(bus)-2] == '.'
}

// gpuRow reads the two rows of a GPU: index, name and bus, then the figures.
//
//	|   0  NVIDIA L40S         Off | 00000000:01:00.0 Off |        0 |
//	| N/A   54C    P0  110W / 350W | 1235MiB /  46068MiB  |  9%  Default |
func (t *tableState) gpuRow(all *gathered, line []byte) bool {
	cells := bytes.Split(bytes.Trim(line, "| \t"), []byte("|"))
	if len(cells) < 2 {
		return false
	}
	if t.gpu != nil && t.figureRow(all, cells) {
		t.gpu = nil
		return true
	}
	index, rest, ok := amount(cells[0])
	bus := bytes.Fields(cells[1])
	if !ok || len(rest) == 0 || (rest[0] != ' ' && rest[0] != '\t') || len(bus) == 0 ||
		bytes.Count(bus[0], []byte(":")) == 0 || index < 0 || index > 1023 {
		return false
	}
	u := all.byIndex(t.form, int(index))
	u.ids[2] = busID(string(bus[0]))
	u.name = fullName(tableName(rest), u.name)
	t.gpu = u
	return true
}

// tableName drops the persistence mode or driver model after the name.
func tableName(b []byte) string {
	f := bytes.Fields(b)
	if n := len(f); n > 1 {
		switch string(f[n-1]) {
		case "On", "Off", "N/A", "WDDM", "TCC", "MCDM", "Disabled", "Enabled", "ERR!":
			f = f[:n-1]
		}
	}
	return string(bytes.Join(f, []byte(" ")))
}

// figureRow looks for the cell with "used / total"; a GPU without memory of
// its own prints "Not Supported" or "N/A" there.
func (t *tableState) figureRow(all *gathered, cells [][]byte) bool {
	s := evidence.Sample{At: t.clock, UsedBytes: Unknown, UtilizationPercent: -1}
	total, found := Unknown, false
	for i, cell := range cells {
		slash := bytes.IndexByte(cell, '/')
		switch {
		case i > 0 && slash > 0 && (bytes.Contains(cell, []byte("iB")) || bytes.Contains(cell, []byte("MB"))):
			s.UsedBytes = memory(cell[:slash], mib)
			total = memory(cell[slash+1:], mib)
			found = true
			if i+1 < len(cells) {
				s.UtilizationPercent = number(cells[i+1])
			}
		case i == 0 && slash > 0:
			// The second row always has power here, N/A included.
			found = bytes.IndexByte(cell, 'W') >= 0 || bytes.Contains(cell, []byte("N/A"))
		}
	}
	if !found {
		return false
	}
	all.rows[t.form]++
	t.gpu.read(s, total)
	if len(t.listed) < maxUnits {
		t.listed = append(t.listed, tableReading{t.gpu, s.UsedBytes})
	}
	return true
}

// migRow reads an instance's row; the one below is of BAR1:
//
//	|  0    1   0   0  |           39900MiB / 40192MiB    | 42      0 |  3   0    2    0    0 |
func (t *tableState) migRow(all *gathered, line []byte) {
	cells := bytes.Split(bytes.Trim(line, "| \t"), []byte("|"))
	ids := bytes.Fields(cells[0])
	if len(cells) < 3 || len(ids) != 4 {
		return
	}
	gpu, ok := atoi(string(ids[0]))
	gi, isInstance := atoi(string(ids[1]))
	used, total, isMemory := usedOf(cells[1])
	if !ok || gpu > 1023 || !isInstance || !isMemory {
		return // a further compute instance of the same memory
	}
	if t.alone {
		all.rows[t.form]++
	}
	all.byIndex(t.form, gpu).instance(gi, used, total)
}

// maxInstances is more than any GPU can be divided into.
const maxInstances = 64

func (u *unit) instance(gi int, used, total int64) {
	list := u.gpu.Instances
	i, found := slices.BinarySearchFunc(list, gi, func(a evidence.Instance, gi int) int { return a.GI - gi })
	if !found {
		if len(list) >= maxInstances {
			return
		}
		list = slices.Insert(list, i, evidence.Instance{GI: gi, TotalBytes: Unknown, PeakUsedBytes: Unknown})
	}
	list[i].TotalBytes, list[i].PeakUsedBytes = max(list[i].TotalBytes, total), max(list[i].PeakUsedBytes, used)
	u.gpu.Instances = list
}

// processRow reads a row of the process list, which has columns for MIG
// instances since driver 450:
//
//	|    0   N/A  N/A     20037      C   ffmpeg       538MiB |
//	|    0     20037      C   python                  538MiB |
func (t *tableState) processRow(all *gathered, line []byte) bool {
	line = bytes.Trim(line, "| \t")
	if t.listLine(line) {
		return true
	}
	f, at := bytes.Fields(line), 1
	if len(f) > 1 && (t.ids || string(f[1]) == "N/A") { // the columns of instances, perhaps without their head
		at = 3
	}
	if len(f) <= at {
		return false
	}
	gpu, isGPU := gpuIn(f[0])
	id, isProcess := pidIn(f[at])
	if !isGPU || !isProcess {
		return false
	}
	gi, isInstance := atoi(string(f[1]))
	f = f[at+1:]
	if len(f) > 0 && len(bytes.Trim(f[0], "CGM+")) == 0 {
		f = f[1:]
	}
	used := Unknown
	if n := len(f) - 1; n >= 0 && isSize().Match(f[n]) {
		used, f = memory(f[n], mib), f[:n]
	}
	t.processes++
	if t.alone {
		all.rows[t.form]++
	}
	u := all.byIndex(t.form, gpu)
	u.unlisted = 0
	u.process(t.clock, id, bytes.Join(f, []byte(" ")), used)
	if process := u.processes[id]; process != nil && isInstance && t.ids {
		process.Instance = gi
	}
	return true
}

var isSize = pattern.Of(`(?:iB|MB|^N/A)$`)

// listLine takes the head of the list, and what stands there when nobody is listed.
func (t *tableState) listLine(line []byte) bool {
	nobody := bytes.HasPrefix(line, []byte("No running processes found"))
	if nobody {
		t.processes++
		t.unlisted()
	}
	head := bytes.HasPrefix(line, []byte("GPU")) && bytes.Contains(line, []byte(" PID "))
	t.ids = t.ids || head && (bytes.Contains(line, []byte(" GI ")) || bytes.Contains(line, []byte("CI ")))
	return head || nobody
}
