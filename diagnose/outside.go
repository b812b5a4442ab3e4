package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// outside is the memory on a GPU that PyTorch's allocator has no part in, in
// bytes; -1 where the evidence can't tell one part from another.
type outside struct {
	context, others, unaccounted int64
	confidence                   float64
	basis                        []string // where the figures are from
	processes                    []evidence.Process
}

func (o *outside) total() int64 { return max(0, o.context) + max(0, o.others) + max(0, o.unaccounted) }

// usualContext is what a CUDA context with its libraries takes at most, when
// nothing else is known; measured ones are 0.3 to 0.6 GiB.
const usualContext = 1 << 30

// outsideOf works out what lies outside PyTorch on the device: from the
// out-of-memory message, which counts for one instant, else from nvidia-smi.
func (e *examination) outsideOf(dev *report.Device) (outside, bool) {
	if m := e.lastMessage(dev); m != nil {
		f := figuresOf(m)
		if o, ok := f.outside(); ok {
			return o, true
		}
	}
	g, how := e.gpuOf(dev)
	if g != nil {
		o, ok := outsideOfGPU(g, dev.Peaks.Reserved.Bytes)
		if how != "" {
			o.basis = append(o.basis, how)
		}
		if ok && len(o.processes) > 0 || !clocked(dev) {
			return o, ok
		}
	}
	for i := range dev.Clocks {
		if c := &dev.Clocks[i]; c.OutsideBytes != nil {
			o := split(*c.OutsideBytes)
			o.confidence = *c.Confidence
			o.basis = []string{fmt.Sprintf("nvidia-smi's readings lie %s above what PyTorch had reserved at the same times",
				units.Bytes(*c.OutsideBytes))}
			return o, true
		}
	}
	return outside{}, false
}

// clocked tells whether readings were compared with the recording moment by
// moment, which is better than peak by peak.
func clocked(dev *report.Device) bool {
	return slices.ContainsFunc(dev.Clocks, func(c report.Clock) bool { return c.OutsideBytes != nil })
}

// lastMessage is the last out-of-memory message about the device that has all
// figures; where the recording has failed requests, about one of those.
func (e *examination) lastMessage(dev *report.Device) *evidence.OOMMessage {
	failed := requestsOf(*dev)
	return e.message(dev, func(m *evidence.OOMMessage) bool {
		return m.AllocatedBytes != nil && m.ReservedUnallocatedBytes != nil && (len(failed) == 0 || failed.recorded(m))
	})
}

// message is the last out-of-memory message about the device that will do.
func (e *examination) message(dev *report.Device, will func(*evidence.OOMMessage) bool) *evidence.OOMMessage {
	var last *evidence.OOMMessage
	for i := range e.evidence.OOMMessages {
		if m := &e.evidence.OOMMessages[i]; evidence.Or(m.GPU, dev.Device) == dev.Device && will(m) {
			last = m
		}
	}
	return last
}

// messageOf is the last message about a failed request.
func (e *examination) messageOf(o *timeline.OOM, dev *report.Device) *evidence.OOMMessage {
	size := asked(o.Requested)
	m, ok := e.messages[size]
	if !ok {
		if e.messages == nil {
			e.messages = map[int64]*evidence.OOMMessage{}
		}
		m = e.message(dev, func(m *evidence.OOMMessage) bool { return tells(evidence.Or(m.RequestedBytes, -1), size) })
		e.messages[size] = m
	}
	return m
}

// othersAt is what other processes held of the GPU when a request failed, in
// bytes, as the log's message about it tells, else nvidia-smi's size of the GPU.
func (e *examination) othersAt(o *timeline.OOM, dev *report.Device) int64 {
	if m := e.messageOf(o, dev); m != nil && evidence.Or(m.CapacityBytes, 0) > 0 {
		f := figuresOf(m)
		return f.others()
	}
	if g, _ := e.gpuOf(dev); g != nil && g.TotalBytes != nil && o.Capacity() > 0 {
		return *g.TotalBytes - o.Capacity() - contextBytes
	}
	return 0
}

// outside is what a message shows to lie outside PyTorch's allocator.
func (m *figures) outside() (outside, bool) {
	if m.capacity <= 0 || m.free < 0 || m.allocated < 0 || m.cached < 0 {
		return outside{}, false
	}
	held := m.allocated + m.cached
	taken := m.capacity - m.free
	own := m.process
	if p, ok := m.own(); ok {
		own = p.Bytes
	}
	if own >= held {
		return outside{context: own - held, others: rounded(taken - own), confidence: 0.95,
			basis: []string{fmt.Sprintf("the out-of-memory message: this process had %s, PyTorch %s of it; %s of %s were in use",
				units.Bytes(own), units.Bytes(held), units.Bytes(taken), units.Bytes(m.capacity))}}, true
	}
	rest := taken - held
	if rest < 0 {
		return outside{}, false
	}
	o := split(rest)
	o.basis = []string{fmt.Sprintf("the out-of-memory message: %s of %s were in use, %s of it by PyTorch", units.Bytes(taken),
		units.Bytes(m.capacity), units.Bytes(held))}
	return o, true
}

// rounded takes what rounding to two decimals of a GiB leaves for nothing.
func rounded(bytes int64) int64 {
	if bytes < 32<<20 {
		return 0
	}
	return bytes
}

// split guesses what an undivided rest is: as much as a context takes is one.
func split(rest int64) outside {
	if rest <= usualContext {
		return outside{context: rest, others: -1, unaccounted: 0, confidence: 0.6}
	}
	return outside{context: -1, others: -1, unaccounted: rest, confidence: 0.6}
}

