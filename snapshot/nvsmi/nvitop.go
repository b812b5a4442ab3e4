package nvsmi

import (
	"bytes"
	"strconv"
)

// nvitopLine reads the table of `nvitop -1`, which is nvidia-smi's but for its
// lines, its units and its list of processes.
func (p *Parser) nvitopLine(line []byte) bool {
	if len(line) > 4096 {
		return false
	}
	if bytes.Contains(line, []byte("NVITOP")) {
		p.table = tableState{section: gpuRows, form: Nvitop, clock: p.clock}
		p.clock = Stamp{}
		return true
	}
	if p.table.form != Nvitop || p.table.section == outside {
		return false
	}
	const bar = "│"
	cells, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(bar))
	if !ok {
		return true // a rule
	}
	if cut := bytes.LastIndex(cells, []byte(bar)); cut >= 0 {
		cells = cells[:cut]
	}
	cells = bytes.ReplaceAll(cells, []byte(bar), []byte("|"))
	switch t := &p.table; {
	case bytes.Contains(cells, []byte("Processes:")):
		t.section = processRows
	case t.section == processRows:
		p.nvitopProcess(cells)
	default:
		p.gpuRow(cells)
	}
	return true
}

// nvitopProcess reads a row of the list, whose head says what stands between a
// process's memory and its command:
//
//	GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM      TIME  COMMAND
//	  0 1204411 C    lena 58.61GiB  98 100.5   4.1   1:11:22  python train.py
func (p *Parser) nvitopProcess(line []byte) {
	t := &p.table
	fields := bytes.Fields(line)
	if len(fields) > 4 && string(fields[0]) == "GPU" {
		t.between = 0
		for i, name := range fields {
			if string(name) == "GPU-MEM" {
				t.between = len(fields) - i - 2
			}
		}
		return
	}
	if len(fields) < 6 {
		return
	}
	gpu, ok := atoi(string(fields[0]))
	id, err := strconv.Atoi(string(fields[1]))
	if !ok || gpu > 1023 || err != nil || id < 0 {
		return
	}
	rest := fields[min(5+t.between, len(fields)):]
	if len(rest) > 1 && string(rest[0]) == "days" { // the time is "1.5 days"
		rest = rest[1:]
	}
	p.byIndex(Nvitop, gpu).process(t.clock, id, bytes.Join(rest, []byte(" ")), memory(fields[4], mib))
}
