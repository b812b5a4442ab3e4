package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
)

// both decodes a file with either reader and compares every field.
func both(t *testing.T, file []byte) *snapshot.Snapshot {
	t.Helper()
	fast, err := snapshot.Decode(bytes.NewReader(file), snapshot.Options{Size: int64(len(file))})
	if err != nil {
		t.Fatal(err)
	}
	general, err := snapshot.DecodeGeneral(file)
	if err != nil {
		t.Fatal("general: ", err)
	}
	if d := firstDifference(dump(fast), dump(general)); d != "" {
		t.Fatalf("Decode and DecodeGeneral differ in %s", d)
	}
	if len(fast.Damage) != len(general.Damage) {
		t.Fatalf("damage %q, general %q", fast.Damage, general.Damage)
	}
	odd, err := snapshot.DecodeOdd(file)
	if err != nil {
		t.Fatal("written anew: ", err)
	}
	if d := firstDifference(dump(odd), dump(general)); d != "" || odd.Protocol != general.Protocol || !slices.Equal(odd.Damage, general.Damage) {
		t.Fatalf("written anew it differs in %s; damage %q and %q", d, odd.Damage, general.Damage)
	}
	return fast
}

// styles are all ways to write a recording, by name.
func styles() map[string]recorder.Style {
	m := map[string]recorder.Style{}
	for era := range recorder.NumEras {
		m[fmt.Sprintf("era %d", era)] = recorder.Style{Era: era, Protocol: 4}
		m[fmt.Sprintf("era %d, keys in another order", era)] = recorder.Style{Era: era, Protocol: 4, Shuffle: int64(era) + 1}
	}
	for protocol := range 6 {
		m[fmt.Sprintf("protocol %d", protocol)] = recorder.Style{Era: recorder.V2_15, Protocol: protocol}
		m[fmt.Sprintf("protocol %d, lists of its own", protocol)] = recorder.Style{Era: recorder.V2_5, Protocol: protocol, OwnLists: true}
	}
	m["torch's pickler"] = recorder.Style{Era: recorder.V2_15, JIT: true}
	m["torch's pickler, lists of its own"] = recorder.Style{Era: recorder.V2_11, JIT: true, OwnLists: true}
	m["list of segments"] = recorder.Style{Era: recorder.V2_5, Protocol: 4, Bare: true}
	m["without traces"] = recorder.Style{Era: recorder.V2_15, Protocol: 5, NoTraces: true}
	return m
}

func TestBothReadersAgreeOnGeneratedFiles(t *testing.T) {
	t.Parallel()
	programs := []recorder.Program{
		{Seed: 1, Events: 600, Depth: 6},
		{Seed: 2, Events: 300, Devices: 3, Streams: 2, Pools: 2, Depth: 40, Native: true},
		{Seed: 3, Events: 300, Capacity: 200 << 20, Expandable: true},
		{Seed: 4, Events: 1},
	}
	for name, style := range styles() {
		t.Run(name, func(t *testing.T) {
			for _, p := range programs {
				run := recorder.Simulate(p)
				r := &run.Recording
				s := both(t, r.Dump(style))
				if style.Bare || style.NoTraces {
					continue
				}
				events := 0
				for i := range s.Devices {
					events += s.Devices[i].Events.Len()
				}
				want := 0
				for _, trace := range r.Traces {
					want += len(trace)
				}
				if events != want || len(s.Damage) > 0 || len(s.Unknown) > 0 {
					t.Fatalf("%d events, want %d; damage %q, unknown %v", events, want, s.Damage, s.Unknown)
				}
			}
		})
	}
}

