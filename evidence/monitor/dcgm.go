package monitor

import (
	"bytes"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/evidence"
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

// dcgmHeader reads the head of `dcgmi dmon`, which names the fields asked for:
//
//	#Entity   GPUTL  FBUSD  FBTTL
//	ID
//	GPU 0     98     60000  81920
func (p *Parser) dcgmHeader(line []byte) bool {
	fields := bytes.Fields(bytes.TrimLeft(line, "# "))
	if len(line) > 1024 || len(fields) < 2 || string(fields[0]) != "Entity" {
		return false
	}
	p.dcgm.columns = p.dcgm.columns[:0]
	for _, f := range fields[1:] {
		p.dcgm.columns = append(p.dcgm.columns, dcgmNames[string(f)])
	}
	return true
}

// dcgmRow reads a row of it; those of MIG instances ("GPU-I 0") say nothing about
// the whole GPU.
func (p *Parser) dcgmRow(line []byte) bool {
	fields := bytes.Fields(line[:min(len(line), 1024)])
	if len(fields) == 1 && string(fields[0]) == "ID" {
		return true
	}
	if len(fields) != 2+len(p.dcgm.columns) || string(fields[0]) != "GPU" {
		return bytes.HasPrefix(line, []byte("GPU-"))
	}
	index, ok := atoi(string(fields[1]))
	if !ok || index > 1023 {
		return false
	}
	s, total := evidence.Sample{UsedBytes: Unknown, UtilizationPercent: -1}, Unknown
	for i, c := range p.dcgm.columns {
		switch cell := fields[2+i]; c {
		case dcgmUsed:
			s.UsedBytes = memory(cell, mib)
		case dcgmTotal:
			total = memory(cell, mib)
		case dcgmBusy:
			s.UtilizationPercent = number(cell)
		}
	}
	p.rows[DCGM]++
	p.byIndex(DCGM, index).read(s, total)
	return true
}

// dcgmMetric reads the metrics of dcgm-exporter, one reading or many, in MiB:
//
//	DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-…",modelName="NVIDIA A100-SXM4-80GB"} 79012
func (p *Parser) dcgmMetric(line []byte) bool {
	name, rest, ok := bytes.Cut(line, []byte("{"))
	if !ok || len(line) > 4096 || !bytes.HasPrefix(name, []byte("DCGM_FI_")) {
		return false
	}
	end := bytes.LastIndexByte(rest, '}')
	if end < 0 {
		return false
	}
	labels, value := rest[:end], rest[end+1:]
	index, isIndex := atoi(string(metricLabel(labels, "gpu")))
	v, rest, isNumber := amount(value)
	if !isIndex || index > 1023 || !isNumber || len(metricLabel(labels, "GPU_I_ID")) > 0 {
		return true
	}
	d := p.dcgmGauge(index)
	bytesIn := bytesOf(&v)
	switch string(name) {
	case "DCGM_FI_DEV_FB_USED":
		if d.used != Unknown {
			p.dcgmRead(d)
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
		p.dcgmRead(d)
	}
	return true
}

func (p *Parser) dcgmGauge(index int) *dcgmGauge {
	d := p.dcgm.pending[index]
	if d == nil {
		if p.dcgm.pending == nil {
			p.dcgm.pending = map[int]*dcgmGauge{}
		}
		d = &dcgmGauge{used: Unknown, free: Unknown, unit: p.byIndex(DCGM, index)}
		p.dcgm.pending[index] = d
	}
	return d
}

// dcgmRead takes what has come of a GPU for one reading.
func (p *Parser) dcgmRead(d *dcgmGauge) {
	total := Unknown
	if d.free != Unknown {
		total = d.used + d.free // less what the driver keeps for itself
	}
	p.rows[DCGM]++
	d.unit.read(evidence.Sample{At: d.at, UsedBytes: d.used, UtilizationPercent: -1}, total)
	d.used, d.free = Unknown, Unknown
}

// finish takes the last readings of an exporter that tells of no free memory.
func (s *dcgmState) finish(p *Parser) {
	for _, index := range slices.Sorted(maps.Keys(s.pending)) {
		if d := s.pending[index]; d.used != Unknown {
			p.dcgmRead(d)
		}
	}
}

// metricLabel is the value of one of a metric's labels.
func metricLabel(labels []byte, name string) []byte {
	for len(labels) > 0 {
		key, rest, ok := bytes.Cut(labels, []byte(`="`))
		end := bytes.IndexByte(rest, '"')
		if !ok || end < 0 {
			return nil
		}
		if string(bytes.Trim(key, ", ")) == name {
			return rest[:end]
		}
		labels = rest[end+1:]
	}
	return nil
}
