package logs_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/report"
	writer "github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// gibAt is a number of GiB with the noise that real figures have.
func gibAt(base, slope float64, i int) float64 { return base + slope*float64(i) + 0.01*float64(i%3) }

// TestStepLogs tells growth and slowness from what only looks like it.
func TestStepLogs(t *testing.T) {
	tests := []struct {
		name string
		log  string
		id   string // "" when nothing may be found
		says string
	}{
		{"a leak", logtext.Steps(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, gibAt(10, 0.25, i))
		}), "memory_grows", "from 10.00 GiB at step 0 to 24.77 GiB at step 59"},
		{"a leak all through epochs that number their batches anew", logtext.Steps(40, func(i int) string {
			return fmt.Sprintf("epoch %d step %d loss 2.1 mem %d MiB", 1+i/10, i%10*100, 4000+100*i)
		}), "memory_grows", "by 1.00 MiB a step in the log, from 3.91 GiB at step 0 of epoch 1 to 7.71 GiB at step 900 of epoch 4"},
		{"flat", logtext.Steps(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, gibAt(10, 0, i))
		}), "", ""},
		{"a running maximum that flattens out", logtext.Steps(200, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, 20-8/float64(1+i/10))
		}), "", ""},
		{"a leak at each epoch", logtext.Steps(60, func(i int) string {
			return fmt.Sprintf("epoch %d step %d loss 2.3 mem %.2f GiB", i/10, i%10*20, gibAt(10, 0, i)+2.5*float64(i/10))
		}), "memory_grows", "by 2.51 GiB an epoch in the log, from 10.00 GiB to 22.52 GiB"},
		{"a leak at each evaluation", logtext.Steps(200, func(i int) string {
			return fmt.Sprintf("step %d loss 2.3 mem %.2f GiB", 5*i, gibAt(10, 0, i)+float64(i/50))
		}), "memory_grows", "by 1.01 GiB every 250 steps or so"},
		{"a running maximum of batches", logtext.Steps(200, func(i int) string {
			return fmt.Sprintf("epoch %d step %d loss 2.3 mem %.2f GiB", i/50, i%50, []float64{10, 11, 14, 16,
				16.5}[min(4, i/3, i/10+1)])
		}), "", ""},
		{"sawtooth of validation", logtext.Steps(200, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i,
				10+float64(i%20)/10)
		}), "", ""},
		{"the optimizer's first step", logtext.Steps(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, 10+5*float64(min(1, i/16)))
		}), "first_step_state", "5.00 GiB at step 16"},
		{"reserved grows, allocated doesn't", logtext.Steps(40, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 allocated 9.50 GiB reserved %.2f GiB", i, gibAt(12, 0.5, i))
		}), "fragmentation_creep", "from 12.00 GiB to 31.50 GiB"},
		{"slow from some step on", logtext.Steps(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 time %.2fs", i, 0.5+0.8*float64(min(1, i/40)))
		}), "step_time_jump", "2.6 times slower at step 40"},
		{"a bar's time with that of evaluations in it", logtext.Steps(60, func(i int) string {
			line := fmt.Sprintf("%3d%%|####  | %d/60 [00:%02d<00:30, %.2fs/it]", i*100/60, i, i, 0.5+0.8*float64(min(1, i/40)))
			if i > 39 && i%4 == 0 {
				line += "\n  0%|      | 1/200 [00:00<00:08, 24.00it/s]\n100%|######| 200/200 [00:08<00:00, 24.00it/s]"
			}
			return line
		}), "", ""},
		{"the same bar alone", logtext.Steps(60, func(i int) string {
			return fmt.Sprintf("%3d%%|####  | %d/60 [00:%02d<00:30, %.2fs/it]", i*100/60, i, i, 0.5+0.8*float64(min(1, i/40)))
		}), "step_time_jump", "2.6 times slower"},
		{"a slow first step", logtext.Steps(60, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 time %.2fs", i, 0.5+40*float64(max(0, 1-i)))
		}), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "train.log", text: test.log})
			if test.id == "" {
				if len(doc.Findings) > 0 {
					t.Fatalf("found %+v in a healthy log", doc.Findings)
				}
				if !strings.Contains(doc.Verdict.Text, "No failure") || !strings.Contains(doc.Verdict.Text, "steps") {
					t.Errorf("verdict %q", doc.Verdict.Text)
				}
				return
			}
			f := found(doc, test.id)
			if f == nil || !strings.Contains(f.Title, test.says) {
				t.Fatalf("found %+v, want %s that says %q", doc.Findings, test.id, test.says)
			}
			if test.name == "a leak" && !strings.Contains(f.Evidence[0], "14.77 GiB more in 59 steps") { // as in the title
				t.Errorf("evidence %q", f.Evidence)
			}
			if (f.Severity == report.Info) != (test.id == "first_step_state") {
				t.Errorf("%s is told as %s", test.id, f.Severity)
			}
			if f.Severity != report.Info && doc.Verdict.Text != f.Title {
				t.Errorf("verdict %q", doc.Verdict.Text)
			}
		})
	}
}

