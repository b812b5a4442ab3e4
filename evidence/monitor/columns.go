package monitor

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/units"
)

// role is what a CSV column holds, whoever named it.
type role uint8

const (
	other     role = iota
	timestamp      // date and time, or seconds since 1970
	dateOnly
	clockOnly
	elapsed // seconds since some start: not a time of day
	gpuIndex
	gpuUUID
	gpuBus
	gpuSerial
	gpuName
	usedMemory
	totalMemory
	freeMemory
	reservedMemory
	utilization
	power
	temperature
	pid
	processName
	processMemory
	instance   // of MIG
	accounting // columns of --query-accounted-apps and --query-retired-pages
)

// column is one column of a CSV.
type column struct {
	role role
	unit float64 // bytes in one, for memory printed without unit
	apps bool    // named as nvidia-smi names what a process holds
}

// columnOf names a header cell. nvidia-smi's own names come first; the rest
// are the words that monitoring scripts use for the same figures.
func columnOf(cell []byte) column {
	name := strings.ToLower(strings.Trim(string(cell), " \t\"'#\ufeff"))
	c := column{role: roles[bare(name)], unit: mib, apps: bare(name) == "used_memory"}
	words := strings.FieldsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '%'
	})
	if c.role == timestamp && strings.ContainsAny(name, "([") {
		c.role = elapsed // "time (s)"
	}
	if c.role == other && !strings.Contains(bare(name), ".") { // dotted names are nvidia-smi's own
		c.role = roleOfWords(words)
	}
	for _, w := range words {
		switch w {
		case "bytes", "byte", "b":
			c.unit = 1
		case "kb", "kib":
			c.unit = 1 << 10
		case "gb", "gib":
			c.unit = 1 << 30
		}
	}
	return c
}

// bare drops the unit that nvidia-smi appends: "memory.used [MiB]".
func bare(name string) string {
	if i := strings.IndexAny(name, "[("); i > 0 {
		name = name[:i]
	}
	return strings.TrimSpace(name)
}

var roles = map[string]role{
	"timestamp": timestamp, "time": timestamp, "datetime": timestamp, "date_time": timestamp,
	"date": dateOnly, "index": gpuIndex, "gpu": gpuIndex, "gpu_index": gpuIndex, "gpu index": gpuIndex,
	"gpu_id": gpuIndex, "gpu id": gpuIndex, "gpuid": gpuIndex, "device": gpuIndex, "device_id": gpuIndex,
	"device_index": gpuIndex, "idx": gpuIndex, "id": gpuIndex, "gpu_idx": gpuIndex, "gpu_num": gpuIndex,
	"uuid": gpuUUID, "gpu_uuid": gpuUUID,
	"pci.bus_id": gpuBus, "gpu_bus_id": gpuBus, "pci_bus_id": gpuBus, "bus_id": gpuBus,
	"serial": gpuSerial, "gpu_serial": gpuSerial,
	"name": gpuName, "gpu_name": gpuName, "product_name": gpuName, "gpu name": gpuName,
	"memory.used": usedMemory, "memory.total": totalMemory, "memory.free": freeMemory, "memory.reserved": reservedMemory,
	"utilization.gpu": utilization, "gpu%": utilization, "power.draw": power, "temperature.gpu": temperature,
	"pid": pid, "process_name": processName, "command": processName,
	"used_gpu_memory": processMemory, "used_memory": usedMemory,
	"max_memory_usage": accounting, "retired_pages.address": accounting, "retired_pages.timestamp": accounting,
	"elapsed": elapsed, "elapsed_sec": elapsed, "elapsed_s": elapsed, "elapsed_seconds": elapsed,
	"seconds": elapsed, "sec": elapsed, "t": elapsed, "elapsed_time": elapsed,
}

