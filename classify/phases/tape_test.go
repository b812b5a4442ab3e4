package phases_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Lines of stacks, innermost first.
const (
	engine  = "torch/csrc/autograd/engine.cpp:1 torch::autograd::Engine::evaluate_function()"
	module  = "site-packages/torch/nn/modules/module.py:1780 _call_impl"
	linear  = "site-packages/torch/nn/modules/linear.py:134 forward"
	product = "site-packages/torch/nn/functional.py:9 normalize"
	apply   = "site-packages/torch/nn/modules/module.py:900 _apply"
	step    = "site-packages/torch/optim/adamw.py:220 step"
	hook    = "site-packages/torch/utils/hooks.py:237 hook"
	loader  = "site-packages/torch/utils/data/dataloader.py:7 __next__"
	mine    = "train.py:10 main"
	other   = "train.py:20 main"
	zeros   = "aten/ops.cpp:1 at::_ops::zeros::call"
)

const mib = 1 << 20

// tape is the smallest recording that has what a test asks for, event by event.
type tape struct {
	t       *testing.T
	bare    bool // no stacks
	address uint64
	events  []recorder.Event
	ranges  []recorder.Annotation
	blocks  []recorder.Block
	stacks  map[string]*recorder.Stack
}

func newTape(t *testing.T, bare bool) *tape {
	return &tape{t: t, bare: bare, address: 0x7f0000000000, stacks: map[string]*recorder.Stack{}}
}

func (p *tape) stack(lines []string) *recorder.Stack {
	if p.bare || len(lines) == 0 {
		return nil
	}
	key := strings.Join(lines, "|")
	if p.stacks[key] == nil {
		st := &recorder.Stack{}
		for _, l := range lines {
			where, function, _ := strings.Cut(l, " ")
			file, line, _ := strings.Cut(where, ":")
			n, _ := strconv.Atoi(line)
			st.Frames = append(st.Frames, &recorder.Frame{File: "/home/user/" + file, Name: function, Line: n})
		}
		p.stacks[key] = st
	}
	return p.stacks[key]
}

// older is a block from before the recording, by its place.
func (p *tape) older(size int64, lines ...string) int {
	p.blocks = append(p.blocks, recorder.Block{Address: p.address, Size: max(512, size), Requested: size, State: "active_allocated",
		Stack: p.stack(lines)})
	p.address += uint64(max(512, size))
	return len(p.blocks) - 1
}

func (p *tape) event(action string, b *recorder.Block, st *recorder.Stack) {
	p.events = append(p.events, recorder.Event{Action: action, Address: b.Address, Size: b.Requested, Stream: uint64(0), Stack: st,
		TimeUS: int64(len(p.events))})
}

func (p *tape) alloc(size int64, lines ...string) int {
	n := p.older(size, lines...)
	p.event("alloc", &p.blocks[n], p.stack(lines))
	return n
}

// times allocates so many of a size.
func (p *tape) times(n int, size int64, lines ...string) (ids []int) {
	for range n {
		ids = append(ids, p.alloc(size, lines...))
	}
	return ids
}

func (p *tape) free(ids ...int) { p.freeAt(nil, ids...) }

func (p *tape) freeAt(lines []string, ids ...int) {
	for _, n := range ids {
		b := &p.blocks[n]
		p.event("free_requested", b, p.stack(lines))
		p.event("free_completed", b, p.stack(lines))
		b.State = "inactive"
	}
}

// brief allocates what goes at once.
func (p *tape) brief(size int64, lines ...string) { p.freeAt(lines, p.alloc(size, lines...)) }

// fail has a request fail.
func (p *tape) fail(size int64, lines ...string) {
	p.events = append(p.events, recorder.Event{Action: "oom", Size: size, DeviceFree: int64(0), Stream: uint64(0),
		Stack: p.stack(lines), TimeUS: int64(len(p.events))})
}

// within names a range.
func (p *tape) within(name string, body func()) {
	p.ranges = append(p.ranges, recorder.Annotation{Stage: "START", Name: name, TimeUS: int64(len(p.events))})
	body()
	p.ranges = append(p.ranges, recorder.Annotation{Stage: "END", Name: name, TimeUS: int64(len(p.events) - 1)})
}

// timeline is the recording, read.
func (p *tape) timeline() *timeline.Timeline {
	seg := recorder.Segment{Address: p.blocks[0].Address, Total: int64(p.address - p.blocks[0].Address.(uint64))}
	for _, b := range p.blocks {
		if b.State == "inactive" {
			b.Requested, b.Stack = int64(0), nil
		} else {
			seg.Allocated += b.Size.(int64)
			seg.Active, seg.Requested = seg.Allocated, seg.Requested+b.Requested.(int64)
		}
		seg.Blocks = append(seg.Blocks, b)
	}
	r := recorder.Recording{Segments: []recorder.Segment{seg}, Traces: [][]recorder.Event{p.events}, Annotations: p.ranges}
	s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_10, Protocol: 4})), snapshot.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return timeline.New(s, &s.Devices[0])
}

// follow finds the phases of a tape without some signals.
func (p *tape) follow(without ...string) *phases.Program {
	t := p.timeline()
	return phases.Follow(t, phases.Gather(t.Snapshot, t.Device), without...)
}

// told are a program's runs: phase, signal, number of events.
func told(a *phases.Program) string {
	var out []string
	for _, r := range a.Runs {
		by := "-"
		if s := phases.SignalOf(r.By); s != nil {
			by = s.ID
		}
		out = append(out, fmt.Sprintf("%v/%s %d", r.Phase, by, r.End-r.First))
	}
	return strings.Join(out, ", ")
}

// starts are the first events of steps.
func starts(steps []meaning.Step) (out []int) {
	for _, s := range steps {
		out = append(out, s.FirstEvent)
	}
	return out
}

// Parts of programs.

// weights are made by a module.
func (p *tape) weights(sizes ...int64) {
	for _, n := range sizes {
		p.alloc(n, apply, mine)
	}
}

// forward makes what layers save.
func (p *tape) forward(layers int) (saved []int) {
	for k := range layers {
		saved = append(saved, p.alloc(int64(5+k)*mib, linear, module, mine))
		p.brief(3*mib, linear, module, mine)
	}
	return saved
}

// backward frees that, the last first, while one scalar lives, and leaves gradients.
func (p *tape) backward(saved []int, grads ...int64) (left []int) {
	root := p.alloc(4, engine)
	for _, id := range slices.Backward(saved) {
		p.brief(5*mib, engine)
		p.freeAt([]string{engine}, id)
	}
	for _, n := range grads {
		left = append(left, p.alloc(n, engine))
	}
	p.freeAt([]string{engine}, root)
	return left
}
