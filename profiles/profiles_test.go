package profiles

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var update = flag.Bool("update", false, "rewrite the expected profiles in testdata")

// small is a recording whose profiles a person can read.
const small = "mlp_regression__script/snapshot_python.pickle.gz"

// recording reads one of the shipped recordings.
func recording(t testing.TB, name string) Recording {
	t.Helper()
	s, err := snapshot.Open(filepath.Join("../testdata/recordings", name), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return of(s)
}

func of(s *snapshot.Snapshot) Recording {
	r := Recording{View: frames.New(s)}
	for i := range s.Devices {
		tl := timeline.New(s, &s.Devices[i])
		r.Devices = append(r.Devices, Device{tl, classify.New(tl, classify.Options{})})
	}
	return r
}

// forEachRecording runs a test on every shipped recording.
func forEachRecording(t *testing.T, f func(t *testing.T, r Recording)) {
	paths, _ := filepath.Glob("../testdata/recordings/*/*.pickle.gz")
	if len(paths) < 10 {
		t.Fatalf("%d recordings", len(paths))
	}
	for _, p := range paths {
		name := filepath.Join(filepath.Base(filepath.Dir(p)), filepath.Base(p))
		t.Run(name, func(t *testing.T) { f(t, recording(t, name)) })
	}
}

// TestMemoryIsBounded: profiles that need too much are refused before anything
// is written, and ordinary recordings need little.
func TestMemoryIsBounded(t *testing.T) {
	writers := map[string]func(io.Writer, Recording) error{
		"pprof":      func(w io.Writer, r Recording) error { return WritePprof(w, r, Peak) },
		"speedscope": func(w io.Writer, r Recording) error { return WriteSpeedscope(w, r, Peak, End) },
	}
	forEachRecording(t, func(t *testing.T, r Recording) {
		for name, write := range writers {
			var out bytes.Buffer
			r.MaxMemory = 1000
			if err := write(&out, r); !errors.Is(err, snapshot.ErrMemory) || out.Len() > 0 {
				t.Errorf("%s with no memory: %d bytes, %v", name, out.Len(), err)
			}
			r.MaxMemory = 8 << 20
			if err := write(io.Discard, r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is no longer what is written (-update rewrites it):\n%s", path, got)
	}
}

// TestSameBytes writes each format twice, from two readings of the file.
func TestSameBytes(t *testing.T) {
	for name, write := range map[string]func(io.Writer, Recording) error{
		"pprof":      func(w io.Writer, r Recording) error { return WritePprof(w, r, Peak) },
		"perfetto":   WritePerfetto,
		"speedscope": func(w io.Writer, r Recording) error { return WriteSpeedscope(w, r, Peak, End) },
	} {
		var a, b bytes.Buffer
		for _, out := range []*bytes.Buffer{&a, &b} {
			if err := write(out, recording(t, "device_map__two_gpus/snapshot_named.pickle.gz")); err != nil {
				t.Fatal(err)
			}
		}
		if a.Len() < 1000 || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: %d and %d bytes that differ", name, a.Len(), b.Len())
		}
	}
}

func TestMoments(t *testing.T) {
	tl := recording(t, small).Devices[0].Timeline
	last := tl.Device.Events.Len() - 1
	for _, c := range []struct {
		text  string
		event int
		fails bool
	}{
		{"peak", tl.Peaks.Allocated.Event, false},
		{"end", last, false},
		{"0", 0, false},
		{"17", 17, false},
		{"1336", last, false},
		{"1337", 0, true},
		{"-1", 0, true},
		{"top", 0, true},
		{"", 0, true},
		{"99999999999999999999", 0, true},
	} {
		m, err := ParseMoment(c.text)
		event := 0
		if err == nil {
			event, err = m.event(tl)
		}
		if (err != nil) != c.fails || err == nil && event != c.event {
			t.Errorf("%q: event %d, %v", c.text, event, err)
		}
	}
}
