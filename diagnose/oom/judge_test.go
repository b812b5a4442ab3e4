package oom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/report"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// judge judges the only message of a log.
func judge(t *testing.T, log string) oom.Failure {
	t.Helper()
	_, found, err := read.Evidence(strings.NewReader(log), "train.log", 0)
	if err != nil || len(found.OOMMessages) != 1 {
		t.Fatalf("%v, %+v", err, found)
	}
	return oom.Judge(&found.OOMMessages[0])
}

// sizes are the figures of a message; -1: it doesn't say.
type sizes struct{ asked, gpu, free, process, allocated, cached int64 }

// message has those figures, and what else is set on it.
func message(s sizes, set ...func(*evidence.OOMMessage)) *evidence.OOMMessage {
	m := &evidence.OOMMessage{Backend: "CUDA", RequestedBytes: evidence.Known(s.asked), CapacityBytes: evidence.Known(s.gpu),
		DeviceFreeBytes: evidence.Known(s.free), ProcessBytes: evidence.Known(s.process),
		AllocatedBytes: evidence.Known(s.allocated), ReservedUnallocatedBytes: evidence.Known(s.cached)}
	for _, f := range set {
		f(m)
	}
	return m
}

func backend(name string) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.Backend = name }
}

func allowed(bytes int64) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.AllowedBytes = &bytes }
}

func beside(bytes int64) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.BesideBytes = &bytes }
}

func inPhase(name string) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.Phase = &name }
}

func doing(what evidence.Doing) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.Scene.Doing = what }
}

func listed(processes ...evidence.ProcessUse) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.OtherProcesses = processes }
}

func ofDriver(m *evidence.OOMMessage) { m.Driver = true }
func unclear(m *evidence.OOMMessage)  { m.Unclear = true }
func beyond(m *evidence.OOMMessage)   { m.Beyond = true }

