// Package oom tells why a request for memory failed, and what to do about it, from
// what a message says.
//
//	f := oom.Judge(message)
//	fmt.Println(f.Cause, f.Why, f.Change())
package oom

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
)

// Failure is what the figures of one out-of-memory message add up to.
type Failure struct {
	*evidence.OOMMessage
	Figures
	Cause      string // a verdict of reports
	Confidence float64
	Saves      int64 // bytes, 0: unknown
	Why        string
	Remedy     string // what to change, where the message itself says more than its verdict; "" otherwise
}

// unclear says of a failure in words of its own what is known of it.
func unclear(m *evidence.OOMMessage) string {
	if m.WentOn && m.Quote != "" {
		return "the program says: " + m.Quote
	}
	return "a failure in words that aren't understood"
}

// usualCache is the share of reserved memory that PyTorch's cache usually holds
// unused: below it, fragmentation is not what filled the GPU.
const usualCache = 0.10

// manyTimes is from how many times the GPU's size on a request is a mistake.
const manyTimes = 2

// Judge tells from a message's own figures why the request failed. They have
// two decimals, so differences are good to about 10 MiB.
func Judge(m *evidence.OOMMessage) Failure {
	f := Failure{OOMMessage: m, Figures: Of(m), Cause: report.UnclearVerdict, Confidence: 0.3}
	switch {
	case m.Unclear:
		f.Why = unclear(m)
	case f.Absurd():
		f.Cause, f.Confidence, f.Why = report.TrueShortage, 0.99, f.absurd()
	case m.By != "" && (m.By != "cudaMallocAsync" || f.Free < 0):
		f.ofProgram(programs[m.By])
	case f.Free >= 0 && f.Capacity > 0 && f.Free > f.Capacity+f.Capacity/50:
		f.contradicted()
	case f.Requested >= 0 && f.Free < 0 && f.Allocated >= 0 && max(f.Capacity, f.Allowed) > 0:
		f.withoutFree()
	case f.Requested >= 0 && f.Free >= 0 && f.Capacity > 0:
		f.weigh()
	case m.Driver && f.Requested < 0 && f.Scene.Doing == evidence.Pinning:
		f.Cause, f.Confidence = report.DriverRefused, 0.7
		f.Why = "host memory was to be pinned, and the driver refused; the GPU's own memory need not be full"
	case m.Driver && f.Requested < 0:
		f.Why = "the driver itself refused, and its error has no figures: the GPU was full, or it was host memory to be pinned"
	default:
		f.cutShort()
	}
	return f
}

// contradicted judges figures of which one must be wrong: an APU, whose memory is
// the host's, reports a part of it as its size and all of it as free.
func (f *Failure) contradicted() {
	f.Cause, f.Confidence = report.DriverRefused, 0.7
	f.Why = fmt.Sprintf("the figures contradict each other: %s free of %s in all, as on an APU, whose memory is the host's; "+
		"the driver refused although there was room", units.Bytes(f.Free), units.Bytes(f.Capacity))
	f.Remedy = *advice.Text("refused.contradicted")
}

// cutShort judges a message that lacks figures which the verdict needs, by those
// that it has.
func (f *Failure) cutShort() {
	used := f.held() - max(0, f.Cached)
	switch {
	case f.Requested < 0 && f.Allowed > used && used > 0:
		f.Cause, f.Confidence = report.TrueShortage, 0.6
		f.Why = fmt.Sprintf("%s of the %s allowed were in use, so it asked for more than the %s that were left",
			units.Bytes(used), units.Bytes(f.Allowed), units.Bytes(f.Allowed-used))
	case f.Text() == "":
		f.Why = "the message has no figures"
	case f.Requested < 0:
		f.Why = "the message doesn't say how much was asked for: " + f.Text()
	default:
		f.Why = "the message breaks off before it says what was free"
	}
}

