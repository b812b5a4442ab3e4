package leaks_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/leaks"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

const (
	kib = int64(1) << 10
	mib = 1 << 20
)

// Stacks of torch's modules.
const (
	callFrame   = "site-packages/torch/nn/modules/module.py:1780 _call_impl"
	linearFrame = "site-packages/torch/nn/modules/linear.py:134 forward"
)

// story is a small program told allocation by allocation, with what each is for: its
// steps, phases and categories are given, so that only leaks are judged.
type story struct {
	t         *testing.T
	stacks    bool
	phase     meaning.Phase
	step      int
	by        meaning.Signal // that told the categories to come
	address   uint64
	events    []recorder.Event
	older     int // allocations before the first event
	allocs    []told
	steps     []meaning.Step
	untrained [][]meaning.Step
	reserved  []recorder.Segment
	frames    map[string]*recorder.Stack
}

type told struct {
	address  uint64
	bytes    int64
	category meaning.Category
	signal   meaning.Signal
	phase    meaning.Phase
	step     int
	freed    bool
	stack    *recorder.Stack
}

const (
	storyBase  = uint64(0x7f0000000000)
	storyExtra = uint64(0x7e0000000000)
)

func newStory(t *testing.T, stacks bool) *story {
	return &story{t: t, stacks: stacks, step: -1, by: meaning.ByLife, address: storyBase, frames: map[string]*recorder.Stack{}}
}

// loop tells n steps.
func (s *story) loop(n int, body func(k int)) {
	for k := range n {
		s.step = k
		s.steps = append(s.steps, meaning.Step{Number: k, FirstEvent: len(s.events)})
		body(k)
		s.steps[k].LastEvent = len(s.events) - 1
	}
}

// passes tells n forward passes that aren't trained on.
func (s *story) passes(n int, body func(k int)) {
	var steps []meaning.Step
	for k := range n {
		at := len(s.events)
		s.in(meaning.Forward)
		body(k)
		last := len(s.events) - 1
		steps = append(steps, meaning.Step{Number: k, FirstEvent: at, LastEvent: last,
			Phases: []meaning.PhaseSpan{{Phase: meaning.Forward, FirstEvent: at, LastEvent: last}}})
	}
	s.untrained = append(s.untrained, steps)
}

// in begins a phase.
func (s *story) in(p meaning.Phase) {
	s.phase = p
	if s.step >= 0 {
		step := &s.steps[len(s.steps)-1]
		step.Phases = append(step.Phases, meaning.PhaseSpan{Phase: p, FirstEvent: len(s.events), LastEvent: len(s.events)})
	}
}

// stack of lines such as "net.py:12 forward", innermost first.
func (s *story) stack(lines []string) *recorder.Stack {
	if !s.stacks || len(lines) == 0 {
		return nil
	}
	key := strings.Join(lines, "|")
	if s.frames[key] == nil {
		st := &recorder.Stack{}
		for _, l := range lines {
			where, function, _ := strings.Cut(l, " ")
			file, line, _ := strings.Cut(where, ":")
			n, _ := strconv.Atoi(line)
			st.Frames = append(st.Frames, &recorder.Frame{File: "/home/user/" + file, Name: function, Line: n})
		}
		s.frames[key] = st
	}
	return s.frames[key]
}

// before tells of an allocation that is older than the recording, and stays.
func (s *story) before(c meaning.Category, bytes int64, lines ...string) {
	s.older++
	s.place(c, bytes, lines)
}

// alloc tells of an allocation and returns what free takes.
func (s *story) alloc(c meaning.Category, bytes int64, lines ...string) int {
	s.event(recorder.Event{Action: "alloc", Address: s.address, Size: bytes, Stack: s.stack(lines)})
	return s.place(c, bytes, lines)
}

func (s *story) place(c meaning.Category, bytes int64, lines []string) int {
	s.allocs = append(s.allocs, told{s.address, bytes, c, s.by, s.phase, s.step, false, s.stack(lines)})
	s.address += uint64((bytes + 511) / 512 * 512)
	return len(s.allocs) - 1
}

