package snapshot_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
)

// A small recording that the tests below change.
func small() *recorder.Recording {
	stack := &recorder.Stack{Frames: []*recorder.Frame{{File: "/src/model.py", Name: "forward", Line: 12}, {File: "/src/train.py", Name: "main", Line: 3}}}
	return &recorder.Recording{
		Segments: []recorder.Segment{{Address: 0x7f0000000000, Total: 2 << 20, Allocated: 512, Active: 512, Requested: 100, Small: true, Blocks: []recorder.Block{
			{Address: 0x7f0000000000, Size: 512, Requested: 100, State: "active_allocated", Stack: stack, History: []recorder.Use{{Address: 0x7f0000000000, RealSize: 100, Stack: stack}, {Address: 0x7f0000000000, RealSize: 77}}},
			{Address: 0x7f0000000200, Size: 2<<20 - 512, Requested: 0, State: "inactive"},
		}}},
		Traces: [][]recorder.Event{{
			{Action: "segment_alloc", Address: 0x7f0000000000, Size: 2 << 20, Stream: 0, TimeUS: 1000, Stack: stack},
			{Action: "alloc", Address: 0x7f0000000000, Size: 100, Stream: 0, TimeUS: 1001, Stack: stack},
		}},
		Settings:    []recorder.Item{{Key: "PYTORCH_CUDA_ALLOC_CONF", Value: "x:1"}, {Key: "expandable_segments", Value: false}, {Key: "roundup_power2_divisions", Value: []recorder.Item{{Key: "1", Value: 4}}}},
		Annotations: []recorder.Annotation{{Stage: "START", Name: "step", TimeUS: 999}, {Stage: "END", Name: "step", TimeUS: 1002}},
	}
}

func TestEras(t *testing.T) {
	for era, want := range map[recorder.Era]string{
		recorder.V2_0: "<=2.0 (history in blocks)", recorder.V2_1dev: "2.0/2.1-dev", recorder.V2_1: "2.1/2.2",
		recorder.V2_3: "2.1-2.4 (settings, no annotations)", recorder.V2_5: "2.5-2.7", recorder.V2_8: ">=2.8",
		recorder.V2_10: ">=2.9/2.10", recorder.V2_11: ">=2.11", recorder.V2_15: ">=2.15",
	} {
		s := both(t, small().Dump(recorder.Style{Era: era, Protocol: 4}))
		if s.Era != want {
			t.Errorf("era %q, want %q", s.Era, want)
		}
		b := s.Devices[0].Segments[0].Blocks
		if len(b) != 2 || b[0].Requested != 100 || len(s.Stack(b[0].Stack)) != 2 || b[1].Address != 0x7f0000000200 {
			t.Errorf("%s: blocks %+v", want, b)
		}
		e := &s.Devices[0].Events
		if e.Len() != 2 || len(s.Stack(e.StackOf(1))) != 2 || e.Action[0] != snapshot.SegmentAlloc {
			t.Errorf("%s: events %+v", want, e)
		}
		if wantTime := int64(0); era > recorder.V2_1dev {
			wantTime = 1001
			if e.TimeOf(1) != wantTime {
				t.Errorf("%s: time %d, want %d", want, e.TimeOf(1), wantTime)
			}
		}
		if era >= recorder.V2_3 && s.Settings.Get("roundup_power2_divisions.1") != "4" {
			t.Errorf("%s: settings %v", want, s.Settings)
		}
		if era >= recorder.V2_5 && (len(s.Annotations) != 2 || !s.Annotations[0].Start || s.String(s.Annotations[1].Name) != "step") {
			t.Errorf("%s: annotations %v", want, s.Annotations)
		}
	}
}

