package diagnose

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// program is a simulated process: where its clock stands against others', and
// what makes its recording its own.
type program struct {
	recorder.Program
	shift    int64 // microseconds
	device   int   // its only device's ordinal
	timeless bool
	said     string // an annotation
	ring     int    // events that its ring buffer has dropped
}

// dump is the program's recording as a source.
func (p program) dump(t testing.TB, path string) Source {
	t.Helper()
	p.Depth = max(p.Depth, 2)
	if p.Capacity == 0 {
		p.Capacity = 4 << 30
	}
	run := recorder.Simulate(p.Program)
	r := &run.Recording
	for _, events := range r.Traces {
		for i := range events {
			at, ok := events[i].TimeUS.(int64)
			switch {
			case p.timeless:
				events[i].TimeUS = nil
			case ok:
				// A process's events drift against another's by more than a clock's error.
				events[i].TimeUS = at + p.shift + int64(i)*(p.shift%7)
			}
		}
	}
	r.Traces[0] = r.Traces[0][p.ring:]
	for i := range r.Annotations {
		r.Annotations[i].TimeUS += p.shift
		if p.said != "" {
			r.Annotations[i].Name = p.said
		}
	}
	if p.device > 0 {
		for i := range r.Segments {
			r.Segments[i].Device = p.device
		}
		r.Traces = append(make([][]recorder.Event, p.device), r.Traces...)
	}
	file := r.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
	return Source{Path: path, Kind: "snapshot", Open: func() (*snapshot.Snapshot, error) {
		return snapshot.Decode(bytes.NewReader(file), snapshot.Options{})
	}}
}

