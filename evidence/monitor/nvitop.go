package monitor

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// nvitopLine reads the table of `nvitop -1`, which is nvidia-smi's but for its
// lines, its units and its list of processes.
func (t *tableState) nvitopLine(all *gathered, line []byte) bool {
	if len(line) > 4096 {
		return false
	}
	if bytes.Contains(line, []byte("NVITOP")) {
		*t = tableState{section: gpuRows, form: Nvitop, width: width(line), clock: all.clock}
		all.clock = evidence.Stamp{}
		return true
	}
	if t.form != Nvitop || t.section == outside {
		return false
	}
	const (
		bar   = "│"
		slack = 2 // letters by which a long version or figure shifts a row
	)
	cells, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(bar))
	if !ok { // a rule, or not of the table
		kept := t.keeps(line, false, slack)
		if kept && t.section == processRows && bytes.HasPrefix(line, []byte("╘")) {
			*t = tableState{} // its last one
		}
		return kept
	}
	if cut := bytes.LastIndex(cells, []byte(bar)); cut >= 0 {
		cells = cells[:cut]
	}
	cells = bytes.ReplaceAll(cells, []byte(bar), []byte("|"))
	understood := true
	switch {
	case bytes.Contains(cells, []byte("Processes:")):
		t.section = processRows
	case t.section == processRows:
		understood = t.nvitopProcess(all, cells)
	default:
		understood = t.gpuRow(all, cells)
	}
	return t.keeps(line, understood, slack)
}

// nvitopProcess reads a row of the list, whose head says what stands between a
// process's memory and its command; false when it is none:
//
//	GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM      TIME  COMMAND
//	  0 1204411 C    lena 58.61GiB  98 100.5   4.1   1:11:22  python train.py
func (t *tableState) nvitopProcess(all *gathered, line []byte) bool {
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
	m := nvitopRow().FindSubmatch(line)
	if m == nil {
		return false
	}
	gpu, ok := gpuIn(m[1])
	id, isProcess := pidIn(m[2])
	if !ok || !isProcess {
		return false
	}
	rest := bytes.Fields(m[4])
	rest = rest[min(t.between, len(rest)):]
	if len(rest) > 1 && string(rest[0]) == "days" { // the time is "1.5 days"
		rest = rest[1:]
	}
	all.byIndex(Nvitop, gpu).process(t.clock, id, bytes.Join(rest, []byte(" ")), memory(m[3], mib))
	return true
}

var nvitopRow = pattern.Of(`^\s*(\d+)\s+(\d+)\s+\S+\s+\S+\s+(\S+)\s+(\S.*)$`)
