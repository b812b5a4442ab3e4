package oom_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
)

// TestOthers: what others hold, and which of the listed processes is this one, by a message
// about a GPU of 100 GiB.
func TestOthers(t *testing.T) {
	const none = -1
	one := func(pid int, bytes int64) evidence.ProcessUse { return evidence.ProcessUse{PID: pid, Bytes: bytes} }
	for _, test := range []struct {
		name      string
		sizes     sizes
		listed    []evidence.ProcessUse
		strangers []int
		others    int64
	}{
		{"nobody", sizes{gib, 100 * gib, 0, 100 * gib, 99 * gib, 0}, nil, nil, 0},
		{"by what this process has", sizes{gib, 100 * gib, gib, 90 * gib, 89 * gib, 0}, nil, nil, 9 * gib},
		{"by what PyTorch has, less a context", sizes{gib, 100 * gib, gib, none, 80 * gib, 9 * gib}, nil, nil, 9 * gib},
		{"by what PyTorch has, where this process is said to have less", sizes{gib, 100 * gib, 0, 50 * gib, 89 * gib, 9 * gib},
			nil,
			nil, gib},
		{"by what this process has, if that is all PyTorch's", sizes{gib, 100 * gib, 0, 98 * gib, 89 * gib, 9 * gib}, nil, nil,
			2 * gib},
		{"no more than a context", sizes{gib, 100 * gib, gib, none, 90 * gib, 8 * gib}, nil, nil, 0},
		{"without a figure of the cache", sizes{gib, 100 * gib, gib, none, 80 * gib, none}, nil, nil, 0},
		{"without what is free", sizes{gib, 100 * gib, none, 90 * gib, 89 * gib, 0}, nil, nil, 0},
		{"listed, without what is free", sizes{gib, 100 * gib, none, 90 * gib, 89 * gib, 0},
			[]evidence.ProcessUse{one(1, gib), one(2, 2*gib)}, []int{1, 2}, 3 * gib},
		{"listed with less than the rest", sizes{gib, 100 * gib, gib, 90 * gib, 89 * gib, 0}, []evidence.ProcessUse{one(1, gib)},
			[]int{1}, 9 * gib},
		{"listed with more", sizes{gib, 100 * gib, gib, 90 * gib, 89 * gib, 0}, []evidence.ProcessUse{one(1, 20*gib)},
			[]int{1}, 20 * gib},
		{"listed, this one, too", sizes{gib, 100 * gib, gib, none, 40 * gib, 9 * gib},
			[]evidence.ProcessUse{one(1, 49*gib), one(2, 49*gib+gib/2)}, []int{2}, 50 * gib},
		{"this one with as little as rounding makes", sizes{gib, 100 * gib, gib, none, 40 * gib, 9 * gib},
			[]evidence.ProcessUse{one(1, 49*gib-16*mib)}, nil, 50*gib + 16*mib},
		{"one with less", sizes{gib, 100 * gib, gib, none, 40 * gib, 9 * gib}, []evidence.ProcessUse{one(1, 49*gib-16*mib-1)},
			[]int{1}, 49 * gib},
		{"one with two contexts more", sizes{gib, 200 * gib, gib, none, 40 * gib, 9 * gib}, []evidence.ProcessUse{one(1, 53*gib)},
			nil, 146 * gib},
		{"one with more than that", sizes{gib, 200 * gib, gib, none, 40 * gib, 9 * gib}, []evidence.ProcessUse{one(1, 53*gib+1)},
			[]int{1}, 149 * gib},
		{"one that goes beside this one", sizes{gib, 111 * gib, gib, none, 40 * gib, 9 * gib},
			[]evidence.ProcessUse{one(1, 61*gib+64*mib)}, []int{1}, 61*gib + 64*mib},
		{"one that can't be beside this one", sizes{gib, 111 * gib, gib, none, 40 * gib, 9 * gib},
			[]evidence.ProcessUse{one(1, 61*gib+64*mib+1)}, nil, 49*gib - 64*mib - 1},
		{"one that may be, as nothing tells what is free", sizes{gib, 110 * gib, none, none, 40 * gib, 9 * gib},
			[]evidence.ProcessUse{one(1, 90*gib)}, []int{1}, 90 * gib},
		{"two with as much", sizes{gib, 100 * gib, gib, none, 40 * gib, 9 * gib},
			[]evidence.ProcessUse{one(1, 49*gib), one(2, 49*gib)}, []int{2}, 50 * gib},
		{"this one, before PyTorch has anything", sizes{gib, 100 * gib, 0, none, 0, 0}, []evidence.ProcessUse{one(1, gib)}, nil,
			99 * gib},
		{"none without what PyTorch has", sizes{gib, 100 * gib, gib, none, none, none}, []evidence.ProcessUse{one(1, 2*gib)},
			[]int{1}, 2 * gib},
	} {
		f := oom.Of(message(test.sizes, listed(test.listed...)))
		var pids []int
		for _, p := range f.Strangers() {
			pids = append(pids, p.PID)
		}
		if !slices.Equal(pids, test.strangers) {
			t.Errorf("%s: strangers %d, want %d", test.name, pids, test.strangers)
		}
		if got := f.HeldByOthers(); got != test.others {
			t.Errorf("%s: others hold %d, want %d", test.name, got, test.others)
		}
	}
}

