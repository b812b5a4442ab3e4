package read

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/monitor"
	"github.com/vramscope/vramscope/evidence/runlog"
)

// TestForms reads every form's example by the whole reader.
func TestForms(t *testing.T) {
	message := func(ok func(*evidence.OOMMessage) bool) func(*evidence.Evidence) bool {
		return func(ev *evidence.Evidence) bool { return len(ev.OOMMessages) == 1 && ok(&ev.OOMMessages[0]) }
	}
	steps := func(n int) func(*evidence.Evidence) bool {
		return func(ev *evidence.Evidence) bool { return len(ev.Steps) == 1 && ev.Steps[0].Count == n }
	}
	want := map[string]func(*evidence.Evidence) bool{
		"a message cut in its words":           message(func(m *evidence.OOMMessage) bool { return *m.RequestedBytes == 3<<29 && *m.CapacityBytes > 7<<30 }),
		"torchrun's list of failures":          message(func(m *evidence.OOMMessage) bool { return *m.Rank == 4 }),
		"an inference server":                  func(ev *evidence.Evidence) bool { return ev.Logs[0].Servers[0].Name == "sglang" },
		"an end":                               func(ev *evidence.Evidence) bool { return ev.Logs[0].HostFailures[0].By == evidence.BySlurm },
		"an out-of-memory message":             message(func(m *evidence.OOMMessage) bool { return *m.RequestedBytes == 3<<29 && *m.GPU == 0 }),
		"a failure beside PyTorch's allocator": message(func(m *evidence.OOMMessage) bool { return m.By == "CUBLAS_STATUS_ALLOC_FAILED" }),
		"figures of cudaMallocAsync":           message(func(m *evidence.OOMMessage) bool { return *m.RequestedBytes == 3<<29 && *m.AllocatedBytes == 45<<29 }),
		"a failure in words of its own":        message(func(m *evidence.OOMMessage) bool { return m.Unclear && m.Quote == "step 3 ran OOM and the run ended" }),
		"an engine's account":                  func(ev *evidence.Evidence) bool { return ev.Logs[0].Engine.Cache == 5<<30 },
		"a phase's reading":                    func(ev *evidence.Evidence) bool { return ev.Logs[0].Phases[0].Used == 49<<29 },
		"a traceback":                          message(func(m *evidence.OOMMessage) bool { return *m.UserFile == "/home/u/train.py" && *m.UserLine == 12 }),
		"a GPU that was full":                  func(ev *evidence.Evidence) bool { return ev.Logs[0].Pressure.Flushes == 2 },
		"a test's result":                      func(ev *evidence.Evidence) bool { return len(ev.OOMMessages) == 0 && ev.Steps[0].Count == 1 },
		"a limit of the host's memory":         func(ev *evidence.Evidence) bool { return ev.Logs[0].HostFailures[0].LimitBytes == 32<<30 },
		"settings":                             func(ev *evidence.Evidence) bool { return *ev.Parameters[0].BatchSize == 2 },
		"a unit":                               func(ev *evidence.Evidence) bool { return *ev.Steps[0].MaxMemoryBytes == 5<<29 },
		"the Trainer's beginning":              steps(1),
		"memory_stats()":                       func(ev *evidence.Evidence) bool { return *ev.MemorySummaries[0].PeakAllocatedBytes == 9 },
		"memory_summary()":                     func(ev *evidence.Evidence) bool { return *ev.MemorySummaries[0].PeakAllocatedBytes == 15656<<20 },
		"rows below GPU_mem":                   func(ev *evidence.Evidence) bool { return *ev.Logs[0].Steps.MaxReservedBytes == 2_500_000_000 },
		"the head of such rows":                func(ev *evidence.Evidence) bool { return ev.Steps[0].Count == 1 },
		"a step":                               steps(1),
	}
	for _, form := range runlog.Forms() {
		_, ev, err := Evidence(strings.NewReader(form.Example), "x.log", 0)
		switch found := want[form.Name]; {
		case err != nil:
			t.Errorf("%s: %v", form.Name, err)
		case found == nil || !found(ev):
			t.Errorf("%s isn't what its example is taken for: %+v %+v", form.Name, ev.OOMMessages, ev.Logs)
		}
	}
	for _, form := range monitor.Forms {
		kinds, ev, err := Evidence(strings.NewReader(form.Example), "smi", 0)
		if err != nil || !slices.Equal(kinds, []string{form.Name}) || len(ev.GPUs) == 0 || ev.GPUs[0].Monitor() != form.Tool {
			t.Errorf("%s: taken for %v with %d GPUs, %v", form.Name, kinds, len(ev.GPUs), err)
		}
	}
}
