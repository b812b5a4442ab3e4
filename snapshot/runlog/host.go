package runlog

import "bytes"

// HostFailure is one request that failed in the memory of the host, which PyTorch
// has from c10/core/impl/alloc_cpu.cpp:
//
//	RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator:
//	can't allocate memory: you tried to allocate 17179869184 bytes. Error code 12 …
type HostFailure struct {
	Line           int
	RequestedBytes int64
	UserFile       string // "" without a traceback
	UserLine       int
}

const hostAllocator = "DefaultCPUAllocator"

// hostFailure keeps a line of the host's allocator that says what was asked for.
func (p *Parser) hostFailure(number int, line []byte) {
	const enough = 120 // bytes without blanks up to the figure
	at := bytes.Index(line, []byte(hostAllocator))
	requested := sizeAfter(compact(line[at:], enough), "triedtoallocate")
	if requested == Unknown || len(p.report.HostFailures) >= maxFailures {
		return
	}
	var m OOM
	p.traces.tell(&m, line[:at])
	p.report.Known++
	p.report.HostFailures = append(p.report.HostFailures, HostFailure{Line: number, RequestedBytes: requested, UserFile: m.UserFile, UserLine: m.UserLine})
}