// TestOutside: the parts of a GPU of 100 GiB that PyTorch's allocator has nothing to do with.
func TestOutside(t *testing.T) {
	const none = -1
	type parts struct{ context, others, unaccounted int64 }
	for _, test := range []struct {
		name  string
		sizes sizes
		own   int64 // as the message lists it, 0: it doesn't
		want  *parts
	}{
		{"told by the message", sizes{gib, 100 * gib, gib, 90 * gib, 80 * gib, 9 * gib}, 0, &parts{gib, 9 * gib, 0}},
		{"in a list", sizes{gib, 100 * gib, gib, none, 80 * gib, 9 * gib}, 90 * gib, &parts{gib, 9 * gib, 0}},
		{"without a context", sizes{gib, 100 * gib, 0, 98 * gib, 89 * gib, 9 * gib}, 0, &parts{0, 2 * gib, 0}},
		{"of a process that PyTorch has nothing of", sizes{gib, 100 * gib, 0, 98 * gib, 0, 0}, 0, &parts{98 * gib, 2 * gib, 0}},
		{"what rounding leaves", sizes{gib, 100 * gib, gib, 99*gib - 32*mib + 1, 80 * gib, 9 * gib}, 0,
			&parts{10*gib - 32*mib + 1, 0, 0}},
		{"more than that", sizes{gib, 100 * gib, gib, 99*gib - 32*mib, 80 * gib, 9 * gib}, 0,
			&parts{10*gib - 32*mib, 32 * mib, 0}},
		{"a context at most", sizes{gib, 100 * gib, gib, none, 89 * gib, 9 * gib}, 0, &parts{gib, none, 0}},
		{"more than one", sizes{gib, 100 * gib, gib, none, 89*gib - 1, 9 * gib}, 0, &parts{none, none, gib + 1}},
		{"nothing", sizes{gib, 100 * gib, gib, none, 90 * gib, 9 * gib}, 0, &parts{0, none, 0}},
		{"less than nothing", sizes{gib, 100 * gib, gib, none, 90*gib + 1, 9 * gib}, 0, nil},
		{"a process with less than PyTorch has of it", sizes{gib, 100 * gib, gib, 50 * gib, 89 * gib, 9 * gib}, 0,
			&parts{gib, none, 0}},
		{"without the size", sizes{gib, none, gib, 99 * gib, 80 * gib, 9 * gib}, 0, nil},
		{"without what is free", sizes{gib, 100 * gib, none, 99 * gib, 80 * gib, 9 * gib}, 0, nil},
		{"without what is allocated", sizes{gib, 100 * gib, gib, 99 * gib, none, 9 * gib}, 0, nil},
		{"without what is cached", sizes{gib, 100 * gib, gib, 99 * gib, 80 * gib, none}, 0, nil},
	} {
		m := message(test.sizes)
		if test.own > 0 {
			listed(evidence.ProcessUse{PID: 1, Bytes: test.own})(m)
		}
		f := oom.Of(m)
		o, ok := f.Outside()
		switch got := (parts{o.Context, o.Others, o.Unaccounted}); {
		case ok != (test.want != nil):
			t.Errorf("%s: %v, %+v", test.name, ok, got)
		case ok && (got != *test.want || o.Total() != max(0, got.context)+max(0, got.others)+max(0, got.unaccounted)):
			t.Errorf("%s: %+v, %d in all, want %+v", test.name, got, o.Total(), *test.want)
		case ok && (len(o.Basis) != 1 || o.Confidence < 0.6):
			t.Errorf("%s: by %q, %v", test.name, o.Basis, o.Confidence)
		}
	}
}

// TestAmounts lists what there is, and nothing of what there isn't.
func TestAmounts(t *testing.T) {
	name := "trainer"
	for got, want := range map[string]string{
		oom.Amounts(): "",
		oom.Amounts(oom.Amount{Bytes: gib, What: "weights"}, oom.Amount{Bytes: 0, What: "graphs"},
			oom.Amount{Bytes: -1, What: "cache"}, oom.Amount{Bytes: mib, What: "rest"}): "1.00 GiB weights, 1.00 MiB rest",
		"x" + oom.Named(nil):   "x",
		"x" + oom.Named(&name): "x (trainer)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