// gpuOf is nvidia-smi's GPU that the device is: the one of the same number,
// unless it never held as much as PyTorch did and just one other has.
func (e *examination) gpuOf(dev *report.Device) (*evidence.GPU, string) {
	var same, other *evidence.GPU
	fits := 0
	number, why := e.gpuNumber(dev)
	for i := range e.evidence.GPUs {
		g := &e.evidence.GPUs[i]
		if g.PeakUsedBytes == nil || *g.PeakUsedBytes < dev.Peaks.Reserved.Bytes-64<<20 {
			continue
		}
		if g.GPU == number && (same == nil || *g.PeakUsedBytes > *same.PeakUsedBytes) {
			same = g
		} else if g.GPU != number {
			other = g
			fits++
		}
	}
	if same == nil && fits == 1 {
		return other, fmt.Sprintf("taken to be GPU %d of nvidia-smi, the only one that held as much: CUDA_VISIBLE_DEVICES "+
			"renumbers them", other.GPU)
	}
	return same, why
}

// outsideOfGPU takes what PyTorch reserved at most from what nvidia-smi saw at
// most. The process whose memory comes next above the reserved peak is ours.
func outsideOfGPU(g *evidence.GPU, reserved int64) (outside, bool) {
	used := *g.PeakUsedBytes
	if used < reserved {
		return outside{}, false
	}
	basis := fmt.Sprintf("nvidia-smi: %s in use at most on GPU %d, %s reserved by PyTorch at most", units.Bytes(used), g.GPU,
		units.Bytes(reserved))
	var own *evidence.Process
	candidates := 0
	var rest []evidence.Process
	for i := range g.Processes {
		p := &g.Processes[i]
		if p.PeakUsedBytes == nil {
			continue
		}
		if *p.PeakUsedBytes >= reserved && *p.PeakUsedBytes <= reserved+contextBytes {
			candidates++
			own = p
		}
		rest = append(rest, *p)
	}
	if candidates != 1 {
		o := split(used - reserved)
		o.basis = append(o.basis, basis)
		if candidates > 1 {
			o.basis = append(o.basis, fmt.Sprintf("%d processes hold about as much as the recording: which is this one can't "+
				"be told", candidates))
		}
		return o, true
	}
	o := outside{context: *own.PeakUsedBytes - reserved, confidence: 0.9, basis: []string{basis,
		fmt.Sprintf("process %d%s is this one: %s", own.PID, named(own.Name), units.Bytes(*own.PeakUsedBytes))}}
	left := max(0, used-*own.PeakUsedBytes)
	o.processes = slices.DeleteFunc(rest, func(p evidence.Process) bool { return p.PID == own.PID })
	slices.SortStableFunc(o.processes, func(a, b evidence.Process) int { return cmp.Compare(*b.PeakUsedBytes, *a.PeakUsedBytes) })
	for _, p := range o.processes {
		o.others += *p.PeakUsedBytes
	}
	o.others = min(o.others, left)
	o.unaccounted = left - o.others
	return o, true
}

func named(name *string) string {
	if name == nil {
		return ""
	}
	return " (" + *name + ")"
}

// outsideFindings put what lies outside PyTorch beside the device's categories
// and say what of it could be had back.
func (e *examination) outsideFindings(dev *report.Device) []report.Finding {
	e.align(dev)
	o, ok := e.outsideOf(dev)
	if !ok {
		return nil
	}
	for _, m := range []*report.Moment{&dev.AtPeak, &dev.AtEnd} {
		m.CUDAContext, m.OtherProcesses, m.Unaccounted = known(o.context), known(o.others), known(o.unaccounted)
	}
	f := report.Finding{ID: "outside_pytorch", Severity: report.Info, Confidence: o.confidence, Evidence: o.basis}
	f.Title = fmt.Sprintf("%s on the GPU are outside PyTorch's allocator", units.Bytes(o.total()))
	if parts := amounts(amount{o.context, "CUDA context, NCCL and libraries"}, amount{o.others, "other processes"},
		amount{o.unaccounted, "not accounted for"}); parts != "" {
		f.Title += ": " + parts
	}
	for i, p := range o.processes {
		if i == 5 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("and %d more processes", len(o.processes)-i))
			break
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("process %d%s: %s", p.PID, named(p.Name), units.Bytes(*p.PeakUsedBytes)))
	}
	switch large := max(usualContext, e.capacityOr(dev)/20); {
	case o.others >= large:
		f.Severity, f.SavesBytes = report.Warning, ptr(o.others)
		f.Fix = ptr("Stop the other processes or give this one a GPU of its own (CUDA_VISIBLE_DEVICES)")
	case o.unaccounted >= large:
		f.Severity = report.Warning
		f.Fix = ptr("List the GPU's processes (nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv) while it " +
			"runs: another process, NCCL's buffers or a library outside PyTorch holds it")
	case o.context >= large:
		f.Fix = ptr("NCCL's buffers and loaded kernels grow with communicators and libraries: fewer process groups, " +
			"NCCL_BUFFSIZE, CUDA_MODULE_LOADING=LAZY")
	}
	return []report.Finding{f}
}

func (e *examination) capacityOr(dev *report.Device) int64 {
	if dev.CapacityBytes != nil {
		return *dev.CapacityBytes
	}
	return 0
}

// known turns -1 into null.
func known(bytes int64) *int64 {
	if bytes < 0 {
		return nil
	}
	return &bytes
}

// amount is a part of some memory, and what it is.
type amount struct {
	bytes int64
	what  string
}

// amounts lists the parts that there are.
func amounts(parts ...amount) string {
	var out []string
	for _, p := range parts {
		if p.bytes > 0 {
			out = append(out, units.Bytes(p.bytes)+" "+p.what)
		}
	}
	return strings.Join(out, ", ")
}