// absurd says how far a request is beyond any GPU.
func (f *Failure) absurd() string {
	if f.Capacity > 0 && !f.Beyond {
		return fmt.Sprintf("the request alone is larger than the GPU's %s: a mistake in a shape", units.Bytes(f.Capacity))
	}
	return "no GPU has so much: a size in the shape is garbage, or overflowed"
}

// weigh judges a message that has all figures.
func (f *Failure) weigh() {
	q := f.request()
	if f.Asleep() > 0 && f.held() > f.Capacity { // neither what is allocated nor the cache says what is on the GPU
		f.Cause = report.TrueShortage
		f.short(&q)
		return
	}
	if f.Free >= f.Requested+max(reserve, f.Capacity/100) && !q.Limited {
		f.refused()
		return
	}
	switch f.Cause = q.Cause(); f.Cause {
	case report.TrueShortage:
		f.short(&q)
	case report.MemoryFraction:
		f.limited(&q)
	case report.OtherProcess:
		f.crowded(&q)
	case report.Fragmentation:
		f.Confidence = 0.85
		if f.PhaseName == words.Optimizer.String() {
			f.Confidence = 0.6 // a first step may still have had to allocate far more
		}
		f.Why = f.scattered()
	}
}

// request are the figures of a message that has what is needed of them.
func (f *Failure) request() Request {
	q := Request{Needs: f.Requested, Size: f.Capacity, Free: f.Free, Cached: max(0, f.Cached), Others: f.HeldByOthers(),
		Least:   max(UsualContext, f.Capacity/50), // more than a context of another rank
		Limited: f.Allowed > 0 && f.Allowed < f.Capacity}
	q.Missing = q.Needs - q.Free - q.Cached
	q.Scattered = f.inPieces()
	return q
}

// inPieces tells that what was free, on the GPU and in the cache, had room, and
// that the cache was more than usual.
func (f *Failure) inPieces() bool {
	cached := max(0, f.Cached)
	return cached+max(0, f.Free) >= f.Requested && float64(cached) >= usualCache*float64(f.held())
}

// reserve is what a driver may keep of a GPU although it calls it free.
const reserve = 256 << 20

// refused judges a request for which the driver had room.
func (f *Failure) refused() {
	f.Cause, f.Confidence = report.DriverRefused, 0.7
	f.Why = fmt.Sprintf("%s were free on the GPU, so the driver or a limit refused", units.Bytes(f.Free))
	if len(f.Strangers()) > 0 {
		f.Confidence = 0.5
		f.Why += ", or another process gave memory back in the same moment"
	}
	f.Remedy = cmp.Or(*advice.Text("refused." + f.Backend), *advice.Text("refused"))
	if f.Backend == "XPU" && f.Requested >= xpuLimit {
		f.ofXPU()
	}
}

// xpuLimit is the largest single allocation of Intel's driver, unless it is told otherwise.
const xpuLimit = 4 << 30

func (f *Failure) ofXPU() {
	f.Cause, f.Confidence = report.DriverRefused, 0.8
	f.Why = fmt.Sprintf("the GPU's %s had room, but Intel's driver refuses a single allocation of 4.00 GiB and more",
		units.Bytes(f.Capacity))
	f.Remedy = *advice.Text("refused.4GiB")
}

// held is what PyTorch had of the GPU.
func (f *Failure) held() int64 { return max(0, f.Allocated) + max(0, f.Beside) + max(0, f.Cached) }

func (f *Failure) scattered() string {
	cached := max(0, f.Cached)
	text := fmt.Sprintf("%s were free in PyTorch's cache, in pieces that are too small (%s of what it holds)",
		units.Bytes(cached), units.Percent(cached, f.held()))
	if cached < f.Requested {
		text += fmt.Sprintf("; with the %s free on the GPU they would have met the request", units.Bytes(f.Free))
	}
	return text
}

