package html_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/snapshot"
)

// recording is the document of a shipped recording, pictures included.
func recording(t *testing.T, names ...string) *report.Document {
	t.Helper()
	for i, name := range names {
		names[i] = filepath.Join("..", "..", "testdata", "recordings", name)
	}
	run, err := open.Files(names, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return analyzed(t, run.Sources, run.Evidence)
}

func analyzed(t *testing.T, sources []diagnose.Source, ev *evidence.Evidence) *report.Document {
	t.Helper()
	doc, err := diagnose.Run(sources, ev, diagnose.Options{Tool: "vramscope test", Pictures: true})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// simulated is the document of a recording that change may have touched.
func simulated(t *testing.T, p recorder.Program, change func(*recorder.Recording)) *report.Document {
	t.Helper()
	run := recorder.Simulate(p)
	if change != nil {
		change(&run.Recording)
	}
	s, err := snapshot.Decode(bytes.NewReader(run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return analyzed(t, []diagnose.Source{{Path: "simulated.pickle", Kind: "snapshot", Snapshot: s}}, evidence.New())
}

// synthetic is a document with many allocations, made without a recording.
func synthetic(allocations int) *report.Document {
	random := rand.New(rand.NewPCG(1, 2))
	events := 2 * allocations
	p := &report.Pictures{Events: events, TimeEvery: max(1, events/20000), Kinds: []report.Kind{{Category: 0, Signal: "life", Confidence: 90}, {Category: 1}},
		Categories: []string{"weights", "activations"}, Sites: []report.Site{{Function: "forward", File: "/app/model.py", Line: new(7), Known: true}},
		Stacks: []report.Stack{{Site: -1}, {Site: 0, Node: 1}}, Frames: []report.Frame{{Function: "forward", File: "/app/model.py", Line: 7}},
		Nodes: []report.StackNode{{Frame: -1, Parent: -1}, {Frame: 0, Parent: 0}}}
	for i := 0; i < events; i += p.TimeEvery {
		p.TimeUS = append(p.TimeUS, 1_700_000_000_000_000+int64(i)*17+random.Int64N(9))
	}
	sizes := make([]int64, 300) // programs ask for few different sizes
	for i := range sizes {
		sizes[i] = 512 * (1 + random.Int64N(1<<uint(1+random.IntN(14))))
	}
	var slots []uint32 // by slot of 16 MiB: when it is free again
	for i := range allocations {
		freed := report.NotFreed
		if i%50 > 0 {
			freed = uint32(min(events-1, 2*i+1+2*random.IntN(400)))
		}
		b := &p.Bands
		b.Born, b.Freed = append(b.Born, uint32(2*i)), append(b.Freed, freed)
		b.Bytes = append(b.Bytes, sizes[random.IntN(len(sizes))])
		b.Kind, b.Stack = append(b.Kind, uint16(i%2)), append(b.Stack, 1)
		slot := slices.IndexFunc(slots, func(free uint32) bool { return free <= uint32(2*i) })
		if slot < 0 {
			slot, slots = len(slots), append(slots, 0)
		}
		slots[slot] = freed
		b.Address = append(b.Address, 7<<44+uint64(slot)<<24)
		b.Requested = append(b.Requested, b.Bytes[i]-random.Int64N(2)*100)
		b.Completed, b.Stream, b.Pool, b.FreeStack = append(b.Completed, freed), append(b.Stream, 0), append(b.Pool, 0), append(b.FreeStack, 1)
	}
	p.Completions, p.Streams, p.Pools = true, []string{"0"}, []string{""}
	p.Actions = []string{"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"}
	p.Segments = []report.Segment{{Address: 7 << 44, Bytes: int64(len(slots)) << 24}}
	d := report.Device{History: "complete", Stacks: "python", Events: events, Allocations: allocations, Pictures: p}
	return &report.Document{Tool: "vramscope test", Inputs: []report.Input{{Path: "synthetic.pickle"}}, Devices: []report.Device{d}, Evidence: evidence.New()}
}

// written is a document as a page.
func written(t *testing.T, doc *report.Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := html.Document(&b, doc); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// saved is a page in a file, by its URL.
func saved(t *testing.T, page []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, page, 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + name
}