// TestMostMemory names the kind of memory that a log's largest figure is of,
// and agrees with the curve below.
func TestMostMemory(t *testing.T) {
	tests := []struct {
		name string
		line func(i int) string
		says string
	}{
		{"both kinds", func(i int) string {
			return fmt.Sprintf("{'loss': 1.5, 'step': %d, 'total_peak_memory_allocated_MB': %d, "+
				"'total_peak_memory_reserved_MB': %d}", i, 10240, 20480+512*(i%2))
		}, "at most 20.50 GiB of GPU memory reserved, 10.00 GiB allocated"},
		{"both kinds with a unit at the end", func(i int) string {
			return fmt.Sprintf("%d: loss 2.1 allocated 1290 reserved %d MiB", i, 3292+100*(i%2))
		},
			"at most 3.31 GiB of GPU memory reserved, 1.26 GiB allocated"},
		{"reserved", func(i int) string { return fmt.Sprintf("step %d loss 2.1 reserved 12.00 GiB", i) },
			"at most 12.00 GiB of GPU memory reserved"},
		{"allocated", func(i int) string { return fmt.Sprintf("step %d loss 2.1 allocated 9.50 GiB", i) },
			"at most 9.50 GiB of GPU memory allocated"},
		{"either", func(i int) string { return fmt.Sprintf("step %d loss 2.1 memory: 9.50GiB(94.81%%)", i) },
			"at most 9.50 GiB of GPU memory"},
		{"outside of steps", func(i int) string { return "[after setup] GPU Allocated: 8.00 GiB | GPU Reserved: 9.00 GiB" },
			"mentions at most 9.00 GiB of GPU memory reserved, 8.00 GiB allocated"},
		{"reserved only before training", func(i int) string {
			if i == 0 {
				return "MA 15.98 GB         Max_MA 19.92 GB         CA 19.93 GB         Max_CA 20 GB"
			}
			return fmt.Sprintf("epoch=0/micro_step=2/global_step=%d, CurrSamplesPerSec=5.3, MemAllocated=19.95GB, "+
				"MaxMemAllocated=61.12GB", i)
		}, "at most 61.12 GiB of GPU memory allocated"},
		{"with the GPU's size", func(i int) string {
			return fmt.Sprintf("CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory\nstep: %d loss: 2.1 memory: "+
				"9.50GiB(12.01%%)", i)
		}, "at most 9.50 GiB of GPU memory, on GPUs of 79.10 GiB"},
		{"a table without words", func(i int) string { return fmt.Sprintf("%d 2.%04d %d", i, 500-i, 1<<30+i<<20) },
			"at most 1.01 GiB of GPU memory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "train.log", text: logtext.Steps(12, test.line)})
			if !strings.HasSuffix(doc.Verdict.Text, test.says) {
				t.Errorf("verdict %q, want %q", doc.Verdict.Text, test.says)
			}
			var b bytes.Buffer
			if err := writer.Write(&b, view.Document(doc, view.Terminal), writer.Style{}); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), "memory reserved, ") != strings.Contains(test.says, "reserved, ") {
				t.Errorf("%s", b.String())
			}
		})
	}
}