func (f *Failure) nearlyAll() string {
	held, cached := f.held(), max(0, f.Cached)
	return fmt.Sprintf("PyTorch used %s of the %s that it held; the rest, %s, is free in small pieces",
		units.Percent(held-cached, held), units.Bytes(held), units.Bytes(cached))
}

// spilt says how much of what PyTorch holds isn't on the GPU, "" for none of it.
func (f *Failure) spilt() string {
	beyond := f.held() - f.Capacity
	if f.Capacity <= 0 || beyond < f.Capacity/50 || f.Process >= 0 {
		return ""
	}
	return fmt.Sprintf("PyTorch held %s more than the GPU has already, in the host's memory, as drivers for Windows "+
		"and WSL do", units.Bytes(beyond))
}

// Asleep is what PyTorch counts and the process doesn't hold: drivers that spill say of no
// process what it holds, so that the figure is to be believed where there is one.
func (f *Failure) Asleep() int64 {
	if rest := f.held() - f.Process; f.Process >= 0 && rest >= max(reserve, f.Capacity/50) {
		return rest
	}
	return 0
}

// uncounted is what is neither free nor allocated, where the allocator doesn't say what its pool keeps.
func (f *Failure) uncounted() int64 {
	if rest := f.Capacity - f.Free - f.Allocated; f.By == "cudaMallocAsync" && f.Allocated >= 0 && rest > ContextBytes {
		return rest
	}
	return 0
}

// lacks says what was free, on the GPU and in the cache, and how much more was needed.
func lacks(needs, missing int64) string {
	if missing >= needs {
		return "nothing was free"
	}
	return fmt.Sprintf("%s were free: %s short", units.Bytes(needs-missing), units.Bytes(missing))
}

// short says by how much a request was too large.
func (f *Failure) short(q *Request) {
	held, spilt := f.held(), f.spilt()
	switch {
	case q.Needs > q.Size:
		f.Confidence = 0.99
		f.Why = fmt.Sprintf("the request alone is larger than the GPU's %s", units.Bytes(q.Size))
		if spilt != "" {
			f.Why += "; " + spilt
		}
	case f.Asleep() > 0:
		f.Confidence = 0.9
		f.Why = fmt.Sprintf("PyTorch counts %s, but the process holds %s of the GPU: the rest is unmapped, as a second "+
			"allocator that sleeps leaves it (vLLM's sleep mode, torch_memory_saver)", units.Bytes(held), units.Bytes(f.Process))
		if q.Missing > 0 {
			f.Why += "; " + lacks(q.Needs, q.Missing)
		}
		f.Remedy = *advice.Text("asleep")
	case spilt != "":
		f.Confidence = 0.9
		f.Why = spilt
		if q.Missing > 0 {
			f.Why += "; " + lacks(q.Needs, q.Missing)
		}
	case q.Missing > 0:
		f.Confidence = 0.9
		f.Why = lacks(q.Needs, q.Missing)
		if rest := f.uncounted(); rest > 0 {
			f.Confidence = 0.6
			f.Why += fmt.Sprintf("; %s of the GPU are neither free nor counted by PyTorch: the driver's pool keeps what "+
				"was freed (cudaMallocAsync), or others hold it, which nvidia-smi lists", units.Bytes(rest))
		}
		if f.PhaseName == words.Setup.String() && f.Scene.Doing == "" {
			f.Why += ", with the rest of the model still to come"
		}
	default:
		f.Confidence = 0.6
		if float64(q.Cached) < usualCache/3*float64(held) {
			f.Confidence = 0.85
		}
		f.Why = f.nearlyAll()
	}
}

