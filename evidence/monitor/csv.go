package monitor

import (
	"bytes"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
)

// csvState is the CSV being read, if any.
type csvState struct {
	active  bool
	header  header
	listing *listing
	cells   [][]byte
	misses  int // lines in a row that did not fit
	quoted  quotedRow
}

// listing is the rows that share one way of naming GPUs.
type listing struct {
	units   []*unit
	present [4]bool // which id columns exist
	clash   [4]bool // id columns that were equal for two GPUs at one time
	sweep   []sweepRow
	number  int // of the sweep
	start   evidence.Stamp
	next    int  // where in units the next row is expected
	below   bool // rows are numbered by their place below a date
}

func newListing(columns []column) *listing {
	l := &listing{}
	for _, c := range columns {
		for k, r := range idRoles {
			l.present[k] = l.present[k] || c.role == r
		}
	}
	return l
}

type sweepRow struct {
	unit *unit
	pid  int
}

// idRoles are the columns that can tell GPUs apart, most trusted first.
var idRoles = [4]role{gpuIndex, gpuUUID, gpuBus, gpuSerial}

// csvMisses is how many foreign lines a CSV inside another log survives.
const csvMisses = 2000

// begin is asked about every line that is nothing else, so its first
// tests must be cheap: a header holds one of a few words in its first cell.
func (s *csvState) begin(line []byte) bool {
	if len(line) > 16<<10 || len(line) < 8 {
		return false
	}
	h := header{columns: []column{{role: usedMemory, unit: mib}}, form: CSV, delimiter: ','}
	if string(bytes.TrimRight(line, " ")) != "memory.used [MiB]" { // one column, and nothing else has that name
		if !headerLike(line) {
			return false
		}
		ok := false
		if h, ok = readHeader(line); !ok {
			return false
		}
		switch {
		case bytes.Contains(line, []byte("VRAM Total Used")):
			h.form = RocmSMI
		case bytes.Contains(line, []byte("used_vram,")):
			h.form = AMDSMI
		}
	}
	if s.active && slices.Equal(s.header.columns, h.columns) {
		return true // nvidia-smi repeats the header when restarted
	}
	*s = csvState{active: true, header: h, cells: s.cells}
	if !h.skip {
		s.listing = newListing(h.columns)
	}
	return true
}

// headerLike looks for a letter first, a short first cell, and a word that
// every header of interest has.
func headerLike(line []byte) bool {
	c := firstByte(line) | 0x20
	if (c < 'a' || c > 'z') && c != '"'|0x20 && c != 0xef {
		return false
	}
	return shortCell(line) && slices.ContainsFunc(headerWords, func(word []byte) bool { return bytes.Contains(line, word) })
}

var headerWords = [][]byte{[]byte("mem"), []byte("Mem"), []byte("MEM"), []byte("tilization"), []byte("util"), []byte("ower"),
	[]byte("pid"), []byte("retired_pages"), []byte("vram"), []byte("VRAM")}

// shortCell tells that the first cell ends soon and is a name, no sentence.
func shortCell(line []byte) bool {
	for i := 0; i < len(line) && i < 48; i++ {
		switch c := line[i]; {
		case c == ',' || c == ';' || c == '\t':
			return i > 0
		case c == ' ' && i > 0 && i+1 < len(line) && line[i+1] == ' ':
			return true
		case c == ':' || c == '=' || c == '(':
			return false
		}
	}
	return false
}

// row reads a row of the current CSV; false when the line is none. Lines that
// may turn out to begin a row are nobody's until its last one is there: what only
// looks like one mustn't hide another writer's lines.
func (s *csvState) row(all *gathered, line []byte) bool {
	if s.quoted.open() {
		if joined, complete := s.quoted.add(line); complete && s.wholeRow(all, joined) {
			return true
		}
	}
	if s.header.wraps(line) {
		s.quoted.start(line)
		return false
	}
	if !s.wholeRow(all, line) {
		return false
	}
	s.quoted.lines = 0
	return true
}

// wraps tells a line that ends within a quoted cell.
func (h *header) wraps(line []byte) bool {
	if h.delimiter != ',' || bytes.Count(line, []byte{'"'})%2 == 0 || !h.mayBegin(line) {
		return false
	}
	before := splitCells(nil, line[:bytes.LastIndexByte(line, '"')], ',')
	return len(before) <= len(h.columns) && len(before[len(before)-1]) == 0
}

// wholeRow reads a row that is complete.
func (s *csvState) wholeRow(all *gathered, line []byte) bool {
	if !s.header.mayBegin(line) {
		return s.miss()
	}
	s.cells = splitCells(s.cells, line, s.header.delimiter)
	if len(s.cells) != len(s.header.columns) {
		// A script that forgets to quote names may only add cells at the end.
		return s.miss()
	}
	if s.header.skip {
		return s.header.names(s.cells)
	}
	var r row
	if !r.fill(s.header.columns, s.cells) {
		return s.miss()
	}
	s.misses = 0
	all.addRow(&r, s.header.form, s.listing)
	return true
}

// names tells a row that says which GPU, process or time it is about.
func (h *header) names(cells [][]byte) bool {
	for i, c := range h.columns {
		switch c.role {
		case pid:
			if isCount(cells[i]) {
				return true
			}
		case gpuUUID, gpuBus, gpuName, timestamp:
			if bareRole(cells[i]) == c.role {
				return true
			}
		}
	}
	return false
}

