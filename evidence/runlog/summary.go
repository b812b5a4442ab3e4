package runlog

import (
	"bytes"
	"math"
)

// NotSaid is the device of figures that don't say theirs.
const NotSaid = -1

// Summary is one torch.cuda.memory_summary() table, or one memory_stats() dictionary,
// which doesn't name its device. The table rounds down to a unit that leaves at
// most five or six digits.
type Summary struct {
	Line               int // of the title, 1-based
	Device             int
	AllocatedBytes     int64
	PeakAllocatedBytes int64
	ReservedBytes      int64
	PeakReservedBytes  int64
	OOMs               int64 // Unknown when the table was cut before
}

type summaryState struct {
	open  bool
	width int // of every line, from bar to bar
	table Summary
	idle  int
}

// summaryIdle is how many foreign lines end a table.
const summaryIdle = 16

var summaryTitle = []byte("memory summary, device ID")

// line takes a line of a table; a log's prefix before the bar does not matter.
func (s *summaryState) line(p *Parser, number int, line []byte) bool {
	bar := bytes.IndexByte(line, '|')
	if bar < 0 {
		if s.open {
			s.rest(p)
		}
		return false
	}
	if i := bytes.Index(line[bar:], summaryTitle); i >= 0 {
		device, _, ok := integer(bytes.TrimLeft(line[bar+i+len(summaryTitle):], " :"))
		if !ok || device > 1023 {
			return false
		}
		s.finish(p)
		*s = summaryState{open: true, width: len(bytes.TrimRight(line[bar:], " \t\r")), table: Summary{Line: number,
			Device: int(device), AllocatedBytes: Unknown,
			PeakAllocatedBytes: Unknown, ReservedBytes: Unknown, PeakReservedBytes: Unknown, OOMs: Unknown}}
		return true
	}
	if !s.open {
		return false
	}
	row := bytes.TrimRight(line[bar:], " \t\r")
	if len(row) != s.width || row[len(row)-1] != '|' { // others draw bars, too, and the table may be cut
		s.rest(p)
		return false
	}
	return s.row(p, bytes.Split(bytes.Trim(row, "| \t"), []byte("|")))
}

func (s *summaryState) row(p *Parser, cells [][]byte) bool {
	name := bytes.TrimSpace(cells[0])
	switch {
	case bytes.Contains(name, []byte("OOMs:")):
		_, value, _ := bytes.Cut(name, []byte(":"))
		if n, _, ok := integer(bytes.TrimSpace(value)); ok {
			s.table.OOMs = n
		}
	case bytes.HasPrefix(name, []byte("Allocated memory")) && len(cells) > 2:
		s.table.AllocatedBytes, s.table.PeakAllocatedBytes = cellSize(cells[1]), cellSize(cells[2])
	case bytes.HasSuffix(name, []byte("reserved memory")) && len(cells) > 2:
		s.table.ReservedBytes, s.table.PeakReservedBytes = cellSize(cells[1]), cellSize(cells[2])
	case len(cells) == 1 && len(name) > 0 && bytes.Count(name, []byte("=")) == len(name):
		// The border below the last row; those above have no figures yet.
		if s.table.ReservedBytes != Unknown {
			s.finish(p)
		}
	}
	return true
}

// cellSize reads "15281 MiB"; tables before 1.11 write MB for the same.
func cellSize(cell []byte) int64 {
	v, rest, ok := decimal(bytes.TrimSpace(cell))
	rest = bytes.TrimSpace(rest)
	if !ok || len(rest) == 0 {
		return Unknown
	}
	unit := prefix(rest[0])
	if rest[0] == 'B' {
		unit = 1
	}
	if v *= unit; unit == 0 || v > maxMemory {
		return Unknown
	}
	return int64(math.Round(v))
}

func (s *summaryState) rest(p *Parser) {
	if s.idle++; s.idle > summaryIdle {
		s.finish(p)
	}
}

func (s *summaryState) finish(p *Parser) {
	if !s.open {
		return
	}
	s.open = false
	if s.table.AllocatedBytes == Unknown && s.table.ReservedBytes == Unknown && s.table.OOMs == Unknown {
		return // a title alone: someone wrote about the table
	}
	if len(p.report.Summaries) >= maxEntries {
		p.report.Dropped++
		return
	}
	p.report.Summaries = append(p.report.Summaries, s.table)
}

// statsState joins the figures of one torch.cuda.memory_stats(), which people
// print as a dictionary on one line or on many, or keep as JSON:
//
//	OrderedDict([('allocated_bytes.all.current', 4294967296), …
//	  "allocated_bytes.all.peak": 8589934592,
type statsState struct{ table Summary }

var statsKeys = [...]struct {
	name  string
	field func(*Summary) *int64
}{
	{"allocated_bytes.all.current", func(s *Summary) *int64 { return &s.AllocatedBytes }},
	{"allocated_bytes.all.peak", func(s *Summary) *int64 { return &s.PeakAllocatedBytes }},
	{"reserved_bytes.all.current", func(s *Summary) *int64 { return &s.ReservedBytes }},
	{"reserved_bytes.all.peak", func(s *Summary) *int64 { return &s.PeakReservedBytes }},
	{"num_ooms", func(s *Summary) *int64 { return &s.OOMs }},
}

// maxStats is the longest line that holds a whole dictionary, of some ten kilobytes.
const maxStats = 64 << 10

// line takes the figures of a line. What a step prints of them is the step's.
func (s *statsState) line(p *Parser, number int, line []byte) {
	if len(line) > maxStats || bytes.Contains(line, []byte("loss")) {
		return
	}
	for _, key := range statsKeys {
		for rest := line; ; {
			i := bytes.Index(rest, []byte(key.name))
			if i < 0 {
				break
			}
			named := i == 0 || !isWordByte(rest[i-1]) && rest[i-1] != '.'
			rest = rest[i+len(key.name):]
			value := bytes.TrimLeft(rest, `"':, =`)
			n, _, ok := integer(value)
			if !named || !ok || len(value) == len(rest) || n > maxMemory {
				continue
			}
			s.keep(p, number, key.field, n)
			break // a second dictionary in the same line has nothing new to tell
		}
	}
}

func (s *statsState) keep(p *Parser, number int, field func(*Summary) *int64, n int64) {
	if s.table.Line > 0 && *field(&s.table) != Unknown {
		s.finish(p)
	}
	if s.table.Line == 0 {
		s.table = Summary{Line: number, Device: NotSaid, AllocatedBytes: Unknown, PeakAllocatedBytes: Unknown,
			ReservedBytes: Unknown, PeakReservedBytes: Unknown, OOMs: Unknown}
	}
	*field(&s.table) = n
}

// finish keeps the dictionary if it was one: a single figure is somebody's print.
func (s *statsState) finish(p *Parser) {
	t := s.table
	s.table = Summary{}
	if t.Line == 0 || t.PeakAllocatedBytes == Unknown || t.PeakReservedBytes == Unknown {
		return
	}
	if len(p.report.Summaries) >= maxEntries {
		p.report.Dropped++
		return
	}
	p.report.Summaries = append(p.report.Summaries, t)
}