// TestVerdicts: each verdict by the fewest figures that lead to it, at the byte from which
// on it holds and at the one before.
func TestVerdicts(t *testing.T) {
	const none = -1
	type set = []func(*evidence.OOMMessage)
	tests := []struct {
		name       string
		sizes      sizes
		set        set
		cause      string
		confidence float64
		saves      int64
	}{
		{"larger than the GPU", sizes{100*gib + 1, 100 * gib, 50 * gib, 50 * gib, 49 * gib, 0}, nil, report.TrueShortage, 0.99,
			0},
		{"just as large", sizes{100 * gib, 100 * gib, 50 * gib, 50 * gib, 49 * gib, 0}, nil, report.TrueShortage, 0.9, 0},
		{"a byte too much", sizes{gib + 1, 100 * gib, gib / 2, 99*gib + gib/2, 98 * gib, gib / 2}, nil, report.TrueShortage,
			0.9, 0},
		{"as much as is free, in the usual pieces", sizes{gib, 100 * gib, gib / 2, 99*gib + gib/2, 98 * gib, gib / 2}, nil,
			report.TrueShortage, 0.85, 0},
		{"in more pieces than usual", sizes{4 * gib, 100 * gib, gib, 99 * gib, 94 * gib, 4 * gib}, nil,
			report.TrueShortage, 0.6, 0},
		{"nearly a thirtieth in pieces", sizes{3*gib - mib, 91 * gib, 0, 91 * gib, 87*gib + mib, 3*gib - mib}, nil,
			report.TrueShortage, 0.85, 0},
		{"a thirtieth in pieces", sizes{3*gib + mib, 91 * gib, 0, 91 * gib, 87*gib - mib, 3*gib + mib}, nil,
			report.TrueShortage, 0.6, 0},
		{"a tenth in pieces", sizes{9 * gib, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}, nil, report.Fragmentation, 0.85, 0},
		{"less than a tenth", sizes{9*gib - 1, 100 * gib, 0, 100 * gib, 81*gib + 1, 9*gib - 1}, nil, report.TrueShortage, 0.6, 0},
		{"a tenth, and a byte too much", sizes{9*gib + 1, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}, nil,
			report.TrueShortage, 0.9, 0},
		{"a tenth, with what is free on the GPU", sizes{10 * gib, 100 * gib, gib, 99 * gib, 81 * gib, 9 * gib}, nil,
			report.Fragmentation, 0.85, 0},
		{"a tenth in a first step", sizes{9 * gib, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}, set{inPhase("optimizer")},
			report.Fragmentation, 0.6, 0},
		{"a limit", sizes{gib, 100 * gib, gib, 51 * gib, 50 * gib, 0}, set{allowed(50 * gib)}, report.MemoryFraction, 0.95,
			50 * gib},
		{"a limit, with more free", sizes{gib, 100 * gib, 40 * gib, 51 * gib, 50 * gib, 0}, set{allowed(50 * gib)},
			report.MemoryFraction, 0.95, 50 * gib},
		{"a limit that isn't what failed", sizes{gib, 100 * gib, gib - 1, 99*gib + 1, 98 * gib, 0}, set{allowed(99 * gib)},
			report.TrueShortage, 0.9, 0},
		{"a limit of all of it", sizes{gib, 100 * gib, 40 * gib, 51 * gib, 50 * gib, 0}, set{allowed(100 * gib)},
			report.DriverRefused, 0.7, 0},
		{"a limit of all but a byte", sizes{gib, 100 * gib, 40 * gib, 51 * gib, 50 * gib, 0}, set{allowed(100*gib - 1)},
			report.MemoryFraction, 0.95, 1},
		{"others with the least that counts", sizes{gib, 100 * gib, 0, 98 * gib, 97 * gib, 0}, nil,
			report.OtherProcess, 0.9, 2 * gib},
		{"others with less", sizes{gib, 100 * gib, 0, 98*gib + 1, 97 * gib, 0}, nil, report.TrueShortage, 0.9, 0},
		{"others with what is missing", sizes{5 * gib, 100 * gib, 0, 95 * gib, 94 * gib, 0}, nil, report.OtherProcess, 0.9,
			5 * gib},
		{"others with a byte less than is missing", sizes{5*gib + 1, 100 * gib, 0, 95 * gib, 94 * gib, 0}, nil,
			report.TrueShortage, 0.9, 0},
		{"others on a small GPU, where a context is more than a fiftieth", sizes{gib, 10 * gib, 0, 9 * gib, 8 * gib, 0}, nil,
			report.OtherProcess, 0.9, gib},
		{"others with less than a context there", sizes{gib / 2, 10 * gib, 0, 9*gib + 1, 8 * gib, 0}, nil,
			report.TrueShortage, 0.9, 0},
		{"others with nearly all, though nothing is missing", sizes{gib, 100 * gib, gib / 2, 10 * gib, 9 * gib, gib / 2}, nil,
			report.OtherProcess, 0.8, 89*gib + gib/2},
		{"others with as much as the cache", sizes{gib, 100 * gib, 0, 60 * gib, 20 * gib, 40 * gib}, nil,
			report.OtherProcess, 0.8, 40 * gib},
		{"others with a byte less than the cache", sizes{gib, 100 * gib, 0, 60 * gib, 20*gib - 1, 40*gib + 1}, nil,
			report.Fragmentation, 0.85, 0},
		{"others that a message of old leaves open", sizes{gib, 100 * gib, 0, none, 97 * gib, 0}, nil,
			report.OtherProcess, 0.9, 2 * gib},
		{"no more than a context and others' least, by a message of old", sizes{gib, 100 * gib, 0, none, 97*gib + 1, 0}, nil,
			report.TrueShortage, 0.9, 0},
		{"a process that is said to have less than PyTorch", sizes{gib, 100 * gib, 0, 10 * gib, 99 * gib, 0}, nil,
			report.TrueShortage, 0.9, 0},
		{"room at the driver", sizes{gib, 100 * gib, 2 * gib, 98 * gib, 97 * gib, 0}, nil, report.DriverRefused, 0.7, 0},
		{"just room", sizes{gib, 100 * gib, gib, 99 * gib, 98 * gib, 0}, nil, report.TrueShortage, 0.85, 0},
		{"asleep beside what is short", sizes{4 * gib, 100 * gib, 3 * gib, 97 * gib, 120 * gib, gib / 2}, nil, report.TrueShortage, 0.9, 0},
		{"a byte less than room", sizes{gib, 100 * gib, gib - 1, 99*gib + 1, 98 * gib, 0}, nil, report.TrueShortage, 0.9, 0},
		{"room on a small GPU", sizes{gib, 10 * gib, gib + 256*mib, 8 * gib, 6 * gib, gib + gib/2}, nil, report.DriverRefused,
			0.7, 0},
		{"what the driver keeps of a small GPU", sizes{gib, 10 * gib, gib + 256*mib - 1, 8 * gib, 6 * gib, gib + gib/2}, nil,
			report.Fragmentation, 0.85, 0},
		{"a hundredth of a large GPU more than asked for", sizes{gib, 100 * gib, 2 * gib, 98 * gib, 80 * gib, 10 * gib}, nil,
			report.DriverRefused, 0.7, 0},
		{"a byte less than that", sizes{gib, 100 * gib, 2*gib - 1, 98 * gib, 80 * gib, 10 * gib}, nil,
			report.Fragmentation, 0.85, 0},
		{"room beside a stranger", sizes{gib, 100 * gib, 2 * gib, 90 * gib, 89 * gib, 0},
			set{listed(evidence.ProcessUse{PID: 7, Bytes: 8 * gib})}, report.DriverRefused, 0.5, 0},
		{"room at AMD's driver", sizes{5 * gib, 100 * gib, 50 * gib, 50 * gib, 49 * gib, 0}, set{backend("HIP")},
			report.DriverRefused, 0.7, 0},
		{"a tenth in pieces of an Intel GPU", sizes{9 * gib, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}, set{backend("XPU")},
			report.Fragmentation, 0.85, 0},
		{"4 GiB of an Intel GPU", sizes{4 * gib, 100 * gib, 50 * gib, 50 * gib, 49 * gib, 0}, set{backend("XPU")},
			report.DriverRefused, 0.8, 0},
		{"less than 4 GiB of one", sizes{4*gib - 1, 100 * gib, 50 * gib, 50 * gib, 49 * gib, 0}, set{backend("XPU")},
			report.DriverRefused, 0.7, 0},
		{"more free than there is", sizes{150 * gib, 100 * gib, 102*gib + 1, none, gib, 0}, set{backend("HIP")},
			report.DriverRefused, 0.7, 0},
		{"as much more as rounding makes", sizes{150 * gib, 100 * gib, 102 * gib, none, gib, 0}, set{backend("HIP")},
			report.TrueShortage, 0.99, 0},
		{"beyond the GPU already", sizes{gib, 100 * gib, 0, none, 101 * gib, gib}, nil, report.TrueShortage, 0.9, 0},
		{"less beyond it than figures tell", sizes{gib, 100 * gib, 0, none, 101*gib - 1, gib}, nil, report.TrueShortage, 0.85, 0},
		{"twice the GPU", sizes{200 * gib, 100 * gib, 0, none, gib, 0}, nil, report.TrueShortage, 0.99, 0},
		{"a TiB, of who knows what", sizes{1 << 40, none, none, none, none, none}, nil, report.UnclearVerdict, 0.3, 0},
		{"more than any GPU", sizes{1<<40 + 1, none, none, none, none, none}, nil, report.TrueShortage, 0.99, 0},
		{"more than a number holds", sizes{none, none, none, none, none, none}, set{beyond}, report.TrueShortage, 0.99, 0},

		{"without what is free, too much", sizes{10*gib + 1, 100 * gib, none, none, 90 * gib, 5 * gib}, nil,
			report.TrueShortage, 0.9, 0},
		{"without what is free, too much with the cache", sizes{10 * gib, 100 * gib, none, none, 90 * gib, 5 * gib}, nil,
			report.TrueShortage, 0.6, 0},
		{"without what is free, just fits", sizes{5 * gib, 100 * gib, none, none, 90 * gib, 5 * gib}, nil,
			report.UnclearVerdict, 0.3, 0},
		{"without what is free, a tenth in pieces", sizes{9 * gib, 100 * gib, none, none, 81 * gib, 9 * gib}, nil,
			report.Fragmentation, 0.6, 0},
		{"without what is free, 4 GiB of an Intel GPU", sizes{4 * gib, 100 * gib, none, none, 10 * gib, 0}, set{backend("XPU")},
			report.DriverRefused, 0.8, 0},
		{"without what is free, less of one", sizes{4*gib - 1, 100 * gib, none, none, 10 * gib, 0}, set{backend("XPU")},
			report.UnclearVerdict, 0.3, 0},
		{"beyond what MPS allows", sizes{10*gib + 1, none, none, none, 60 * gib, none},
			set{backend("MPS"), beside(30 * gib), allowed(100 * gib)}, report.TrueShortage, 0.9, 0},
		{"within what MPS allows", sizes{10 * gib, none, none, none, 60 * gib, none},
			set{backend("MPS"), beside(30 * gib), allowed(100 * gib)}, report.UnclearVerdict, 0.3, 0},

		{"cut off, with something left of a limit", sizes{none, none, none, none, 99 * gib, none}, set{allowed(99*gib + 1)},
			report.TrueShortage, 0.6, 0},
		{"cut off, with a cache beside it", sizes{none, none, none, none, 98 * gib, gib}, set{allowed(98*gib + 1)},
			report.TrueShortage, 0.6, 0},
		{"cut off, with nothing left of it", sizes{none, none, none, none, 99 * gib, none}, set{allowed(99 * gib)},
			report.UnclearVerdict, 0.3, 0},
		{"cut off before what was in use", sizes{none, none, none, none, none, none}, set{allowed(99 * gib)},
			report.UnclearVerdict, 0.3, 0},
		{"without the GPU's size", sizes{gib, none, 0, none, 98 * gib, 0}, nil, report.UnclearVerdict, 0.3, 0},
		{"with a GPU of nothing", sizes{gib, 0, 0, none, 98 * gib, 0}, nil, report.UnclearVerdict, 0.3, 0},
		{"without what was asked for", sizes{none, 100 * gib, 0, none, 98 * gib, 0}, nil, report.UnclearVerdict, 0.3, 0},
		{"without figures", sizes{none, none, none, none, none, none}, nil, report.UnclearVerdict, 0.3, 0},
		{"without the cache", sizes{gib, 100 * gib, 0, none, 98 * gib, none}, nil, report.TrueShortage, 0.9, 0},
		{"in words that nobody knows, with figures", sizes{9 * gib, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}, set{unclear},
			report.UnclearVerdict, 0.3, 0},
		{"by the driver", sizes{none, none, none, none, none, none}, set{ofDriver}, report.UnclearVerdict, 0.3, 0},
		{"by the driver, of memory to be pinned", sizes{none, none, none, none, none, none},
			set{ofDriver, doing(evidence.Pinning)}, report.DriverRefused, 0.7, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := oom.Judge(message(test.sizes, test.set...))
			if f.Cause != test.cause || f.Confidence != test.confidence || f.Saves != test.saves {
				t.Errorf("%s at %v saves %d, want %s at %v saves %d: %s", f.Cause, f.Confidence, f.Saves, test.cause,
					test.confidence, test.saves, f.Why)
			}
			if f.Why == "" || f.Change() == "" {
				t.Errorf("%s for %q: nothing said of why, or of what to do", f.Change(), f.Why)
			}
		})
	}
}

