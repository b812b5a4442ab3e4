package logs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/report"
)

// TestSpillCost counts what memory in the host costs in time.
func TestSpillCost(t *testing.T) {
	const gpu = "index, memory.used [MiB], memory.total [MiB]\n0, 12000 MiB, 12288 MiB\n"
	const dataCentre = "index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA H100 80GB HBM3, 81000 MiB, 81559 MiB\n"
	doc := judged(t, input{"train.log", logtext.Steps(50, func(i int) string {
		seconds, gib := 2.0, 10.0
		if i >= 30 {
			seconds, gib = 12, 14
		}
		return fmt.Sprintf("step %d loss 1.0 time %.1fs mem %.2f GiB", i, seconds, gib)
	})}, input{"gpu.csv", gpu})
	f := found(doc, "shared_memory_spill")
	if f == nil || *f.SavesBytes != 2<<30 || !strings.Contains(strings.Join(f.Evidence, "\n"),
		"20 steps of the log took 12.0 s each instead of 2.0 s (6.0 times): 3.3 min lost") {
		t.Fatalf("found %+v", f)
	}
	linux := judged(t, input{"train.log", logtext.Steps(50, func(i int) string {
		return fmt.Sprintf("step %d loss 1.0 time %.1fs", i, 2+10*float64(min(1, i/30)))
	})}, input{"gpu.csv", dataCentre})
	if f := found(linux, "shared_memory_spill"); f != nil {
		t.Errorf("found %+v on a GPU whose driver gives errors instead", f)
	}
	if f := found(linux, "step_time_jump"); f == nil || !strings.Contains(strings.Join(f.Evidence, "\n"), "num_alloc_retries") {
		t.Errorf("found %+v", linux.Findings)
	}
	other := judged(t, input{"train.log", logtext.Steps(20, func(i int) string {
		return fmt.Sprintf("step %d loss 1.0 mem 81.00 GiB", i)
	})}, input{"gpu.csv", dataCentre})
	if f := found(other, "shared_memory_spill"); f != nil {
		t.Errorf("found %+v, where the log is of another GPU, or of several", f)
	}
	healthy := judged(t, input{"train.log", logtext.Steps(50, func(i int) string {
		return fmt.Sprintf("step %d loss 1.0 time 2.0s mem 10.00 GiB", i)
	})}, input{"gpu.csv", gpu})
	if f := found(healthy, "shared_memory_spill"); f != nil {
		t.Errorf("found %+v in a run that is full but not slow", f)
	}
}

// trained is a log of steps, each of so many bytes and seconds; negative: not said.
func trained(steps int, of func(i int) (bytes int64, seconds float64)) evidence.Log {
	s := &evidence.Steps{Count: steps}
	for i := range steps {
		bytes, seconds := of(i)
		s.Curve = append(s.Curve, evidence.Step{Line: 10 + i, Number: int64(100 + i), Epoch: -1, Seconds: seconds,
			AllocatedBytes: bytes, ReservedBytes: -1})
		if s.MaxMemoryBytes == nil || bytes > *s.MaxMemoryBytes {
			s.MaxMemoryBytes = evidence.Known(bytes)
		}
	}
	return evidence.Log{Steps: s}
}

