package monitor

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// rocmState is where in what rocm-smi prints the parser is.
type rocmState struct {
	total   int64 // of the GPU whose line came last
	gpu     int
	concise bool // within the table of all GPUs
	// partition is how a card is divided, "" where it isn't
	partition string
}

// line reads `rocm-smi --showmeminfo vram` and the table of all GPUs, which
// has VRAM in percent alone:
//
//	GPU[0]		: VRAM Total Memory (B): 206141652992
//	GPU[0]		: VRAM Total Used Memory (B): 187588718592
//
//	Device  Node  IDs …  Power … PwrCap  VRAM%  GPU%
//	0       2     0x74a1,   28851  41.0°C  142.0W …  750.0W  91%    99%
func (s *rocmState) line(all *gathered, line []byte) bool {
	if len(line) > 512 {
		return false
	}
	if text, ok := bytes.CutPrefix(line, []byte("GPU[")); ok {
		return s.value(all, text)
	}
	if bytes.Contains(line, []byte("VRAM%")) && bytes.Contains(line, []byte("GPU%")) {
		s.concise = true
		return true
	}
	if !s.concise {
		return false
	}
	fields := bytes.Fields(line)
	switch first := firstByte(line); {
	case first == '=' || first == '(' || first == 0:
		s.concise = !bytes.Contains(line, []byte("End of ROCm"))
		return true
	case len(fields) < 6 || !bytes.HasSuffix(fields[len(fields)-1], []byte("%")):
		s.concise = false
		return false
	}
	index, ok := gpuIn(fields[0])
	if !ok {
		return false
	}
	s.parts(line)
	reading := evidence.Sample{UsedBytes: Unknown, UtilizationPercent: number(fields[len(fields)-1])}
	all.reading(RocmSMI, index, reading, Unknown)
	return true
}

var partitionMode = pattern.Of(`([CDQT]PX),`)

// parts notes how the cards are divided, also where the head of that table
// was cut off; it takes no line.
func (s *rocmState) parts(line []byte) bool {
	if len(line) > 60 && bytes.Contains(line, []byte("NPS")) {
		if mode := partitionMode().FindSubmatch(line); mode != nil {
			s.partition = string(mode[1])
		}
	}
	return false
}

// value reads what follows "GPU[".
func (s *rocmState) value(all *gathered, text []byte) bool {
	number, text, _ := bytes.Cut(text, []byte("]"))
	index, ok := gpuIn(number)
	if !ok {
		return false
	}
	if _, total, ok := bytes.Cut(text, []byte("VRAM Total Memory (B): ")); ok {
		s.gpu, s.total = index, memory(total, 1)
		return true
	}
	_, used, ok := bytes.Cut(text, []byte("VRAM Total Used Memory (B): "))
	if !ok {
		return false
	}
	if s.gpu != index {
		s.total = Unknown
	}
	all.reading(RocmSMI, index, evidence.Sample{UsedBytes: memory(used, 1), UtilizationPercent: -1}, s.total)
	return true
}
