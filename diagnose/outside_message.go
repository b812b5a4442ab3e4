package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// failure is what the figures of one out-of-memory message add up to.
type failure struct {
	*evidence.OOMMessage
	figures
	verdict    string // as OOM verdicts are named
	confidence float64
	saves      int64 // bytes, 0: unknown
	why        string
	remedy     string // what to change, where the message itself says more than its verdict; "" otherwise
}

// scraps is the share of reserved memory that PyTorch's cache usually holds
// unused: below it, fragmentation is not what filled the GPU.
const scraps = 0.10

// manyTimes is from how many times the GPU's size on a request is a mistake.
const manyTimes = 2

// judge tells from a message's own figures why the request failed. They have
// two decimals, so differences are good to about 10 MiB.
func judge(m *evidence.OOMMessage) failure {
	f := failure{OOMMessage: m, figures: figuresOf(m), verdict: "unknown", confidence: 0.3}
	if m.By != "" && (m.By != "cudaMallocAsync" || f.free < 0) {
		f.ofOther(others[m.By])
		return f
	}
	r, free, capacity := f.requested, f.free, f.capacity
	if r >= 0 && free < 0 && f.allocated >= 0 && max(capacity, f.allowed) > 0 {
		f.withoutFree()
		return f
	}
	if r < 0 || free < 0 || capacity <= 0 {
		f.why = "the message has no figures"
		if m.Driver && r < 0 {
			f.why = "the driver itself refused, so PyTorch's allocator had not been asked"
		}
		return f
	}
	cached := max(0, f.cached)
	held := max(0, f.allocated) + cached
	others := f.others()
	large := others >= max(usualContext, capacity/50) // more than a context of another rank
	switch {
	case r > capacity:
		f.verdict, f.confidence = "true_shortage", 0.99
		f.why = fmt.Sprintf("the request alone is larger than the GPU's %s", units.Bytes(capacity))
	case f.allowed > 0 && f.allowed < capacity && free >= r:
		f.verdict, f.confidence, f.saves = "memory_fraction", 0.95, capacity-f.allowed
		f.why = fmt.Sprintf("%s were free, but the process may take %s of %s", units.Bytes(free), units.Bytes(f.allowed),
			units.Bytes(capacity))
	case large && free+cached < r && free+cached+others >= r:
		f.verdict, f.confidence, f.saves = "other_process", 0.9, others
		f.why = fmt.Sprintf("others hold %s of the GPU's %s; without them the request would have fitted", units.Bytes(others),
			units.Bytes(capacity))
	case free+cached < r:
		f.verdict, f.confidence = "true_shortage", 0.9
		f.why = fmt.Sprintf("all that was free is %s short of it", units.Bytes(r-free-cached))
		if f.phase == "setup" && m.Scene.Doing == "" {
			f.why += ", with the rest of the model still to come"
		}
		if beyond := held - capacity; beyond > 0 {
			f.why = fmt.Sprintf("PyTorch held %s more than the GPU has already, in the host's memory, as drivers for Windows "+
				"and WSL do, and all that was free is %s short of it",
				units.Bytes(beyond), units.Bytes(r-free-cached))
		}
	case large && others >= max(r, cached):
		f.verdict, f.confidence, f.saves = "other_process", 0.8, others
		f.why = fmt.Sprintf("PyTorch held only %s, others %s of the GPU's %s", units.Bytes(held), units.Bytes(others),
			units.Bytes(capacity))
	case cached >= r && float64(cached) >= scraps*float64(held):
		f.verdict, f.confidence = "fragmentation", 0.85
		f.why = fmt.Sprintf("%s were free in PyTorch's cache, in pieces that are too small (%s of what it holds)",
			units.Bytes(cached), units.Percent(cached, held))
	case free >= r && cached < r:
		f.verdict, f.confidence = "memory_fraction", 0.5
		f.why = fmt.Sprintf("%s were free on the device: a limit below its size, or memory that somebody gave back in the "+
			"same moment", units.Bytes(free))
	default:
		f.verdict, f.confidence = "true_shortage", 0.6
		if float64(cached) < scraps/3*float64(held) {
			f.confidence = 0.85
		}
		f.why = fmt.Sprintf("PyTorch used %s of the %s that it held; the rest, %s, is scraps", units.Percent(held-cached, held),
			units.Bytes(held), units.Bytes(cached))
	}
	if f.verdict == "fragmentation" && f.phase == "optimizer" {
		f.confidence = 0.6 // a first step may still have had to allocate far more
	}
	return f
}