// TestAbsurd: a request of more than twice the GPU is a mistake in a shape, one of less a shortage.
func TestAbsurd(t *testing.T) {
	for _, test := range []struct {
		asked, gpu int64
		set        []func(*evidence.OOMMessage)
		want       bool
	}{
		{200 * gib, 100 * gib, nil, false}, {200*gib + 1, 100 * gib, nil, true}, {1 << 40, -1, nil, false}, {1<<40 + 1, -1, nil,
			true},
		{-1, 100 * gib, nil, false}, {-1, 100 * gib, []func(*evidence.OOMMessage){beyond}, true},
	} {
		f := oom.Judge(message(sizes{test.asked, test.gpu, 0, -1, gib, 0}, test.set...))
		if f.Absurd() != test.want {
			t.Errorf("%d of %d: %v", test.asked, test.gpu, f.Absurd())
		}
	}
}

// TestWhyHasTheFigures: what is missing, free, held or allowed is said in bytes.
func TestWhyHasTheFigures(t *testing.T) {
	for _, test := range []struct {
		sizes sizes
		set   []func(*evidence.OOMMessage)
		want  []string
	}{
		{sizes{3 * gib, 100 * gib, gib, 99 * gib, 97 * gib, gib / 2}, nil, []string{"1.50 GiB", "1.50 GiB"}},
		{sizes{3 * gib, 100 * gib, 0, 100 * gib, 99 * gib, 0}, nil, nil}, // nothing was free, and all of it is missing
		{sizes{101 * gib, 100 * gib, gib, 99 * gib, 97 * gib, gib / 2}, nil, []string{"100.00 GiB"}},
		{sizes{300 * gib, 100 * gib, gib, 99 * gib, 97 * gib, gib / 2}, nil, []string{"100.00 GiB"}},
		{sizes{3 * gib, 100 * gib, 0, -1, 105 * gib, gib}, nil, []string{"6.00 GiB", "1.00 GiB", "2.00 GiB"}},
		{sizes{20 * gib, 100 * gib, gib, 99 * gib, 80 * gib, 20 * gib}, nil, []string{"20.00 GiB", "20.0 %"}},
		{sizes{21 * gib, 100 * gib, gib, 99 * gib, 80 * gib, 20 * gib}, nil, []string{"20.00 GiB", "20.0 %", "1.00 GiB"}},
		{sizes{gib, 100 * gib, 0, 100 * gib, 99 * gib, gib}, nil, []string{"99.0 %", "100.00 GiB", "1.00 GiB"}},
		{sizes{gib, 100 * gib, 30 * gib, 51 * gib, 50 * gib, 0}, []func(*evidence.OOMMessage){allowed(51 * gib)},
			[]string{"30.00 GiB", "51.00 GiB", "100.00 GiB"}},
		{sizes{5 * gib, 100 * gib, gib, 59 * gib, 58 * gib, 0}, nil, []string{"40.00 GiB", "100.00 GiB"}},
		{sizes{gib, 100 * gib, gib / 2, 10 * gib, 9 * gib, gib / 2}, nil, []string{"9.50 GiB", "89.50 GiB", "100.00 GiB"}},
		{sizes{gib, 100 * gib, 30 * gib, 51 * gib, 50 * gib, 0}, nil, []string{"30.00 GiB"}},
		{sizes{gib, 100 * gib, 130 * gib, -1, 50 * gib, 0}, nil, []string{"130.00 GiB", "100.00 GiB"}},
		{sizes{20 * gib, 100 * gib, -1, -1, 90 * gib, 5 * gib}, nil, []string{"90.00 GiB", "100.00 GiB", "10.00 GiB"}},
		{sizes{5 * gib, 100 * gib, -1, -1, 80 * gib, 5 * gib}, nil, []string{"85.00 GiB", "100.00 GiB"}},
		{sizes{-1, -1, -1, -1, 90 * gib, -1}, []func(*evidence.OOMMessage){allowed(100 * gib)},
			[]string{"90.00 GiB", "100.00 GiB", "10.00 GiB"}},
	} {
		f := oom.Judge(message(test.sizes, test.set...))
		var got []string
		words := strings.Fields(f.Why)
		for i, word := range words[:len(words)-1] {
			if unit := strings.Trim(words[i+1], ",:;()"); unit == "GiB" || unit == "%" {
				got = append(got, strings.Trim(word, "(")+" "+unit)
			}
		}
		if strings.Join(got, ", ") != strings.Join(test.want, ", ") {
			t.Errorf("%q has %q, want %q", f.Why, got, test.want)
		}
	}
}

