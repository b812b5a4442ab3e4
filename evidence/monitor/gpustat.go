package monitor

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
)

// line reads a line of gpustat (gpustat/core.py, print_to), with fans,
// power and codecs or without:
//
//	[0] NVIDIA A100-SXM4-80GB | 42'C,  98 %,  298 / 400 W | 79012 / 81920 MB | me:python/12044(60014M)
func (g *gpustatState) line(all *gathered, line []byte) bool {
	if len(line) > 4096 || !bytes.Contains(line, []byte(" MB")) {
		return false
	}
	cells := bytes.SplitN(line, []byte("|"), 4)
	if len(cells) < 3 || !bytes.Contains(cells[1], []byte("C,")) || !bytes.HasSuffix(bytes.TrimSpace(cells[2]), []byte(" MB")) {
		return false
	}
	number, name, ok := bytes.Cut(bytes.TrimLeft(cells[0], " ["), []byte("]"))
	index, isIndex := gpuIn(number)
	used, total, isMemory := usedOf(cells[2])
	if !ok || !isIndex || !isMemory {
		return false
	}
	if g.last >= index || all.clock.Known() {
		g.clock, all.clock = all.clock, evidence.Stamp{} // another reading of all GPUs
	}
	g.last = index
	s := evidence.Sample{At: g.clock, UsedBytes: used, UtilizationPercent: -1}
	for _, item := range bytes.Split(cells[1], []byte(",")) {
		if v, rest, ok := amount(item); ok && string(rest[:min(len(rest), 2)]) == " %" {
			s.UtilizationPercent = float32(v) // a fan's comes before
		}
	}
	u := all.reading(Gpustat, index, s, total)
	u.name = string(bytes.TrimSpace(name))
	if len(cells) == 4 {
		for _, word := range bytes.Fields(cells[3]) {
			u.gpustatProcess(s.At, word)
		}
	}
	return true
}

// gpustatState is the reading of all GPUs that a line may belong to.
type gpustatState struct {
	clock evidence.Stamp
	last  int // the GPU of the last line
}

// gpustatProcess reads "me:python/12044(60014M)", also without user or program;
// one without a number can't be told from others.
func (u *unit) gpustatProcess(at evidence.Stamp, word []byte) {
	who, size, ok := bytes.Cut(word, []byte("("))
	slash := bytes.LastIndexByte(who, '/')
	if !ok || slash < 0 {
		return
	}
	id, isProcess := pidIn(who[slash+1:])
	if !isProcess {
		return
	}
	_, program, named := bytes.Cut(who[:slash], []byte(":"))
	if !named {
		program = nil // a user or a program
	}
	u.process(at, id, program, memory(size, mib))
}

// usedOf reads "79012 / 81920 MB", "77.16GiB / 80.00GiB".
func usedOf(cell []byte) (used, total int64, ok bool) {
	before, after, ok := bytes.Cut(cell, []byte("/"))
	used, total = memory(before, mib), memory(after, mib)
	return used, total, ok && used != Unknown && total > 0
}