func ofJob(t testing.TB, o Options, sources ...Source) *report.Document {
	t.Helper()
	doc, err := Run(sources, evidence.New(), o)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// ranksOf are the ranks of a document's devices, -1 for none.
func ranksOf(doc *report.Document) []int {
	var out []int
	for i := range doc.Devices {
		if r := doc.Devices[i].Rank; r != nil {
			out = append(out, *r)
		} else {
			out = append(out, -1)
		}
	}
	return out
}

func short(seed uint64, shift int64) program {
	return program{Program: recorder.Program{Seed: seed, Events: 300}, shift: shift}
}

// TestRanksAreTold: by names, by contents, and not at all when they may be
// something else.
func TestRanksAreTold(t *testing.T) {
	on := func(device int, p program) program { p.device = device; return p }
	say := func(text string, p program) program { p.said = text; return p }
	timeless := func(p program) program { p.timeless = true; return p }
	hour := int64(3600e6)
	for _, x := range []struct {
		name  string
		files map[string]program
		want  []int
	}{
		{"one file named rank3", map[string]program{"rank3.pickle": short(1, 0)}, []int{3}},
		{"torchtitan's folders", map[string]program{"iteration_10/rank0_memory_snapshot.pickle": short(1, 0), "iteration_10/rank1_memory_snapshot.pickle": short(1, 3)}, []int{0, 1}},
		{"rank10 comes after rank9", map[string]program{"rank10.pickle": short(1, 0), "rank9.pickle": short(1, 3)}, []int{9, 10}},
		{"a matrix's rank", map[string]program{"lora_rank16.pickle": short(1, 0), "lora_rank8.pickle": short(2, 3)}, []int{-1, -1}},
		{"lora on two ranks", map[string]program{"lora_rank0.pickle": short(1, 0), "lora_rank1.pickle": short(1, 3)}, []int{0, 1}},
		{"a model called r1", map[string]program{"deepseek-r1.pickle": short(1, 0)}, []int{-1}},
		{"r0 and r1", map[string]program{"snap_r0.pickle": short(1, 0), "snap_r1.pickle": short(1, 3)}, []int{0, 1}},
		{"gpu0 and gpu1 of one machine", map[string]program{"gpu0.pickle": short(1, 0), "gpu1.pickle": short(1, 3)}, []int{0, 1}},
		{"gpu1 alone", map[string]program{"gpu1.pickle": short(1, 0)}, []int{-1}},
		{"two machines of two", map[string]program{"node0_gpu0.pickle": short(1, 0), "node0_gpu1.pickle": short(1, 3), "node1_gpu0.pickle": short(1, 5), "node1_gpu1.pickle": short(1, 6)}, []int{0, 1, 2, 3}},
		{"the second machine alone", map[string]program{"node1_gpu0.pickle": short(1, 0), "node1_gpu1.pickle": short(1, 3)}, []int{-1, -1}},
		{"a tensor-parallel rank", map[string]program{"tp_rank_0.pickle": short(1, 0), "tp_rank_2.pickle": short(1, 3)}, []int{-1, -1}},
		{"side by side", map[string]program{"mem_0.pickle": short(1, 0), "mem_1.pickle": short(2, 3), "mem_2.pickle": short(3, 5)}, []int{0, 1, 2}},
		{"side by side, in step", map[string]program{"mem_0.pickle": short(1, 0), "mem_1.pickle": short(1, 12)}, []int{0, 1}},
		{"too few events to tell", map[string]program{"mem_0.pickle": grown(3, 0, 0), "mem_1.pickle": grown(12, 0, 0)}, []int{-1, -1}},
		{"one after the other", map[string]program{"mem_0.pickle": short(1, 0), "mem_1.pickle": short(2, hour)}, []int{-1, -1}},
		{"numbers that are no ranks", map[string]program{"ctx_128.pickle": short(1, 0), "ctx_256.pickle": short(2, 3)}, []int{-1, -1}},
		{"without a clock", map[string]program{"mem_0.pickle": timeless(short(1, 0)), "mem_1.pickle": timeless(short(2, 0))}, []int{-1, -1}},
		{"a device each", map[string]program{"a.pickle": on(1, short(1, 0)), "a (1).pickle": on(0, short(2, 3))}, []int{-1, -1}},
		{"a device each, of one name and time", map[string]program{"h17_Jun_10_12_34_56.pickle": on(1, short(1, 0)), "h17_Jun_10_12_34_57.pickle": on(0, short(2, 3))}, []int{0, 1}},
		{"a device each, numbered", map[string]program{"mem_1.pickle": on(1, timeless(short(1, 0))), "mem_0.pickle": on(0, timeless(short(2, 0)))}, []int{0, 1}},
		{"said by annotations", map[string]program{"b.pickle": say("rank 0: train", short(1, 0)), "c.pickle": say("rank 7: train", short(2, 3))}, []int{0, 7}},
		{"other ranks than the process's", map[string]program{"b.pickle": say("local_rank 1", short(1, 0)), "c.pickle": say("lora rank 16", short(2, 3))}, []int{-1, -1}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var sources []Source
			for _, path := range slices.Sorted(keys(x.files)) {
				sources = append(sources, x.files[path].dump(t, path))
			}
			if got := ranksOf(ofJob(t, Options{}, sources...)); !slices.Equal(got, x.want) {
				t.Errorf("ranks %v, want %v", got, x.want)
			}
		})
	}
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// grown is a program after so many events, with those from ring on in its ring
// buffer.
func grown(events, ring int, shift int64) program {
	return program{Program: recorder.Program{Seed: 5, Events: events}, shift: shift, ring: ring}
}

// TestDumpsOfOneProcess: the latest is the main one, the others a trend.
func TestDumpsOfOneProcess(t *testing.T) {
	for _, x := range []struct {
		name   string
		files  []string
		dumps  []program
		main   string
		trend  []string
		shared []int // -1: not known
	}{
		{"periodic, of one rank", []string{"iteration_10/rank0.pickle", "iteration_100/rank0.pickle", "iteration_20/rank0.pickle"},
			[]program{grown(600, 0, 0), grown(1800, 0, 0), grown(1200, 0, 0)}, "iteration_100/rank0.pickle",
			[]string{"iteration_10/rank0.pickle", "iteration_20/rank0.pickle", "iteration_100/rank0.pickle"}, []int{-1, 600, 1200}},
		{"a ring that overlaps", []string{"b.pickle", "a.pickle"}, []program{grown(1200, 300, 0), grown(1600, 700, 0)}, "a.pickle", []string{"b.pickle", "a.pickle"}, []int{-1, 500}},
		{"rings with a gap, of one rank", []string{"rank2_step1.pickle", "rank2_step2.pickle"}, []program{grown(900, 300, 0), grown(1900, 1300, 0)}, "rank2_step2.pickle",
			[]string{"rank2_step1.pickle", "rank2_step2.pickle"}, []int{-1, 0}},
		{"by name where there is no clock", []string{"rank0_step9.pickle", "rank0_step10.pickle"},
			[]program{{Program: recorder.Program{Seed: 5, Events: 300}, timeless: true}, {Program: recorder.Program{Seed: 5, Events: 600}, timeless: true}}, "rank0_step10.pickle",
			[]string{"rank0_step9.pickle", "rank0_step10.pickle"}, []int{-1, -1}},
		{"the failure's dump is the last", []string{"rank0_oom.pickle", "rank0_memory.pickle"}, []program{grown(1300, 0, 0), grown(900, 0, 0)}, "rank0_oom.pickle",
			[]string{"rank0_memory.pickle", "rank0_oom.pickle"}, []int{-1, 900}},
		{"few events, of one process by the names", []string{"pid9388-0-oom.pickle", "pid9388-1-exit.pickle"}, []program{grown(3, 0, 0), grown(12, 0, 0)}, "pid9388-1-exit.pickle",
			[]string{"pid9388-0-oom.pickle", "pid9388-1-exit.pickle"}, []int{-1, 3}},
		{"runs of one program, one after the other", []string{"bs_1.pickle", "bs_2.pickle"}, []program{grown(600, 0, 0), grown(600, 0, 9e9)}, "", nil, nil},
		{"runs of one program, in numbered steps", []string{"step_1.pickle", "step_2.pickle"}, []program{grown(600, 0, 0), grown(600, 0, 9e9)}, "", nil, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			var sources []Source
			for i, path := range x.files {
				sources = append(sources, x.dumps[i].dump(t, path))
			}
			doc := ofJob(t, Options{}, sources...)
			if x.main == "" {
				if len(doc.Devices) != len(x.files) || len(doc.Trend) > 0 {
					t.Fatalf("%d devices, trends %+v", len(doc.Devices), doc.Trend)
				}
				return
			}
			if len(doc.Devices) != 1 || len(doc.Trend) != 1 || doc.Inputs[doc.Devices[0].Input].Path != x.main {
				t.Fatalf("%d devices, %d trends, main %s", len(doc.Devices), len(doc.Trend), doc.Inputs[doc.Devices[0].Input].Path)
			}
			for i, d := range doc.Trend[0].Dumps {
				shared := -1
				if d.Shared != nil {
					shared = *d.Shared
				}
				// The simulated allocator does an act at a time, so a dump may be an event or two later.
				if doc.Inputs[d.Input].Path != x.trend[i] || max(shared-x.shared[i], x.shared[i]-shared) > 3 {
					t.Errorf("dump %d is %s with %d events seen before, want %s with %d", i, doc.Inputs[d.Input].Path, shared, x.trend[i], x.shared[i])
				}
			}
		})
	}
}

