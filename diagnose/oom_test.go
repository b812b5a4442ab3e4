package diagnose

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// failing is a device whose requests fail, told event by event: one segment, the blocks in it,
// and what the driver has left.
type failing struct {
	events []recorder.Event
	blocks []recorder.Block
	left   any // bytes, nil: not recorded
	asked  []int64
}

func (d *failing) event(action string, address uint64, bytes int64) {
	d.events = append(d.events, recorder.Event{Action: action, Address: address, Size: bytes, Stream: uint64(7),
		TimeUS: int64(len(d.events)), DeviceFree: d.left})
}

// block adds one behind the last: "active_allocated", "active_pending_free" or "inactive".
func (d *failing) block(bytes int64, state string) *failing {
	address := uint64(1 << 40)
	for _, b := range d.blocks {
		address += uint64(b.Size.(int64))
	}
	d.blocks = append(d.blocks, recorder.Block{Address: address, Size: bytes, Requested: bytes, State: state})
	return d
}

// fails records requests that found no room, with what the driver has left now.
func (d *failing) fails(left any, asked ...int64) *failing {
	d.left, d.asked = left, asked
	return d
}

// judge is the device as a report has it, on a GPU of some size, 0: not said.
func (d *failing) judge(t *testing.T, gpu int64) *report.Device {
	t.Helper()
	segment := recorder.Segment{Address: uint64(1 << 40), Stream: 7, Blocks: d.blocks}
	total := int64(0)
	for _, b := range d.blocks {
		total += b.Size.(int64)
	}
	segment.Total = total
	d.event("segment_alloc", 1<<40, total)
	for _, b := range d.blocks {
		d.event("alloc", b.Address.(uint64), b.Size.(int64))
	}
	for _, b := range d.blocks {
		bytes := b.Size.(int64)
		if b.State == "active_allocated" {
			segment.Allocated += bytes
		} else {
			d.event("free_requested", b.Address.(uint64), bytes)
		}
		if b.State == "inactive" {
			d.event("free_completed", b.Address.(uint64), bytes)
		} else {
			segment.Active, segment.Requested = segment.Active+bytes, segment.Requested+bytes
		}
	}
	for _, bytes := range d.asked {
		d.event("oom", 0, bytes)
	}
	r := recorder.Recording{Traces: [][]recorder.Event{d.events}, Segments: []recorder.Segment{segment}}
	s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run([]Source{{Path: "s", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{Capacity: gpu})
	if err != nil {
		t.Fatal(err)
	}
	return &doc.Devices[0]
}

// TestVerdictsOfRecordings: each verdict by the smallest recording that leads to it, at the byte
// from which on it holds and at the one before. PyTorch rounds requests to 512 bytes.
func TestVerdictsOfRecordings(t *testing.T) {
	const (
		gib     = int64(1) << 30
		mib     = int64(1) << 20
		live    = "active_allocated"
		waiting = "active_pending_free"
		cached  = "inactive"
	)
	full := func() *failing { return new(failing).block(8*gib, live) }
	half := func() *failing { return new(failing).block(4*gib, live).block(4*gib, waiting) }
	pieces := func() *failing {
		return new(failing).block(3*gib, cached).block(2*gib, live).block(3*gib, cached).block(2*gib, live)
	}
	for _, test := range []struct {
		name    string
		device  *failing
		gpu     int64
		verdict string
		missing int64 // -1: not known
	}{
		{"a little more than is free", full().fails(gib, gib+512), 0, report.TrueShortage, 512},
		{"as much as is free, to a process that may not have it", full().fails(gib, gib), 0, report.MemoryFraction, 0},
		{"as much as is free, but for the segment that it takes", full().fails(gib+mib, gib+512), 0, report.TrueShortage, 0},
		{"nothing free", full().fails(int64(0), gib), 0, report.TrueShortage, gib},
		{"what is freed later would do", half().fails(int64(0), 4*gib), 0, report.PendingFree, 4 * gib},
		{"what is freed later wouldn't", half().fails(int64(0), 4*gib+512), 0, report.TrueShortage, 4*gib + 512},
		{"what is freed later would do, but so would others", half().fails(int64(0), 4*gib), 14 * gib, report.OtherProcess,
			4 * gib},
		{"others have a little less than is missing", half().fails(int64(0), 4*gib), 14*gib - 512, report.PendingFree, 4 * gib},
		{"others have what is missing", full().fails(gib, 10*gib), 20 * gib, report.OtherProcess, 9 * gib},
		{"others have a little less", full().fails(gib, 10*gib+512), 20 * gib, report.TrueShortage, 9*gib + 512},
		{"no more than a context beside it", full().fails(gib, gib+512), 11 * gib, report.TrueShortage, 512},
		{"a smaller GPU than the recording shows", full().fails(gib, gib+512), 8 * gib, report.TrueShortage, 512},
		{"in pieces", pieces().fails(int64(0), 4*gib), 0, report.Fragmentation, 0},
		{"in pieces, with a twentieth left", pieces().fails(int64(0), 5*gib+gib/2), 0, report.Fragmentation, 0},
		{"in pieces, with a little less left", pieces().fails(int64(0), 5*gib+gib/2+512), 0, report.TrueShortage, 0},
		{"more than all pieces", pieces().fails(int64(0), 6*gib+512), 0, report.TrueShortage, 512},
		{"nobody says what was free, or how large the GPU is", full().fails(nil, gib), 0, report.UnknownVerdict, -1},
		{"nobody says what was free of a GPU that was full", full().fails(nil, 4*gib+512), 12 * gib, report.TrueShortage, 512},
		{"nobody says what was free of pieces", pieces().fails(nil, 4*gib), 10 * gib, report.Fragmentation, 0},
	} {
		o := test.device.judge(t, test.gpu).OOMs
		if len(o) != 1 || o[0].Verdict != test.verdict || evidence.Or(o[0].MissingBytes, -1) != test.missing {
			t.Errorf("%s: %+v, want %s, %d missing", test.name, o, test.verdict, test.missing)
			continue
		}
		if pinned := len(o[0].PinnedBy) > 0; pinned != (test.verdict == report.Fragmentation) {
			t.Errorf("%s: pinned by %+v", test.name, o[0].PinnedBy)
		}
	}
}

// TestFailuresOfOneRecording are judged each by its own moment.
func TestFailuresOfOneRecording(t *testing.T) {
	const gib = int64(1) << 30
	d := new(failing).block(4*gib, "active_allocated").block(4*gib, "active_pending_free").fails(gib, gib, 4*gib, 9*gib, gib+512)
	dev := d.judge(t, 0)
	var verdicts []string
	var missing []int64
	for _, o := range dev.OOMs {
		verdicts, missing = append(verdicts, o.Verdict), append(missing, *o.MissingBytes)
	}
	if want := []string{report.MemoryFraction, report.PendingFree, report.TrueShortage,
		report.PendingFree}; !slices.Equal(verdicts,
		want) {
		t.Errorf("%s, want %s", verdicts, want)
	}
	if want := []int64{0, 3 * gib, 8 * gib, 512}; !slices.Equal(missing, want) {
		t.Errorf("%d missing, want %d", missing, want)
	}
	told := map[string]int{}
	for _, f := range dev.Findings {
		told[f.ID]++
	}
	if told["oom_memory_fraction"] != 1 || told["oom_pending_free"] != 1 || told["oom_true_shortage"] != 1 {
		t.Errorf("told %v", told)
	}
}

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
