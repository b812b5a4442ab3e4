package logs_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestHostMemory names the host where its memory failed, and advises nothing for the GPU.
func TestHostMemory(t *testing.T) {
	const failed = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 12, in <module>\nRuntimeError: " +
		"[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
		"17179869184 bytes. Error code 12 (Cannot allocate memory)\n"
	doc := judged(t, input{name: "train.log", text: failed + failed})
	if len(doc.Findings) != 1 || doc.Findings[0].ID != "host_out_of_memory" || doc.Findings[0].Severity != report.Critical ||
		!strings.HasPrefix(doc.Verdict.Text, "Out of memory on the host, not on the GPU: 16.00 GiB of CPU memory asked for at "+
			"u/train.py:12") ||
		!strings.Contains(strings.Join(doc.Findings[0].Evidence, "; "), "told twice") {
		t.Errorf("%+v, %+v", doc.Verdict, doc.Findings)
	}
}

// TestKilled tells what is sure of a killed process from what may be.
func TestKilled(t *testing.T) {
	const steps = "step 1 loss 2.5\nstep 2 loss 2.4\n"
	tests := []struct {
		log, says string
		severity  report.Severity
	}{
		{steps + "slurmstepd: error: Detected 1 oom_kill event in StepId=12345.batch.\n",
			"Out of memory on the host, not on the GPU: Slurm saw", report.Critical},
		{steps + "Out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:67108864kB, file-rss:0kB\nKilled\n",
			"held 64.00 GiB of CPU memory", report.Critical},
		{steps + "MemoryError\n", "the operating system refused a request for CPU memory", report.Critical},
		{steps + "OSError: [WinError 1455] The paging file is too small\n", "Windows' paging file is too small", report.Critical},
		{steps + "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n",
			"LSF saw a process of the job killed for it", report.Critical},
		{steps + "RuntimeError: DataLoader worker (pid(s) 4122) exited unexpectedly\n",
			"A DataLoader worker ended without a word", report.Warning},
		{steps + "Killed\n", "A process was killed by signal 9", report.Warning},
		{steps + "RuntimeError: CUDA error: out of memory\nKilled\n", "Out of memory, after step 2; the driver itself refused",
			report.Critical},
	}
	for _, test := range tests {
		doc := judged(t, input{name: "train.log", text: test.log})
		if len(doc.Findings) != 1 || doc.Findings[0].Severity != test.severity || !strings.Contains(doc.Verdict.Text, test.says) {
			t.Errorf("%q: %+v, %+v", test.log, doc.Verdict, doc.Findings)
		}
	}
}
