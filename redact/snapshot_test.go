package redact

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
)

// recordings are the shipped ones, and those of a corpus where there is one.
func recordings(t *testing.T) []string {
	var all []string
	files, err := filepath.Glob("../testdata/recordings/*/*.pickle.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	files = append(files, corpus.Glob(t, "labelled/*/*named*.pickle.gz")...)
	for _, name := range append(files, corpus.Glob(t, "snapshots/*")...) {
		if st, err := os.Stat(name); err == nil && st.Size() < 1<<20 {
			all = append(all, name)
		}
	}
	return all
}

// TestWhoseCode: what a frame is, and whose, can be told from its pseudonyms as
// from its names; names of public compiled code are all kept.
func TestWhoseCode(t *testing.T) {
	r := New("")
	for _, name := range recordings(t) {
		s, err := snapshot.Open(name, snapshot.Options{MaxMemory: 1 << 30})
		if err != nil {
			continue // the corpus has broken files, too
		}
		before := append([]snapshot.Frame(nil), s.Frames...)
		strings, v := s.Strings, frames.New(s)
		r.Snapshot(s)
		w := frames.New(s)
		for i := range s.Frames {
			id := snapshot.FrameID(i)
			function, file := strings[before[i].Function], strings[before[i].File]
			if v.Language(id) != w.Language(id) || v.Owner(id) != w.Owner(id) {
				t.Errorf("%s: %q in %q is %v's %v; redacted, %q in %q is %v's %v", name, function, file, v.Owner(id), v.Language(id),
					s.String(s.Frames[i].Function), s.String(s.Frames[i].File), w.Owner(id), w.Language(id))
			}
			if s.Frames[i].Line != before[i].Line {
				t.Errorf("%s: line %d became %d", name, before[i].Line, s.Frames[i].Line)
			}
		}
		for id := range s.NumStacks() {
			if a, b := v.Site(snapshot.StackID(id)), w.Site(snapshot.StackID(id)); a.Op != b.Op || a.Line.Line != b.Line.Line {
				t.Errorf("%s: stack %d was made at %+v, redacted at %+v", name, id, a, b)
			}
		}
	}
}

// texts calls visit with every text that a value holds, hidden fields included.
func texts(v reflect.Value, seen map[uintptr]bool, path string, visit func(path, text string)) {
	switch v.Kind() {
	case reflect.String:
		visit(path, v.String())
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		texts(v.Elem(), seen, path, visit)
	case reflect.Interface:
		if !v.IsNil() {
			texts(v.Elem(), seen, path, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			texts(v.Field(i), seen, path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); reflect.Bool <= k && k <= reflect.Complex128 {
			return
		}
		for i := range v.Len() {
			texts(v.Index(i), seen, path, visit)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			texts(it.Key(), seen, path, visit)
			texts(it.Value(), seen, path, visit)
		}
	}
}

// leaks lists where the secret word is still to be read.
func leaks(value any, secret string) (where []string, all int) {
	texts(reflect.ValueOf(value), map[uintptr]bool{}, "", func(path, text string) {
		all++
		if strings.Contains(strings.ToLower(text), secret) {
			where = append(where, path+": "+text)
		}
	})
	return where, all
}

// TestPlantedSnapshot walks everything that a snapshot holds, hidden fields
// included, so that a text that is added one day can't be forgotten.
func TestPlantedSnapshot(t *testing.T) {
	r := recorder.Planted("moonshot")
	in, err := snapshot.ReadInput("standard input", strings.NewReader(string(r.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15}))))
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Snapshot(snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, all := leaks(s, "moonshot")
	kinds := map[string]bool{}
	for _, l := range before {
		path, _, _ := strings.Cut(l, ": ")
		kinds[path] = true
	}
	if len(kinds) < 6 || all < 50 {
		t.Fatalf("the secret was planted in %v only, of %d texts", kinds, all)
	}
	New("").Snapshot(s)
	after, _ := leaks(s, "moonshot")
	for _, l := range after {
		t.Errorf("still to be read: %s", l)
	}
	if s.Settings.Get("PYTORCH_ALLOC_CONF")[:len("max_split_size_mb:64")] != "max_split_size_mb:64" {
		t.Errorf("the allocator's own options are gone: %v", s.Settings)
	}
}

func TestPlantedEvidence(t *testing.T) {
	secret := "/home/ann/moonshot"
	ev := &evidence.Evidence{
		GPUs:        []evidence.GPU{{Name: &[]string{"moonshot"}[0], BusID: "moonshot", UUID: "GPU-moonshot", Processes: []evidence.Process{{Name: &[]string{secret}[0]}}}},
		OOMMessages: []evidence.OOMMessage{{UserFile: &[]string{secret + "/train.py"}[0], OwnFile: secret + "/x.py"}},
		Logs:        []evidence.Log{{HostFailures: []evidence.HostFailure{{UserFile: secret + "/x.py"}}}},
		Traces:      []evidence.Trace{{Devices: []evidence.TraceDevice{{Name: "moonshot"}}, Steps: []evidence.Span{{Name: "moonshot"}}, Annotations: []evidence.Span{{Name: "Optimizer.step#Moonshot.step", Category: "moonshot"}}}},
	}
	if before, _ := leaks(ev, "moonshot"); len(before) != 11 {
		t.Fatalf("the secret is in %q", before)
	}
	New("").Evidence(ev)
	after, _ := leaks(ev, "moonshot")
	for _, l := range after {
		t.Errorf("still to be read: %s", l)
	}
}
