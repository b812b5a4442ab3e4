package monitor

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
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
	form      Form // Table or HLSMI
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
	return t.keeps(cells, cells[0] != '+' && t.row(all, cells))
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

// keeps reports whether a line is the table's: a row that was understood, or one as wide as all of them.
func (t *tableState) keeps(line []byte, understood bool) bool {
	if !understood && width(line) != t.width {
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
		t.ruled, t.processes = false, 0
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
	case headAlone().Match(line):
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

// gpuRow reads the two rows of a GPU: index, name and bus, then the figures.
//
//	|   0  NVIDIA L40S         Off | 00000000:01:00.0 Off |        0 |
//	| N/A   54C    P0  110W / 350W | 1235MiB /  46068MiB  |  9%  Default |
func (t *tableState) gpuRow(all *gathered, line []byte) bool {
	if t.gpu != nil && t.figureRow(all, line) {
		t.gpu = nil
		return true
	}
	m := match(headOfGPU, line)
	if m == nil {
		return false
	}
	index, ok := gpuIn(m[1])
	if !ok {
		return false
	}
	name := strings.Fields(string(m[2]))
	if n := len(name); n > 1 && slices.Contains(states, name[n-1]) {
		name = name[:n-1]
	}
	u := all.byIndex(t.form, index)
	u.ids[2] = busID(string(m[3]))
	u.name = fullName(strings.Join(name, " "), u.name)
	t.gpu = u
	return true
}

// match are the groups of a row that begins with a number, as others don't.
func match(row func() *regexp.Regexp, line []byte) [][]byte {
	if text := bytes.TrimLeft(line, "| \t"); len(text) == 0 || !units.IsDigit(text[0]) {
		return nil
	}
	return row().FindSubmatch(line)
}

// states are persistence modes and driver models, one of which stands behind a GPU's name.
var states = []string{"On", "Off", "N/A", "WDDM", "TCC", "MCDM", "Disabled", "Enabled", "ERR!"}

var (
	// headOfGPU has the index, the name and the bus.
	headOfGPU = pattern.Of(`^[| \t]*(\d+)[ \t]([^|]*)\|[ \t]*([^ \t|]*:[^ \t|]*)`)
	// headAlone is such a row beyond doubt, without the table around it.
	headAlone = pattern.Of(`^[| \t]*[^|]*\|[ \t]*[^\s|:]+:[^\s|:]+:[^\s|:]+\.\S(?: [^|]*)?\|[ \t]*[^|\s][^|]*[| \t]*$`)
	figuresOf = pattern.Of(`\|([^|/]*[iM]B *)/([^|]*)\|?([^|]*)`)
	// noFigures is the second row, which always has power, of a GPU without memory of its own: "Not Supported", "N/A".
	noFigures = pattern.Of(`^[| \t]*[^|]*(?:N/A|W[^|]*/|/[^|]*W)[^|]*\|`)
	instances = pattern.Of(`^[| \t]*(\d+)[ \t]+(\d+)[ \t]+\S+[ \t]+\S+[ \t]*\|([^|]*)\|`)
	processOf = pattern.Of(`^[| \t]*(\d+)\s+(?:(\d+|N/A)\s+(?:\d+|N/A)\s+)?(\d+)\s([^|]*)`)
	isSize    = pattern.Of(`(?:iB|MB|^N/A)$`)
)

// figureRow takes "used / total" and what stands behind it.
func (t *tableState) figureRow(all *gathered, line []byte) bool {
	s, total := evidence.Sample{At: t.clock, UsedBytes: Unknown, UtilizationPercent: -1}, Unknown
	if m := figuresOf().FindSubmatch(line); m != nil {
		s.UsedBytes, total, s.UtilizationPercent = memory(m[1], mib), memory(m[2], mib), number(m[3])
	} else if !noFigures().Match(line) {
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
	m := match(instances, line)
	if m == nil {
		return
	}
	gpu, ok := gpuIn(m[1])
	gi, isInstance := atoi(string(m[2]))
	used, total, isMemory := usedOf(m[3])
	if !ok || !isInstance || !isMemory {
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
	if t.listLine(bytes.Trim(line, "| \t")) {
		return true
	}
	m := match(processOf, line)
	if m == nil {
		return false
	}
	gpu, isGPU := gpuIn(m[1])
	id, isProcess := pidIn(m[3])
	if !isGPU || !isProcess {
		return false
	}
	t.processes++
	if t.alone {
		all.rows[t.form]++
	}
	name, used := bytes.Fields(m[4]), Unknown
	if len(name) > 0 && len(bytes.Trim(name[0], "CGM+")) == 0 {
		name = name[1:]
	}
	if n := len(name) - 1; n >= 0 && isSize().Match(name[n]) {
		used, name = memory(name[n], mib), name[:n]
	}
	u := all.byIndex(t.form, gpu)
	u.unlisted = 0
	u.process(t.clock, id, bytes.Join(name, []byte(" ")), used)
	if gi, isInstance := atoi(string(m[2])); isInstance && u.processes[id] != nil {
		u.processes[id].Instance = gi
	}
	return true
}

// listLine takes the head of the list, and what stands there when nobody is listed.
func (t *tableState) listLine(line []byte) bool {
	nobody := bytes.HasPrefix(line, []byte("No running processes found"))
	if nobody {
		t.processes++
		t.unlisted()
	}
	return nobody || bytes.HasPrefix(line, []byte("GPU")) && bytes.Contains(line, []byte(" PID "))
}
