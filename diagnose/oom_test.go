package diagnose

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// TestPendingFree: what the program freed, and another stream still holds, isn't called a
// shortage.
func TestPendingFree(t *testing.T) {
	const at = int64(1) << 40
	line := &recorder.Stack{Frames: []*recorder.Frame{{File: "/srv/run/prefetch.py", Name: "fetch", Line: 12}}}
	event := func(action string, bytes int64) recorder.Event {
		return recorder.Event{Action: action, Address: at, Size: bytes, Stream: int64(7), Stack: line, DeviceFree: int64(1 << 30)}
	}
	r := recorder.Recording{
		Traces: [][]recorder.Event{{event("segment_alloc", 8<<30), event("alloc", 8<<30), event("free_requested", 8<<30),
			event("oom", 4<<30)}},
		Segments: []recorder.Segment{{Address: at, Total: int64(8 << 30), Active: 8 << 30, Requested: 8 << 30, Stream: 7,
			Blocks: []recorder.Block{{Address: at, Size: int64(8 << 30), Requested: int64(8 << 30), State: "active_pending_free",
				Stack: line}}}},
	}
	s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run([]Source{{Path: "s", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := finding(&doc.Devices[0], "oom_pending_free")
	if f == nil || doc.Devices[0].OOMs[0].Verdict != report.PendingFree ||
		!strings.Contains(strings.Join(f.Evidence, "\n"),
			"8.00 GiB made at fetch run/prefetch.py:12 on stream 7, freed at event 2") ||
		!strings.Contains(doc.Verdict.Text, "memory that the program had freed waits for another stream") {
		t.Errorf("%+v\n%+v", doc.Devices[0].OOMs, f)
	}
}

// TestOthersDecide gives a recorded failure the figures of other processes,
// which the recording itself can't have.
func TestOthersDecide(t *testing.T) {
	s := recording(t, "qwen_vocab_oom__05b/snapshot_named.pickle.gz")
	const message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 27.82 GiB. GPU 0 has a total capacity of " +
		"%s of which 4.96 GiB is free. %sIncluding non-PyTorch memory, this process has 74.13 GiB memory in use. Of the " +
		"allocated memory 72.87 GiB is allocated by PyTorch, and 774.75 MiB is reserved by PyTorch but unallocated. If\n"
	for _, test := range []struct {
		name     string
		evidence input
		want     string
	}{
		{"alone", input{name: "train.log", text: fmt.Sprintf(message, "79.10 GiB", "")}, "true_shortage"},
		{"beside a process that holds what is missing", input{name: "train.log", text: fmt.Sprintf(message, "139.80 GiB",
			"Process 7 has 60.50 GiB memory in use. ")}, "other_process"},
		{"beside a small one", input{name: "train.log", text: fmt.Sprintf(message, "84.40 GiB",
			"Process 7 has 5.30 GiB memory in use. ")}, "true_shortage"},
		{"on a GPU that nvidia-smi knows to be larger", input{name: "gpu.csv",
			text: "index, memory.used [MiB], memory.total [MiB]\n0, 140000 MiB, 143771 MiB\n"}, "other_process"},
		{"on a GPU of just this size", input{name: "gpu.csv", text: "index, memory.used [MiB], memory.total [MiB]\n0, 81000 " +
			"MiB, 81559 MiB\n"}, "true_shortage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := judged(t, input{name: "s", snapshot: s}, test.evidence).Devices[0]
			if got := d.OOMs[len(d.OOMs)-1].Verdict; got != test.want {
				t.Errorf("verdict %s, want %s", got, test.want)
			}
		})
	}
}
