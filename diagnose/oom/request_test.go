package oom_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// TestCause: the order in which causes are weighed, and where each begins. Missing is what is
// needed beyond what is free; negative, there is more.
func TestCause(t *testing.T) {
	for _, test := range []struct {
		name    string
		request oom.Request
		want    string
	}{
		{"larger than the GPU, whatever else", oom.Request{Needs: 101, Size: 100, Free: 200, Missing: 1, Others: 300,
			Limited:   true,
			Scattered: true}, report.TrueShortage},
		{"as large as the GPU", oom.Request{Needs: 100, Size: 100, Free: 100, Missing: 1, Others: 1, Limited: true},
			report.MemoryFraction},
		{"a GPU of unknown size", oom.Request{Needs: 101, Free: 101, Missing: 1, Others: 1, Limited: true},
			report.MemoryFraction},
		{"a limit, and the driver would have had it", oom.Request{Needs: 10, Size: 100, Free: 10, Missing: 5, Others: 50,
			Limited: true, Scattered: true}, report.MemoryFraction},
		{"a limit, and the driver wouldn't", oom.Request{Needs: 10, Size: 100, Free: 9, Missing: 1, Limited: true},
			report.TrueShortage},
		{"no limit, and the driver had it", oom.Request{Needs: 10, Size: 100, Free: 10, Cached: 9}, report.MemoryFraction},
		{"no limit, and the cache had it, too", oom.Request{Needs: 10, Size: 100, Free: 10, Cached: 10}, report.TrueShortage},
		{"others with what is missing", oom.Request{Needs: 10, Size: 100, Missing: 5, Others: 5}, report.OtherProcess},
		{"others with less", oom.Request{Needs: 10, Size: 100, Missing: 5, Others: 4}, report.TrueShortage},
		{"others with the least that counts", oom.Request{Needs: 10, Size: 100, Missing: 5, Others: 8, Least: 8},
			report.OtherProcess},
		{"others with less than that", oom.Request{Needs: 10, Size: 100, Missing: 5, Others: 7, Least: 8}, report.TrueShortage},
		{"nothing missing, others with as much as was asked for", oom.Request{Needs: 10, Size: 100, Others: 10, Least: 8,
			Cached:    10,
			Scattered: true}, report.OtherProcess},
		{"with less than that", oom.Request{Needs: 11, Size: 100, Others: 10, Least: 8, Cached: 10, Scattered: true},
			report.Fragmentation},
		{"with less than the cache", oom.Request{Needs: 10, Size: 100, Others: 10, Least: 8, Cached: 11, Scattered: true},
			report.Fragmentation},
		{"nothing missing in a recording, whatever others hold", oom.Request{Needs: 10, Size: 100, Others: 90, Cached: 10,
			Scattered: true}, report.Fragmentation},
		{"in pieces, but something is missing", oom.Request{Needs: 10, Size: 100, Missing: 1, Cached: 10, Scattered: true},
			report.TrueShortage},
		{"nothing missing, and no pieces", oom.Request{Needs: 10, Size: 100, Cached: 10}, report.TrueShortage},
	} {
		if got := test.request.Cause(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestAskedOfTheDriver: by PyTorch's sizes of segments (c10/core/AllocatorConfig.h).
func TestAskedOfTheDriver(t *testing.T) {
	for requested, want := range map[int64]int64{0: 2 * mib, 1: 2 * mib, mib: 2 * mib, mib + 1: 20 * mib, 10*mib - 1: 20 * mib,
		10 * mib: 10 * mib, 10*mib + 1: 12 * mib, 12 * mib: 12 * mib, 12*mib + 1: 14 * mib, gib - 1: gib} {
		if got := oom.Asked(requested); got != want {
			t.Errorf("%d asks for %d, want %d", requested, got, want)
		}
	}
}

// TestTells: a message's figure has two decimals, which is what it may be off by.
func TestTells(t *testing.T) {
	for _, test := range []struct {
		message, asked int64
		want           bool
	}{
		{100 * gib, 100 * gib, true}, {101 * gib, 100 * gib, true}, {101*gib + 1, 100 * gib, false}, {99 * gib, 100 * gib, true},
		{99*gib - 1, 100 * gib, false}, {2*mib + 1<<16, 2 * mib, true}, {2*mib + 1<<16 + 1, 2 * mib, false}, {0, 0, false},
		{-1, 2 * mib, false},
	} {
		if got := oom.Tells(test.message, test.asked); got != test.want {
			t.Errorf("%d of %d: %v", test.message, test.asked, got)
		}
	}
}

// TestRecorded: a message about a request that the recording has, among those of all devices.
func TestRecorded(t *testing.T) {
	failed := oom.RequestsOf(report.Device{OOMs: []report.OOM{{RequestedBytes: 8 * gib}, {RequestedBytes: 1000}}},
		report.Device{OOMs: []report.OOM{{RequestedBytes: 2*gib - 1}}}, report.Device{})
	if want := (oom.Requests{2 * mib, 2 * gib, 8 * gib}); !slices.Equal(failed, want) {
		t.Fatalf("%d, want %d", failed, want)
	}
	for _, test := range []struct {
		message int64
		want    bool
	}{{2 * mib, true}, {2 * gib, true}, {8 * gib, true}, {8*gib + gib/20, true}, {8*gib - gib/20, true}, {9 * gib, false},
		{7 * gib, false}, {4 * gib, false}, {mib, false}, {-1, false}} {
		m := &evidence.OOMMessage{RequestedBytes: evidence.Known(test.message)}
		if got := failed.Recorded(m); got != test.want {
			t.Errorf("%d: %v", test.message, got)
		}
		if (oom.Requests{}).Recorded(m) {
			t.Errorf("%d is recorded where nothing failed", test.message)
		}
	}
}
