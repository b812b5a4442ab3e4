package snapshot_test

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
)

// seeds are small files of every form.
func seeds(f *testing.F, add func([]byte)) {
	for seed := range uint64(3) {
		run := recorder.Simulate(recorder.Program{Seed: seed, Events: 3, Skip: int(seed), Depth: 2, Devices: 1 + int(seed)})
		for _, style := range styles() {
			add(run.Recording.Dump(style))
		}
	}
	for _, s := range []string{
		"\x80\x02cposix\nsystem\n.", "(dp0\nVsegments\np1\n(lp2\ns.", wrap("](KMe"), "\x80\x04](]N\x94h\x00e.", "]\x94(h\x00h\x00e.",
		// Texts and rows that are thrown away: popped, or the value of a key that comes again.
		wrap("X\x01\x00\x00\x00\xff0](}(X\x06\x00\x00\x00actionX\x05\x00\x00\x00allocX\x04\x00\x00\x00sizeK\x01ue"),
		wrap("](}(X\x06\x00\x00\x00action]X\x04\x00\x00\x00addrK\x01X\x04\x00\x00\x00sizeK\x01X\x04\x00\x00\x00sizeNu0e"),
		"\x80\x02}q\x00(X\x08\x00\x00\x00segmentsq\x01]q\x02X\x0d\x00\x00\x00device_tracesq\x03]q\x04]q\x05}q\x06(X\x06\x00\x00\x00actionq\x07X\x05\x00\x00\x00allocq\x08ue\x61\x75.",
	} {
		add([]byte(s))
	}
}

// FuzzDecode: no input makes the decoder panic or take memory without bound,
// and what it accepts the general reader reads in the same way, or not at all.
func FuzzDecode(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	const limit = 8 << 20
	f.Fuzz(func(t *testing.T, b []byte) {
		var fast *snapshot.Snapshot
		var err error
		n := allocated(func() {
			// What is behind the end is read ahead, as that of a large file would be: the tight loops want room.
			long := append(bytes.Clone(b), make([]byte, 2048)...)
			fast, err = snapshot.Decode(bytes.NewReader(long), snapshot.Options{Size: int64(len(long)), MaxMemory: limit})
		})
		if n > 6*limit+16<<20 {
			t.Fatalf("%d bytes allocated", n)
		}
		var e *snapshot.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%T: %v", err, err)
		}
		cut, cutErr := snapshot.Decode(bytes.NewReader(b), snapshot.Options{MaxMemory: limit, Partial: true})
		if err == nil && cutErr != nil {
			t.Fatalf("accepted, but not with Partial: %v", cutErr)
		}
		if cutErr == nil {
			dump(cut) // every id is in range
		}
		if err != nil {
			return
		}
		general, err := snapshot.DecodeGeneral(b)
		if err != nil {
			return // it refuses more: gopickle knows fewer forms of numbers, and of lists that are used twice
		}
		// Rows that stand nowhere count for the fast reader's era and unknown keys.
		fast.Era, fast.Unknown, general.Era, general.Unknown = "", nil, "", nil
		escaped := bytes.Contains(b, []byte{'V'}) // gopickle doesn't unescape protocol 0's strings among those of another
		if d := firstDifference(dump(fast), dump(general)); d != "" && !escaped {
			t.Fatalf("the readers differ in %s", d)
		}
		odd, err := snapshot.DecodeOdd(b)
		if err != nil {
			t.Fatalf("written anew: %v", err)
		}
		odd.Era, odd.Unknown = "", nil
		// The fast reader also judges what is thrown away, which is gone when written anew; the general one judges only what a
		// snapshot is made of. Each judges at least what the next one sees.
		if lost := missing(odd.Damage, fast.Damage); len(lost) > 0 && !escaped {
			t.Fatalf("damage %q, but written anew also %q", fast.Damage, lost)
		}
		if lost := missing(general.Damage, odd.Damage); len(lost) > 0 {
			t.Fatalf("damage %q written anew, but by its objects also %q", odd.Damage, lost)
		}
		if d := firstDifference(dump(odd), dump(general)); d != "" {
			t.Fatalf("written anew it differs in %s", d)
		}
	})
}

// place is where damage was seen first, and how often: readers that walk otherwise count otherwise.
var place = regexp.MustCompile(`(, \d+ times, first)?,? near offset \d+$`)

// missing is the kinds of damage among some that the others lack.
func missing(some, others []string) []string {
	kind := func(text string) string { return place.ReplaceAllString(text, "") }
	return slices.DeleteFunc(slices.Clone(some), func(text string) bool {
		return slices.ContainsFunc(others, func(other string) bool { return kind(other) == kind(text) })
	})
}

// FuzzContainers: no compressed input makes Open's way panic or take memory
// without bound.
func FuzzContainers(f *testing.F) {
	run := recorder.Simulate(recorder.Program{Seed: 1, Events: 5})
	plain := run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})
	f.Add(plain)
	f.Add(gzipped(f, bytes.NewReader(plain)))
	f.Add(zstded(f, bytes.NewReader(plain)))
	f.Add(zipped(f, bytes.NewReader(plain)))
	f.Add(zipped(f, bytes.NewReader(plain), strings.NewReader("x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 8 << 20
		for _, partial := range []bool{false, true} {
			var err error
			n := allocated(func() { _, err = open(b, snapshot.Options{MaxMemory: limit, Partial: partial}) })
			if n > 6*limit+256<<20 { // zstd's window is up to 128 MiB
				t.Fatalf("%d bytes allocated", n)
			}
			var e *snapshot.Error
			if err != nil && (!errors.As(err, &e) || e.File != "input") {
				t.Fatalf("%T without a file's name: %v", err, err)
			}
		}
	})
}