// What a recording may hold besides the usual, and what is made of it.
func TestOptionalFields(t *testing.T) {
	item := func(key string, v any) recorder.Item { return recorder.Item{Key: key, Value: v} }
	ints := func(n ...any) *recorder.List { return &recorder.List{Items: n} }
	tests := map[string]struct {
		change func(*recorder.Recording)
		style  recorder.Style
		ok     func(*snapshot.Snapshot) bool
	}{
		"list of segments": {style: recorder.Style{Era: recorder.V2_5, Protocol: 4, Bare: true},
			ok: func(s *snapshot.Snapshot) bool {
				return s.BareSegments && !s.HasTraces && len(s.Devices[0].Segments) == 1
			}},
		"no traces": {style: recorder.Style{Era: recorder.V2_15, Protocol: 4, NoTraces: true},
			ok: func(s *snapshot.Snapshot) bool { return !s.HasTraces && len(s.Devices) == 1 }},
		"empty": {change: func(r *recorder.Recording) { *r = recorder.Recording{} },
			ok: func(s *snapshot.Snapshot) bool { return len(s.Devices) == 0 && s.HasTraces }},
		"the limits of the recorder, one for all": {change: func(r *recorder.Recording) {
			r.Extra = []recorder.Item{item("trace_alloc_max_entries", 1000), item("trace_alloc_overflowed", true)}
		},
			ok: func(s *snapshot.Snapshot) bool {
				return s.Devices[0].TraceMax == 1000 && s.Devices[0].Overflowed == snapshot.Yes
			}},
		"by device": {change: func(r *recorder.Recording) {
			r.Extra = []recorder.Item{item("trace_alloc_max_entries", ints(7, 8, 9)), item("trace_alloc_overflowed", ints(false, true, true))}
		}, ok: func(s *snapshot.Snapshot) bool {
			return s.Devices[0].TraceMax == 7 && s.Devices[0].Overflowed == snapshot.No
		}},
		"among the settings": {change: func(r *recorder.Recording) {
			r.Settings = append(r.Settings, item("trace_alloc_max_entries", ints(5)), item("trace_alloc_overflowed", true))
		}, ok: func(s *snapshot.Snapshot) bool {
			return s.Devices[0].TraceMax == 5 && s.Devices[0].Overflowed == snapshot.Yes
		}},
		"many devices": {change: func(r *recorder.Recording) {
			seg := r.Segments[0]
			seg.Device = 7
			r.Segments = append(r.Segments, seg)
			r.Traces = [][]recorder.Event{{}, {}, r.Traces[0]}
		}, ok: func(s *snapshot.Snapshot) bool {
			return len(s.Devices) == 3 && s.Device(2).Events.Len() == 2 && len(s.Device(7).Segments) == 1 && s.Device(0).Events.Len() == 0 && s.Device(1) == nil
		}},
		"pinned host memory": {change: func(r *recorder.Recording) { r.HostSegments, r.HostTraces = r.Segments, r.Traces[0] },
			ok: func(s *snapshot.Snapshot) bool {
				return s.Host != nil && s.Host.Events.Len() == 2 && len(s.Host.Segments) == 1 && len(s.Devices) == 1 && s.Devices[0].Events.Len() == 2
			}},
		"private pools": {change: func(r *recorder.Recording) { r.Segments[0].Pool, r.Traces[0][1].Pool = [2]int64{0, 3}, [2]int64{2, 0} },
			ok: func(s *snapshot.Snapshot) bool {
				d := &s.Devices[0]
				return s.Pools[d.Segments[0].Pool] == snapshot.Pool{0, 3} && s.Pools[d.Events.PoolOf(1)] == snapshot.Pool{2, 0} && d.Events.PoolOf(0) == 0
			}},
		"a pool as JSON has it": {change: func(r *recorder.Recording) {
			r.Segments[0].Extra = []recorder.Item{item("segment_pool_id", ints(0, 9))}
		},
			ok: func(s *snapshot.Snapshot) bool { return s.Pools[s.Devices[0].Segments[0].Pool] == snapshot.Pool{0, 9} }},
		"forward frames": {change: func(r *recorder.Recording) { r.Traces[0][1].Forward = []string{"a.py:1 f", "b.py:2 g"} },
			ok: func(s *snapshot.Snapshot) bool {
				f := s.Stack(s.Devices[0].Events.ForwardStack[1])
				return len(f) == 2 && s.String(s.Frames[f[1]].Function) == "b.py:2 g" && s.Devices[0].Events.ForwardStack[0] == 0
			}},
		"forward frames as Python writes tracebacks": {change: func(r *recorder.Recording) {
			r.Traces[0][1].Forward = []string{"  File \"/a, b/train.py\", line 40, in main\n    step()\n", "  File \"/lib/loss.py\", line 7, in <lambda>\n"}
		},
			ok: func(s *snapshot.Snapshot) bool {
				f := s.Stack(s.Devices[0].Events.ForwardStackOf(1))
				if len(f) != 2 {
					return false
				}
				inner, outer := s.Frames[f[0]], s.Frames[f[1]]
				return s.String(inner.Function) == "<lambda>" && s.String(inner.File) == "/lib/loss.py" && inner.Line == 7 &&
					s.String(outer.Function) == "main" && s.String(outer.File) == "/a, b/train.py" && outer.Line == 40 && inner.FX == 0
			}},
		"notes of torch.fx": {change: func(r *recorder.Recording) {
			r.Traces[0][0].Stack.Frames[0].FX = []recorder.Item{item("fx_node_op", "call_function"), item("fx_node_name", "mul"), item("fx_original_trace", "File x")}
		}, ok: func(s *snapshot.Snapshot) bool {
			f := s.Frames[s.Stack(s.Devices[0].Events.StackOf(0))[0]]
			fx := s.FX[f.FX]
			return s.String(fx.Op) == "call_function" && s.String(fx.Name) == "mul" && s.String(fx.Trace) == "File x" && fx.Target == 0
		}},
		"metadata": {change: func(r *recorder.Recording) {
			r.Traces[0][1].Metadata, r.Traces[0][1].Internal = `{"layer": 3}`, "inner"
		},
			ok: func(s *snapshot.Snapshot) bool {
				e := &s.Devices[0].Events
				return s.String(e.MetadataOf(1)) == `{"layer": 3}` && s.String(e.Internal[1]) == "inner" && e.MetadataOf(0) == 0
			}},
		"a label given later": {change: func(r *recorder.Recording) {
			r.Traces[0] = append(r.Traces[0], recorder.Event{Action: "annotate", Address: 0x7f0000000000, Size: 0, Stream: 0, Metadata: "late"})
		}, ok: func(s *snapshot.Snapshot) bool {
			e := &s.Devices[0].Events
			return e.Action[2] == snapshot.Annotate && s.String(e.MetadataOf(2)) == "late" && len(s.Unknown) == 0
		}},
		"compiled regions": {style: recorder.Style{Era: recorder.V2_8, Protocol: 4}, change: func(r *recorder.Recording) { r.Traces[0][0].Compile = "Torch-Compiled Region: 0/0" },
			ok: func(s *snapshot.Snapshot) bool {
				e := &s.Devices[0].Events
				return s.String(e.CompileContextOf(0)) == "Torch-Compiled Region: 0/0" && e.CompileContextOf(1) == 0
			}},
		"categories": {change: func(r *recorder.Recording) {
			r.Extra = []recorder.Item{item("categories", ints("unknown", "optimizer"))}
			r.Traces[0][1].Category = 1
			r.Segments[0].Address = nil
		}, ok: func(s *snapshot.Snapshot) bool {
			e := &s.Devices[0].Events
			return slices.Equal(s.CategoryNames, []string{"unknown", "optimizer"}) && e.Category[0] == 0 && e.Category[1] == 2 && s.Devices[0].Segments[0].Address == 0
		}},
		"out of memory": {change: func(r *recorder.Recording) {
			r.Traces[0] = append(r.Traces[0], recorder.Event{Action: "oom", DeviceFree: 12345, Size: 2 << 30, Stream: 0})
		}, ok: func(s *snapshot.Snapshot) bool {
			d := &s.Devices[0]
			return slices.Equal(d.OOMs, []snapshot.OutOfMemory{{Event: 2, DeviceFree: 12345}}) && d.Events.Size[2] == 2<<30 && d.Events.Address[2] == 0
		}},
		"keys that nobody knows": {change: func(r *recorder.Recording) {
			r.Traces[0][1].Extra = []recorder.Item{item("colour", "blue")}
			r.Extra = []recorder.Item{item("version", 3)}
		}, ok: func(s *snapshot.Snapshot) bool {
			return slices.Equal(s.Unknown, []snapshot.Unknown{{Where: "", Key: "version", Example: "3", Count: 1}, {Where: "device_traces", Key: "colour", Example: "blue", Count: 1}})
		}},
		"an action that nobody knows": {change: func(r *recorder.Recording) {
			r.Traces[0] = append(r.Traces[0], recorder.Event{Action: "teleport", Address: 1, Size: 2, Stream: 3}, recorder.Event{Action: "teleport", Address: 1, Size: 2, Stream: 3})
		}, ok: func(s *snapshot.Snapshot) bool {
			e := &s.Devices[0].Events
			return e.Action[2] == snapshot.ActionOther && s.ActionName(e.Action[2]) == "teleport" && slices.Equal(s.Unknown, []snapshot.Unknown{{Where: "action", Key: "teleport", Count: 2}})
		}},
		"the line of a C++ frame": {change: func(r *recorder.Recording) { r.Traces[0][0].Stack.Frames[0].Line = uint64(1<<64 - 1) },
			ok: func(s *snapshot.Snapshot) bool {
				return s.Frames[s.Stack(s.Devices[0].Events.StackOf(0))[0]].Line == 0 && len(s.Damage) == 0
			}},
		"an address with its highest bit": {change: func(r *recorder.Recording) { r.Traces[0][1].Address = uint64(0xffff_8000_0000_0200) },
			ok: func(s *snapshot.Snapshot) bool {
				return s.Devices[0].Events.Address[1] == 0xffff_8000_0000_0200 && len(s.Damage) == 0
			}},
		"blocks waiting for another stream": {change: func(r *recorder.Recording) { r.Segments[0].Blocks[0].State = "active_awaiting_free" },
			ok: func(s *snapshot.Snapshot) bool {
				return s.Devices[0].Segments[0].Blocks[0].State == snapshot.ActivePendingFree
			}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := small()
			if test.change != nil {
				test.change(r)
			}
			style := test.style
			if style == (recorder.Style{}) {
				style = recorder.Style{Era: recorder.V2_15, Protocol: 4}
			}
			s := both(t, r.Dump(style))
			if !test.ok(s) {
				t.Errorf("%s", dump(s))
			}
			if len(s.Damage) > 0 {
				t.Errorf("damage %q", s.Damage)
			}
		})
	}
}