// TestRunsInOneLog: what one run's log shows isn't mixed with the next one's.
func TestRunsInOneLog(t *testing.T) {
	run := func(from, to int, bytes func(step int) int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "step %d | loss 2.5 | max_memory_allocated %d MiB\n", i, bytes(i))
		}
		return b.String()
	}
	level := func(mib int) func(int) int { return func(int) int { return mib } }
	rising := func(i int) int { return 10000 + 100*i }
	for _, test := range []struct {
		name, log string
		again     []int
		finding   string // the only one of those about memory, "" for none
	}{
		{"larger from run to run", run(1, 20, level(10000)) + run(1, 30, level(12000)) + run(1, 40, level(14000)),
			[]int{21, 51}, ""},
		{"one run that grows, then one that doesn't", run(1, 40, rising) + run(1, 10, level(9000)), []int{41}, "memory_grows"},
		{"one run", run(1, 40, rising), nil, "memory_grows"},
		{"resumed", run(1, 30, level(10000)) + run(21, 60, level(10000)), []int{31}, ""},
		{"two ranks, mixed", run(20, 20, level(9)) + run(1, 1, level(9)) + run(21, 21, level(9)) + run(2, 2, level(9)) +
			run(22, 22, level(9)) + run(3, 3, level(9)) + run(23, 23, level(9)) + run(4, 4, level(9)) +
			run(24, 24, level(9)), nil, ""},
	} {
		doc := judged(t, input{name: "train.log", text: test.log})
		if got := doc.Evidence.Steps[0].Again; !slices.Equal(got, test.again) {
			t.Errorf("%s: begins again at %d", test.name, got)
		}
		for _, id := range []string{"memory_grows", "first_step_state"} {
			if f := found(doc, id); (f != nil) != (id == test.finding) {
				t.Errorf("%s: %+v", test.name, f)
			}
		}
	}
}

// TestGrowthUnlessRecorded: what a recording shows to be kept is told there, not by the log.
func TestGrowthUnlessRecorded(t *testing.T) {
	ev := evidence.New()
	ev.Logs = []evidence.Log{trained(40, func(i int) (int64, float64) { return gib * int64(20+i), -1 })}
	ev.Logs[0].Pressure.CapacityBytes = 200 * gib
	for _, test := range []struct {
		leaks []report.Leak
		want  bool
	}{{nil, true}, {[]report.Leak{{}}, true}, {[]report.Leak{{}, {Defect: true}}, false}} {
		f := found(added(ev, report.Device{}, report.Device{Leaks: test.leaks}), "memory_grows")
		if (f != nil) != test.want || f != nil && (!strings.Contains(f.Title, "1.00 GiB a step") ||
			!strings.Contains(f.Evidence[1], "200.00 GiB are full at step 280")) {
			t.Errorf("%+v: %+v", test.leaks, f)
		}
	}
}

// TestFullBySomeStep is told where the GPU is larger than what was reached.
func TestFullBySomeStep(t *testing.T) {
	for size, want := range map[int64]int{0: 1, 58 * gib: 1, 59 * gib: 1, 60 * gib: 2} {
		ev := evidence.New()
		ev.Logs = []evidence.Log{trained(40, func(i int) (int64, float64) { return gib * int64(20+i), -1 })}
		ev.Logs[0].Pressure.CapacityBytes = size
		if f := found(added(ev), "memory_grows"); f == nil || len(f.Evidence) != want {
			t.Errorf("of %d bytes: %+v", size, f)
		}
	}
}

