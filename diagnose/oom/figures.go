package oom

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// Outside is the memory on a GPU that PyTorch's allocator has no part in, in
// bytes; -1 where the evidence can't tell one part from another.
type Outside struct {
	Context, Others, Unaccounted int64
	Confidence                   float64
	Basis                        []string // where the figures are from
	Processes                    []evidence.Process
}

// Total is all of it.
func (o *Outside) Total() int64 { return max(0, o.Context) + max(0, o.Others) + max(0, o.Unaccounted) }

// UsualContext is what a CUDA context with its libraries takes at most, when
// nothing else is known; measured ones are 0.3 to 0.6 GiB.
const UsualContext = 1 << 30

// ContextBytes is more than a CUDA context and its libraries take.
const ContextBytes = 2 << 30

// Figures are the numbers of a message, -1 where it doesn't say one.
type Figures struct {
	Requested, Capacity, Free int64 // of the device
	// that this process has, that PyTorch has allocated, and what it holds besides
	Process, Allocated, Cached int64
	Allowed, Pools, Beside     int64                 // under a memory fraction, in private pools, outside of PyTorch's allocator
	Listed                     []evidence.ProcessUse // on the GPU
	PhaseName, FileName        string                // "" where it doesn't say
	OnGPU                      int                   // its number
}

// Of are those of a message.
func Of(m *evidence.OOMMessage) Figures {
	or := func(bytes *int64) int64 { return evidence.Or(bytes, -1) }
	process := or(m.ProcessBytes)
	if process == 0 {
		process = -1 // NVML doesn't see the process, as in WSL and containers
	}
	return Figures{Requested: or(m.RequestedBytes), Capacity: or(m.CapacityBytes), Free: or(m.DeviceFreeBytes),
		Process: process, Allocated: or(m.AllocatedBytes), Cached: or(m.ReservedUnallocatedBytes),
		Allowed: or(m.AllowedBytes), Pools: or(m.PrivatePoolBytes), Beside: or(m.BesideBytes), Listed: m.OtherProcesses,
		OnGPU: evidence.Or(m.GPU, -1), PhaseName: evidence.Or(m.Phase, ""), FileName: evidence.Or(m.UserFile, "")}
}

// own is this process in a message's list, which names it like any
// other where container and host number processes differently: the one that
// holds least above what PyTorch does, by no more than a context, or by so much
// that both together don't go into what is taken of the GPU.
func (m *Figures) own() (evidence.ProcessUse, bool) {
	held := max(0, m.Allocated) + max(0, m.Cached)
	taken := int64(math.MaxInt64)
	if m.Capacity > 0 && m.Free >= 0 {
		taken = m.Capacity - m.Free + 64<<20
	}
	var own evidence.ProcessUse
	found := false
	for _, p := range m.Listed {
		if p.Bytes >= held-16<<20 && (p.Bytes <= held+2*ContextBytes || p.Bytes > taken-held) && (!found || p.Bytes < own.Bytes) {
			own, found = p, true
		}
	}
	return own, found && m.Process < 0 && m.Allocated >= 0
}

// Strangers are the listed processes less this one.
func (m *Figures) Strangers() []evidence.ProcessUse {
	own, listed := m.own()
	return slices.DeleteFunc(slices.Clone(m.Listed), func(p evidence.ProcessUse) bool { return listed && p == own })
}

// strays is how many other processes hold no more than a context of GPU 0 each, where all do.
func (m *Figures) strays() int {
	list := m.Strangers()
	if m.OnGPU > 0 || slices.ContainsFunc(list, func(p evidence.ProcessUse) bool { return p.Bytes > UsualContext }) {
		return 0
	}
	return len(list)
}

// HeldByOthers is what a message shows others to hold of the GPU; 0 when it can't
// tell. What a message from before 2.1 leaves open, or one that gives this process
// less than PyTorch has of it, may be this process' own context, so a usual one is taken off.
func (m *Figures) HeldByOthers() int64 {
	var listed int64
	for _, p := range m.Strangers() {
		listed += p.Bytes
	}
	if m.Capacity < 0 || m.Free < 0 {
		return listed
	}
	taken := m.Capacity - m.Free
	own, isListed := m.own()
	switch {
	case m.Process >= max(0, m.Allocated)+max(0, m.Cached):
		return max(listed, taken-m.Process)
	case isListed:
		return max(listed, taken-own.Bytes)
	case m.Allocated >= 0 && m.Cached >= 0:
		return max(listed, taken-m.Allocated-m.Cached-UsualContext)
	}
	return listed
}

// Outside is what a message shows to lie outside PyTorch's allocator.
func (m *Figures) Outside() (Outside, bool) {
	if m.Capacity <= 0 || m.Free < 0 || m.Allocated < 0 || m.Cached < 0 {
		return Outside{}, false
	}
	held := m.Allocated + m.Cached
	taken := m.Capacity - m.Free
	own := m.Process
	if p, ok := m.own(); ok {
		own = p.Bytes
	}
	if own >= held {
		return Outside{Context: own - held, Others: rounded(taken - own), Confidence: 0.95,
			Basis: []string{fmt.Sprintf("the out-of-memory message: this process had %s, PyTorch %s of it; %s of %s were in use",
				units.Bytes(own), units.Bytes(held), units.Bytes(taken), units.Bytes(m.Capacity))}}, true
	}
	rest := taken - held
	if rest < 0 {
		return Outside{}, false
	}
	o := Split(rest)
	o.Basis = []string{fmt.Sprintf("the out-of-memory message: %s of %s were in use, %s of it by PyTorch", units.Bytes(taken),
		units.Bytes(m.Capacity), units.Bytes(held))}
	return o, true
}

// rounded takes what rounding to two decimals of a GiB leaves for nothing.
func rounded(bytes int64) int64 {
	if bytes < 32<<20 {
		return 0
	}
	return bytes
}

// Split guesses what an undivided rest is: as much as a context takes is one.
func Split(rest int64) Outside {
	if rest <= UsualContext {
		return Outside{Context: rest, Others: -1, Unaccounted: 0, Confidence: 0.6}
	}
	return Outside{Context: -1, Others: -1, Unaccounted: rest, Confidence: 0.6}
}

// Amount is a part of some memory, and what it is.
type Amount struct {
	Bytes int64
	What  string
}

// Amounts lists the parts that there are.
func Amounts(parts ...Amount) string {
	var out []string
	for _, p := range parts {
		if p.Bytes > 0 {
			out = append(out, units.Bytes(p.Bytes)+" "+p.What)
		}
	}
	return strings.Join(out, ", ")
}

// Named is a process' name behind its number.
func Named(name *string) string {
	if name == nil {
		return ""
	}
	return " (" + *name + ")"
}