// wordRoles tell by words of a name what a column holds, as in gpu_util_pct, mem_used_mb, "Memory Max": the first
// counts of which the name has a word of each list, and none of not.
var wordRoles = []struct {
	all  []string // lists of words, with blanks between them
	not  string
	role role
}{
	{[]string{"protected bar1 ccpm encoder decoder enc dec jpeg ofa module limit default enforced cpu ram host swap system " +
		"disk clock clocks mhz"}, "", other},
	{[]string{"temperature temp"}, "", temperature},
	{[]string{ofMemory, "used", "total"}, "", usedMemory}, // rocm-smi's "VRAM Total Used Memory (B)"
	{[]string{ofMemory, "total max capacity size"}, "", totalMemory},
	{[]string{ofMemory, "free available"}, "", freeMemory},
	{[]string{ofMemory, "reserved"}, "", reservedMemory},
	{[]string{ofMemory, "pct percent % utilization util"}, "", other},
	{[]string{ofMemory, "used usage allocated mb mib gb gib"}, "", usedMemory},
	{[]string{"power"}, "max cap", power},
	{[]string{ofUse, "gpu sm utilization util"}, ofMemory, utilization},
}

const (
	ofMemory = "memory mem vram fb"
	ofUse    = "utilization util usage busy load pct percent %"
)

// listWords are the words of each of those lists.
var listWords = sync.OnceValue(func() map[string][]string {
	words := map[string][]string{ofUse: strings.Fields(ofUse)}
	for _, r := range wordRoles {
		words[r.not] = strings.Fields(r.not)
		for _, list := range r.all {
			words[list] = strings.Fields(list)
		}
	}
	return words
})

// roleOfWords reads such names.
func roleOfWords(words []string) role {
	lists := listWords()
	has := func(list string) bool {
		return slices.ContainsFunc(lists[list], func(w string) bool { return slices.Contains(words, w) })
	}
	for _, r := range wordRoles {
		if !has(r.not) && !slices.ContainsFunc(r.all, func(list string) bool { return !has(list) }) {
			return r.role
		}
	}
	if len(words) == 1 && has(ofUse) {
		return utilization
	}
	return other
}

// header is a CSV's first line, understood.
type header struct {
	columns   []column
	form      Form
	delimiter byte // ',' ';' '\t', or ' ' for columns aligned with spaces
	skip      bool // accounting and retired pages: recognised, nothing to read
}

// readHeader refuses anything that is not clearly about GPUs: at least one
// column of memory, utilisation or power, one that says when or which GPU, and
// half of all columns known (nvidia-smi's own dotted names count as known).
func readHeader(line []byte) (header, bool) {
	for _, d := range []byte{',', ';', '\t', ' '} {
		if bytes.IndexByte(line, d) < 0 {
			continue
		}
		if h, ok := headerWith(line, d); ok {
			return h, true
		}
	}
	return header{}, false
}

func headerWith(line []byte, delimiter byte) (header, bool) {
	h := header{delimiter: delimiter, form: CSV}
	cells := splitCells(nil, line, delimiter)
	if len(cells) < 2 || len(cells) > 1000 {
		return h, false
	}
	var seen [accounting + 1]int
	known, aboutGPUs := 0, false // some name that only a GPU's log has
	for _, cell := range cells {
		if len(cell) == 0 || len(cell) > 80 || units.IsDigit(firstByte(cell)) {
			return h, false
		}
		c := columnOf(cell)
		h.columns = append(h.columns, c)
		seen[c.role]++
		aboutGPUs = aboutGPUs || isAboutGPUs(cell, c.role)
		if c.role != other || bytes.IndexByte(cell, '.') > 0 || bytes.IndexByte(cell, '_') > 0 {
			known++
		}
	}
	return h.judge(seen[:], known, aboutGPUs)
}