// limited says what was free and yet refused.
func (f *Failure) limited(q *Request) {
	if !q.Limited {
		f.Cause, f.Confidence = report.TrueShortage, 0.85
		f.Why = fmt.Sprintf("the GPU is full: the %s free are hardly more than what was asked for, and the driver keeps a "+
			"little "+
			"of what it calls free", units.Bytes(q.Free))
		if f.Pools > f.Capacity/10 {
			f.Why += fmt.Sprintf("; %s lie in private pools, which no other code can use", units.Bytes(f.Pools))
			f.Remedy = *advice.Text("pools")
		}
		return
	}
	f.Confidence, f.Saves = 0.95, q.Size-f.Allowed
	f.Why = fmt.Sprintf("%s were free, but the process may take %s of %s", units.Bytes(q.Free), units.Bytes(f.Allowed),
		units.Bytes(q.Size))
}

// crowded says what other processes hold.
func (f *Failure) crowded(q *Request) {
	f.Confidence, f.Saves = 0.9, q.Others
	f.Why = fmt.Sprintf("other processes hold %s of the GPU's %s; without them the request would have fitted",
		units.Bytes(q.Others), units.Bytes(q.Size))
	if n := f.strays(); n > 1 {
		f.Why += fmt.Sprintf(". %d of them hold no more than a context each, as ranks do that were not bound to their own GPU", n)
		f.Remedy = *advice.Text("strays")
	}
	if q.Missing <= 0 {
		f.Confidence = 0.8
		f.Why = fmt.Sprintf("PyTorch held only %s, other processes %s of the GPU's %s", units.Bytes(f.held()),
			units.Bytes(q.Others), units.Bytes(q.Size))
	}
}

// withoutFree judges the messages of MPS and of XPU before 2.6, which don't say
// what was free on the device.
func (f *Failure) withoutFree() {
	r, cached := f.Requested, max(0, f.Cached)
	whole, limit := f.Capacity, fmt.Sprintf("the GPU's %s", units.Bytes(f.Capacity))
	if whole <= 0 {
		whole, limit = f.Allowed, fmt.Sprintf("the %s that MPS allows", units.Bytes(f.Allowed))
	}
	held := f.held()
	used := held - cached
	switch {
	case used+r > whole:
		f.Cause, f.Confidence = report.TrueShortage, 0.9
		f.Why = fmt.Sprintf("with the %s in use it exceeds %s by %s", units.Bytes(used), limit, units.Bytes(used+r-whole))
	case f.inPieces():
		f.Cause, f.Confidence, f.Why = report.Fragmentation, 0.6, f.scattered()
	case held+r > whole:
		f.Cause, f.Confidence, f.Why = report.TrueShortage, 0.6, f.nearlyAll()
	case f.Backend == "XPU" && r >= xpuLimit:
		f.ofXPU()
	default:
		f.Why = fmt.Sprintf("PyTorch held %s of %s; the message doesn't say what was free of the rest", units.Bytes(held), limit)
	}
}

// Absurd tells a request that no GPU could meet: not a shortage but a mistake.
func (f *Failure) Absurd() bool {
	// A program that draws asks for so much without a fused kernel, though the shapes are right.
	return f.Beyond || f.Requested > anyGPU || f.Capacity > 0 && f.Requested > manyTimes*f.Capacity &&
		!evidence.Draws(f.Scene.Server)
}

// anyGPU is more than any GPU has, or any machine whose memory its GPU shares.
const anyGPU = 1 << 40

// Text has the message's own numbers, one line.
func (f *Failure) Text() string {
	text := f.Quote
	if f.Beyond {
		text = "more than 1 EB asked for"
	}
	add := func(format string, bytes int64) {
		if bytes >= 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf(format, units.Bytes(bytes))
		}
	}
	add("%s asked for", f.Requested)
	add("%s free", f.Free)
	switch {
	case f.Capacity < 0:
	case f.Free >= 0:
		text += " of " + units.Bytes(f.Capacity)
	default:
		add("%s on the GPU", f.Capacity)
	}
	add("%s allocated by PyTorch", f.Allocated)
	add("%s more in its cache", f.Cached)
	add("%s in this process beside it", f.Beside)
	add("%s allowed", f.Allowed)
	return text
}