// TestJobOfRanks: what is alike is shown once, what isn't is explained.
func TestJobOfRanks(t *testing.T) {
	var sources []Source
	for rank := range 12 {
		p := program{Program: recorder.Program{Seed: 3, Events: 900}, shift: int64(rank) * 7}
		if rank == 7 {
			p.Seed, p.Events, p.Capacity = 4, 1400, 16<<30
		}
		sources = append(sources, p.dump(t, fmt.Sprintf("rank%d.pickle", rank)))
	}
	doc := ofJob(t, Options{Pictures: true}, sources...)
	r := doc.Ranks
	if r == nil || !r.Sure || len(doc.Devices) != 12 || len(r.Groups) != 2 {
		t.Fatalf("ranks %+v", r)
	}
	if i := r.Imbalance; i == nil || *r.Rows[i.Highest].Rank != 7 || i.Bytes != r.Rows[i.Highest].PeakAllocated-r.Rows[i.Usual].PeakAllocated {
		t.Errorf("imbalance %+v", i)
	}
	var more int64
	for _, c := range r.Imbalance.Categories {
		more += c.More
	}
	if more != r.Imbalance.Bytes {
		t.Errorf("categories explain %d of %d bytes", more, r.Imbalance.Bytes)
	}
	if !slices.ContainsFunc(doc.Devices[7].Findings, func(f report.Finding) bool { return f.ID == "rank_imbalance" && *f.SavesBytes == r.Imbalance.Bytes }) {
		t.Error("no finding on the fullest rank")
	}
	if !strings.HasPrefix(doc.Verdict.Text, "Rank 7, the fullest of 12: ") {
		t.Errorf("verdict %q", doc.Verdict.Text)
	}
	if !slices.Equal(r.Shown, []int{7, r.Rows[r.Imbalance.Usual].Index}) && len(r.Shown) != 2 {
		t.Errorf("shown %v", r.Shown)
	}
	for i := range doc.Devices {
		d := &doc.Devices[i]
		if full := slices.Contains(r.Shown, i); full != (d.Pictures != nil) || full == d.Summary {
			t.Errorf("device of rank %d: shown %v, pictures %v, in short %v", *d.Rank, full, d.Pictures != nil, d.Summary)
		}
		if alike := d.Alike != nil; alike != (i != 7 && i != r.Rows[r.Groups[1].Shown].Index) {
			t.Errorf("rank %d alike another: %v", i, alike)
		}
	}
}