// judge tells by a head's columns whether it is of GPUs.
func (h header) judge(seen []int, known int, aboutGPUs bool) (header, bool) {
	count := func(roles ...role) (n int) {
		for _, r := range roles {
			n += seen[r]
		}
		return n
	}
	switch {
	case seen[accounting] > 0:
		h.skip = count(pid, gpuUUID, gpuBus, gpuName, timestamp) > 0
		return h, h.skip
	case seen[pid] > 0:
		return appsHeader(h, count(processMemory, usedMemory, processName) > 0, aboutGPUs)
	}
	h.fixRepeats(seen)
	when, which := count(timestamp, dateOnly, elapsed), count(gpuIndex, gpuUUID, gpuBus, gpuSerial, gpuName)
	figures := count(usedMemory, totalMemory, freeMemory, utilization, power)
	// A script's result table may have a memory column, too; what makes a
	// GPU log is that most columns are about the GPU.
	enough := figures > 0 && when+which > 0 || seen[usedMemory] > 0 && figures > 1
	return h, enough && (aboutGPUs || figures > 1 && when > 0) && 2*known >= len(h.columns) && (h.delimiter != ' ' || figures > 1)
}

func isAboutGPUs(cell []byte, r role) bool {
	switch r {
	case gpuUUID, gpuBus:
		return true
	case other, timestamp, elapsed:
		return false
	}
	lower := bytes.ToLower(cell)
	return bytes.IndexByte(cell, '.') > 0 || bytes.Contains(lower, []byte("gpu")) || bytes.Contains(lower, []byte("vram"))
}

// appsHeader turns the memory column of a process list into the process's.
func appsHeader(h header, ok, aboutGPUs bool) (header, bool) {
	h.form = AppsCSV
	for i := range h.columns {
		if c := &h.columns[i]; c.role == usedMemory {
			ok = ok && (aboutGPUs || c.apps) // else it is what they hold on the host, as Ray prints
			c.role = processMemory
		}
	}
	return h, ok
}

// fixRepeats keeps the first of several power or utilisation columns
// (power.draw, power.draw.average, …) and reads "Date,Time" as a pair.
func (h *header) fixRepeats(seen []int) {
	var taken [accounting + 1]bool
	for i := range h.columns {
		c := &h.columns[i]
		if c.role == timestamp && seen[dateOnly] > 0 {
			c.role = clockOnly
		}
		if taken[c.role] {
			c.role = other
		}
		taken[c.role] = c.role != other
	}
}

// splitCells cuts a row, reusing cells. Quotes only matter around delimiters.
func splitCells(cells [][]byte, line []byte, delimiter byte) [][]byte {
	cells = cells[:0]
	if delimiter == ' ' {
		return splitAligned(cells, line)
	}
	if bytes.IndexByte(line, '"') < 0 {
		start := 0
		for i := range line {
			if line[i] == delimiter {
				cells = append(cells, trimCell(line[start:i]))
				start = i + 1
			}
		}
		return append(cells, trimCell(line[start:]))
	}
	for {
		i := bytes.IndexByte(line, delimiter)
		if q := bytes.IndexByte(line, '"'); q >= 0 && (i < 0 || q < i) {
			if end := bytes.IndexByte(line[q+1:], '"'); end >= 0 {
				rest := q + 1 + end + 1
				if i = bytes.IndexByte(line[rest:], delimiter); i >= 0 {
					i += rest
				}
			}
		}
		if i < 0 {
			return append(cells, trimCell(line))
		}
		cells = append(cells, trimCell(line[:i]))
		line = line[i+1:]
	}
}

// splitAligned cuts at runs of two spaces in headers ("Mem Used"), and so does
// for rows, whose figures are never adjacent.
func splitAligned(cells [][]byte, line []byte) [][]byte {
	line = bytes.TrimSpace(line)
	for len(line) > 0 {
		i := bytes.Index(line, []byte("  "))
		if i < 0 {
			i = len(line)
		}
		cells = append(cells, line[:i])
		line = bytes.TrimLeft(line[i:], " ")
	}
	return cells
}

func trimCell(b []byte) []byte { return bytes.Trim(b, " \t\"") }