// ChangeID is the word for that change where a recording's has one, too; "" where it hasn't.
func (f *Failure) ChangeID() string {
	switch {
	case f.Remedy != "":
		return ""
	case f.Cause == report.Fragmentation && f.Tools().Settings != "" && advice.Find("server."+f.Scene.Server).Text == "":
		return advice.Expandable
	}
	return map[string]string{report.MemoryFraction: advice.RaiseFraction, report.OtherProcess: advice.StopOthers}[f.Cause]
}

// Change is what to do about it.
func (f *Failure) Change() string {
	if f.Remedy != "" {
		return f.Remedy
	}
	to := f.Tools()
	switch f.Cause {
	case report.MemoryFraction:
		return *advice.Text(advice.RaiseFraction)
	case report.OtherProcess:
		if list := f.Strangers(); len(list) > 0 {
			return *advice.Text("other_processes.known", "who", Processes(list), "visible", to.Visible)
		}
		return *advice.Text(advice.StopOthers, "smi", to.SMI, "visible", to.Visible)
	case report.Fragmentation:
		return f.joined(&to)
	}
	if f.Absurd() {
		return *advice.Text("absurd")
	}
	if f.Cause == report.UnclearVerdict && (f.Unclear || f.Scene == (evidence.Scene{})) {
		if f.Unclear {
			return *advice.Text("failed.unclear")
		}
		return *advice.Text("failed.unknown", "smi", to.SMI)
	}
	if change := f.changeShown(); change != "" {
		return change
	}
	if asksFor(f.Requested, f.Capacity, LargeTensors) && f.PhaseName != words.Setup.String() &&
		f.PhaseName != words.Optimizer.String() {
		return *advice.Text("large_tensor")
	}
	return cmp.Or(*advice.Text("phase." + f.PhaseName), *advice.Text("failed"))
}

// joined is what lets free pieces be used together.
func (f *Failure) joined(to *Tools) string {
	if change := advice.Find("server." + f.Scene.Server).Text; change != "" {
		return change
	}
	also := ""
	if change := advice.Find("doing." + string(f.Scene.Doing)).Text; change != "" && partOf[f.Scene.Doing] == 0 {
		also = *advice.Text("joined.also", "change", change)
	}
	id := "joined" // Expandable segments leave gaps, too: all of the cache is only a bound.
	if to.Settings == "" {
		id = "joined.emptied"
	}
	return *advice.Text(id, "variable", to.Settings, "backend", strings.ToLower(f.Backend), "bytes", units.Bytes(f.Cached),
		"also", also)
}

// Tools are what goes with a maker's GPUs: what lists their processes, what
// chooses one, and the variable with the allocator's settings, "" where it has
// no expandable segments.
type Tools struct{ SMI, Visible, Settings string }

var toolsOf = map[string]Tools{
	"HIP":  {"rocm-smi --showpids", "HIP_VISIBLE_DEVICES", "PYTORCH_HIP_ALLOC_CONF"},
	"XPU":  {"xpu-smi ps", "ZE_AFFINITY_MASK", ""},
	"NPU":  {"npu-smi info", "ASCEND_RT_VISIBLE_DEVICES", "PYTORCH_NPU_ALLOC_CONF"},
	"MUSA": {"mthreads-gmi", "MUSA_VISIBLE_DEVICES", ""},
	"MPS":  {"Activity Monitor", "", ""},
}

// Tools are those of the failure's GPU.
func (f *Failure) Tools() Tools {
	if t, ok := toolsOf[f.Backend]; ok {
		return t
	}
	return Tools{"nvidia-smi", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF"}
}

// Processes lists some.
func Processes(list []evidence.ProcessUse) string {
	text := ""
	for i, p := range list {
		switch {
		case i == 4:
			return text + fmt.Sprintf(" and %d more", len(list)-i)
		case i > 0:
			text += ", "
		}
		text += fmt.Sprintf("process %d (%s)", p.PID, units.Bytes(p.Bytes))
	}
	return text
}