// TestOneSnapshotAtATime: however many there are, only one is decoded at any time,
// and those that are shown are decoded once more.
func TestOneSnapshotAtATime(t *testing.T) {
	opened := 0
	var sources []Source
	for rank := range 20 {
		s := short(uint64(rank/10+1), int64(rank)).dump(t, fmt.Sprintf("rank%d.pickle", rank))
		open := s.Open
		s.Open = func() (*snapshot.Snapshot, error) { opened++; return open() }
		sources = append(sources, s)
	}
	doc := ofJob(t, Options{}, sources...)
	if want := 20 + len(doc.Ranks.Shown); opened != want {
		t.Errorf("%d times, want %d", opened, want)
	}
	opened = 0
	ofJob(t, Options{Pictures: true}, sources[3])
	if opened != 1 {
		t.Errorf("a single recording was decoded %d times", opened)
	}
}

// TestFirstToFail: the rank whose request failed before the others'.
func TestFirstToFail(t *testing.T) {
	fail := func(rank int, after int64) Source {
		p := program{Program: recorder.Program{Seed: 11, Events: 4000, Capacity: 1 << 30}, shift: after}
		return p.dump(t, fmt.Sprintf("rank%d.pickle", rank))
	}
	doc := ofJob(t, Options{}, fail(0, 5e6), fail(1, 1e6), fail(2, 9e6))
	f := doc.Ranks.FirstOOM
	if f == nil || *doc.Ranks.Rows[f.Row].Rank != 1 || f.Failed != 3 || f.NextUS < 3e6 || f.NextUS > 5e6 {
		t.Fatalf("first %+v", f)
	}
	if !strings.HasPrefix(doc.Verdict.Text, "Rank 1, the first of 3 ranks to fail: Out of memory") {
		t.Error(doc.Verdict.Text)
	}
}

// TestFailureBeforeALaterDump: an attempt of rank 1 failed, the next one didn't.
func TestFailureBeforeALaterDump(t *testing.T) {
	failed := program{Program: recorder.Program{Seed: 11, Events: 4000, Capacity: 1 << 30}}
	doc := ofJob(t, Options{}, short(5, 0).dump(t, "iteration_2/rank0.pickle"), failed.dump(t, "iteration_2/rank1.pickle"),
		short(5, 9e9).dump(t, "iteration_4/rank0.pickle"), short(6, 9e9).dump(t, "iteration_4/rank1.pickle"))
	var shown []string
	for i := range doc.Devices {
		shown = append(shown, doc.Inputs[doc.Devices[i].Input].Path)
	}
	if want := []string{"iteration_4/rank0.pickle", "iteration_2/rank1.pickle"}; !slices.Equal(shown, want) {
		t.Errorf("%q are shown, want %q", shown, want)
	}
	v := doc.Verdict.Text
	if !strings.HasPrefix(v, "Rank 1, the only one of 2 to fail: Out of memory") || !strings.HasSuffix(v, "; the later iteration_4/rank1.pickle holds no failure") {
		t.Error(v)
	}
}