// TestReservedAlone: reserved memory that grows is told as creeping where enough steps tell of
// allocated memory, too; that it climbs, only where none does.
func TestReservedAlone(t *testing.T) {
	for _, test := range []struct {
		name      string
		allocated int // steps that tell of it
		reserved  func(i int) int64
		want      string
	}{
		{"growing", 0, func(i int) int64 { return gib * int64(20+i) }, "memory_grows"},
		{"growing, with little of what is allocated", 5, func(i int) int64 { return gib * int64(20+i) }, "memory_grows"},
		{"growing, with more of it", 6, func(i int) int64 { return gib * int64(20+i) }, "fragmentation_creep"},
		{"climbing", 0, func(i int) int64 { return gib * int64(20+i/10) }, "memory_grows"},
		{"climbing, with what is allocated", 50, func(i int) int64 { return gib * int64(20+i/10) }, ""},
	} {
		ev := evidence.New()
		ev.Logs = []evidence.Log{trained(50, func(int) (int64, float64) { return -1, -1 })}
		for i := range ev.Logs[0].Steps.Curve {
			s := &ev.Logs[0].Steps.Curve[i]
			if s.ReservedBytes = test.reserved(i); i < test.allocated {
				s.AllocatedBytes = 10 * gib
			}
		}
		list := added(ev).Findings
		if len(list) != min(1, len(test.want)) || len(list) == 1 && list[0].ID != test.want {
			t.Errorf("%s: %+v", test.name, list)
		}
	}
}

// TestEveryTenthStep: a log that tells of every tenth step grows by a tenth of the difference in
// each, and its slow steps are ten times as many as its lines.
func TestEveryTenthStep(t *testing.T) {
	ev := evidence.New()
	ev.Logs = []evidence.Log{trained(40, func(i int) (int64, float64) { return gib * int64(20+i), 2 + 8*float64(i/20) })}
	for i := range ev.Logs[0].Steps.Curve {
		ev.Logs[0].Steps.Curve[i].Number = int64(10 * i)
	}
	ev.Logs[0].Steps.Count = 400
	doc := added(ev)
	if f := found(doc, "memory_grows"); f == nil || !strings.Contains(f.Title, "102.40 MiB a step") {
		t.Errorf("%+v", f)
	}
	if f := found(doc, "step_time_jump"); f == nil || !strings.Contains(f.Evidence[0], "200 of 400 steps") ||
		!strings.Contains(f.Title, "at step 200") {
		t.Errorf("%+v", f)
	}
	for i := range ev.Logs[0].Steps.Curve {
		ev.Logs[0].Steps.Curve[i].Number = -1 // then lines count
	}
	if f := found(added(ev), "memory_grows"); f == nil || !strings.Contains(f.Title, "1.00 GiB a step") ||
		!strings.Contains(f.Title, "at step 39") {
		t.Errorf("%+v", f)
	}
	ev.Logs[0].Steps.Interrupted = true
	if f := found(added(ev), "step_time_jump"); f != nil {
		t.Errorf("with other bars in between: %+v", f)
	}
}

// TestStairsFill: of memory that is kept again and again it is told how often it still can be.
func TestStairsFill(t *testing.T) {
	for size, want := range map[int64]string{0: "", 24 * gib: "", 34 * gib: "after 10 more"} {
		ev := evidence.New()
		ev.Logs = []evidence.Log{trained(50, func(i int) (int64, float64) { return gib * int64(20+i/10), -1 })}
		ev.Logs[0].Pressure.CapacityBytes = size
		f := found(added(ev), "memory_grows")
		if f == nil || !strings.Contains(f.Title, "1.00 GiB every 10 steps") || (len(f.Evidence) == 3) != (want != "") ||
			!strings.HasSuffix(f.Evidence[len(f.Evidence)-1], want) {
			t.Errorf("of %d bytes: %+v", size, f)
		}
	}
}
