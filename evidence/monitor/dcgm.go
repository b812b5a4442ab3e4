package monitor

import (
	"bytes"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// dcgmState is what was read so far of what NVIDIA's data center manager prints.
type dcgmState struct {
	columns []dcgmColumn       // of `dcgmi dmon`
	pending map[int]*dcgmGauge // of the exporter, by GPU
}

type dcgmColumn uint8

const (
	dcgmOther dcgmColumn = iota
	dcgmUsed
	dcgmTotal
	dcgmBusy
)

var dcgmNames = map[string]dcgmColumn{"FBUSD": dcgmUsed, "FBTTL": dcgmTotal, "GPUTL": dcgmBusy}

// dcgmGauge is what is known of a GPU's memory until both figures have come.
type dcgmGauge struct {
	at         evidence.Stamp
	used, free int64
	unit       *unit
}

// header reads the head of `dcgmi dmon`, which names the fields asked for:
//
//	#Entity   GPUTL  FBUSD  FBTTL
//	ID
//	GPU 0     98     60000  81920
func (s *dcgmState) header(line []byte) bool {
	fields := bytes.Fields(bytes.TrimLeft(line, "# "))
	if len(line) > 1024 || len(fields) < 2 || string(fields[0]) != "Entity" {
		return false
	}
	s.columns = s.columns[:0]
	for _, f := range fields[1:] {
		s.columns = append(s.columns, dcgmNames[string(f)])
	}
	return true
}

// row reads a row of it; those of MIG instances ("GPU-I 0") say nothing about
// the whole GPU.
func (s *dcgmState) row(all *gathered, line []byte) bool {
	if len(s.columns) == 0 {
		return false
	}
	fields := bytes.Fields(line[:min(len(line), 1024)])
	if len(fields) == 1 && string(fields[0]) == "ID" {
		return true
	}
	if len(fields) != 2+len(s.columns) || string(fields[0]) != "GPU" {
		return bytes.HasPrefix(line, []byte("GPU-"))
	}
	index, ok := gpuIn(fields[1])
	if !ok {
		return false
	}
	reading, total := evidence.Sample{UsedBytes: Unknown, UtilizationPercent: -1}, Unknown
	for i, c := range s.columns {
		switch cell := fields[2+i]; c {
		case dcgmUsed:
			reading.UsedBytes = memory(cell, mib)
		case dcgmTotal:
			total = memory(cell, mib)
		case dcgmBusy:
			reading.UtilizationPercent = number(cell)
		}
	}
	all.reading(DCGM, index, reading, total)
	return true
}

// metric reads the metrics of dcgm-exporter, one reading or many, in MiB:
//
//	DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-…",modelName="NVIDIA A100-SXM4-80GB"} 79012
func (s *dcgmState) metric(all *gathered, line []byte) bool {
	name, rest, ok := bytes.Cut(line, []byte("{"))
	if !ok || len(line) > 4096 || !bytes.HasPrefix(name, []byte("DCGM_FI_")) {
		return false
	}
	end := bytes.LastIndexByte(rest, '}')
	if end < 0 {
		return false
	}
	labels, value := rest[:end], rest[end+1:]
	index, isIndex := gpuIn(metricLabel(labels, "gpu"))
	v, rest, isNumber := amount(value)
	if !isIndex || !isNumber || len(metricLabel(labels, "GPU_I_ID")) > 0 {
		return true
	}
	d := s.gauge(all, index)
	bytesIn := bytesOf(&v)
	switch string(name) {
	case "DCGM_FI_DEV_FB_USED":
		if d.used != Unknown {
			d.read(all)
		}
		d.used = bytesIn
		d.at, _ = parseStamp(rest)
		d.unit.name, d.unit.ids[1] = string(metricLabel(labels, "modelName")), string(metricLabel(labels, "UUID"))
	case "DCGM_FI_DEV_FB_FREE":
		d.free = bytesIn
	default:
		return true
	}
	if d.used != Unknown && d.free != Unknown {
		d.read(all)
	}
	return true
}

func (s *dcgmState) gauge(all *gathered, index int) *dcgmGauge {
	d := s.pending[index]
	if d == nil {
		if s.pending == nil {
			s.pending = map[int]*dcgmGauge{}
		}
		d = &dcgmGauge{used: Unknown, free: Unknown, unit: all.byIndex(DCGM, index)}
		s.pending[index] = d
	}
	return d
}

// read takes what has come of a GPU for one reading.
func (d *dcgmGauge) read(all *gathered) {
	total := Unknown
	if d.free != Unknown {
		total = d.used + d.free // less what the driver keeps for itself
	}
	all.rows[DCGM]++
	d.unit.read(evidence.Sample{At: d.at, UsedBytes: d.used, UtilizationPercent: -1}, total)
	d.used, d.free = Unknown, Unknown
}

// finish takes the last readings of an exporter that tells of no free memory.
func (s *dcgmState) finish(all *gathered) {
	for _, index := range slices.Sorted(maps.Keys(s.pending)) {
		if d := s.pending[index]; d.used != Unknown {
			d.read(all)
		}
	}
}

var metricLabels = pattern.Of(`[{,]? *(\w+)="([^"]*)"`)

// metricLabel is the value of one of a metric's labels.
func metricLabel(labels []byte, name string) []byte {
	for _, m := range metricLabels().FindAllSubmatch(labels, 64) {
		if string(m[1]) == name {
			return m[2]
		}
	}
	return nil
}
