package html_test

import (
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// sample is a small document in which everything that a page can show is there.
func sample() *report.Document {
	gib := func(n float64) int64 { return int64(n * (1 << 30)) }
	train := report.Site{Function: "training_step", File: "/app/train.py", Line: new(27), Op: "aten::mm", Category: new("logits"),
		CalledFrom: &report.Place{Function: "main", File: "/app/main.py", Line: new(3)}, Bytes: gib(6), Blocks: 2, Largest: gib(4), Known: true}
	old := report.Site{Category: new("weights"), Bytes: gib(2), Blocks: 1, Largest: gib(2), Older: true}
	bare := train
	bare.Category, bare.Bytes, bare.Blocks = nil, 0, 0
	d := report.Device{CapacityBytes: new(gib(10)), CapacitySource: new("flag"), Events: 8, Allocations: 3, Older: 1, History: "late",
		HistoryReason: "one block was allocated before the first event", Stacks: "all", Actions: []report.KeyCount{{Key: "alloc", Count: 2}},
		FirstTime: new(int64(1_700_000_000_000_000)), LastTime: new(int64(1_700_000_000_750_000)),
		Peaks: report.Peaks{Requested: report.Peak{Bytes: gib(8), Event: new(3)}, Allocated: report.Peak{Bytes: gib(8), Event: new(3)},
			Active: report.Peak{Bytes: gib(8), Event: new(3)}, Reserved: report.Peak{Bytes: gib(9), Event: new(3)}},
		AtPeak: report.Moment{Event: new(3), AllocatedBytes: gib(8), ReservedBytes: gib(9), CacheBytes: gib(1), Blocks: 3, Categories: map[string]int64{"weights": gib(2), "logits": gib(6)},
			CUDAContext: new(gib(0.5)), OtherProcesses: new(gib(0.25)), Unaccounted: new(int64(0))},
		AtEnd: report.Moment{Event: new(7), AllocatedBytes: gib(6), ReservedBytes: gib(9), CacheBytes: gib(3), Blocks: 2, Categories: map[string]int64{"weights": gib(2), "logits": gib(4)}},
		AtFailure: &report.Moment{Event: new(5), AllocatedBytes: gib(7), ReservedBytes: gib(9), CacheBytes: gib(2), Blocks: 2,
			Categories: map[string]int64{"weights": gib(2), "logits": gib(5)}, CUDAContext: new(gib(0.5)), OtherProcesses: new(gib(0.25)), Unaccounted: new(int64(0))},
		Sites: []report.Site{train, old}, SitesAtEnd: []report.Site{train, old},
		Segments: report.SegmentsSummary{Count: 2, Bytes: gib(9), FreeBytes: gib(3), LargestFree: gib(2), Empty: 1, EmptyBytes: gib(1), PinnedSegments: 1, PinnedFreeBytes: gib(2)},
		Pools:    []report.PoolSummary{{Pool: "(1, 0)", Kind: "cuda_graph", Segments: 1, Bytes: gib(1), Used: gib(0.5)}},
		Steps: []report.Step{{Step: 0, LastEvent: 3, Phases: []report.Phase{{Phase: "forward", LastEvent: 3}}},
			{Step: 1, FirstEvent: 4, LastEvent: 7, Phases: []report.Phase{{Phase: "backward", FirstEvent: 4, LastEvent: 7}}}},
		OOMs: []report.OOM{{Event: 5, RequestedBytes: gib(4), Verdict: "fragmentation", AllocatedBytes: gib(7), ReservedBytes: gib(9), DeviceFreeBytes: new(gib(0.5)),
			LargestFreeBlock: new(gib(1)), Site: &train, PinnedBy: []report.Pin{{Address: 4096, Bytes: 512, Function: new("keep"), File: new("/app/keep.py"), Line: new(5)}}}},
		Leaks: []report.Leak{{Kind: "growing_list", Defect: true, File: new("/app/train.py"), Line: new(30), Function: new("log"), BytesPerStep: new(gib(0.25)), Steps: 3,
			TotalBytes: gib(1), Confidence: 0.95, Fix: "append a number", FullAtStep: new(12), Category: new("logits"), Sites: []report.LeakSite{{File: "/app/train.py", Line: new(30), Function: "log", Bytes: gib(1)}}}},
		Findings: []report.Finding{{ID: "oom_fragmentation", Severity: report.Critical, Title: "A request failed", Evidence: []string{"4 GiB asked for"}, Fix: new("use expandable segments"),
			SavesBytes: new(gib(1)), Confidence: 0.5, Code: "import os\nos.environ[\"A\"] = \"<b>\""}},
		Damage: []string{"one event is odd"},
	}
	d.Curve = report.Curve{Events: []int{0, 3, 7}, Allocated: []int64{gib(2), gib(8), gib(6)}, Reserved: []int64{gib(2), gib(9), gib(9)},
		Requested: []int64{gib(2), gib(8), gib(6)}, Active: []int64{gib(2), gib(8), gib(6)},
		TimeUS: []int64{1_700_000_000_000_000, 1_700_000_000_300_000, 1_700_000_000_750_000}}
	d.Pictures = &report.Pictures{Events: 8, TimeUS: []int64{1_700_000_000_000_000, 1_700_000_000_750_000}, TimeEvery: 7,
		Bands: report.Bands{Older: 1, Born: []uint32{0, 0, 2}, Freed: []uint32{report.NotFreed, 6, report.NotFreed}, Bytes: []int64{gib(2), gib(2), gib(4)},
			Kind: []uint16{0, 1, 1}, Stack: []uint32{0, 1, 1},
			Completed: []uint32{report.NotFreed, 7, report.NotFreed}, Address: []uint64{1 << 20, 1<<20 + 2<<30, 1<<20 + 4<<30}, Requested: []int64{gib(2), gib(2) - 100, gib(4)},
			Stream: []uint32{0, 0, 0}, Pool: []uint32{0, 0, 0}, FreeStack: []uint32{0, 1, 0}},
		Kinds: []report.Kind{{Category: 0, Signal: "life", Confidence: 80, Phase: "setup"}, {Category: 1, Detail: "logits_copy", Signal: "size", Confidence: 99, Phase: "forward"}},
		// The order of pictures: what lives longest first.
		Categories: []string{"weights", "logits"}, Sites: []report.Site{bare}, Stacks: []report.Stack{{Site: -1}, {Site: 0, Node: 2}},
		Frames: []report.Frame{{Function: "main", File: "/app/main.py", Line: 3}, {Function: "at::_ops::mm::call", Fold: true}},
		Nodes:  []report.StackNode{{Frame: -1, Parent: -1}, {Frame: 0, Parent: 0}, {Frame: 1, Parent: 1}},
		Curve: report.CategoryCurve{Events: []int{-1, 0, 2, 6, 7}, Bytes: [][]int64{{gib(2), gib(2), gib(2), gib(2), gib(2)}, {0, gib(2), gib(6), gib(4), gib(4)}},
			Reserved: []int64{gib(2), gib(4), gib(9), gib(9), gib(9)}},
		Spans:    []report.Span{{Name: "## forward ##", FirstEvent: 0, LastEvent: 3}},
		Segments: []report.Segment{{Address: 1 << 20, Bytes: gib(8)}, {Address: 1 << 40, Bytes: gib(1), Pool: 1}}, Pools: []string{"", "(0, 1)"}, Streams: []string{"0"},
		Actions: []string{"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"},
		Others:  []report.Event{{Event: 1, Action: 3, Address: 1 << 40, Bytes: gib(1), Pool: 1, Band: -1}, {Event: 5, Action: 7, Bytes: gib(4), Stack: 1, Band: -1}},
		Growth:  &report.Growth{Steps: []int{0, 1}, Sites: []int{0, -1}, Bytes: [][]int64{{gib(6), gib(4)}, {0, 0}}},
	}
	ev := evidence.New()
	ev.GPUs = []evidence.GPU{{GPU: 0, Name: new("H100"), Source: 1, Samples: 5, TotalBytes: new(gib(80)), PeakUsedBytes: new(gib(70)), FirstTime: new(evidence.LocalStamp(1767225600e9)),
		LastTime: new(evidence.LocalStamp(1767225660e9)), Processes: []evidence.Process{{PID: 7, Name: new("python"), PeakUsedBytes: new(gib(9))}}}}
	ev.OOMMessages = []evidence.OOMMessage{{Source: 1, Line: 40, RequestedBytes: new(gib(4)), UserFile: new("/app/train.py"), UserLine: new(27)}}
	ev.MemorySummaries = []evidence.MemorySummary{{Source: 1, Line: 50, Device: new(0), AllocatedBytes: new(gib(1))}}
	ev.Steps = []*evidence.Steps{{Source: 1, Count: 10, First: new(int64(0)), Last: new(int64(9)), MedianStepSeconds: new(0.5)}}
	ev.Traces = []evidence.Trace{{Source: 1, MemoryEvents: 12}}
	return &report.Document{Schema: report.Schema, Title: "A run", Notes: []report.Note{{Key: "PyTorch", Value: "2.15"}}, Tool: "vramscope test",
		Inputs: []report.Input{{Path: "oom.pickle", Kind: "snapshot", Bytes: 1234, SHA256: "abcd", Era: new(">=2.15"), Damage: []string{"a stray byte"},
			Settings: []report.KeyValue{{Key: "expandable_segments", Value: "false"}}, Unknown: []report.Unknown{{Where: "event", Key: "new", Count: 3, Example: "1"}}},
			{Path: "train.log", Kind: "training_log", Bytes: 99, SHA256: "ef01"}},
		Verdict: report.Verdict{Severity: report.Critical, Text: "Out of memory: 4.00 GiB asked for", Fix: new("use expandable segments"), SavesBytes: new(gib(1))},
		Command: []string{"vramscope", "analyze", "oom.pickle", "--title", "A run"},
		Comparison: &report.Comparison{Model: "llama, 8 parameters", Inferred: []string{"batch 4"}, Peak: report.Compared{Name: "peak", Budget: gib(6), Measured: new(gib(8))},
			Phases:     []report.Compared{{Name: "first_optimizer_step", Budget: gib(5), Reason: new("never reached")}},
			Categories: []report.Compared{{Name: "logits", Budget: gib(4), Measured: new(gib(6)), Reason: new("two copies in float32")}}},
		Findings: []report.Finding{{ID: "shared_memory_spill", Severity: report.Warning, Title: "2.00 GiB more than the GPU has", Evidence: []string{"train.log reports 12 GiB"},
			Fix: new("hold less"), SavesBytes: new(gib(2)), Confidence: 0.8}},
		Clocks: []report.Clock{{Source: 1, What: "nvidia_smi", GPU: new(0), Device: new(0), Method: new("timestamps"), OffsetSeconds: new(-28800.0), Confidence: new(0.97),
			OutsideBytes: new(gib(0.5)), Reason: "by time stamps", Track: []report.Instant{{MicrosUTC: 1_700_000_000_100_000, Bytes: gib(5)}, {MicrosUTC: 1_700_000_000_600_000, Bytes: gib(9.5)}}}},
		Devices: []report.Device{d}, Evidence: ev, Host: &report.HostMemory{Segments: 1, Bytes: gib(1), Used: gib(0.5), Events: 4, PeakBytes: gib(0.5)}}
}

// unclassified is the sample where nobody knows what memory is for.
func unclassified() *report.Document {
	doc := sample()
	d := &doc.Devices[0]
	d.AtPeak.Categories, d.AtEnd.Categories = nil, nil
	for i := range d.Sites {
		d.Sites[i].Category = nil
	}
	d.Pictures.Categories = []string{""}
	d.Pictures.Kinds = []report.Kind{{}, {}}
	d.Pictures.Curve.Bytes = d.Pictures.Curve.Bytes[1:]
	return doc
}

// blockless is a recording whose events make and free nothing.
func blockless() *report.Document {
	doc := sample()
	d := report.Device{Events: 2, History: "complete", Stacks: "none"}
	d.Pictures = &report.Pictures{Events: 2, TimeEvery: 1, Curve: report.CategoryCurve{Events: []int{-1, 0, 1}, Reserved: []int64{0, 0, 0}}}
	doc.Devices = []report.Device{d}
	return doc
}