// TestPeakBeforeALaterDump: the ring buffer of the last dump has lost the peak.
func TestPeakBeforeALaterDump(t *testing.T) {
	all, late := grown(2000, 0, 0), grown(2200, 1900, 0)
	doc := ofJob(t, Options{}, all.dump(t, "step_1.pickle"), late.dump(t, "step_2.pickle"))
	peak := doc.Trend[0].Dumps[0].PeakAllocated
	if len(doc.Devices) != 1 || doc.Devices[0].Peaks.Allocated.Bytes >= peak {
		t.Fatalf("%d devices, the first dump peaked at %d", len(doc.Devices), peak)
	}
	if want := "; in step_1.pickle it had peaked at " + units.Bytes(peak) + " allocated"; !strings.HasSuffix(doc.Verdict.Text, want) {
		t.Errorf("%q, want its end %q", doc.Verdict.Text, want)
	}
}

// TestOthersOnOnesGPU: ranks that left a part of their memory on device 0.
func TestOthersOnOnesGPU(t *testing.T) {
	var sources []Source
	for rank := range 3 {
		run := recorder.Simulate(recorder.Program{Seed: uint64(rank + 1), Events: 600, Depth: 2, Capacity: 4 << 30})
		little := recorder.Simulate(recorder.Program{Seed: 9, Events: 20, Depth: 2, Capacity: 1 << 28})
		r := run.Recording
		traces := make([][]recorder.Event, rank+1)
		traces[rank] = r.Traces[0]
		for i := range r.Segments {
			r.Segments[i].Device = rank
		}
		if rank > 0 {
			traces[0] = little.Recording.Traces[0]
			r.Segments = append(slices.Clone(little.Recording.Segments), r.Segments...)
		}
		r.Traces = traces
		file := r.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
		sources = append(sources, Source{Path: fmt.Sprintf("rank%d.pickle", rank), Kind: "snapshot", Open: func() (*snapshot.Snapshot, error) {
			return snapshot.Decode(bytes.NewReader(file), snapshot.Options{})
		}})
	}
	doc := ofJob(t, Options{}, sources...)
	m := doc.Ranks.Imbalance
	if m == nil || len(m.Elsewhere) != 1 || m.Elsewhere[0].Owner != 0 || !slices.Equal(m.Elsewhere[0].Ranks, []int{1, 2}) {
		t.Fatalf("imbalance %+v", m)
	}
	if !slices.ContainsFunc(doc.Devices[0].Findings, func(f report.Finding) bool {
		return f.ID == "rank_imbalance" && strings.HasPrefix(f.Title, "Other ranks hold")
	}) {
		t.Error("no finding on rank 0's device")
	}
}

// TestBrokenRank: a rank whose file is broken costs a line, not the job.
func TestBrokenRank(t *testing.T) {
	broken := errors.New("rank1.pickle: offset 7: truncated\n  Try --partial.")
	bad := Source{Path: "rank1.pickle", Kind: "snapshot", Open: func() (*snapshot.Snapshot, error) { return nil, broken }}
	doc := ofJob(t, Options{}, short(1, 0).dump(t, "rank0.pickle"), bad, short(1, 3).dump(t, "rank2.pickle"))
	if got := doc.Inputs[1].Damage; !slices.Equal(got, []string{"rank1.pickle: offset 7: truncated"}) {
		t.Errorf("damage %q", got)
	}
	if !slices.Equal(doc.Ranks.Missing, []int{1}) {
		t.Errorf("missing %v", doc.Ranks.Missing)
	}
	if _, err := Run([]Source{short(1, 0).dump(t, "a.pickle"), bad}, evidence.New(), Options{}); !errors.Is(err, broken) {
		t.Errorf("a file that was named and is no rank of the others: %v", err)
	}
	if _, err := Run([]Source{bad}, evidence.New(), Options{}); !errors.Is(err, broken) {
		t.Errorf("alone: %v", err)
	}
}