// miss counts a line that was no row; after too many the CSV is over.
func (s *csvState) miss() bool {
	if s.misses++; s.misses > csvMisses {
		s.active = false
	}
	return false
}

// mayBegin refuses most foreign lines by their first byte: where the first
// column holds figures, a row begins with a digit, a quote or "[N/A]".
func (h *header) mayBegin(line []byte) bool {
	switch h.columns[0].role {
	case timestamp, dateOnly, elapsed, pid, usedMemory, totalMemory, freeMemory, utilization, power:
		c := firstByte(line)
		return units.IsDigit(c) || c == '[' || c == '"' || c == 'N' || h.columns[0].role == timestamp && c >= 'A'
	}
	return true
}

// row is a row of a table with named columns, by meaning.
type row struct {
	at          evidence.Stamp
	date, clock []byte
	ids         [4][]byte
	name        []byte
	used, total int64
	free        int64
	utilization float32
	pid         int
	process     []byte
	memory      int64
	figures     int
	unshown     bool // the cell of memory in use has no figure
}

var noRow = row{used: Unknown, total: Unknown, free: Unknown, memory: Unknown, utilization: -1, pid: -1}

// fill reads the cells; false when they are not figures where figures must be.
func (r *row) fill(columns []column, cells [][]byte) bool {
	*r = noRow
	for i, c := range columns {
		if !r.take(c, cells[i]) {
			return false
		}
	}
	r.join()
	return r.figures > 0
}

// take reads a cell.
func (r *row) take(c column, cell []byte) bool {
	switch c.role {
	case other, temperature:
	case timestamp:
		r.at, _ = parseStamp(cell)
	case dateOnly:
		r.date = cell
	case clockOnly:
		r.clock = cell
	case gpuIndex, gpuUUID, gpuBus, gpuSerial:
		r.ids[slices.Index(idRoles[:], c.role)] = idCell(c.role, cell)
	case gpuName:
		r.name = cell
	case processName:
		r.process = cell
	case pid:
		v, rest, ok := amount(cell)
		r.pid = int(v)
		r.figures++
		return ok && len(rest) == 0 && v >= 0 && v <= 1<<31
	default:
		if r.figure(c, cell) {
			r.figures++
			return true
		}
		return c.role == utilization || c.role == power // "Enabled"
	}
	return true
}

// join makes one of what several cells say: 2024-01-04 or 20240104, and 13:54:35. A time of day alone is not a time.
func (r *row) join() {
	if n := len(r.date); len(r.clock) > 0 && (n == 10 || n == 8) {
		text := r.date
		if n == 8 {
			text = slices.Concat(text[:4], []byte("-"), text[4:6], []byte("-"), text[6:])
		}
		r.at, _ = parseDateTime(slices.Concat(text, []byte(" "), r.clock))
	}
	if r.used == Unknown && r.free != Unknown && r.total != Unknown {
		r.used = r.total - r.free
	}
}

func (r *row) figure(c column, cell []byte) bool {
	if len(cell) == 0 || cell[0] < '0' || cell[0] > '9' {
		r.unshown = r.unshown || c.role == usedMemory && bytes.Contains(cell, []byte("N/A"))
		return missing(cell)
	}
	if _, rest, _ := amount(cell); len(rest) > 8 {
		return false // a sentence that happens to have as many commas
	}
	switch c.role {
	case usedMemory:
		r.used = memory(cell, c.unit)
	case totalMemory:
		r.total = memory(cell, c.unit)
	case freeMemory:
		r.free = memory(cell, c.unit)
	case processMemory:
		r.memory = memory(cell, c.unit)
	case utilization:
		r.utilization = number(cell)
	}
	return true
}

var namesIndex = pattern.Of(`^(?:(?i)gpu|(?-i)cuda|card)`)

// idCell is what a cell says of which GPU it is: of an index "0", "GPU 0", "gpu0", "cuda:0", "card0"; of a MIG
// instance's id the GPU's where it holds that, as old drivers write: MIG-GPU-<uuid of the GPU>/<instance>.
func idCell(r role, cell []byte) []byte {
	switch {
	case r == gpuUUID && bytes.HasPrefix(cell, []byte("MIG-GPU-")):
		cell, _, _ = bytes.Cut(cell[len("MIG-"):], []byte("/"))
	case r == gpuIndex:
		i := bytes.IndexAny(cell, "0123456789")
		if i < 0 || i > 0 && !namesIndex().Match(cell) {
			return nil
		}
		return cell[i:]
	}
	return cell
}

// quotedRow joins a row whose quoted cell runs over several lines.
type quotedRow struct {
	text  []byte
	lines int
}

const (
	quotedLines = 8
	quotedBytes = 64 << 10
)

func (q *quotedRow) open() bool { return q.lines > 0 }

func (q *quotedRow) start(line []byte) {
	q.text = append(q.text[:0], line...)
	q.lines = 1
}

// add appends a line and reports whether the quotes are closed now. A row that
// doesn't close soon is none.
func (q *quotedRow) add(line []byte) (joined []byte, complete bool) {
	q.text = append(append(q.text, ' '), line...)
	q.lines++
	complete = bytes.Count(line, []byte{'"'})%2 == 1
	if complete || q.lines >= quotedLines || len(q.text) >= quotedBytes {
		q.lines = 0
	}
	return q.text, complete
}
