// Package monitor reads what nvidia-smi leaves in a run's directory, in every
// form it prints: the table (once, looped, or in the middle of another log),
// --query-gpu and --query-compute-apps CSV, dmon, pmon, -q text and XML; and
// what other programs print of the same figures: gpustat,
// nvitop, rocm-smi, amd-smi, DCGM, npu-smi, hl-smi, tegrastats.
// Everything found in one stream becomes one series per GPU and per process.
//
//	var p monitor.Parser
//	for i, line := range lines {
//		p.Line(i+1, line)
//	}
//	for _, gpu := range p.Finish().GPUs {
//		fmt.Println(gpu.GPU, *gpu.PeakUsedBytes)
//	}
//
// The parser keeps a bounded number of points per series, so that a month of
// one-second readings needs no more memory than an hour of them.
package monitor

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// Unknown stands for a number of bytes that was not printed.
const Unknown int64 = -1

// mib is the unit of everything nvidia-smi prints without one.
const mib = 1 << 20

// foreignLines is how many lines of other writers end what nvidia-smi prints as a
// whole: other ranks may write into the middle of it, and it may be cut.
const foreignLines = 64

// Report is what one stream holds.
type Report struct {
	Rows [formCount]int // rows or dumps understood, by Form
	GPUs []evidence.GPU // by index
	// Unnamed counts rows without header and units, of which it can't be told
	// which figure is memory.
	Unnamed int
}

// Forms lists the formats found, in the order of their constants.
func (r *Report) Forms() []Form {
	var forms []Form
	for f, n := range r.Rows {
		if n > 0 {
			forms = append(forms, Form(f))
		}
	}
	return forms
}

// tool is who printed the readings, as people call it.
func (r *Report) tool() string {
	if forms := r.Forms(); len(forms) == 1 {
		return Forms[forms[0]].Tool
	}
	return "nvidia-smi"
}

// Parser takes the lines of one stream in order. The zero value is ready.
// Each form's reader keeps its own state, and hands what it reads to what is
// gathered for all of them.
type Parser struct {
	gathered

	prefixed int // lines of others that may follow until a table behind a log's time or rank is over
	csv      csvState
	monitor  monitorState
	query    queryState
	xml      xmlState
	oneRow   rowsState
}

// gathered is what the forms of one stream have shown.
type gathered struct {
	rows  [formCount]int
	units []*unit // one per distinct identity, in order of appearance
	known map[printed]*unit

	processes int // of all units
	unnamed   int // rows of which it can't be told which figure is memory

	clock        evidence.Stamp // the last date line, which dates the table that follows it
	below        int            // rows without anything that names a GPU, below it
	driver, cuda string         // versions, as the last table or listing says
	partition    string         // how AMD's cards are divided, "" where they aren't
}

// Line takes one line without its line feed. The slice is not kept. It tells
// whether the line was understood as nvidia-smi's. Where it stands doesn't matter.
func (p *Parser) Line(_ int, line []byte) bool {
	if line = bytes.TrimRight(bytes.TrimLeft(line, "\x00"), "\x00\r"); len(line) == 0 {
		return false
	}
	if p.goesOn(line) || p.startLine(line) {
		return true
	}
	p.prefixed = max(p.prefixed-1, 0)
	return false
}

// goesOn offers a line to the forms that have begun.
func (p *Parser) goesOn(line []byte) bool {
	all := &p.gathered
	return (p.xml.inside || bytes.IndexByte(line, '<') >= 0) && p.xml.line(all, line) ||
		p.query.inside && p.query.line(all, line) || p.monitor.form != 0 && p.monitor.row(all, line) ||
		p.csv.active && p.csv.row(all, line)
}

// Idle tells that no form has begun that the next line could be part of,
// whatever it is, unless it starts like one.
func (p *Parser) Idle() bool {
	return p.monitor.form == 0 && !p.csv.active && !p.xml.inside && !p.query.inside && p.prefixed == 0
}

// dateLine keeps "Tue Jul 14 08:12:38 2026", which nvidia-smi prints above its
// table. It is not evidence by itself.
func (all *gathered) dateLine(line []byte) bool {
	if len(line) > 64 {
		return false
	}
	if s, ok := parseCtime(line); ok {
		all.clock, all.below = s, 0
	}
	return false
}

// prefixedDate keeps the same from behind a log's time or rank, or a machine's
// name, where gpustat adds the driver's version.
func (all *gathered) prefixedDate(line []byte) bool {
	const date = len("Tue Jul 14 08:12:38 2026")
	line = bytes.TrimRight(line, " ")
	if len(line) <= date || len(line) > 256 || !units.IsDigit(line[len(line)-1]) && line[len(line)-1] != '.' {
		return false
	}
	if version := bytes.LastIndex(line, []byte("  ")); version > 0 && len(bytes.Trim(line[version:], " .0123456789")) == 0 {
		line = bytes.TrimRight(line[:version], " ")
	}
	n := len(line)
	if n > date && n < 256 && line[n-1] >= '0' && line[n-1] <= '9' && line[n-5] == ' ' && line[n-8] == ':' {
		return all.dateLine(line[n-date:])
	}
	return false
}