func (s *story) free(ids ...int) {
	for _, id := range ids {
		a := &s.allocs[id]
		if a.freed {
			s.t.Fatalf("allocation %d is freed twice", id)
		}
		a.freed = true
		for _, action := range []string{"free_requested", "free_completed"} {
			s.event(recorder.Event{Action: action, Address: a.address, Size: a.bytes})
		}
	}
}

// work tells of a temporary that goes at once.
func (s *story) work(bytes int64, lines ...string) {
	s.free(s.alloc(meaning.Temporary, bytes, lines...))
}

// fail tells of a request that found no room.
func (s *story) fail(bytes int64) {
	s.event(recorder.Event{Action: "oom", Size: bytes, DeviceFree: int64(0)})
}

// reserve tells of a segment that nothing uses.
func (s *story) reserve(size int64) {
	address := storyExtra + uint64(len(s.reserved))<<34
	s.reserved = append(s.reserved, recorder.Segment{Address: address, Total: size,
		Blocks: []recorder.Block{{Address: address, Size: size, Requested: int64(0), State: "inactive"}}})
	s.event(recorder.Event{Action: "segment_alloc", Address: address, Size: size})
}

// giveBack returns what was reserved last to the driver.
func (s *story) giveBack() {
	last := s.reserved[len(s.reserved)-1]
	s.reserved = s.reserved[:len(s.reserved)-1]
	s.event(recorder.Event{Action: "segment_free", Address: last.Address, Size: last.Total})
}

func (s *story) event(e recorder.Event) {
	e.Stream, e.TimeUS = uint64(0), int64(len(s.events))
	s.events = append(s.events, e)
	if s.step < 0 {
		return
	}
	if step := &s.steps[len(s.steps)-1]; len(step.Phases) > 0 {
		step.Phases[len(step.Phases)-1].LastEvent = len(s.events) - 1
	}
}

// timeline of the story's recording.
func (s *story) timeline() *timeline.Timeline {
	seg := recorder.Segment{Address: storyBase, Total: int64(s.address - storyBase)}
	for i, a := range s.allocs {
		end := s.address
		if i+1 < len(s.allocs) {
			end = s.allocs[i+1].address
		}
		b := recorder.Block{Address: a.address, Size: int64(end - a.address), Requested: a.bytes, State: "active_allocated",
			Stack: a.stack}
		if a.freed {
			b.State, b.Requested, b.Stack = "inactive", int64(0), nil
		} else {
			seg.Allocated += int64(end - a.address)
			seg.Active, seg.Requested = seg.Allocated, seg.Requested+a.bytes
		}
		seg.Blocks = append(seg.Blocks, b)
	}
	r := recorder.Recording{Segments: append([]recorder.Segment{seg}, s.reserved...), Traces: [][]recorder.Event{s.events}}
	sn, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_10, Protocol: 4})), snapshot.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	tl := timeline.New(sn, &sn.Devices[0])
	if tl.Older() != s.older || tl.Len() != len(s.allocs) {
		s.t.Fatalf("the story has %d allocations, %d of them older, the timeline %d and %d", len(s.allocs), s.older, tl.Len(),
			tl.Older())
	}
	return tl
}

// result is the story's recording with what was told of it.
func (s *story) result() *meaning.Result {
	tl := s.timeline()
	n := tl.Len()
	c := &meaning.Result{Timeline: tl, Category: make([]meaning.Category, n), Detail: make([]meaning.Detail, n),
		Confidence: make([]uint8, n),
		Signal:     make([]meaning.Signal, n), Rule: make([]uint8, n), Phase: make([]meaning.Phase, n), Step: make([]int32, n),
		Steps: slices.Clone(s.steps), Untrained: s.untrained}
	for i, a := range s.allocs {
		c.Category[i], c.Phase[i], c.Step[i], c.Confidence[i], c.Signal[i] = a.category, a.phase, int32(a.step), 95, a.signal
	}
	tl.Walk(func(event int, now timeline.Levels) {
		for k := range c.Steps {
			if st := &c.Steps[k]; event >= st.FirstEvent && event <= st.LastEvent {
				st.PeakAllocated = max(st.PeakAllocated, now.Allocated)
			}
		}
	})
	return c
}

// leaks that follow from the story.
func (s *story) leaks() []leaks.Leak {
	c := s.result()
	return leaks.Find(c, frames.New(c.Timeline.Snapshot))
}
