package monitor

import (
	"bytes"
	"strconv"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// npuState is where in the table of `npu-smi info` the parser is.
type npuState struct {
	section section
	name    []byte // of the card whose second row follows
	card    int
	chips   map[[2]int]int // by card and chip, the number that programs know
	idle    int
}

// line reads that table, which has two rows for each chip of Ascend's cards:
//
//	| NPU   Name      | Health       | Power(W)  Temp(C)           Hugepages-Usage(page)|
//	| Chip  Phy-ID    | Bus-Id       | AICore(%) Memory-Usage(MB)  HBM-Usage(MB)        |
//	| 0     Ascend910 | OK           | 178.8     36                0    / 0             |
//	| 0     0         | 0000:9D:00.0 | 0         0    / 0          3397 / 65536         |
func (n *npuState) line(all *gathered, line []byte) bool {
	if len(line) > 512 {
		return false
	}
	switch {
	case bytes.Contains(line, []byte("npu-smi ")) && bytes.Contains(line, []byte("Version:")):
		*n = npuState{section: gpuRows, chips: map[[2]int]int{}}
		return true
	case n.section == outside:
		return false
	case line[0] == '+':
		return true
	}
	cells := bytes.Split(bytes.Trim(line, "| \t"), []byte("|"))
	switch {
	case bytes.Contains(line, []byte("Process id")):
		n.section = processRows
	case n.section == processRows:
		if n.process(all, cells) {
			n.idle = 0
			return true
		}
		if n.idle++; n.idle > 8 && !bytes.Contains(line, []byte("No running processes")) {
			*n = npuState{}
			return false
		}
	case len(cells) == 3:
		n.row(all, cells)
	}
	return true
}

// row reads the first row of a chip, or its second.
func (n *npuState) row(all *gathered, cells [][]byte) {
	ids := bytes.Fields(cells[0])
	if len(ids) == 0 {
		return
	}
	first, ok := gpuIn(ids[0])
	if !ok {
		return // the heads
	}
	bus := bytes.TrimSpace(cells[1])
	if bytes.Count(bus, []byte(":")) != 2 {
		n.card, n.name = first, append(n.name[:0], bytes.Join(ids[1:], []byte(" "))...)
		return
	}
	index := n.card // cards of one chip have no other number
	if len(ids) > 1 {
		if physical, ok := gpuIn(ids[1]); ok {
			index = physical
		}
	}
	n.chips[[2]int{n.card, first}] = index
	s := evidence.Sample{At: all.clock, UsedBytes: Unknown, UtilizationPercent: number(cells[2])}
	total := Unknown
	for _, pair := range pairsOf(cells[2]) { // of the card's DDR, then of its HBM
		if pair[1] > 0 {
			s.UsedBytes, total = pair[0]*mib, pair[1]*mib
		}
	}
	u := all.reading(NPUSMI, index, s, total)
	u.ids[2], u.name = busID(string(bus)), string(n.name)
}

var usedOfAll = pattern.Of(`(?:^|\s)(\d{1,12})\s*/\s*(\d{1,12})(?:\s|$)`)

// pairsOf finds "3397 / 65536" in a cell.
func pairsOf(cell []byte) (pairs [][2]int64) {
	for _, m := range usedOfAll().FindAllSubmatch(cell, 4) {
		used, _ := strconv.ParseInt(string(m[1]), 10, 64)
		if total, _ := strconv.ParseInt(string(m[2]), 10, 64); total >= used && total < 1<<40 {
			pairs = append(pairs, [2]int64{used, total})
		}
	}
	return pairs
}

// process reads a row of the list:
//
//	| 0       0       | 41234      | python       | 61021                     |
func (n *npuState) process(all *gathered, cells [][]byte) bool {
	if len(cells) != 4 {
		return false
	}
	ids := bytes.Fields(cells[0])
	pid, isProcess := pidIn(bytes.TrimSpace(cells[1]))
	if len(ids) != 2 || !isProcess {
		return false
	}
	card, ok := atoi(string(ids[0]))
	chip, ok2 := atoi(string(ids[1]))
	if !ok || !ok2 {
		return false
	}
	index, known := n.chips[[2]int{card, chip}]
	if !known {
		return false
	}
	all.byIndex(NPUSMI, index).process(all.clock, pid, bytes.TrimSpace(cells[2]), memory(bytes.TrimSpace(cells[3]), mib))
	return true
}