// TestToldApart: what differs in its cause, or in what can be done, isn't told in the same words.
func TestToldApart(t *testing.T) {
	const none = -1
	nothing, full := sizes{none, none, none, none, none, none}, sizes{gib, 100 * gib, 0, 100 * gib, 99 * gib, 0}
	pieces, room := sizes{9 * gib, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}, sizes{5 * gib, 100 * gib, 50 * gib, 50 * gib,
		gib, 0}
	whys, changes := map[string]string{}, map[string]string{}
	for name, m := range map[string]*evidence.OOMMessage{
		"without figures":            message(nothing),
		"without what was asked":     message(sizes{none, 100 * gib, none, none, none, none}),
		"cut off":                    message(sizes{gib, none, none, none, none, none}),
		"in words that aren't known": message(nothing, unclear),
		"by the driver":              message(nothing, ofDriver),
		"larger than a GPU":          message(sizes{201 * gib, 100 * gib, 0, 100 * gib, 99 * gib, 0}),
		"larger than any":            message(nothing, beyond),
		"while a model is made":      message(full, inPhase("setup")),
		"while a copy of it is":      message(full, inPhase("setup"), doing(evidence.ModelCopy)),
		"in pieces":                  message(pieces),
		"a program nobody knows":     message(nothing, by("bitsandbytes")),
		"a workspace":                message(nothing, by("workspace")),
		"a workspace of some size":   message(sizes{gib, none, none, none, none, none}, by("workspace"), allowed(gib/4)),
	} {
		f := oom.Judge(m)
		if other, ok := whys[f.Why]; ok {
			t.Errorf("%s and %s: %s", name, other, f.Why)
		}
		whys[f.Why] = name
	}
	for name, m := range map[string]*evidence.OOMMessage{
		"nothing known":               message(nothing),
		"nothing but where":           message(nothing, inPhase("forward"), doing(evidence.StateDict)),
		"larger than any":             message(nothing, beyond),
		"in pieces":                   message(pieces),
		"in pieces of Intel's GPU":    message(pieces, backend("XPU")),
		"in pieces of AMD's GPU":      message(pieces, backend("HIP")),
		"refused":                     message(room),
		"refused by AMD's driver":     message(room, backend("HIP")),
		"refused by Intel's driver":   message(room, backend("XPU")),
		"refused, with more than all": message(sizes{gib, 100 * gib, 200 * gib, none, gib, 0}),
	} {
		f := oom.Judge(m)
		if other, ok := changes[f.Change()]; ok {
			t.Errorf("%s and %s: %s", name, other, f.Change())
		}
		changes[f.Change()] = name
	}
}

