package monitor

import (
	"bytes"
	"strconv"

	"github.com/vramscope/vramscope/evidence"
)

// nvitopLine reads the table of `nvitop -1`, which is nvidia-smi's but for its
// lines, its units and its list of processes.
func (p *Parser) nvitopLine(line []byte) bool {
	if len(line) > 4096 {
		return false
	}
	if bytes.Contains(line, []byte("NVITOP")) {
		p.table = tableState{section: gpuRows, form: Nvitop, width: width(line), clock: p.clock}
		p.clock = evidence.Stamp{}
		return true
	}
	if p.table.form != Nvitop || p.table.section == outside {
		return false
	}
	const (
		bar   = "│"
		slack = 2 // letters by which a long version or figure shifts a row
	)
	cells, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(bar))
	if !ok { // a rule, or not of the table
		kept := p.table.keeps(line, false, slack)
		if kept && p.table.section == processRows && bytes.HasPrefix(line, []byte("╘")) {
			p.table = tableState{} // its last one
		}
		return kept
	}
	if cut := bytes.LastIndex(cells, []byte(bar)); cut >= 0 {
		cells = cells[:cut]
	}
	cells = bytes.ReplaceAll(cells, []byte(bar), []byte("|"))
	t := &p.table
	understood := true
	switch {
	case bytes.Contains(cells, []byte("Processes:")):
		t.section = processRows
	case t.section == processRows:
		understood = p.nvitopProcess(cells)
	default:
		understood = p.gpuRow(cells)
	}
	return t.keeps(line, understood, slack)
}

// nvitopProcess reads a row of the list, whose head says what stands between a
// process's memory and its command; false when it is none:
//
//	GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM      TIME  COMMAND
//	  0 1204411 C    lena 58.61GiB  98 100.5   4.1   1:11:22  python train.py
func (p *Parser) nvitopProcess(line []byte) bool {
	t := &p.table
	fields := bytes.Fields(line)
	if len(fields) > 4 && string(fields[0]) == "GPU" {
		t.between = 0
		for i, name := range fields {
			if string(name) == "GPU-MEM" {
				t.between = len(fields) - i - 2
			}
		}
		return true
	}
	if len(fields) < 6 {
		return false
	}
	gpu, ok := atoi(string(fields[0]))
	id, err := strconv.Atoi(string(fields[1]))
	if !ok || gpu > 1023 || err != nil || id < 0 {
		return false
	}
	rest := fields[min(5+t.between, len(fields)):]
	if len(rest) > 1 && string(rest[0]) == "days" { // the time is "1.5 days"
		rest = rest[1:]
	}
	p.byIndex(Nvitop, gpu).process(t.clock, id, bytes.Join(rest, []byte(" ")), memory(fields[4], mib))
	return true
}
