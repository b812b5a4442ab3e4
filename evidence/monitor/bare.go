package monitor

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence/guess"
	"github.com/vramscope/vramscope/internal/pattern"
)

// bareShape is what a row of `--format=csv,noheader` is by the letters of its cells, where nothing names them.
type bareShape struct {
	with  string // letters of which one is among them
	shape func() *regexp.Regexp
	// roles are of the cells in the shape's groups, in order; without any, and without find, the row is somebody else's.
	roles []role
	// find gives roles by the figures themselves; false where they may be something else.
	find func(columns []column, cells [][]byte, shape string) bool
	row  string // one that needs it
}

var processRow = []role{pid, processName, processMemory}

// bareShapes are in order; the first that a row fits counts. Memory is taken where it is printed in MiB, or where the
// figures can be nothing else: two neighbours of which the larger is a card's capacity. The letters: u a UUID, b a bus
// id, n a card's name, t nvidia-smi's own time, d another; M MiB, w W, % percent; p a number that may be a process's,
// # another; x anything else.
var bareShapes = []bareShape{
	{"", pattern.Of(`^([#p])(x)(M)$`), processRow, nil, "12345, python, 5000 MiB"},
	{onlyOfGPUs, pattern.Of(`^[^M#p]*([#p])(x)[^M#p]*(M)[^M#p]*$`), processRow, nil, "12345, python, 5000 MiB, GPU-6a1b"},
	{"", pattern.Of(`^[^M#p]*[#p]x[^M#p]*M[^M#p]*$`), nil, nil, "12, lessons, 300 MiB, read"},
	{"", pattern.Of(`^[^Mn#p]*(p)[^Mn#p]*(M)[^Mn#p]*$`), []role{pid, processMemory}, nil, "12345, 1000 MiB"},
	{"", pattern.Of(`M`), nil, findSizes, "2024/05/01 12:00:00.123, 0, 40000 MiB, 81920 MiB"},
	{onlyOfGPUs, pattern.Of(`[#p].*[#p]`), nil, findCounts, "2024/05/01 12:00:00.123, 0, 40000, 81920"},
}

// onlyOfGPUs are letters of what only nvidia-smi prints.
const onlyOfGPUs = "ubnt"

// letters of cells, by what they can only be.
var lettersOf = map[role]byte{gpuUUID: 'u', gpuBus: 'b', gpuName: 'n', usedMemory: 'M', power: 'w', utilization: '%',
	timestamp: 'd'}

// letterOf is a cell's.
func letterOf(cell []byte, r role) byte {
	switch letter, known := lettersOf[r]; {
	case isSlashTime(cell):
		return 't'
	case known:
		return letter
	case isPID(cell):
		return 'p'
	case isCount(cell):
		return '#'
	}
	return 'x'
}

// bareColumns tells what each value of a row without header is.
func bareColumns(cells [][]byte) ([]column, bool) {
	if len(cells) < 2 || len(cells) > 64 || len(cells[0]) > 64 {
		return nil, false
	}
	columns, shape := make([]column, len(cells)), make([]byte, len(cells))
	for i, cell := range cells {
		columns[i] = column{role: bareRole(cell), unit: mib}
		shape[i] = letterOf(cell, columns[i].role)
	}
	for i := range bareShapes {
		g := &bareShapes[i]
		groups := g.shape().FindSubmatchIndex(shape)
		if groups == nil || g.with != "" && !bytes.ContainsAny(shape, g.with) ||
			g.find != nil && !g.find(columns, cells, string(shape)) {
			continue
		}
		for k, r := range g.roles {
			columns[groups[2+2*k]].role = r
		}
		return columns, g.roles != nil || g.find != nil
	}
	return nil, false
}

// bareRow recognises such rows by their values; afterwards row reads the rest.
func (s *csvState) bareRow(all *gathered, line []byte) bool {
	if s.active && !s.header.skip && s.misses < csvMisses || len(line) > 1<<10 || !bareWords(line) || !bareStart(line) {
		return false
	}
	columns, ok := bareColumns(splitCells(nil, line, ','))
	if !guess.Headless.Made(ok) {
		if isSlashTime(line) || bytes.HasPrefix(line, []byte("GPU-")) {
			all.unnamed++
		}
		return false
	}
	*s = csvState{active: true, header: header{columns: columns, form: CSV, delimiter: ','}, cells: s.cells,
		listing: newListing(columns)}
	if slices.ContainsFunc(columns, func(c column) bool { return c.role == pid }) {
		s.header.form = AppsCSV
	}
	return s.row(all, line)
}

// bareWords looks for what a row has; the comma behind the first cell is the rarest of it in a log.
func bareWords(line []byte) bool {
	has := func(word string) bool { return bytes.Contains(line, []byte(word)) }
	return isSlashTime(line) || bytes.IndexByte(line[:min(len(line), 64)], ',') > 0 &&
		(has(" MiB") || has("GPU-") || has("NVIDIA "))
}