// TestWhoSpills: a log with more than the GPU has spills, and a GPU that is full when steps become
// slow; not where the driver gives errors instead, or gave one.
func TestWhoSpills(t *testing.T) {
	gpu := func(name string, used, total int64, processes ...evidence.Process) evidence.GPU {
		g := evidence.GPU{Source: 1, PeakUsedBytes: &used, TotalBytes: &total, Processes: processes}
		if name != "" {
			g.Name = &name
		}
		return g
	}
	program := func(name string) evidence.Process { return evidence.Process{PID: 1, Name: &name, Instance: -1} }
	most := func(bytes int64) evidence.Log { return trained(4, func(int) (int64, float64) { return bytes, -1 }) }
	slowed := trained(40, func(i int) (int64, float64) { return -1, 2 + 8*float64(i/20) })
	even := trained(40, func(int) (int64, float64) { return -1, 2 })
	for _, test := range []struct {
		name    string
		log     evidence.Log
		gpu     evidence.GPU
		failed  bool
		saves   int64 // -1: nothing is told; 0: not known
		jumped  bool  // the jump is told as such
		because string
	}{
		{"as much as the GPU has", most(12 * gib), gpu("", 12*gib, 12*gib), false, -1, false, ""},
		{"a byte more", most(12*gib + 1), gpu("", 12*gib, 12*gib), false, 1, false, "no log shows"},
		{"more, on a desktop's GPU", most(14 * gib), gpu("NVIDIA GeForce RTX 4070", 12*gib, 12*gib), false, 2 * gib, false, ""},
		{"more, on a data centre's", most(90 * gib), gpu("NVIDIA H100", 80*gib, 80*gib), false, -1, false, ""},
		{"more, on one in Windows", most(90 * gib), gpu("NVIDIA A10", 80*gib, 80*gib, program(`C:\Python\python.exe`)), false,
			10 * gib, false, ""},
		{"more, on one that runs a program of Windows", most(90 * gib), gpu("NVIDIA A10", 80*gib, 80*gib, program("python.exe")),
			false, 10 * gib, false, ""},
		{"more, on one whose programs nobody names", most(90 * gib), gpu("NVIDIA A10", 80*gib, 80*gib,
			evidence.Process{PID: 1}), false, -1,
			false, ""},
		{"more, then a failure", most(14 * gib), gpu("", 12*gib, 12*gib), true, -1, false, ""},
		{"full and slow", slowed, gpu("GeForce", 97*gib, 100*gib), false, 0, false, "97.0 % full"},
		{"nearly full and slow", slowed, gpu("GeForce", 97*gib-1, 100*gib), false, -1, true, ""},
		{"full and slow, on a data centre's", slowed, gpu("NVIDIA H100", 100*gib, 100*gib), false, -1, true, ""},
		{"full and slow, on who knows what", slowed, gpu("", 100*gib, 100*gib), false, -1, true, ""},
		{"full and even", even, gpu("GeForce", 100*gib, 100*gib), false, -1, false, ""},
	} {
		ev := evidence.New()
		ev.GPUs, ev.Logs = []evidence.GPU{test.gpu}, []evidence.Log{test.log}
		if test.failed {
			ev.OOMMessages = []evidence.OOMMessage{failed(99, 2*gib)}
		}
		doc := added(ev)
		f := found(doc, "shared_memory_spill")
		saves := int64(-1)
		if f != nil {
			saves = evidence.Or(f.SavesBytes, 0)
		}
		if saves != test.saves || f != nil && (f.Severity != report.Warning ||
			!strings.Contains(strings.Join(f.Evidence, "\n"), test.because)) {
			t.Errorf("%s: %+v", test.name, f)
		}
		if jump := found(doc, "step_time_jump"); (jump != nil) != test.jumped {
			t.Errorf("%s: %+v", test.name, jump)
		}
		recorded := report.Device{Findings: []report.Finding{{ID: "shared_memory_spill"}}}
		doc = added(ev, recorded)
		if jump := found(doc, "step_time_jump"); jump != nil || found(doc, "shared_memory_spill") != nil {
			t.Errorf("%s: what a recording tells is told again: %+v", test.name, doc.Findings)
		}
	}
}

// TestSpillInTime: what it costs is the steps beyond the GPU's size against those within, if they
// take half as long again; else those from which on steps are slow.
func TestSpillInTime(t *testing.T) {
	at := func(bytes []int64, seconds []float64) *evidence.Steps {
		return trained(len(bytes), func(i int) (int64, float64) { return bytes[i], seconds[i] }).Steps
	}
	const within, beyond = 9 * int64(1<<30), 11 * int64(1<<30)
	thinned := at([]int64{within, beyond, within, beyond}, []float64{2, 3, 2, 3})
	for i := range thinned.Curve {
		thinned.Curve[i].Number = int64(10 * i)
	}
	for _, test := range []struct {
		name  string
		steps *evidence.Steps
		want  []string // in the evidence behind the first: steps, seconds of each, and of the others
	}{
		{"no log", nil, nil},
		{"half as long again", at([]int64{within, beyond, within, beyond}, []float64{2, 3, 2, 3}),
			[]string{"2 steps", "3.0 s", "2.0 s"}},
		{"every tenth step", thinned, []string{"20 steps", "3.0 s", "2.0 s"}},
		{"just not", at([]int64{within, beyond, within, beyond}, []float64{2, 2.9, 2, 2.9}), nil},
		{"at the GPU's size", at([]int64{10 << 30, beyond, within, beyond}, []float64{2, 3, 2, 3}),
			[]string{"2 steps", "3.0 s", "2.0 s"}},
		{"one step within it", at([]int64{within, beyond, beyond, beyond}, []float64{2, 3, 3, 3}), nil},
		{"one beyond it", at([]int64{within, beyond, within, within}, []float64{2, 3, 2, 2}), nil},
		{"without memory", at([]int64{-1, -1, -1, -1, -1, -1, -1}, []float64{2, 2, 2, 2, 4, 4, 4}),
			[]string{"3 steps", "4.0 s", "2.0 s"}},
		{"without time", at([]int64{within, beyond, within, beyond}, []float64{-1, -1, -1, -1}), nil},
	} {
		f := logs.Spill(gib, 10*gib, "somebody says so", test.steps)
		cost := strings.Join(f.Evidence[1:], "\n")
		for _, part := range test.want {
			if !strings.Contains(cost, part) {
				t.Errorf("%s: %q doesn't tell of %s", test.name, cost, part)
			}
		}
		told := strings.Contains(cost, "lost")
		if told != (test.want != nil) || (f.Confidence < 0.9) != (test.steps != nil && !told) || *f.SavesBytes != gib {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}
