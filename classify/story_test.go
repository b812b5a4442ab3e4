package classify

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// story is a small program told allocation by allocation, with what each is
// for: the input of tests that ask what follows from it.
type story struct {
	t       *testing.T
	stacks  bool
	phase   Phase
	step    int
	address uint64
	events  []recorder.Event
	allocs  []told
	steps   []Step
	ranges  []recorder.Annotation
	frames  map[string]*recorder.Stack
}

type told struct {
	address  uint64
	bytes    int64
	category Category
	phase    Phase
	step     int
	freed    bool
	stack    *recorder.Stack
}

const storyBase = uint64(0x7f0000000000)

const mib = 1 << 20

func newStory(t *testing.T, stacks bool) *story {
	return &story{t: t, stacks: stacks, step: -1, address: storyBase, frames: map[string]*recorder.Stack{}}
}

// loop tells n steps.
func (s *story) loop(n int, body func(k int)) {
	for k := range n {
		s.step = k
		s.steps = append(s.steps, Step{Number: k, FirstEvent: len(s.events)})
		body(k)
		s.steps[k].LastEvent = len(s.events) - 1
	}
}

// in begins a phase.
func (s *story) in(p Phase) {
	s.phase = p
	if s.step >= 0 {
		step := &s.steps[len(s.steps)-1]
		step.Phases = append(step.Phases, PhaseSpan{Phase: p, FirstEvent: len(s.events), LastEvent: len(s.events)})
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

// alloc tells of an allocation and returns what free takes.
func (s *story) alloc(c Category, bytes int64, lines ...string) int {
	size := (bytes + 511) / 512 * 512
	st := s.stack(lines)
	s.events = append(s.events, recorder.Event{Action: "alloc", Address: s.address, Size: bytes, Stream: uint64(0), Stack: st, TimeUS: int64(len(s.events))})
	s.allocs = append(s.allocs, told{s.address, bytes, c, s.phase, s.step, false, st})
	s.address += uint64(size)
	s.extend()
	return len(s.allocs) - 1
}

func (s *story) free(ids ...int) { s.freeAt(nil, ids...) }

// freeAt tells which lines let go.
func (s *story) freeAt(lines []string, ids ...int) {
	st := s.stack(lines)
	for _, id := range ids {
		a := &s.allocs[id]
		if a.freed {
			s.t.Fatalf("allocation %d is freed twice", id)
		}
		a.freed = true
		for _, action := range []string{"free_requested", "free_completed"} {
			s.events = append(s.events, recorder.Event{Action: action, Address: a.address, Size: a.bytes, Stream: uint64(0), Stack: st, TimeUS: int64(len(s.events))})
		}
	}
	s.extend()
}

// fail tells of a request that found no room.
func (s *story) fail(bytes int64) {
	s.events = append(s.events, recorder.Event{Action: "oom", Size: bytes, DeviceFree: int64(0), Stream: uint64(0), TimeUS: int64(len(s.events))})
	s.extend()
}

// note tells of user_metadata on the last allocation, or on a late annotate
// entry for any.
func (s *story) note(id int, text string, late bool) {
	if !late {
		s.events[len(s.events)-1].Metadata = text
		return
	}
	s.events = append(s.events, recorder.Event{Action: "annotate", Address: s.allocs[id].address, Size: int64(0), Stream: uint64(0), Metadata: text, TimeUS: int64(len(s.events))})
	s.extend()
}

// within tells of a range that torch names.
func (s *story) within(name string, body func()) {
	s.ranges = append(s.ranges, recorder.Annotation{Stage: "START", Name: name, TimeUS: int64(len(s.events))})
	body()
	s.ranges = append(s.ranges, recorder.Annotation{Stage: "END", Name: name, TimeUS: int64(len(s.events) - 1)})
}

func (s *story) extend() {
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
		b := recorder.Block{Address: a.address, Size: int64(end - a.address), Requested: a.bytes, State: "active_allocated", Stack: a.stack}
		if a.freed {
			b.State, b.Requested, b.Stack = "inactive", int64(0), nil
		} else {
			seg.Allocated += int64(end - a.address)
			seg.Active, seg.Requested = seg.Allocated, seg.Requested+a.bytes
		}
		seg.Blocks = append(seg.Blocks, b)
	}
	r := recorder.Recording{Segments: []recorder.Segment{seg}, Traces: [][]recorder.Event{s.events}, Annotations: s.ranges}
	sn, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_10, Protocol: 4})), snapshot.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	tl := timeline.New(sn, &sn.Devices[0])
	if tl.Older() != 0 || tl.Len() != len(s.allocs) {
		s.t.Fatalf("the story has %d allocations, the timeline %d and %d older ones", len(s.allocs), tl.Len(), tl.Older())
	}
	return tl
}

// classified is the story's recording with what was told of it.
func (s *story) classified() *Classification {
	tl := s.timeline()
	c := blank(tl)
	for i, a := range s.allocs {
		c.Category[i], c.Phase[i], c.Step[i], c.Confidence[i], c.Signal[i] = a.category, a.phase, int32(a.step), 95, meaning.ByLife
	}
	c.Steps = slices.Clone(s.steps)
	tl.Walk(func(event int, now timeline.Levels) {
		for k := range c.Steps {
			if st := &c.Steps[k]; event >= st.FirstEvent && event <= st.LastEvent {
				st.PeakAllocated = max(st.PeakAllocated, now.Allocated)
			}
		}
	})
	return c
}