// withoutFree judges the messages of MPS and of XPU before 2.6, which don't say
// what was free on the device.
func (f *failure) withoutFree() {
	r, cached := f.requested, max(0, f.cached)
	whole, limit := f.capacity, fmt.Sprintf("the GPU's %s", units.Bytes(f.capacity))
	if whole <= 0 {
		whole, limit = f.allowed, fmt.Sprintf("the %s that MPS allows", units.Bytes(f.allowed))
	}
	used := f.allocated + max(0, f.beside)
	held := used + cached
	switch {
	case used+r > whole:
		f.verdict, f.confidence = "true_shortage", 0.9
		f.why = fmt.Sprintf("with the %s in use it exceeds %s by %s", units.Bytes(used), limit, units.Bytes(used+r-whole))
	case cached >= r && float64(cached) >= scraps*float64(held):
		f.verdict, f.confidence = "fragmentation", 0.6
		f.why = fmt.Sprintf("%s were free in PyTorch's cache, in pieces that are too small (%s of what it holds)",
			units.Bytes(cached), units.Percent(cached, held))
	case held+r > whole:
		f.verdict, f.confidence = "true_shortage", 0.6
		f.why = fmt.Sprintf("PyTorch used %s of the %s that it held; the rest, %s, is scraps", units.Percent(used, held),
			units.Bytes(held), units.Bytes(cached))
	default:
		f.why = fmt.Sprintf("PyTorch held %s of %s; the message doesn't say what was free of the rest", units.Bytes(held), limit)
	}
}

// figures are the numbers of a message, -1 where it doesn't say one.
type figures struct {
	requested, capacity, free, process, allocated, cached, allowed, pools, beside int64
	listed                                                                        []evidence.ProcessUse // on the GPU
	phase, file                                                                   string                // "" where it doesn't say
}

func figuresOf(m *evidence.OOMMessage) figures {
	or := func(bytes *int64) int64 { return evidence.Or(bytes, -1) }
	return figures{requested: or(m.RequestedBytes), capacity: or(m.CapacityBytes), free: or(m.DeviceFreeBytes),
		process: or(m.ProcessBytes), allocated: or(m.AllocatedBytes), cached: or(m.ReservedUnallocatedBytes),
		allowed: or(m.AllowedBytes), pools: or(m.PrivatePoolBytes), beside: or(m.BesideBytes), listed: m.OtherProcesses,
		phase: evidence.Or(m.Phase, ""), file: evidence.Or(m.UserFile, "")}
}

// own is this process in a message's list, which names it like any
// other where container and host number processes differently: the one that
// holds least above what PyTorch does, by no more than a context, or by so much
// that both together don't go into what is taken of the GPU.
func (m *figures) own() (evidence.ProcessUse, bool) {
	held := max(0, m.allocated) + max(0, m.cached)
	taken := int64(math.MaxInt64)
	if m.capacity > 0 && m.free >= 0 {
		taken = m.capacity - m.free + 64<<20
	}
	var own evidence.ProcessUse
	found := false
	for _, p := range m.listed {
		if p.Bytes >= held-16<<20 && (p.Bytes <= held+2*contextBytes || p.Bytes > taken-held) && (!found || p.Bytes < own.Bytes) {
			own, found = p, true
		}
	}
	return own, found && m.process < 0 && m.allocated >= 0
}

// strangers are the listed processes less this one.
func (m *figures) strangers() []evidence.ProcessUse {
	own, listed := m.own()
	return slices.DeleteFunc(slices.Clone(m.listed), func(p evidence.ProcessUse) bool { return listed && p == own })
}

// others is what a message shows others to hold of the GPU; 0 when it can't
// tell. What a message from before 2.1 leaves open may be this process' own
// context, so a usual one is taken off.
func (m *figures) others() int64 {
	var listed int64
	for _, p := range m.strangers() {
		listed += p.Bytes
	}
	if m.capacity < 0 || m.free < 0 {
		return listed
	}
	taken := m.capacity - m.free
	own, isListed := m.own()
	switch {
	case m.process >= 0:
		return max(listed, taken-m.process)
	case isListed:
		return max(listed, taken-own.Bytes)
	case m.allocated >= 0 && m.cached >= 0:
		return max(listed, taken-m.allocated-m.cached-usualContext)
	}
	return listed
}

// absurd tells a request that no GPU could meet: not a shortage but a mistake.
func (f *failure) absurd() bool {
	return f.capacity > 0 && f.requested > manyTimes*f.capacity
}

