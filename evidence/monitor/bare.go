package monitor

import (
	"bytes"
	"slices"
)

// bareRow recognises rows of `--format=csv,noheader` by their values and
// infers the header from them; afterwards row reads the rest.
func (s *csvState) bareRow(all *gathered, line []byte) bool {
	if s.active && !s.header.skip && s.misses < csvMisses || len(line) > 1<<10 || !bareStart(line) {
		return false
	}
	if !slashTime(line) && !bytes.Contains(line, []byte(" MiB")) && !bytes.Contains(line, []byte("GPU-")) &&
		!bytes.Contains(line, []byte("NVIDIA ")) {
		return false
	}
	cells := splitCells(nil, line, ',')
	columns, ok := inferColumns(cells)
	if !ok {
		if slashTime(line) || bytes.HasPrefix(line, []byte("GPU-")) {
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

// bareStart looks at the first cell only: an index, a pid or a bus id, a time
// as nvidia-smi writes it, or a card's name or UUID.
func bareStart(line []byte) bool {
	if slashTime(line) {
		return true
	}
	end := bytes.IndexByte(line[:min(len(line), 64)], ',')
	if end < 1 {
		return false
	}
	cell := trimCell(line[:end])
	if len(cell) == 0 {
		return false
	}
	return isCount(cell) && len(cell) < 8 || bareRole(cell) != other && bareRole(cell) != timestamp
}

// slashTime tells nvidia-smi's own time format, 2026/07/14 09:00:44.579, which
// nothing else writes at the start of a comma-separated line.
func slashTime(line []byte) bool {
	return len(line) > 24 && line[4] == '/' && line[7] == '/' && line[13] == ':' && line[19] == '.'
}

// inferColumns guesses what each value of a row without header is. Memory is
// taken where it is printed in MiB, or else where the figures can be nothing
// else: two neighbours of which the larger is a card's capacity.
func inferColumns(cells [][]byte) ([]column, bool) {
	if len(cells) < 2 || len(cells) > 64 || len(cells[0]) > 64 {
		return nil, false
	}
	columns := make([]column, len(cells))
	var sizes, plain []int // cells in MiB, and figures without unit
	gpu := false           // something here only nvidia-smi prints
	for i, cell := range cells {
		columns[i].unit = mib
		r := bareRole(cell)
		columns[i].role = r
		switch {
		case r == usedMemory:
			sizes = append(sizes, i)
		case r == gpuUUID || r == gpuBus || r == gpuName || r == timestamp &&
			slashTime(append(cell[:len(cell):len(cell)], "  "...)):
			gpu = true
		case r == other && isCount(cell):
			plain = append(plain, i)
		}
	}
	switch {
	case len(sizes) == 1 && bareProcess(columns, cells, plain):
		columns[sizes[0]].role = processMemory
		return columns, gpu || len(cells) == 3
	case len(sizes) == 1 && len(plain) == 1 && isPID(cells[plain[0]]) && plain[0] < sizes[0] && !gpuNamed(columns):
		columns[plain[0]].role, columns[sizes[0]].role = pid, processMemory
		return columns, true
	case len(sizes) > 0:
		nameSizes(columns, cells, sizes)
		nameIndex(columns, cells, plain)
		return columns, true
	case gpu && len(plain) > 1 && !mayBeProcess(columns, cells, plain) && nameCounts(columns, cells, plain):
		return columns, true
	case gpu && len(plain) == 2 && processCounts(columns, cells, plain):
		return columns, true
	}
	return nil, false
}

// mayBeProcess tells a row of a GPU's UUID and two figures that may be a process
// and its memory as well as all memory and what is in use of it.
func mayBeProcess(columns []column, cells [][]byte, plain []int) bool {
	if len(cells) != 3 || len(plain) != 2 || columns[0].role != gpuUUID && columns[0].role != gpuBus {
		return false
	}
	first, _, _ := amount(cells[1])
	second, _, _ := amount(cells[2])
	return first > second && isPID(cells[1])
}

// isPID tells a process from an index, a percentage or a temperature.
func isPID(cell []byte) bool {
	const least, most = 300, 1 << 22 // the kernel's
	v, rest, ok := amount(cell)
	return ok && len(rest) == 0 && v == float64(int(v)) && v > least && v <= most && bytes.IndexByte(cell, '.') < 0
}

func gpuNamed(columns []column) bool {
	return slices.ContainsFunc(columns, func(c column) bool { return c.role == gpuName })
}

// processCounts takes two figures without units for a process and its memory,
// where nothing else can be meant: the first follows the GPU's UUID or comes
// before the program's name.
func processCounts(columns []column, cells [][]byte, plain []int) bool {
	first, second := plain[0], plain[1]
	if !isPID(cells[first]) || second != len(cells)-1 || !isPID(cells[second]) { // less may be a percentage
		return false
	}
	used, _, _ := amount(cells[first]) // if it is no process
	free, _, _ := amount(cells[second])
	program := second == first+2 && columns[first+1].role == other
	onGPU := second == first+1 && first > 0 && columns[first-1].role == gpuUUID || second == first+2 &&
		columns[first+1].role == gpuUUID
	if gpuNamed(columns) || !program && (!onGPU || isCapacity(used+free)) {
		return false
	}
	columns[first].role, columns[second].role = pid, processMemory
	if program {
		columns[first+1].role = processName
	}
	return true
}

// isCapacity reports whether that many MiB may be all of a card's memory, of which
// drivers show up to a tenth less than what is printed on the box.
func isCapacity(mebibytes float64) bool {
	return slices.ContainsFunc([]float64{2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 18, 20, 22, 23, 24, 32, 36, 40, 48, 64, 72, 80, 96,
		128, 141, 144, 192, 256, 288}, func(gb float64) bool { return mebibytes <= gb*1024 && mebibytes >= gb*1024*0.9 })
}

func bareRole(cell []byte) role {
	switch {
	case bytes.HasPrefix(cell, []byte("GPU-")), bytes.HasPrefix(cell, []byte("MIG-")):
		return gpuUUID
	case len(cell) >= 12 && cell[len(cell)-2] == '.' && bytes.Count(cell, []byte{':'}) == 2:
		return gpuBus
	case len(cell) >= 19 && (cell[4] == '/' || cell[4] == '-') && cell[13] == ':':
		return timestamp
	}
	if _, rest, ok := amount(cell); ok {
		switch string(rest) {
		case " MiB":
			return usedMemory
		case " W":
			return power
		case " %":
			return utilization
		}
		return other
	}
	for _, brand := range [...]string{"NVIDIA", "Tesla", "GeForce", "Quadro", "TITAN"} {
		if bytes.HasPrefix(cell, []byte(brand)) {
			return gpuName
		}
	}
	return other
}

func isCount(cell []byte) bool {
	_, rest, ok := amount(cell)
	return ok && len(rest) == 0
}

// bareProcess tells "1234, python, 5000 MiB": a pid, a path, one memory.
func bareProcess(columns []column, cells [][]byte, plain []int) bool {
	if len(plain) != 1 {
		return false
	}
	i := plain[0]
	if i+1 >= len(cells) || columns[i+1].role != other || isCount(cells[i+1]) {
		return false
	}
	columns[i].role, columns[i+1].role = pid, processName
	return true
}

// nameSizes takes the largest of the sizes as the total and the first other
// one as used, the order nvidia-smi's own examples use.
func nameSizes(columns []column, cells [][]byte, sizes []int) {
	largest := sizes[0]
	for _, i := range sizes {
		if memory(cells[i], mib) > memory(cells[largest], mib) {
			largest = i
		}
	}
	if len(sizes) == 1 {
		// "NVIDIA A100 80GB PCIe, 81920 MiB" is the card's capacity; what is in
		// use is logged with the time or beside the utilisation.
		if !slices.ContainsFunc(columns, func(c column) bool { return c.role == timestamp || c.role == utilization }) {
			columns[sizes[0]].role = totalMemory
		}
		return
	}
	rest := other
	for _, i := range sizes {
		switch {
		case i == largest:
			columns[i].role = totalMemory
		case rest == other:
			columns[i].role, rest = usedMemory, freeMemory
		default:
			columns[i].role = rest
			rest = reservedMemory
		}
	}
}

// nameIndex takes a small whole number before the memory columns as the index.
func nameIndex(columns []column, cells [][]byte, plain []int) {
	if len(plain) == 0 || plain[0] > 2 {
		return
	}
	if v, _, _ := amount(cells[plain[0]]); v >= 0 && v < 64 && v == float64(int(v)) {
		columns[plain[0]].role = gpuIndex
	}
}

// nameCounts finds used and total among figures without units. What may be a
// percentage, a temperature or an index is not taken for memory in use: a later
// row tells, when more is in use.
func nameCounts(columns []column, cells [][]byte, plain []int) bool {
	const leastUsed = 100
	total := -1
	for _, i := range plain {
		v, _, _ := amount(cells[i])
		if w := 0.0; v >= 1000 && v == float64(int(v)) {
			if total >= 0 {
				w, _, _ = amount(cells[total])
			}
			if v > w {
				total = i
			}
		}
	}
	if total < 0 {
		return false
	}
	if v, _, _ := amount(cells[total]); !isCapacity(v) {
		return false
	}
	for _, i := range [...]int{total - 1, total + 1} {
		if i < 0 || i >= len(cells) || columns[i].role != other {
			continue
		}
		if v, rest, ok := amount(cells[i]); ok && len(rest) == 0 && v > leastUsed {
			columns[total].role, columns[i].role = totalMemory, usedMemory
			nameIndex(columns, cells, plain)
			if columns[i].role == gpuIndex {
				columns[i].role = usedMemory
			}
			return true
		}
	}
	return false
}
