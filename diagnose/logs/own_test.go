package logs_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/logtext"
)

// TestOwnServer stops no process that the run may have started itself.
func TestOwnServer(t *testing.T) {
	const oom = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.43 GiB. GPU 0 has a total capacity " +
		"of 79.25 GiB of which 1.09 GiB is free. Process 4001 has 64.85 GiB memory in use. " +
		"Including non-PyTorch memory, this process has 13.30 GiB memory in use. Of the allocated memory 11.10 GiB is " +
		"allocated by PyTorch, and 134.90 MiB is reserved by PyTorch but unallocated.\n"
	const sglang = "03:04:05 INFO: Launch command: python3 -m sglang.launch_server --port 18424 --mem-fraction-static 0.8\n"
	tests := []struct{ name, log, fix string }{
		{"sglang", sglang + oom, "Give the sglang server less of the GPU (--mem-fraction-static)"},
		{"vLLM's command", "+ vllm serve some/model --port 8000\n" + oom,
			"Give the vLLM server less of the GPU (gpu_memory_utilization)"},
		{"vLLM in a program", "INFO 03-04 05:06:07 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: " +
			"model='some/model'\n" + oom, "Give the vLLM server"},
		{"nvidia-smi names it", strings.ReplaceAll(logtext.SMI(80000, "4001 66000", "4002 13000"), "python", "VLLM::EngineCore") +
			oom, "Give the vLLM server"},
		{"a worker of Ray", strings.ReplaceAll(logtext.SMI(80000, "4001 66000", "4002 13000"), "python", "ray::Worker") + oom,
			"it is a worker of Ray"},
		{"a server started later", oom + sglang, "Stop process 4001"},
		{"a GPU that was empty", logtext.SMI(0) + oom, "Find out whether process 4001 (64.85 GiB) is of this run"},
		{"a GPU that was full before", logtext.SMI(66406, "4001 66406") + oom, "Stop process 4001"},
		{"nothing known", "pip install vllm sglang\n" + oom, "Stop process 4001"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := found(judged(t, input{name: "train.log", text: test.log}), "oom_other_process")
			if f == nil || !strings.Contains(*f.Fix, test.fix) || strings.HasPrefix(*f.Fix, "Stop") != (f.SavesBytes != nil) {
				t.Fatalf("found %+v", f)
			}
		})
	}
}

// TestEmptyBefore: others on a GPU that nvidia-smi saw empty in the same log may be the run's own.
func TestEmptyBefore(t *testing.T) {
	for _, test := range []struct {
		name        string
		used        int64 // as printed, -1: not shown
		gpu, source int
		others      int64
		own         bool
	}{
		{"empty", 0, 3, 0, 40 * gib, true}, {"a desktop's programs", gib - 1, 3, 0, 40 * gib, true},
		{"a GiB", gib, 3, 0, 40 * gib, false}, {"another GPU", 0, 2, 0, 40 * gib, false}, {"another log", 0, 3, 1, 40 * gib,
			false},
		{"without a figure", -1, 3, 0, 40 * gib, false},
	} {
		ev := ofLog(failed(9, 2*gib, func(m *evidence.OOMMessage) {
			m.GPU, m.ProcessBytes, m.AllocatedBytes = new(3), new(100*gib-test.others), new(99*gib-test.others)
		}))
		ev.GPUs = []evidence.GPU{{GPU: test.gpu, Source: test.source, Samples: 1, PeakUsedBytes: evidence.Known(test.used)}}
		f := found(added(ev), "oom_other_process")
		if f == nil || (f.SavesBytes == nil) != test.own || !test.own && *f.SavesBytes != test.others ||
			strings.Contains(*f.Fix, "saw the GPU empty") != test.own {
			t.Errorf("%s: %+v", test.name, f)
		}
		printed := strings.Contains(strings.Join(f.Evidence, "\n"), "printed once into the same log")
		if want := test.gpu == 3 && test.source == 0 && test.used >= 0; printed != want {
			t.Errorf("%s: %q", test.name, f.Evidence)
		}
	}
}