// TestOrderOfFilesDoesNotMatter, as far as ranks tell it.
func TestOrderOfFilesDoesNotMatter(t *testing.T) {
	a, b := short(1, 0).dump(t, "rank0.pickle"), short(2, 3).dump(t, "rank1.pickle")
	later := short(2, 3)
	later.Events = 700
	c := later.dump(t, "rank1_step5.pickle")
	one, other := ofJob(t, Options{}, a, b, c), ofJob(t, Options{}, c, b, a)
	for _, doc := range []*report.Document{one, other} {
		for i := range doc.Devices {
			doc.Devices[i].Input = 0
		}
		doc.Inputs = nil
		for i := range doc.Ranks.Rows {
			doc.Ranks.Rows[i].Input = 0
		}
		for i := range doc.Trend {
			for k := range doc.Trend[i].Dumps {
				doc.Trend[i].Dumps[k].Input = 0
			}
		}
	}
	if !reflect.DeepEqual(one, other) {
		t.Error("the documents differ")
	}
}

// TestGPUOfRank: which of nvidia-smi's GPUs a rank's device is.
func TestGPUOfRank(t *testing.T) {
	on := func(device int, p program) program { p.device = device; return p }
	gpus := func(used ...int64) *evidence.Evidence {
		ev := evidence.New()
		for i, n := range used {
			ev.GPUs = append(ev.GPUs, evidence.GPU{GPU: i, PeakUsedBytes: new(n << 30), TotalBytes: new(int64(80+i) << 30), Processes: []evidence.Process{}})
		}
		return ev
	}
	for _, x := range []struct {
		name string
		path string
		p    program
		ev   *evidence.Evidence
		want int64 // the GPU's size in GiB
	}{
		{"its own number", "rank2.pickle", on(2, short(1, 0)), gpus(9, 9, 9, 9), 82},
		{"numbered anew", "rank2.pickle", short(1, 0), gpus(9, 9, 9, 9), 82},
		{"numbered anew on the second machine", "rank6.pickle", short(1, 0), gpus(9, 9, 9, 9), 82},
		{"the first of the second machine", "rank4.pickle", short(1, 0), gpus(9, 9, 9, 9), 80},
		{"by local rank", "node1_local_rank_3.pickle", short(1, 0), gpus(9, 9, 9, 9), 83},
		{"without a rank", "snapshot.pickle", short(1, 0), gpus(9, 9, 9, 9), 80},
	} {
		t.Run(x.name, func(t *testing.T) {
			doc, err := Run([]Source{x.p.dump(t, x.path)}, x.ev, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if c := doc.Devices[0].CapacityBytes; c == nil || *c>>30 != x.want {
				t.Errorf("capacity %v, want that of %d GiB", c, x.want)
			}
		})
	}
}

// TestEvidenceOfRank: a rank's own log, and what belongs to none.
func TestEvidenceOfRank(t *testing.T) {
	for _, x := range []struct {
		recording, log string
		heard          bool
	}{
		{"rank1.pickle", "rank1.log", true}, {"rank1.pickle", "rank0.log", false}, {"rank1.pickle", "train.log", true}, {"snapshot.pickle", "rank0.log", true},
		{"rank1.pickle", "attempt_0/1/stderr.log", true}, {"rank3.pickle", "attempt_0/0/stderr.log", false}, {"gpu1.pickle", "attempt_0/0/stderr.log", false},
	} {
		t.Run(x.recording+" "+x.log, func(t *testing.T) {
			ev := evidence.New()
			ev.OOMMessages = []evidence.OOMMessage{{Source: 1, CapacityBytes: new(int64(40) << 30)}}
			log := Source{Path: x.log, Kind: evidence.KindTrainingLog}
			last := Source{Path: "attempt_0/1/stdout.log", Kind: evidence.KindTrainingLog} // shows that a machine has two
			doc, err := Run([]Source{short(1, 0).dump(t, x.recording), log, last}, ev, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if heard := doc.Devices[0].CapacityBytes != nil; heard != x.heard {
				t.Errorf("heard %v, want %v", heard, x.heard)
			}
		})
	}
}

// TestMessagesOfRanks: a log of all ranks, whose launcher marks the lines.
func TestMessagesOfRanks(t *testing.T) {
	message := func(rank, capacity int) string {
		return fmt.Sprintf("[rank%d]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of %d.00 GiB of which 1.00 GiB is free. "+
			"Of the allocated memory %d.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.\n", rank, capacity, capacity-3)
	}
	_, ev, err := read.Evidence(strings.NewReader(message(2, 80)+message(1, 40)+message(1, 40)), "train.log", 2)
	if err != nil {
		t.Fatal(err)
	}
	log := Source{Path: "train.log", Kind: evidence.KindTrainingLog}
	doc, err := Run([]Source{short(1, 0).dump(t, "rank0.pickle"), short(1, 7).dump(t, "rank1.pickle"), log}, ev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []*int64{nil, new(int64(40) << 30)} {
		if got := doc.Devices[i].CapacityBytes; fmt.Sprint(got == nil) != fmt.Sprint(want == nil) || got != nil && *got != *want {
			t.Errorf("rank %d: capacity %v, want %v", i, got, want)
		}
	}
	f := found(doc, "oom_true_shortage")
	if f == nil || !strings.Contains(f.Title, "on 2 ranks") || !slices.Contains(f.Evidence, "ranks 1, 2") {
		t.Errorf("found %+v", doc.Findings)
	}
}

// TestNotOneJob: what can't be put beside each other isn't.
func TestNotOneJob(t *testing.T) {
	a, b, c := short(1, 0).dump(t, "rank0.pickle"), short(1, 7).dump(t, "rank1.pickle"), short(2, 14).dump(t, "snapshot.pickle")
	r := ofJob(t, Options{}, a, b, c).Ranks
	if !r.Sure || r.Count != 2 || len(r.Rows) != 3 || len(r.Groups) != 2 || !slices.Equal(r.Notes, []string{"1 recording of no known rank: snapshot.pickle"}) {
		t.Errorf("ranks and another: %+v", r)
	}
	hour := int64(3600e6)
	for name, later := range map[string]int64{"at the same time": 70, "one after the other": hour} {
		two := ofJob(t, Options{}, short(1, 0).dump(t, "a/rank0.pickle"), short(1, 7).dump(t, "a/rank1.pickle"),
			short(2, later).dump(t, "b/rank0.pickle"), short(2, later+7).dump(t, "b/rank1.pickle"))
		if r := two.Ranks; r.Sure || len(r.Rows) != 4 || len(r.Groups) != 4 || r.Imbalance != nil || r.FirstOOM != nil || len(two.Trend) > 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "rank 0, 1") {
			t.Errorf("two jobs %s: %+v", name, r)
		}
	}
	again := ofJob(t, Options{}, short(1, 0).dump(t, "rank0_step5.pickle"), short(2, hour).dump(t, "rank0_step9.pickle"))
	if len(again.Devices) != 1 || len(again.Trend) != 1 || !again.Trend[0].Dumps[1].NewProcess || again.Trend[0].Grows != nil {
		t.Errorf("a job that was started again: %+v", again.Trend)
	}
}

// TestCaughtFailure: what was in use is that of the failure, also where a program that caught it peaks later.
func TestCaughtFailure(t *testing.T) {
	const gib = int64(1) << 30
	doc := &report.Document{Devices: []report.Device{{
		OOMs: []report.OOM{{Event: 5, RequestedBytes: 40 * gib, AllocatedBytes: 4 * gib, ReservedBytes: 4 * gib, DeviceFreeBytes: new(10 * gib),
			Verdict: report.TrueShortage, MissingBytes: new(30 * gib), Causes: []report.Cause{{Cause: report.Temporaries, Bytes: 4 * gib}}}},
		AtPeak: report.Moment{Event: new(9), AllocatedBytes: 5 * gib, Categories: map[string]int64{"temporary": 5 * gib}},
	}}}
	for event, want := range map[int]string{
		9: "Out of memory: temporary tensors hold 4 GiB of 4 GiB in use. 40 GiB asked for, 10 GiB were free: 30 GiB short. The program caught the error and went on, up to 5 GiB in use",
		3: "Out of memory: temporary tensors hold 4 GiB of 4 GiB in use. 40 GiB asked for, 10 GiB were free: 30 GiB short",
	} {
		doc.Devices[0].AtPeak.Event = &event
		if got := oomVerdict(doc, 0).Text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
