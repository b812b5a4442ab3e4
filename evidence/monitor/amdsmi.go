package monitor

import (
	"bytes"
	"unicode/utf8"

	"github.com/vramscope/vramscope/evidence"
)

// amdState is where in what amd-smi prints the parser is.
type amdState struct {
	metric  bool // below "GPU: 0" of `amd-smi metric`
	gpu     int
	total   int64
	sizes   int    // which of a process's sizes is its memory of the GPU
	name    []byte // of the card whose second row follows
	section section
	width   int // of the table, in letters
}

// line reads the table of `amd-smi`, which has two rows for each GPU:
//
//	| 0000:05:00.0    AMD Instinct MI300X | 31 %      41 °C   0           142/750 W|
//	|   0       0       7        SPX/NPS1 | 99 %      N/A           178880/196592 MB|
func (a *amdState) line(all *gathered, line []byte) bool {
	if len(line) > 512 {
		return false
	}
	if bytes.Contains(line, []byte("AMD-SMI")) {
		*a = amdState{section: gpuRows, width: utf8.RuneCount(line)}
		return true
	}
	const slack = 2 // letters by which a large figure shifts a row
	if width := utf8.RuneCount(line); a.section == outside || width < a.width-slack || width > a.width+slack {
		return false // of another table
	}
	if line[0] == '+' {
		return true
	}
	text := bytes.Trim(line, "| \t")
	switch left, right, two := bytes.Cut(text, []byte("|")); {
	case bytes.HasPrefix(text, []byte("Processes:")):
		a.section = processRows
	case a.section == processRows:
		a.process(all, text)
	case !two:
	case bytes.HasSuffix(bytes.TrimSpace(right), []byte(" W")):
		_, name, _ := word(left)
		a.name = append(a.name[:0], bytes.TrimSpace(name)...)
	case bytes.HasSuffix(bytes.TrimSpace(right), []byte("B")):
		first, _, _ := word(left)
		index, isIndex := gpuIn(first)
		busy, _, _ := word(right)
		fields := bytes.Fields(right)
		if used, total, ok := usedOf(bytes.Join(fields[max(0, len(fields)-2):], nil)); ok && isIndex {
			s := evidence.Sample{UsedBytes: used, UtilizationPercent: number(busy)}
			all.reading(AMDSMI, index, s, total).name = string(a.name)
		}
	}
	return true
}

// process reads a row of the list:
//
//	GPU        PID  Process Name          GTT_MEM  VRAM_MEM  MEM_USAGE     CU % |
//	  0      40217  python                 2.0 MB  174.6 GB   174.7 GB     96.5 % |
func (a *amdState) process(all *gathered, text []byte) {
	fields := bytes.Fields(text)
	if len(fields) > 3 && string(fields[0]) == "GPU" {
		a.sizes = -1
		n := 0
		for _, f := range fields {
			if !bytes.Contains(f, []byte("MEM")) {
				continue
			}
			if string(f) == "VRAM_MEM" {
				a.sizes = n
			}
			n++
		}
		return
	}
	if len(fields) < 4 {
		return
	}
	index, ok := gpuIn(fields[0])
	id, isProcess := pidIn(fields[1])
	if !ok || !isProcess {
		return
	}
	used, n := Unknown, 0
	for i := 3; i+1 < len(fields); i++ {
		switch unit := string(fields[i+1]); unit {
		case "B", "KB", "MB", "GB":
			if n == a.sizes {
				used = memory(append(bytes.Clone(fields[i]), unit...), 1)
			}
			n++
		}
	}
	all.byIndex(AMDSMI, index).process(evidence.Stamp{}, id, fields[2], used)
}

// metricLine reads `amd-smi metric --mem-usage`:
//
//	GPU: 0
//	    MEM_USAGE:
//	        TOTAL_VRAM: 196592 MB
//	        USED_VRAM: 178880 MB
func (a *amdState) metricLine(all *gathered, line []byte) bool {
	if number, ok := bytes.CutPrefix(line, []byte("GPU: ")); ok {
		a.gpu, a.metric = gpuIn(bytes.TrimSpace(number))
		a.total = Unknown
		return false // of nobody yet
	}
	if !a.metric || line[0] != ' ' {
		a.metric = false
		return false
	}
	key, value, _ := cutKey(line)
	switch string(key) {
	case "TOTAL_VRAM":
		a.total = memory(value, mib)
	case "USED_VRAM":
		all.reading(AMDSMI, a.gpu, evidence.Sample{UsedBytes: memory(value, mib), UtilizationPercent: -1}, a.total)
	default:
		return false
	}
	return true
}