// Keys that a later PyTorch may add are read as fast as the others, and told.
func TestUnknownKeysInEveryEvent(t *testing.T) {
	run := recorder.Simulate(recorder.Program{Seed: 9, Events: 500, Depth: 8, Pools: 1})
	trace := run.Recording.Traces[0]
	for i := range trace {
		trace[i].Extra = []recorder.Item{{Key: "colour", Value: []any{"blue", nil, true, i, &recorder.Text{S: "own"}}[i%5]}, {Key: "depth", Value: int64(i) << 40}}
		if i%50 == 0 { // what the tight loop leaves to the general way
			trace[i].Extra = append(trace[i].Extra, recorder.Item{Key: "parts", Value: &recorder.List{Items: []any{1, 2}}})
		}
	}
	for name, style := range styles() {
		if style.Bare || style.NoTraces {
			continue
		}
		s := both(t, run.Recording.Dump(style))
		if len(s.Unknown) != 3 || s.Unknown[0].Count != len(trace) || s.Unknown[1].Count != len(trace) || s.Unknown[0].Example != "blue" {
			t.Errorf("%s: %+v", name, s.Unknown)
		}
	}
}

// What only some recordings have is read in the same way, however many events have it.
func TestRareColumns(t *testing.T) {
	run := recorder.Simulate(recorder.Program{Seed: 9, Events: 700, Depth: 8, Pools: 1, Streams: 2})
	trace := run.Recording.Traces[0]
	for i := range trace {
		e := &trace[i]
		e.Compile = []string{"", "", "Torch-Compiled Region: 0/0", fmt.Sprintf("Torch-Compiled Region: %d/1", i%9)}[i/100%4]
		e.Metadata = []string{"", fmt.Sprintf(`{"fqn": "layers.%d"}`, i%48), "optimizer"}[i/150%3]
		e.Internal = []string{"", "op", "another"}[i%3]
		e.Category = []any{nil, i % 6, i % 6, int64(-1), int64(1) << 40}[i/80%5]
		e.Forward = [][]string{nil, {"a.py:1 in f"}, {"a.py:1 in f", "b.py:22 in g"}, {"a.py:1 in f", "a.py:1 in f", fmt.Sprintf("c.py:%d in h", i%30)}}[i/3%4]
	}
	for name, style := range styles() {
		t.Run(name, func(t *testing.T) { both(t, run.Recording.Dump(style)) })
	}
}

