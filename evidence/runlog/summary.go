package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

type summaryState struct {
	open  bool
	width int // of every line, from bar to bar
	table evidence.MemorySummary
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
		device, _, ok := figures.Integer(bytes.TrimLeft(line[bar+i+len(summaryTitle):], " :"))
		if !ok || device > 1023 {
			return false
		}
		s.finish(p)
		*s = summaryState{open: true, width: len(bytes.TrimRight(line[bar:], " \t\r")),
			table: evidence.MemorySummary{Line: number, Device: evidence.Known(int(device))}}
		return true
	}
	if !s.open && !s.opensHeadless(number, line[bar:]) {
		return false
	}
	row := bytes.TrimRight(line[bar:], " \t\r")
	if len(row) != s.width || row[len(row)-1] != '|' { // others draw bars, too, and the table may be cut
		s.rest(p)
		return false
	}
	return s.row(p, bytes.Split(bytes.Trim(row, "| \t"), []byte("|")))
}

// opensHeadless begins a table whose head was left out, at its first row.
func (s *summaryState) opensHeadless(number int, line []byte) bool {
	cells := bytes.Split(bytes.Trim(line, "| \t\r"), []byte("|"))
	if len(cells) != 5 || string(bytes.TrimSpace(cells[0])) != "Allocated memory" || cellSize(cells[1]) == nil ||
		cellSize(cells[2]) == nil {
		return false
	}
	*s = summaryState{open: true, width: len(bytes.TrimRight(line, " \t\r")), table: evidence.MemorySummary{Line: number}}
	return true
}

func (s *summaryState) row(p *Parser, cells [][]byte) bool {
	name := bytes.TrimSpace(cells[0])
	switch {
	case bytes.Contains(name, []byte("OOMs:")):
		_, value, _ := bytes.Cut(name, []byte(":"))
		if n, _, ok := figures.Integer(bytes.TrimSpace(value)); ok {
			s.table.OOMs = &n
		}
	case bytes.HasPrefix(name, []byte("Allocated memory")) && len(cells) > 2:
		s.table.AllocatedBytes, s.table.PeakAllocatedBytes = cellSize(cells[1]), cellSize(cells[2])
	case bytes.HasSuffix(name, []byte("reserved memory")) && len(cells) > 2:
		s.table.ReservedBytes, s.table.PeakReservedBytes = cellSize(cells[1]), cellSize(cells[2])
	case len(cells) == 1 && len(name) > 0 && bytes.Count(name, []byte("=")) == len(name):
		// The border below the last row; those above have no figures yet.
		if s.table.ReservedBytes != nil {
			s.finish(p)
		}
	}
	return true
}

// cellSize reads "15281 MiB"; tables before 1.11 write MB for the same.
func cellSize(cell []byte) *int64 {
	text := figures.Compact(cell, 32)
	if n, rest, ok := figures.Integer(text); ok && string(rest) == "B" {
		return known(n)
	}
	v, _ := figures.Size(text)
	return known(v)
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
	if s.table.AllocatedBytes == nil && s.table.ReservedBytes == nil && s.table.OOMs == nil {
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
type statsState struct{ table evidence.MemorySummary }

var statsKeys = [...]struct {
	name  string
	field func(*evidence.MemorySummary) **int64
}{
	{"allocated_bytes.all.current", func(s *evidence.MemorySummary) **int64 { return &s.AllocatedBytes }},
	{"allocated_bytes.all.peak", func(s *evidence.MemorySummary) **int64 { return &s.PeakAllocatedBytes }},
	{"reserved_bytes.all.current", func(s *evidence.MemorySummary) **int64 { return &s.ReservedBytes }},
	{"reserved_bytes.all.peak", func(s *evidence.MemorySummary) **int64 { return &s.PeakReservedBytes }},
	{"num_ooms", func(s *evidence.MemorySummary) **int64 { return &s.OOMs }},
}

// maxStats is the longest line that holds a whole dictionary, of some ten kilobytes.
const maxStats = 64 << 10

// line takes the figures of a line. What a step prints of them is the step's.
func (s *statsState) line(p *Parser, number int, line []byte) bool {
	if len(line) > maxStats || bytes.Contains(line, []byte("loss")) {
		return false
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
			n, _, ok := figures.Integer(value)
			if !named || !ok || len(value) == len(rest) || n > figures.MaxMemory {
				continue
			}
			s.keep(p, number, key.field, n)
			break // a second dictionary in the same line has nothing new to tell
		}
	}
	return false
}

func (s *statsState) keep(p *Parser, number int, field func(*evidence.MemorySummary) **int64, n int64) {
	if s.table.Line > 0 && *field(&s.table) != nil {
		s.finish(p)
	}
	if s.table.Line == 0 {
		s.table = evidence.MemorySummary{Line: number}
	}
	*field(&s.table) = &n
}

// finish keeps the dictionary if it was one: a single figure is somebody's print.
func (s *statsState) finish(p *Parser) {
	t := s.table
	s.table = evidence.MemorySummary{}
	if t.Line == 0 || t.PeakAllocatedBytes == nil || t.PeakReservedBytes == nil {
		return
	}
	if len(p.report.Summaries) >= maxEntries {
		p.report.Dropped++
		return
	}
	p.report.Summaries = append(p.report.Summaries, t)
}
