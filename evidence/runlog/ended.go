package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/evidence/traceback"
	"github.com/vramscope/vramscope/internal/pattern"
)

// endLine takes a line whole that tells of the host's memory: its figures are no GPU's.
func (p *Parser) endLine(number int, line []byte, has features) bool {
	if has&inHost != 0 {
		p.cutHost = append(append(p.cutHost, ' '), line...)
		line = p.cutHost
	}
	p.end.Sibling = p.records.open && !p.records.root
	f := p.end.Line(number, p.told, line)
	found := f.How == evidence.HostMemory || f.How == evidence.Killed
	if at := bytes.Index(line, []byte(evidence.ByPyTorch)); at >= 0 && !found {
		if has&inHost == 0 {
			p.cutHost, p.cutHostLine = append(p.cutHost[:0], line[:min(len(line), maxOther)]...), number
		}
		return true
	}
	p.cutHostLine = 0
	if !f.Listed {
		f.Host.Rank = evidence.Known(p.records.of(number)) // who writes of it is another
		p.ended(&f, line[:max(0, bytes.Index(line, []byte(evidence.ByPyTorch)))])
	}
	return found
}

// ended files what tells of an end.
func (p *Parser) ended(f *ending.Found, prefix []byte) {
	if f.Alone {
		p.report.alone++
	}
	if f.How == evidence.HostMemory || f.How == evidence.Killed {
		p.hostFailed(f.Host, prefix)
	}
}

// cutHostLines is over how many lines the message of PyTorch's allocator of host
// memory may be wrapped.
const cutHostLines = 4

func (p *Parser) hostFailed(f evidence.HostFailure, prefix []byte) {
	if len(p.report.HostFailures) >= maxFailures {
		return
	}
	var m evidence.OOMMessage
	p.traces.Tell(&m, prefix)
	f.Steps = p.told
	if n := len(p.report.HostFailures); n > 0 {
		if last := &p.report.HostFailures[n-1]; last.By == f.By && last.Steps == f.Steps { // the same is told again
			f.HeldBytes = max(f.HeldBytes, last.HeldBytes)
		}
	}
	f.UserFile, f.UserLine = evidence.Or(m.UserFile, ""), evidence.Or(m.UserLine, 0)
	p.report.HostFailures = append(p.report.HostFailures, f)
}

// raised notes the exception that a trace ends in.
func (p *Parser) raised(number int, line []byte) {
	exception := traceback.Exception(line)
	if !p.traces.Open || exception == nil {
		return
	}
	var m evidence.OOMMessage
	p.traces.Tell(&m, line)
	p.end.Raised(number, p.told, exception, traceback.Writer(line), evidence.Or(m.UserFile, ""), evidence.Or(m.UserLine, 0))
}

// hostLimit is Slurm's, as its seff tells, or that of a container as kubectl describes it.
var hostLimit = pattern.Of(`^Memory Efficiency: [\d.]+% of ([\d.]+ ?[KMGT]B)|^\s+memory:\s+(\d+[KMGT]i)\s*$`)

// longestLimits is how many lines kubectl's list of a container's limits may have.
const longestLimits = 16

// limitLine keeps how much of the host's memory the job may hold, the most of several containers. What kubectl lists below
// Requests, or of a node, is no limit.
func (p *Parser) limitLine(number int, line []byte, _ features) bool {
	switch string(bytes.TrimSpace(line)) {
	case "Limits:":
		p.limitsAt = number
	case "Requests:":
		p.limitsAt = 0
	}
	limits := p.limitsAt > 0 && number-p.limitsAt <= longestLimits
	if m := hostLimit().FindSubmatch(line[:min(len(line), maxOther)]); m != nil && (limits || len(m[1]) > 0) {
		size, _ := figures.Size(figures.Compact(append(bytes.Join(m[1:], nil), 'B'), maxOther))
		p.hostLimit = max(p.hostLimit, size)
	}
	return false
}
