package snapshot

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot/input"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// tiled is a recording of segments with so many blocks each.
func tiled(blocks ...int) *recorder.Recording {
	r := &recorder.Recording{Traces: [][]recorder.Event{{}}}
	stacks := []*recorder.Stack{{Frames: []*recorder.Frame{{File: "a.py", Name: "f", Line: 3}}}, nil}
	address := uint64(0x7f00_0000_0000)
	for i, n := range blocks {
		s := recorder.Segment{Device: i % 3, Address: address, Total: int64(n) << 10, Allocated: int64(n) << 9, Active: int64(n) << 9, Requested: int64(n) << 9,
			Stream: uint64(i % 2 * 77), Pool: [2]int64{0, int64(i % 2)}, Small: i%2 > 0, Expandable: i%4 > 0, Stack: stacks[i%2]}
		for k := range n {
			s.Blocks = append(s.Blocks, recorder.Block{Address: address, Size: int64(1024), Requested: int64(k % 1024), State: []string{"active_allocated",
				"inactive", "active_pending_free", "active_awaiting_free"}[k%4], Stack: stacks[k/2%2]})
			address += 1024
		}
		r.Segments = append(r.Segments, s)
		address += 1 << 30
	}
	return r
}

// decoded reads a file and gives the decoder, too, to see how it was read.
func decoded(t *testing.T, file []byte) (*decoder, *Snapshot) {
	t.Helper()
	d := newDecoder(Options{Size: int64(len(file))})
	d.feed = input.NewAhead(bytes.NewReader(file), int64(len(file)))
	defer d.feed.Close()
	s, err := d.decode()
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

// TestTiles: segments are read together with their blocks, however many those are;
// of one that is larger than what is at hand, the blocks are.
func TestTiles(t *testing.T) {
	counts := []int{1, 2, 3, 0, 999, 1000, 1001, 1002, 2000, 2001, 3, 20_000, 2, 1, 0, 5, 4}
	r := tiled(counts...)
	for _, style := range []recorder.Style{{Era: recorder.V2_15, Protocol: 4}, {Era: recorder.V2_5, Protocol: 5, Shuffle: 3}, {Era: recorder.V2_8, Protocol: 2},
		{Era: recorder.V2_1, Protocol: 4, OwnLists: true}, {Era: recorder.V2_15, JIT: true}, {Era: recorder.V2_0, Protocol: 4}} {
		t.Run(fmt.Sprintf("%+v", style), func(t *testing.T) {
			file := r.Dump(style)
			d, s := decoded(t, file)
			general, err := DecodeGeneral(file)
			if err != nil {
				t.Fatal(err)
			}
			segments := 0
			for i := range s.Devices {
				for k, x := range s.Devices[i].Segments {
					y := general.Devices[i].Segments[k]
					segments++
					if fmt.Sprint(x) != fmt.Sprint(y) {
						t.Fatalf("device %d, segment %d: %.300v, general %.300v", i, k, x, y)
					}
				}
			}
			if len(s.Devices) != len(general.Devices) || segments != len(counts) || len(s.Damage) > 0 || len(s.Device(2).Segments[3].Blocks) != 20_000 {
				t.Errorf("%d devices, %d segments, damage %q", len(s.Devices), segments, s.Damage)
			}
			if usual := style.Era > recorder.V2_0; usual && len(d.lists) > 60 {
				t.Errorf("%d lists: segments were read value by value", len(d.lists))
			}
		})
	}
}

// TestUnknownKeysInState: keys that a later PyTorch may add to segments and blocks
// are told, each as often as it is there.
func TestUnknownKeysInState(t *testing.T) {
	r := tiled(3, 1, 0, 1500, 2, 2)
	n := 0
	for i := range r.Segments {
		r.Segments[i].Extra = []recorder.Item{{Key: "numa", Value: i}}
		for k := range r.Segments[i].Blocks {
			n++
			r.Segments[i].Blocks[k].Extra = []recorder.Item{{Key: "owner", Value: []any{"me", nil, k, &recorder.Text{S: "own"}}[k%4]}}
			if k == 1 {
				r.Segments[i].Blocks[k].Extra = append(r.Segments[i].Blocks[k].Extra, recorder.Item{Key: "parts", Value: &recorder.List{Items: []any{1}}})
			}
		}
	}
	for _, style := range []recorder.Style{{Era: recorder.V2_15, Protocol: 4}, {Era: recorder.V2_15, Protocol: 4, Shuffle: 5}, {Era: recorder.V2_15, JIT: true}} {
		_, s := decoded(t, r.Dump(style))
		got := map[string]int{}
		for _, u := range s.Unknown {
			got[u.Where+"."+u.Key] = u.Count
		}
		if got["segments.numa"] != 6 || got["blocks.owner"] != n || got["blocks.parts"] != 4 || len(got) != 3 {
			t.Errorf("%+v: %v, %d blocks", style, got, n)
		}
	}
}

// TestOddState: what isn't as PyTorch writes it is judged as ever.
func TestOddState(t *testing.T) {
	const damaged = 3
	for name, odd := range map[string]func(*recorder.Segment){
		"size below zero, counted as 0":          func(s *recorder.Segment) { s.Blocks[0].Size = int64(-1) },
		"size beyond 64 TiB, counted as 0":       func(s *recorder.Segment) { s.Total = int64(1) << 50 },
		"block in an unknown state":              func(s *recorder.Segment) { s.Blocks[1].State = "lost" },
		"size that is no integer, counted as 0":  func(s *recorder.Segment) { s.Blocks[1].Requested = "many" },
		"address below zero":                     func(s *recorder.Segment) { s.Address = int64(-5) },
		"address that is no integer":             func(s *recorder.Segment) { s.Blocks[0].Address = 1.5 },
		"device ordinal that can't be right, ta": func(s *recorder.Segment) { s.Device = 1 << 30 },
	} {
		r := tiled(2, 2, 2, 2, 2)
		odd(&r.Segments[damaged])
		file := r.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})
		_, s := decoded(t, file)
		general, err := DecodeGeneral(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Damage) == 0 || !bytes.Contains([]byte(fmt.Sprint(s.Damage)), []byte(name)) || len(s.Damage) != len(general.Damage) ||
			fmt.Sprint(s.Devices) != fmt.Sprint(general.Devices) {
			t.Errorf("%s: %q, general %q", name, s.Damage, general.Damage)
		}
	}
}