// text has the message's own numbers, one line.
func (f *failure) text() string {
	text := ""
	add := func(format string, bytes int64) {
		if bytes >= 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf(format, units.Bytes(bytes))
		}
	}
	add("%s asked for", f.requested)
	add("%s free", f.free)
	if f.capacity >= 0 {
		text += " of " + units.Bytes(f.capacity)
	}
	add("%s allocated by PyTorch", f.allocated)
	add("%s more in its cache", f.cached)
	add("%s in this process beside it", f.beside)
	add("%s allowed", f.allowed)
	return text
}

// change is what to do about it.
func (f *failure) change() string {
	if f.remedy != "" {
		return f.remedy
	}
	to := f.tools()
	switch f.verdict {
	case "memory_fraction":
		if f.allowed > 0 {
			return "Raise torch.cuda.set_per_process_memory_fraction (or the allocator's per_process_memory_fraction), or " +
				"hold less"
		}
		return "Look for set_per_process_memory_fraction, a MIG slice or a vGPU profile; else run it again"
	case "other_process":
		if list := f.strangers(); len(list) > 0 {
			return fmt.Sprintf("Stop %s or move to a free GPU (%s)", processList(list), to.visible)
		}
		return fmt.Sprintf("Find them with %s and stop them, or move to a free GPU (%s)", to.smi, to.visible)
	case "fragmentation":
		// Expandable segments leave gaps, too: all of the cache is only a bound.
		if to.settings != "" {
			return fmt.Sprintf("%s=expandable_segments:True, which lets free pieces be used together: up to %s, a snapshot "+
				"tells how much", to.settings, units.Bytes(f.cached))
		}
		return fmt.Sprintf("Empty the cache (torch.%s.empty_cache()) before the phase that needs large blocks: up to %s",
			strings.ToLower(f.Backend), units.Bytes(f.cached))
	case "unknown":
		return fmt.Sprintf("Look at %s: another process may hold the GPU; a snapshot dumped at the failure would tell more",
			to.smi)
	}
	if f.absurd() {
		return "Check the shapes at that line: a broadcast, an outer product or a sequence that was not cut asks for more " +
			"than any GPU has"
	}
	if change := f.changeShown(); change != "" {
		return change
	}
	change, known := changeInPhase[f.phase]
	if f.asksFor(largeTensors) && f.phase != "setup" && f.phase != "optimizer" {
		return "Look what that line makes: one tensor of that size is often the logits of a large vocabulary (chunked or " +
			"fused cross-entropy) or eager attention's scores (sdpa or flash); else a smaller batch"
	}
	if known {
		return change
	}
	return "A smaller batch or shorter sequences, checkpointing, or chunked logits; record a snapshot to see what held the memory"
}

// tools are what goes with a maker's GPUs: what lists their processes, what
// chooses one, and the variable with the allocator's settings, "" where it has
// no expandable segments.
type tools struct{ smi, visible, settings string }

var toolsOf = map[string]tools{
	"HIP":  {"rocm-smi --showpids", "HIP_VISIBLE_DEVICES", "PYTORCH_HIP_ALLOC_CONF"},
	"XPU":  {"xpu-smi ps", "ZE_AFFINITY_MASK", ""},
	"NPU":  {"npu-smi info", "ASCEND_RT_VISIBLE_DEVICES", "PYTORCH_NPU_ALLOC_CONF"},
	"MUSA": {"mthreads-gmi", "MUSA_VISIBLE_DEVICES", ""},
	"MPS":  {"Activity Monitor", "", ""},
}

func (f *failure) tools() tools {
	if t, ok := toolsOf[f.Backend]; ok {
		return t
	}
	return tools{"nvidia-smi", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF"}
}

// changeInPhase is what helps when memory runs out there.
var changeInPhase = map[string]string{
	"forward": "A smaller batch or shorter sequences, or checkpointing: forward keeps activations for backward",
	"backward": "Checkpointing, or a smaller batch: backward holds activations, gradients and the loss's copies of the " +
		"logits at once (chunk the loss if the vocabulary is large)",
	"optimizer": "An optimizer with less state (8-bit, Lion), sharding or offloading it: the first step allocates all of it",
	"setup": "Quantise the weights, load them in bfloat16 if they aren't yet, or shard or offload the model: it did not " +
		"fit before the first step",
	"generate":  "A smaller batch or fewer new tokens, or a static or quantized cache: keys and values grow with every token",
	"data":      "Keep batches on the host until they are used",
	"zero_grad": "zero_grad(set_to_none=True)",
}

func processList(list []evidence.ProcessUse) string {
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