// TestText repeats the message's figures, those that there are.
func TestText(t *testing.T) {
	for _, test := range []struct {
		m    *evidence.OOMMessage
		want string
	}{
		{message(sizes{gib, 100 * gib, 0, -1, 98 * gib, 2 * gib}),
			"1.00 GiB asked for, 0 B free of 100.00 GiB, 98.00 GiB allocated by PyTorch, 2.00 GiB more in its cache"},
		{message(sizes{gib, 100 * gib, -1, -1, -1, -1}), "1.00 GiB asked for, 100.00 GiB on the GPU"},
		{message(sizes{-1, -1, -1, -1, gib, -1}, beside(2*gib), allowed(4*gib)),
			"1.00 GiB allocated by PyTorch, 2.00 GiB in this process beside it, 4.00 GiB allowed"},
		{message(sizes{-1, -1, -1, -1, -1, -1}, beyond), "more than 1 EB asked for"},
		{message(sizes{gib, -1, -1, -1, -1, -1}, func(m *evidence.OOMMessage) { m.Quote = "no memory left" }),
			"no memory left, 1.00 GiB asked for"},
		{message(sizes{-1, -1, -1, -1, -1, -1}), ""},
	} {
		f := oom.Judge(test.m)
		if got := f.Text(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestChangeID: the change has the word that a recording's has, where there is one, and none
// where the message itself says what to do, or the GPU has no such setting.
func TestChangeID(t *testing.T) {
	fragmented := sizes{9 * gib, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}
	for _, test := range []struct {
		m    *evidence.OOMMessage
		want string
	}{
		{message(fragmented), advice.Expandable},
		{message(fragmented, backend("HIP")), advice.Expandable},
		{message(fragmented, backend("XPU")), ""},
		{message(sizes{gib, 100 * gib, 40 * gib, 51 * gib, 50 * gib, 0}, allowed(50*gib)), advice.RaiseFraction},
		{message(sizes{gib, 100 * gib, 0, 50 * gib, 49 * gib, 0}), advice.StopOthers},
		{message(sizes{gib, 100 * gib, 0, 100 * gib, 100 * gib, 0}), ""},
		{message(sizes{gib, 100 * gib, 40 * gib, 51 * gib, 50 * gib, 0}), ""}, // the driver refused
	} {
		f := oom.Judge(test.m)
		if got := f.ChangeID(); got != test.want {
			t.Errorf("%s on %s: %q, want %q", f.Cause, f.Backend, got, test.want)
		}
		if got := f.Change(); strings.Contains(got, "expandable_segments:True") != (test.want == advice.Expandable) {
			t.Errorf("%s on %s: %s", f.Cause, f.Backend, got)
		}
	}
}

// TestStopsStrangers names the processes that a message lists, and no more than a sentence holds.
func TestStopsStrangers(t *testing.T) {
	var list []evidence.ProcessUse
	for i := range 6 {
		list = append(list, evidence.ProcessUse{PID: 100 + i, Bytes: 10 * gib})
		f := oom.Judge(message(sizes{10 * gib, 100 * gib, 0, 100*gib - 10*gib*int64(i+1), 39 * gib, 0}, listed(list...)))
		if f.Cause != report.OtherProcess || f.Saves != 10*gib*int64(i+1) {
			t.Errorf("%d others: %s saves %d", i+1, f.Cause, f.Saves)
		}
		named := strings.Count(f.Change(), "process 10")
		if more := strings.Contains(f.Change(), fmt.Sprintf(" and %d more", i-3)); named != min(i+1, 4) || more != (i > 3) {
			t.Errorf("%d others: %s", i+1, f.Change())
		}
	}
}

// TestFragmentationOfMessage claims no saving that only a replay could tell.
func TestFragmentationOfMessage(t *testing.T) {
	f := judge(t, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.53 "+
		"GiB. GPU 0 has a total capacity of 79.10 GiB of which 1004.94 MiB is free. "+
		"Including non-PyTorch memory, this process has 78.12 GiB memory in use. Of the allocated memory 53.47 GiB is "+
		"allocated by PyTorch, and 24.14 GiB is reserved by PyTorch but unallocated.\n")
	if f.Cause != report.Fragmentation || f.Saves != 0 || !strings.Contains(f.Change(), "up to 24.14 GiB") {
		t.Errorf("%+v: %s", f, f.Change())
	}
}

// TestToolsOfTheMaker sends nobody with another maker's GPU to nvidia-smi.
func TestToolsOfTheMaker(t *testing.T) {
	for backend, want := range map[string]string{
		"HIP":  "Find the other processes with rocm-smi --showpids and stop them, or move to a free GPU (HIP_VISIBLE_DEVICES)",
		"CUDA": "Find the other processes with nvidia-smi and stop them, or move to a free GPU (CUDA_VISIBLE_DEVICES)",
		"XPU":  "Find the other processes with xpu-smi ps and stop them, or move to a free GPU (ZE_AFFINITY_MASK)",
	} {
		f := judge(t, "torch.OutOfMemoryError: "+backend+
			" out of memory. Tried to allocate 978.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 630.00 MiB is "+
			"free. "+
			"Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n")
		if f.Change() != want {
			t.Errorf("%s: %s", backend, f.Change())
		}
	}
	for backend, want := range map[string]bool{"HIP": true, "CUDA": false} {
		f := oom.Judge(message(sizes{gib, 100 * gib, 50 * gib, 50 * gib, gib, 0},
			func(m *evidence.OOMMessage) { m.Backend = backend }))
		if strings.Contains(f.Change(), "GPU_MAX_ALLOC_PERCENT") != want || f.Cause != report.DriverRefused {
			t.Errorf("refused by %s: %s", backend, f.Change())
		}
	}
	for what, want := range map[evidence.Doing]bool{"": true, evidence.StateDict: false} {
		f := oom.Judge(message(sizes{-1, -1, -1, -1, -1, -1}, doing(what)))
		if strings.Contains(f.Change(), "nvidia-smi") != want {
			t.Errorf("nothing known but %q: %s", what, f.Change())
		}
	}
}
