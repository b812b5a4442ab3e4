package snapshot

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/snapshot/input"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// TestNoFrames: events whose stack wasn't recorded have an empty list, in
// Python-only recordings half of them.
func TestNoFrames(t *testing.T) {
	for _, c := range []struct {
		name   string
		list   []byte
		n      int
		memoed bool
	}{
		{"last", []byte{pickle.EmptyList, pickle.Memoize, pickle.SetItems}, 2, true},
		{"a key behind it", []byte{pickle.EmptyList, pickle.Memoize, pickle.BinGet, 7, pickle.BinInt1}, 2, true},
		{"a key behind it, far in the memo", []byte{pickle.EmptyList, pickle.Memoize, pickle.LongBinGet, 7, 1, 0, 0}, 2, true},
		{"not in the memo", []byte{pickle.EmptyList, pickle.SetItems}, 1, false},
		{"as torch's own pickler writes it", []byte{pickle.EmptyList, pickle.Mark, pickle.Appends, pickle.SetItems}, 3, false},
		{"in its memo", []byte{pickle.EmptyList, pickle.Mark, pickle.Appends, pickle.BinPut, 0}, 0, false},
		{"filled by a dictionary", []byte{pickle.EmptyList, pickle.Memoize, pickle.EmptyDict}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(Options{})
			d.memo = make([]ref, 0, 8)
			d.b = append(slices.Clone(c.list), make([]byte, room)...)
			id := StackID(9)
			n := d.fastStack(d.b, 0, &id)
			if n != c.n || n > 0 && id != 0 || (len(d.memo) == 1) != c.memoed {
				t.Errorf("%d bytes, stack %d, memo %d", n, id, len(d.memo))
			}
		})
	}
}

// TestFramesAmidEvent: FRAME opcodes may stand anywhere, as many as a file likes.
func TestFramesAmidEvent(t *testing.T) {
	const head = "\x80\x04}(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94]\x94(}\x94(" +
		"\x8c\x06action\x94\x8c\x05alloc\x94\x8c\x04addr\x94J\x00\x00\x01\x00\x8c\x04size\x94M\x00\x02\x8c\x06frames\x94]\x94u"
	const frame = "\x95\x00\x00\x00\x00\x00\x00\x00\x00"
	// The fields of further events, the frames between them.
	fields := []string{"}\x94(h\x06h\x07", "h\x08", "J\x00\x00\x02\x00", "h\x09M\x00\x02", "h\x0a", "]\x94", "u"}
	event := strings.Join(fields, "")
	for _, n := range []int{0, 1, 2, 100, 100_000} {
		for at := 1; at < len(fields); at++ {
			framed := strings.Join(fields[:at], "") + strings.Repeat(frame, n) + strings.Join(fields[at:], "")
			file := head + strings.Repeat(event, 60) + framed + strings.Repeat(event, 60) + "eau."
			s, err := Decode(bytes.NewReader([]byte(file)), Options{Size: int64(len(file))})
			if err != nil {
				t.Fatalf("%d frames at field %d: %v", n, at, err)
			}
			e := s.Devices[0].Events
			if e.Len() != 122 || e.Address[61] != 0x20000 || e.Size[61] != 512 || len(s.Damage) > 0 {
				t.Errorf("%d frames at field %d: %d events, %#x, %d bytes, damage %v", n, at, e.Len(), e.Address[61], e.Size[61], s.Damage)
			}
		}
	}
}

// TestAlternatives: however the widths of numbers and the order of keys change
// from event to event, the rows are the same, and the tree stays small.
func TestAlternatives(t *testing.T) {
	var file strings.Builder
	file.WriteString("\x80\x04}(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94]\x94(}\x94(" +
		"\x8c\x06action\x94\x8c\x05alloc\x94\x8c\x04addr\x94J\x00\x00\x01\x00\x8c\x04size\x94K\x01" +
		"\x8c\x06stream\x94K\x00\x8c\x07time_us\x94K\x01\x8c\x06frames\x94]\x94u")
	ones := []string{"K\x01", "M\x01\x00", "J\x01\x00\x00\x00", "\x8a\x01\x01", "\x8a\x05\x01\x00\x00\x00\x00", "\x8a\x08\x01\x00\x00\x00\x00\x00\x00\x00",
		"\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00"}
	r := rand.New(rand.NewPCG(1, 2))
	const n = 20_000
	for i := range n {
		one := ones[i%len(ones)]
		fields := []string{"h\x06h\x07", "h\x08J\x00\x00\x01\x00", "h\x09" + one, "h\x0aK\x00", "h\x0b" + one, "h\x0c]\x94"}
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		file.WriteString("}\x94(" + strings.Join(fields, "") + "u")
	}
	file.WriteString("eau.")
	d := newDecoder(Options{})
	d.feed = input.NewAhead(strings.NewReader(file.String()), int64(file.Len()))
	defer d.feed.Close()
	v, err := d.run()
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.assemble(v)
	if err != nil {
		t.Fatal(err)
	}
	e := s.Devices[0].Events
	if e.Len() != n+1 || slices.Max(e.Size) != 1 || slices.Min(e.Size) != 1 || slices.Max(e.TimeUS) != 1 || slices.Min(e.TimeUS) != 1 ||
		slices.Max(e.Address) != 0x10000 || slices.Min(e.Address) != 0x10000 || slices.Max(e.Action) != slices.Min(e.Action) || s.ActionName(e.Action[0]) != "alloc" || slices.Max(e.Stack) != 0 {
		t.Errorf("%d events, sizes %d to %d", e.Len(), slices.Min(e.Size), slices.Max(e.Size))
	}
	if n := countFields(t, d.fields.next); n > maxFields {
		t.Errorf("%d fields in the tree", n)
	}
}

func countFields(t *testing.T, f *field) (n int) {
	alternatives := 0
	for ; f != nil; f = f.alt {
		n += 1 + countFields(t, f.next)
		alternatives++
	}
	if alternatives > maxAlternatives {
		t.Errorf("%d alternatives of one field", alternatives)
	}
	return n
}
