package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/clock"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// outsideOf works out what lies outside PyTorch on the device: from the
// out-of-memory message, which counts for one instant, else from nvidia-smi.
func (e *examination) outsideOf(dev *report.Device) (oom.Outside, bool) {
	if m := e.lastMessage(dev); m != nil {
		f := oom.Of(m)
		if o, ok := f.Outside(); ok {
			for _, p := range f.Strangers() { // which the message alone names
				o.Processes = append(o.Processes, evidence.Process{PID: p.PID, PeakUsedBytes: &p.Bytes, Instance: -1})
			}
			return o, true
		}
	}
	g, how := e.gpuOf(dev)
	if g != nil {
		o, ok := outsideOfGPU(g, dev.Peaks.Reserved.Bytes)
		if how != "" {
			o.Basis = append(o.Basis, how)
		}
		if ok && len(o.Processes) > 0 || !clocked(dev) {
			return o, ok
		}
	}
	for i := range dev.Clocks {
		if c := &dev.Clocks[i]; c.OutsideBytes != nil {
			o := oom.Split(*c.OutsideBytes)
			o.Confidence = *c.Confidence
			o.Basis = []string{fmt.Sprintf("nvidia-smi's readings lie %s above what PyTorch had reserved at the same times",
				units.Bytes(*c.OutsideBytes))}
			return o, true
		}
	}
	return oom.Outside{}, false
}

// clocked reports whether readings were compared with the recording moment by
// moment, which is better than peak by peak.
func clocked(dev *report.Device) bool {
	return slices.ContainsFunc(dev.Clocks, func(c report.Clock) bool { return c.OutsideBytes != nil })
}

// lastMessage is the last out-of-memory message about the device that has all
// figures; where the recording has failed requests, about one of those.
func (e *examination) lastMessage(dev *report.Device) *evidence.OOMMessage {
	failed := oom.RequestsOf(*dev)
	return e.message(dev, func(m *evidence.OOMMessage) bool {
		return m.AllocatedBytes != nil && m.ReservedUnallocatedBytes != nil && (len(failed) == 0 || failed.Recorded(m))
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
	size := oom.Asked(o.Requested)
	m, ok := e.messages[size]
	if !ok {
		if e.messages == nil {
			e.messages = map[int64]*evidence.OOMMessage{}
		}
		m = e.message(dev, func(m *evidence.OOMMessage) bool { return oom.Tells(evidence.Or(m.RequestedBytes, -1), size) })
		e.messages[size] = m
	}
	return m
}

// othersAt is what other processes held of the GPU when a request failed, in
// bytes, as the log's message about it tells, else nvidia-smi's size of the GPU.
func (e *examination) othersAt(o *timeline.OOM, dev *report.Device) int64 {
	if m := e.messageOf(o, dev); m != nil && evidence.Or(m.CapacityBytes, 0) > 0 {
		f := oom.Of(m)
		return f.HeldByOthers()
	}
	if g, _ := e.gpuOf(dev); g != nil && g.TotalBytes != nil && o.Capacity() > 0 {
		return *g.TotalBytes - o.Capacity() - oom.ContextBytes
	}
	return 0
}

// outsideOfGPU takes what PyTorch reserved at most from what nvidia-smi saw at
// most. The process whose memory comes next above the reserved peak is ours.
func outsideOfGPU(g *evidence.GPU, reserved int64) (oom.Outside, bool) {
	used := *g.PeakUsedBytes
	if used < reserved {
		return oom.Outside{}, false
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
		if *p.PeakUsedBytes >= reserved && *p.PeakUsedBytes <= reserved+oom.ContextBytes {
			candidates++
			own = p
		}
		rest = append(rest, *p)
	}
	if candidates != 1 {
		o := oom.Split(used - reserved)
		o.Basis = append(o.Basis, basis)
		if candidates > 1 {
			o.Basis = append(o.Basis, fmt.Sprintf("%d processes hold about as much as the recording: which is this one can't "+
				"be told", candidates))
		}
		return o, true
	}
	o := oom.Outside{Context: *own.PeakUsedBytes - reserved, Confidence: 0.9, Basis: []string{basis,
		fmt.Sprintf("process %d%s is this one: %s", own.PID, oom.Named(own.Name), units.Bytes(*own.PeakUsedBytes))}}
	left := max(0, used-*own.PeakUsedBytes)
	o.Processes = slices.DeleteFunc(rest, func(p evidence.Process) bool { return p.PID == own.PID })
	slices.SortStableFunc(o.Processes, func(a, b evidence.Process) int { return cmp.Compare(*b.PeakUsedBytes, *a.PeakUsedBytes) })
	for _, p := range o.Processes {
		o.Others += *p.PeakUsedBytes
	}
	o.Others = min(o.Others, left)
	o.Unaccounted = left - o.Others
	return o, true
}

// outsideFindings put what lies outside PyTorch beside the device's categories
// and say what of it could be had back, in the finding about a failure that they made, too.
func (e *examination) outsideFindings(dev *report.Device, others []report.Finding) []report.Finding {
	clock.Align(dev, e.T.Device.Events.TimeUS, e.evidence, func(source int) *evidence.GPU { return e.watchedAs(dev, source) })
	o, ok := e.outsideOf(dev)
	if !ok {
		return nil
	}
	moments := []*report.Moment{&dev.AtPeak, &dev.AtEnd}
	if dev.AtFailure != nil {
		moments = append(moments, dev.AtFailure)
	}
	for _, m := range moments {
		m.CUDAContext, m.OtherProcesses, m.Unaccounted = known(o.Context), known(o.Others), known(o.Unaccounted)
	}
	parts := oom.Amounts(oom.Amount{Bytes: o.Context, What: "CUDA context, NCCL and libraries"},
		oom.Amount{Bytes: o.Others, What: "other processes"}, oom.Amount{Bytes: o.Unaccounted, What: "not accounted for"})
	if parts != "" {
		parts = ": " + parts
	}
	f := report.Finding{ID: "outside_pytorch", Severity: report.Info, Confidence: o.Confidence, Evidence: o.Basis,
		Title: fmt.Sprintf("%s on the GPU are outside PyTorch's allocator%s", units.Bytes(o.Total()), parts)}
	for i := range others {
		if others[i].ID == "oom_"+report.OtherProcess && len(o.Processes) > 0 {
			p := &o.Processes[0]
			others[i].Fix = advice.Text("other_processes.known", "visible", "CUDA_VISIBLE_DEVICES", "who",
				fmt.Sprintf("process %d%s (%s)", p.PID, oom.Named(p.Name), units.Bytes(*p.PeakUsedBytes)))
		}
	}
	for i, p := range o.Processes {
		if i == 5 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("and %d more processes", len(o.Processes)-i))
			break
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("process %d%s: %s", p.PID, oom.Named(p.Name), units.Bytes(*p.PeakUsedBytes)))
	}
	switch large := max(oom.UsualContext, evidence.Or(dev.CapacityBytes, 0)/20); {
	case o.Others >= large:
		f.Severity, f.SavesBytes = report.Warning, new(o.Others)
		f.Fix = advice.Text("outside.others")
	case o.Unaccounted >= large:
		f.Severity = report.Warning
		f.Fix = advice.Text("outside.unaccounted")
	case o.Context >= large:
		f.Fix = advice.Text("outside.context")
	}
	return []report.Finding{f}
}

// known turns -1 into null.
func known(bytes int64) *int64 {
	if bytes < 0 {
		return nil
	}
	return &bytes
}
