package timeline_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// script makes the history of a recording that is written down as text, one
// event, segment or block in a line:
//
//	segment_alloc 0 20M
//	alloc 0 3M-100
//	---
//	segment 0 20M large
//	block 0 3M 3M-100 used
//	block 3M 17M 0 free
//
// Above the line are the events as "action address size", below it the final
// segments with their blocks as "address size requested state". Words in the
// form key=value add to a line: stack, left (of oom), or a setting.
func script(t testing.TB, text string) *timeline.Timeline {
	t.Helper()
	s, d := parseScript(t, text)
	return timeline.New(s, d)
}

func parseScript(t testing.TB, text string) (*snapshot.Snapshot, *snapshot.Device) {
	t.Helper()
	s := &snapshot.Snapshot{Strings: []string{""}, Streams: []uint64{0, 1}, Pools: []snapshot.Pool{{}}, HasTraces: true, Cut: -1}
	d := &snapshot.Device{}
	e := &d.Events
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "---" {
			continue
		}
		options := map[string]string{}
		plain := words[:0]
		for _, w := range words {
			if k, v, ok := strings.Cut(w, "="); ok {
				options[k] = v
			} else {
				plain = append(plain, w)
			}
		}
		switch words := plain; {
		case len(words) == 0:
			for k, v := range options {
				s.Settings = append(s.Settings, snapshot.Setting{Key: k, Value: v})
			}
		case words[0] == "segment":
			d.Segments = append(d.Segments, snapshot.Segment{Address: uint64(bytesOf(t, words[1])), TotalSize: bytesOf(t, words[2]), Small: words[3] == "small", Expandable: words[3] == "expandable"})
		case words[0] == "block":
			state := map[string]snapshot.BlockState{"free": snapshot.Inactive, "used": snapshot.ActiveAllocated, "pending": snapshot.ActivePendingFree}[words[4]]
			g := &d.Segments[len(d.Segments)-1]
			g.Blocks = append(g.Blocks, snapshot.Block{Address: uint64(bytesOf(t, words[1])), Size: bytesOf(t, words[2]), Requested: bytesOf(t, words[3]), State: state, Stack: snapshot.StackID(len(options["stack"]))})
		default:
			action, ok := actions[words[0]]
			if !ok {
				t.Fatalf("no action %q", words[0])
			}
			if action == snapshot.OOM {
				left := int64(-1)
				if v := options["left"]; v != "" {
					left = bytesOf(t, v)
				}
				d.OOMs = append(d.OOMs, snapshot.OutOfMemory{Event: e.Len(), DeviceFree: left})
			}
			e.Action = append(e.Action, action)
			e.Address = append(e.Address, uint64(bytesOf(t, words[1])))
			e.Size = append(e.Size, bytesOf(t, words[2]))
		}
	}
	return s, d
}

var actions = map[string]snapshot.Action{"alloc": snapshot.Alloc, "free_requested": snapshot.FreeRequested, "free_completed": snapshot.FreeCompleted,
	"segment_alloc": snapshot.SegmentAlloc, "segment_free": snapshot.SegmentFree, "segment_map": snapshot.SegmentMap, "segment_unmap": snapshot.SegmentUnmap,
	"oom": snapshot.OOM, "snapshot": snapshot.SnapshotTaken, "annotate": snapshot.Annotate}

// bytesOf reads a number such as 3M-100.
func bytesOf(t testing.TB, s string) int64 {
	t.Helper()
	sum := int64(0)
	for _, term := range strings.FieldsFunc(strings.ReplaceAll(s, "-", "+-"), func(r rune) bool { return r == '+' }) {
		unit := int64(1)
		if n := strings.TrimRight(term, "KM"); n != term {
			unit = map[string]int64{"K": 1 << 10, "M": 1 << 20}[term[len(n):]]
			term = n
		}
		n, err := strconv.ParseInt(term, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n * unit
	}
	return sum
}
