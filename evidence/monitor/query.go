package monitor

import (
	"bytes"
	"html"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// queryState is where in the text of `nvidia-smi -q` the parser is.
type queryState struct {
	inside bool
	listed
	section string // of the GPU, at four blanks
	idle    int
}

// listed is a GPU whose figures are coming one by one, in text or in XML.
type listed struct {
	clock    evidence.Stamp
	position int // of the next GPU
	gpu      *unit
	current  evidence.Sample
	total    int64
	pid      int // of the process that is listed, and 1; 0: none
	name     string
}

func (l *listed) begin(all *gathered, form Form, bus []byte) {
	l.flush(all)
	l.gpu = all.byBus(form, busID(string(bus)), l.position)
	l.position++
	l.current, l.total = evidence.Sample{At: l.clock, UsedBytes: Unknown, UtilizationPercent: -1}, Unknown
}

// process keeps the process that was listed.
func (l *listed) process(used int64) {
	if l.pid > 0 && l.gpu != nil {
		l.gpu.process(l.clock, l.pid-1, []byte(l.name), used)
	}
	l.pid, l.name = 0, ""
}

func (l *listed) flush(all *gathered) {
	if l.gpu == nil {
		return
	}
	l.process(Unknown)
	all.rows[l.gpu.form]++
	l.gpu.read(l.current, l.total)
	l.gpu = nil
}

func (q *queryState) header(all *gathered, line []byte) bool {
	if !bytes.Contains(line, []byte("==NVSMI LOG==")) {
		return false
	}
	q.flush(all)
	*q = queryState{inside: true}
	return true
}

// line reads "    FB Memory Usage" and "        Used   : 11125 MiB":
// the indentation tells sections from values, and the place of the colon tells
// values from what others write. Sections that hold nothing to read may be lines
// of a traceback: they end the section before, and stay nobody's.
func (q *queryState) line(all *gathered, line []byte) bool {
	if len(line) > 512 {
		return q.foreign(all)
	}
	indent := len(line) - len(bytes.TrimLeft(line, " \t"))
	if line[0] == '\t' {
		indent *= 4
	}
	key, value, hasValue := cutKey(line[min(indent, len(line)):])
	if indent == 0 {
		return q.top(all, line, key, value, hasValue)
	}
	switch {
	case hasValue && !isAligned(line), indent%4 != 0, !hasValue && (indent > 4 || !isTitle(key)):
		return q.foreign(all)
	case q.gpu == nil:
		return hasValue
	case hasValue:
		q.idle = 0
	}
	if indent > 4 {
		q.value(q.section, string(key), value)
		return true
	}
	if q.section == "Processes" {
		q.process(Unknown)
	}
	q.section = string(key)
	if hasValue {
		q.value("", string(key), value)
		if q.section != "Processes" {
			q.section = ""
		}
		return true
	}
	return isSection(q.section)
}

// isAligned tells that the colon stands behind a blank and as far to the right as
// in every version: at 32, at 42, and in one dump at 55 and at 42.
func isAligned(line []byte) bool {
	const least = 24
	i := bytes.Index(line, []byte(" :"))
	return i >= least || i >= 0 && line[0] == '\t'
}

var titled = pattern.Of(`^[0-9A-Za-z .\-/]+$`)

// isTitle tells what may be a section's name.
func isTitle(key []byte) bool {
	return titled().Match(key)
}

// isSection tells the sections that are read.
func isSection(name string) bool {
	return slices.Contains([]string{"FB Memory Usage", "Memory Usage", "Utilization", "Processes"}, name)
}

// top reads the unindented lines: the time, and "GPU 00000000:01:00.0".
func (q *queryState) top(all *gathered, line, key, value []byte, hasValue bool) bool {
	switch {
	case bytes.HasPrefix(line, []byte("==")):
		return q.header(all, line)
	case bytes.HasPrefix(line, []byte("GPU ")) && bytes.Count(line, []byte{':'}) >= 1 && bytes.IndexByte(line, '.') > 0:
		q.begin(all, Query, bytes.TrimSpace(line[4:]))
		q.section, q.idle = "", 0
		return true
	case hasValue && string(key) == "Timestamp":
		q.clock, _ = parseStamp(value)
		return true
	case hasValue && string(key) == "Driver Version":
		all.driver = version(value)
		return true
	case hasValue && string(key) == "CUDA Version":
		all.cuda = version(value)
		return true
	case hasValue && string(key) == "Attached GPUs":
		return true
	}
	return q.foreign(all)
}

func (q *queryState) foreign(all *gathered) bool {
	if q.idle++; q.idle > foreignLines {
		q.flush(all)
		q.inside = false
	}
	return false
}

// version is the one that a text begins with.
func version(text []byte) string {
	const longest = 20
	end := bytes.IndexFunc(text[:min(len(text), longest)], func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = min(len(text), longest)
	}
	return string(text[:end])
}

func cutKey(text []byte) (key, value []byte, ok bool) {
	i := bytes.Index(text, []byte(": "))
	if i < 0 {
		if n := len(text); n > 0 && text[n-1] == ':' {
			return bytes.TrimSpace(text[:n-1]), nil, true
		}
		return bytes.TrimSpace(text), nil, false
	}
	return bytes.TrimSpace(text[:i]), bytes.TrimSpace(text[i+2:]), true
}

// listedValues are what is read of a GPU, by the section it stands in and its name there: in text, then in XML.
var listedValues = map[string]func(l *listed, value []byte){
	"/Product Name": (*listed).product, "/product_name": (*listed).product,
	"/GPU UUID": (*listed).uuid, "/uuid": (*listed).uuid,
	"FB Memory Usage/Total": (*listed).all, "Memory Usage/Total": (*listed).all,
	"fb_memory_usage/total": (*listed).all, "memory_usage/total": (*listed).all,
	"FB Memory Usage/Used": (*listed).used, "Memory Usage/Used": (*listed).used,
	"fb_memory_usage/used": (*listed).used, "memory_usage/used": (*listed).used,
	"Utilization/Gpu": (*listed).busy, "Utilization/GPU": (*listed).busy, "utilization/gpu_util": (*listed).busy,
	"Processes/Process ID": (*listed).processID, "process_info/pid": (*listed).processID,
	"Processes/Name": (*listed).processName, "process_info/process_name": (*listed).processName,
	"Processes/Used GPU Memory": (*listed).processUsed, "process_info/used_memory": (*listed).processUsed,
}

// value takes one of those; any other is passed over.
func (l *listed) value(section, name string, value []byte) {
	if take := listedValues[section+"/"+name]; take != nil && l.gpu != nil {
		take(l, value)
	}
}

func (l *listed) product(value []byte)     { l.gpu.name = html.UnescapeString(string(value)) }
func (l *listed) uuid(value []byte)        { l.gpu.ids[1] = string(value) }
func (l *listed) all(value []byte)         { l.total = memory(value, mib) }
func (l *listed) used(value []byte)        { l.current.UsedBytes = memory(value, mib) }
func (l *listed) busy(value []byte)        { l.current.UtilizationPercent = number(value) }
func (l *listed) processName(value []byte) { l.name = html.UnescapeString(string(value)) }

func (l *listed) processID(value []byte) {
	l.process(Unknown)
	if v, ok := pidIn(value); ok {
		l.pid = v + 1
	}
}

func (l *listed) processUsed(value []byte) { l.process(memory(value, mib)) }