// TestDesktop: programs that no training starts are named, and told to be closed where that alone
// makes the room that was missing.
func TestDesktop(t *testing.T) {
	program := func(name string, bytes int64) evidence.Process {
		p := evidence.Process{PID: 1, PeakUsedBytes: evidence.Known(bytes), Instance: -1}
		if name != "" {
			p.Name = &name
		}
		return p
	}
	for _, test := range []struct {
		name     string
		programs []evidence.Process
		names    string // "": none is told
		held     string
		enough   bool
	}{
		{"with what is missing", []evidence.Process{program(`C:\Windows\dwm.exe`, gib), program("/usr/bin/Xorg", gib)},
			"dwm.exe, Xorg", "2.00 GiB", true},
		{"with a little less", []evidence.Process{program("/usr/bin/Xorg", 2*gib-mib)}, "Xorg", "2.00 GiB", false},
		{"twice the same", []evidence.Process{program("/usr/bin/Xorg", gib), program("/opt/Xorg", gib)}, "Xorg", "2.00 GiB",
			true},
		{"six", []evidence.Process{program("a", mib), program("b", mib), program("c", mib), program("d", mib), program("e", mib),
			program("f", mib)}, "a, b, c, d", "6.00 MiB", false},
		{"a training", []evidence.Process{program("/opt/venv/bin/python3", 50*gib)}, "", "", false},
		{"without a name", []evidence.Process{program("", 50*gib)}, "", "", false},
		{"without a figure", []evidence.Process{program("Xorg", -1)}, "", "", false},
	} {
		ev := ofLog(failed(9, 2*gib)) // of GPU 0, as it says no other
		ev.GPUs = []evidence.GPU{{Processes: test.programs}, {GPU: 1, Processes: []evidence.Process{program("other", gib)}}}
		f := found(added(ev), "oom_true_shortage")
		told := strings.Join(f.Evidence, "\n")
		if want := "lists them: " + test.names + " hold " + test.held; test.names != "" && !strings.Contains(told, want) ||
			strings.Contains(told, "lists them") != (test.names != "") ||
			strings.HasPrefix(*f.Fix, "Close "+test.names+", ") != test.enough {
			t.Errorf("%s: %q, %s", test.name, f.Evidence, *f.Fix)
		}
	}
}

// TestServerBeside: a server that the log starts before, or that nvidia-smi names among the others,
// is the run's own.
func TestServerBeside(t *testing.T) {
	for _, test := range []struct {
		name   string
		pid    int // of a server that nvidia-smi lists, 0: none
		line   int // at which the log starts one, 0: nowhere
		others []evidence.ProcessUse
		own    bool
	}{
		{"none", 0, 0, []evidence.ProcessUse{{PID: 7, Bytes: 40 * gib}}, false},
		{"among the others", 7, 0, []evidence.ProcessUse{{PID: 7, Bytes: 40 * gib}}, true},
		{"not among them", 8, 0, []evidence.ProcessUse{{PID: 7, Bytes: 40 * gib}}, false},
		{"nobody listed", 7, 0, nil, false}, {"started before", 0, 8, nil, true}, {"started there", 0, 9, nil, false},
	} {
		ev := ofLog(failed(9, 2*gib, func(m *evidence.OOMMessage) {
			m.OtherProcesses, m.ProcessBytes, m.AllocatedBytes = test.others, new(60*gib), new(59*gib)
		}))
		if test.pid > 0 {
			ev.GPUs = []evidence.GPU{{Source: 1, Processes: []evidence.Process{{PID: 3}, {PID: test.pid,
				Name: new("VLLM::EngineCore")}}}}
		}
		if test.line > 0 {
			ev.Logs[0].Servers = []evidence.Server{{Name: "vLLM", Line: test.line}}
		}
		f := found(added(ev), "oom_other_process")
		if f == nil || (f.SavesBytes == nil) != test.own || strings.Contains(*f.Fix, "gpu_memory_utilization") != test.own {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}