// Every style says the same as the others of its era.
func TestStylesSayTheSame(t *testing.T) {
	run := recorder.Simulate(recorder.Program{Seed: 5, Events: 500, Devices: 2, Pools: 1, Depth: 20})
	want := dump(both(t, run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})))
	for name, style := range styles() {
		if style.Era != recorder.V2_15 || style.NoTraces {
			continue
		}
		s, err := snapshot.Decode(bytes.NewReader(run.Recording.Dump(style)), snapshot.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := firstDifference(dump(s), want); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// shippedRecordings are the real files of the project.
func shippedRecordings(t testing.TB) []string {
	var files []string
	for _, pattern := range []string{"../testdata/recordings/*/*.pickle.gz", "../testdata/scenarios/*.pickle.gz"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// content is a file's bytes, uncompressed.
func content(t testing.TB, name string) []byte {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

var all = flag.Bool("all", false, "read every recording at hand with both readers, not only small ones: takes minutes")

func TestBothReadersAgreeOnRecordings(t *testing.T) {
	t.Parallel()
	readersAgree(t, slices.DeleteFunc(shippedRecordings(t), large))
}

// large files take the general decoder seconds each.
func large(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Size() > 1<<17 && !*all
}

func TestBothReadersAgreeOnCorpus(t *testing.T) {
	corpus.Path(t, ".")
	files := append(corpus.Glob(t, "snapshots/*"), corpus.Glob(t, "labelled/*/snapshot_*.pickle.gz")...)
	var some []string
	for i, name := range files {
		if *all || i%6 == 0 {
			some = append(some, name)
		}
	}
	readersAgree(t, slices.DeleteFunc(some, large))
}

func readersAgree(t *testing.T, files []string) {
	for _, name := range files {
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			b := content(t, name)
			if len(b) == 0 {
				return
			}
			both(t, b)
		})
	}
}

// A file is looked at where the system holds it, a stream is read piece by
// piece: both give the same recording, or the same error.
func TestFileAndStreamAgree(t *testing.T) {
	run := recorder.Simulate(recorder.Program{Seed: 7, Events: 20_000, Depth: 9})
	run.Recording.Traces[0][5000].Stack.Frames[0].Name = strings.Repeat("long", 1<<18) // more than is read at a time
	long := run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4, OwnLists: true})
	name := filepath.Join(t.TempDir(), "s.pickle")
	for _, n := range []int{len(long), len(long) - 1, len(long) / 2, 1 << 20, 256 << 10, 64<<10 + 1, 4096, 1, 0} {
		for _, partial := range []bool{false, true} {
			if err := os.WriteFile(name, long[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			o := snapshot.Options{Partial: partial, Size: int64(n)}
			stream, want := snapshot.Decode(bytes.NewReader(long[:n]), o)
			file, err := snapshot.Open(name, o)
			var e *snapshot.Error
			if errors.As(err, &e) {
				e.File = ""
			}
			if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Errorf("%d bytes: %v, and as a stream %v", n, err, want)
			}
			if err != nil || want != nil {
				continue
			}
			if d := firstDifference(dump(file), dump(stream)); d != "" || file.Cut != stream.Cut {
				t.Errorf("%d bytes: file and stream differ in %s, cut at %d and %d", n, d, file.Cut, stream.Cut)
			}
		}
	}
}

// CPython adds at most 1000 elements to a list at once; a stack may have more frames.
func TestLongStacks(t *testing.T) {
	for _, n := range []int{1, 2, 999, 1000, 1001, 2500} {
		r := small()
		stack := r.Traces[0][0].Stack
		stack.Frames = nil
		for i := range n {
			stack.Frames = append(stack.Frames, &recorder.Frame{File: "/src/deep.py", Name: fmt.Sprint("recurse", i), Line: i + 1})
		}
		for name, style := range map[string]recorder.Style{"": {Era: recorder.V2_15, Protocol: 4}, "torch's pickler": {Era: recorder.V2_15, JIT: true}} {
			s := both(t, r.Dump(style))
			if got := len(s.Stack(s.Devices[0].Events.Stack[1])); got != n {
				t.Errorf("%s: %d frames, want %d", name, got, n)
			}
		}
	}
}

// Whatever happens to a file's bytes, what both readers accept they read alike.
func TestMutations(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var files [][]byte
	for seed := range uint64(4) {
		run := recorder.Simulate(recorder.Program{Seed: seed, Events: 60, Depth: 4, Devices: 1 + int(seed)%2})
		for _, style := range []recorder.Style{{Era: recorder.V2_15, Protocol: 4}, {Era: recorder.V2_5, Protocol: 2, OwnLists: true}, {Era: recorder.V2_15, JIT: true}} {
			files = append(files, run.Recording.Dump(style))
		}
	}
	const frame = "\x95\x00\x00\x00\x00\x00\x00\x00\x00"
	const opcodes = "hjKMJ]}u(ae\x94\x95\x8a\x8cqrN0\x88\x87\x86"
	compared := 0
	for range 2000 {
		b := bytes.Clone(files[r.IntN(len(files))])
		for range 1 + r.IntN(3) {
			at := r.IntN(len(b))
			switch r.IntN(5) {
			case 0:
				b[at] ^= 1 << r.IntN(8)
			case 1:
				b[at] = opcodes[r.IntN(len(opcodes))]
			case 2:
				b = slices.Insert(b, at, []byte(frame)...)
			case 3: // a piece twice
				b = slices.Insert(b, at, bytes.Clone(b[at:min(at+1+r.IntN(60), len(b))])...)
			case 4: // a piece gone
				b = slices.Delete(b, at, min(at+1+r.IntN(20), len(b)-1))
			}
		}
		fast, err := snapshot.Decode(bytes.NewReader(b), snapshot.Options{Size: int64(len(b))})
		if err != nil {
			continue
		}
		general, err := snapshot.DecodeGeneral(b)
		if err != nil {
			continue
		}
		compared++
		fast.Era, fast.Unknown, general.Era, general.Unknown = "", nil, "", nil // rows that stand nowhere count for the fast one's
		if d := firstDifference(dump(fast), dump(general)); d != "" {
			t.Fatalf("the readers differ in %s\n%q", d, b)
		}
	}
	if compared < 150 {
		t.Errorf("only %d files accepted by both", compared)
	}
}