// bareStart looks at the first cell only: an index, a pid or a bus id, a time
// as nvidia-smi writes it, or a card's name or UUID.
func bareStart(line []byte) bool {
	if isSlashTime(line) {
		return true
	}
	end := bytes.IndexByte(line[:min(len(line), 64)], ',')
	if end < 1 {
		return false
	}
	cell := trimCell(line[:end])
	return isCount(cell) && len(cell) < 8 || bareRole(cell) != other && bareRole(cell) != timestamp
}

// isSlashTime tells nvidia-smi's own time format, 2026/07/14 09:00:44.579, which
// nothing else writes at the start of a comma-separated line.
func isSlashTime(text []byte) bool {
	return len(text) > 22 && text[4] == '/' && text[7] == '/' && text[13] == ':' && text[19] == '.'
}

// isPID tells a process from an index, a percentage or a temperature.
func isPID(cell []byte) bool {
	const least, most = 300, 1 << 22 // the kernel's
	v, rest, ok := amount(cell)
	return ok && len(rest) == 0 && v == float64(int(v)) && v > least && v <= most && bytes.IndexByte(cell, '.') < 0
}

// isCapacity reports whether that many MiB may be all of a card's memory, of which
// drivers show up to a tenth less than what is printed on the box.
func isCapacity(mebibytes float64) bool {
	return slices.ContainsFunc([]float64{2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 18, 20, 22, 23, 24, 32, 36, 40, 48, 64, 72, 80, 96,
		128, 141, 144, 192, 256, 288}, func(gb float64) bool { return mebibytes <= gb*1024 && mebibytes >= gb*1024*0.9 })
}

var bareRoles = []struct {
	like func() *regexp.Regexp
	role role
}{
	{pattern.Of(`^(?:GPU|MIG)-`), gpuUUID},
	{pattern.Of(`^[^:]*:[^:]*:[^:]*\..$`), gpuBus},
	{pattern.Of(`^.{4}[/-].{8}:.{5}`), timestamp},
	{pattern.Of(`^-?[\d.]+ MiB$`), usedMemory},
	{pattern.Of(`^-?[\d.]+ W$`), power},
	{pattern.Of(`^-?[\d.]+ %$`), utilization},
	{pattern.Of(`^(?:NVIDIA|Tesla|GeForce|Quadro|TITAN)`), gpuName},
}

func bareRole(cell []byte) role {
	for i := range bareRoles {
		if bareRoles[i].like().Match(cell) {
			return bareRoles[i].role
		}
	}
	return other
}

func isCount(cell []byte) bool {
	_, rest, ok := amount(cell)
	return ok && len(rest) == 0
}

// findSizes takes the largest of the sizes as the total and the first other
// one as used, the order nvidia-smi's own examples use.
func findSizes(columns []column, cells [][]byte, shape string) bool {
	largest, sizes := 0, 0
	for i, c := range columns {
		if c.role != usedMemory {
			continue
		}
		if sizes++; sizes == 1 || memory(cells[i], mib) > memory(cells[largest], mib) {
			largest = i
		}
	}
	// "NVIDIA A100 80GB PCIe, 81920 MiB" is the card's capacity; what is in
	// use is logged with the time or beside the utilisation.
	if sizes > 1 || !strings.ContainsAny(shape, "td%") {
		columns[largest].role = totalMemory
	}
	rest := usedMemory
	for i := range columns {
		if columns[i].role == usedMemory {
			columns[i].role, rest = rest, freeMemory
		}
	}
	findIndex(columns, cells, shape)
	return true
}

// findIndex takes a small whole number before the memory columns as the index.
func findIndex(columns []column, cells [][]byte, shape string) {
	if i := strings.IndexAny(shape, "#p"); i >= 0 && i <= 2 {
		if v, _, _ := amount(cells[i]); v >= 0 && v < 64 && v == float64(int(v)) {
			columns[i].role = gpuIndex
		}
	}
}

var perhapsPID = pattern.Of(`^[ub]p[#p]$`)

// findCounts finds used and total among figures without units. What may be a
// percentage, a temperature or an index is not taken for memory in use: a later
// row tells, when more is in use. Nor is what may be a process and its memory.
func findCounts(columns []column, cells [][]byte, shape string) bool {
	const leastUsed = 100
	figure := func(i int) float64 {
		if i < 0 || i >= len(cells) || shape[i] != 'p' && shape[i] != '#' {
			return -1
		}
		v, _, _ := amount(cells[i])
		return v
	}
	total := 0
	for i := range cells {
		if v := figure(i); v > figure(total) && v == float64(int(v)) {
			total = i
		}
	}
	if figure(total) < 1000 || !isCapacity(figure(total)) || perhapsPID().MatchString(shape) && total == 1 {
		return false
	}
	for _, i := range [...]int{total - 1, total + 1} {
		if figure(i) > leastUsed {
			columns[total].role, columns[i].role = totalMemory, usedMemory
			findIndex(columns, cells, shape)
			return true
		}
	}
	return false
}
