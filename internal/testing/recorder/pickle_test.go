package recorder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// everything holds every kind of object and every width of integer, string
// and container that CPython writes in a way of its own. In Python:
//
//	l = list(range(2000)); t = (1, 2, 3, 4, 5); one = ["q"]
//	[1, -1, 255, 256, 65535, 65536, -129, 2**31, -2**31, -2**31-1, 2**40, 2**63, 1.5, 0.0, True, False, None,
//	 "a\\b\nc\0é中😀", "x"*70000, "\udca0x", [l], {i: -i*1000003 for i in range(1000)}, t, t, (), ("q",), [], {},
//	 "s", "s", -32768, -8388608, -2**39, -2**55]
func everything() any {
	numbers, squares := &List{}, &Dict{}
	for i := range 2000 {
		numbers.Items = append(numbers.Items, i)
	}
	for i := range 1000 {
		squares.Items = append(squares.Items, Item{i, -i * 1000003})
	}
	tuple := &Tuple{[]any{1, 2, 3, 4, 5}}
	return &List{Items: []any{1, -1, 255, 256, 65535, 65536, -129, int64(1) << 31, -(int64(1) << 31), -(int64(1) << 31) - 1, int64(1) << 40, uint64(1) << 63,
		1.5, 0.0, true, false, nil, "a\\b\nc\x00é中😀", strings.Repeat("x", 70000), &Text{"\xed\xb2\xa0x"}, &List{[]any{numbers}}, squares, tuple, tuple,
		&Tuple{}, &Tuple{[]any{"q"}}, &List{}, &Dict{}, &Text{"s"}, &Text{"s"}, -32768, -8388608, int64(-1) << 39, int64(-1) << 55}}
}

// The sums are of what CPython 3.11's pickle.dumps gives.
func TestPickleWritesTheBytesOfCPython(t *testing.T) {
	for protocol, want := range []string{
		"c6c8268209bef987b1b5dece11e0f72f6f3058fc26ec36089e1487a2fca11241",
		"2fff3260a30d11a84dadcec56b41064516c4e2614b52d2aa7ce8e12d977a4b69",
		"0384c40ebd27cd6efa7711e4f82861f0a4894215b0de83bc5707499bb7298600",
		"04b0da2bffbfdc038be903a9663dfd961c67986445be20c6996036f63461b417",
		"2401d21deed40c56443e90f71ec6efe92c2af2e527fada92dfcedc5106b76bb4",
		"0352a8509317573ec27719eb9215a28534f25e6055b431c8e0b1ff01c2efcb08",
	} {
		got := sha256.Sum256(Pickle(everything(), protocol))
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("protocol %d: %x, want %s", protocol, got, want)
		}
	}
}

func TestPickleJIT(t *testing.T) {
	shared := &Dict{Items: []Item{{"k", 300}}}
	got := PickleJIT(&List{Items: []any{shared, shared, int64(1) << 33, &List{}, true, &Tuple{[]any{0, 1}}}})
	want := "\x80\x02](}(X\x01\x00\x00\x00kq\x00M\x2c\x01uq\x01h\x01\x8a\x08\x00\x00\x00\x00\x02\x00\x00\x00](e\x88K\x00K\x01\x86e."
	if string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDumpIsDeterministic(t *testing.T) {
	dump := func() []byte {
		run := Simulate(Program{Seed: 7, Events: 300, Devices: 2, Depth: 5})
		return run.Recording.Dump(Style{Protocol: 4, Era: V2_15, Shuffle: 3})
	}
	if !bytes.Equal(dump(), dump()) {
		t.Error("the same program gives different bytes")
	}
}

// The simulated allocator must keep what every allocator keeps, or its truth is none.
func TestSimulateTiles(t *testing.T) {
	for _, p := range []Program{
		{Seed: 1, Events: 2000}, {Seed: 2, Events: 2000, Expandable: true, Streams: 2}, {Seed: 3, Events: 2000, Capacity: 200 << 20},
		{Seed: 4, Events: 2000, Pools: 2, MaxSplit: 64 << 20}, {Seed: 5, Events: 500, Skip: 700, RoundUp: 4},
	} {
		run := Simulate(p)
		truth := run.Truth[0]
		for event, layout := range truth.Layouts {
			levels := truth.Start
			if event >= 0 {
				levels = truth.Levels[event]
			}
			var active, reserved, waiting int64
			for _, pieces := range layout {
				at := pieces[0].Address
				for _, x := range pieces {
					if x.Address != at {
						t.Fatalf("%+v: event %d: gap at %#x", p, event, at)
					}
					at += uint64(x.Bytes)
					reserved += x.Bytes
					if x.Used {
						active += x.Bytes
					}
					if x.Pending {
						waiting += x.Bytes
					}
				}
			}
			if active != levels.Active || reserved != levels.Reserved || active-waiting != levels.Allocated {
				t.Fatalf("%+v: event %d: %d active, %d reserved, levels say %+v", p, event, active, reserved, levels)
			}
		}
	}
}