// TestFramesAndAnnotations: both are read in the tight loop, with keys that aren't
// known, and those that make no usual row in the general way.
func TestFramesAndAnnotations(t *testing.T) {
	r := tiled(2)
	var frames []*recorder.Frame
	for i := range 400 {
		f := &recorder.Frame{File: fmt.Sprintf("/srv/%d.py", i%7), Name: fmt.Sprintf("f%d", i%90), Line: i}
		switch i % 40 {
		case 1:
			f.FX = []recorder.Item{{Key: "module", Value: fmt.Sprint("m", i)}}
		case 2:
			f.FX = []recorder.Item{{Key: "fx_node_op", Value: "call_function"}}
		case 3:
			f.Line = uint64(1<<64 - 1)
		case 4:
			f.Line = int64(1) << 31
		case 5:
			f.Line = -1
		case 6:
			f.Name = string(bytes.Repeat([]byte("long"), 100))
		}
		frames = append(frames, f)
	}
	for i := range 40 {
		r.Traces[0] = append(r.Traces[0], recorder.Event{Action: "alloc", Address: 0x1000 * i, Size: 512, Stream: 0, Stack: &recorder.Stack{Frames: frames[10*i : 10*i+10]}})
	}
	for i := range 500 {
		r.Annotations = append(r.Annotations, recorder.Annotation{Stage: []string{"START", "END"}[i%2], Name: fmt.Sprintf("step %d", i/2%20), Device: i % 3, TimeUS: int64(i) << 30})
	}
	for _, style := range []recorder.Style{{Era: recorder.V2_15, Protocol: 4}, {Era: recorder.V2_8, Protocol: 3, Shuffle: 4}, {Era: recorder.V2_5, JIT: true}} {
		file := r.Dump(style)
		d, s := decoded(t, file)
		general, err := DecodeGeneral(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Devices[0].Events.Len() {
			if a, b := named(s, s.Devices[0].Events.Stack[i]), named(general, general.Devices[0].Events.Stack[i]); a != b {
				t.Fatalf("%+v: event %d:\n%s\n%s", style, i, a, b)
			}
		}
		notes := func(s *Snapshot) (text string) {
			for _, a := range s.Annotations {
				text += fmt.Sprintln(a.Start, s.String(a.Name), a.Device, a.TimeUS)
			}
			return text
		}
		if len(s.Annotations) != 500 || notes(s) != notes(general) || len(s.Unknown) != 1 || s.Unknown[0].Count != 10 || s.Unknown[0].Where != "frames" {
			t.Errorf("%+v: %d annotations, %+v", style, len(s.Annotations), s.Unknown)
		}
		if len(d.dicts) > 100 {
			t.Errorf("%+v: %d dictionaries: rows were read value by value", style, len(d.dicts))
		}
	}
}

// named is a stack in words.
func named(s *Snapshot, id StackID) (text string) {
	for _, f := range s.Stack(id) {
		x := s.Frames[f]
		text += fmt.Sprintln(s.String(x.File), s.String(x.Function), x.Line, s.FX[x.FX].Op != 0)
	}
	return text
}

// TestBlocksWithoutEnd: a list that is filled with nothing, again and again, ends
// where the file does.
func TestBlocksWithoutEnd(t *testing.T) {
	for _, more := range []string{"(e", "(", "}a", "(}e"} {
		d := newDecoder(Options{})
		d.memo = make([]ref, 0, 64)
		d.b = append([]byte{pickle.EmptyList, pickle.Memoize}, bytes.Repeat([]byte(more), 3000)...)
		if end := d.fastBlocks(d.b, 0, &row{}); end != 0 {
			t.Errorf("%q: the list ends at %d", more, end)
		}
	}
}

// TestFailedRowsCostWhatStays: strings that were read before a segment turned out to
// be an odd one are accounted for, its blocks are once.
func TestFailedRowsCostWhatStays(t *testing.T) {
	r := tiled(3, 3, 3, 3, 3, 3, 3, 3, 3, 3)
	plain, _ := decoded(t, r.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4}))
	for i := range r.Segments {
		for k := range r.Segments[i].Blocks {
			r.Segments[i].Blocks[k].Extra = []recorder.Item{{Key: "owner", Value: &recorder.Text{S: fmt.Sprintf("%0200d", 10*i+k)}}}
		}
	}
	odd, _ := decoded(t, r.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4}))
	if more := odd.used - plain.used; more < 30*400 || more > 30*1200 {
		t.Errorf("%d and %d bytes", plain.used, odd.used)
	}
}
