package logs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
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
		{steps + "Out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:67108864kB, file-rss:0kB\n" +
			"systemd[1]: trainer.service: Failed with result 'oom-kill'.\n", "held 64.00 GiB of CPU memory", report.Critical},
		{steps + "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.0.0.4) " +
			"where the task (name=f, pid=4, memory used=31.25GB) was running was 238.10GB / 250.00GB (0.952)\n",
			"Ray killed a process that held 31.25 GiB of CPU memory", report.Critical},
		{steps + "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-02_03:04:05\n  host      : node\n  rank      : 2 " +
			"(local_rank: 2)\n  exitcode  : -9 (pid: 412)\n  traceback : Signal 9 (SIGKILL) received by PID 412\n",
			"Rank 2 was killed by signal 9", report.Warning},
		{steps + "[rank2]: RuntimeError: DataLoader worker (pid 4122) is killed by signal: Killed.\n",
			"A process was killed by signal 9", report.Warning},
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

// TestHostFailures: how sure each teller is, and what failed last is what is told.
func TestHostFailures(t *testing.T) {
	ofHost := func(failures ...evidence.HostFailure) *evidence.Evidence {
		ev := evidence.New()
		ev.Logs = []evidence.Log{{Steps: &evidence.Steps{}, HostFailures: failures}}
		return ev
	}
	titles := map[string]string{}
	for by, want := range map[string]struct {
		severity   report.Severity
		confidence float64
	}{
		evidence.ByPyTorch: {report.Critical, 0.95}, evidence.ByKernel: {report.Critical, 0.95},
		evidence.BySlurm: {report.Critical, 0.95}, evidence.ByKubernetes: {report.Critical, 0.95},
		evidence.ByRay: {report.Critical, 0.95}, evidence.BySystem: {report.Critical, 0.95},
		evidence.BySharedMemory: {report.Critical, 0.8}, evidence.ByPython: {report.Critical, 0.95},
		evidence.ByAllocation: {report.Critical, 0.8}, evidence.ByPagingFile: {report.Critical, 0.95},
		evidence.ByLSF: {report.Critical, 0.95}, evidence.ByPBS: {report.Critical, 0.95}, "NumPy": {report.Critical, 0.95},
		evidence.BySignal: {report.Warning, 0.5}, evidence.ByWorker: {report.Warning, 0.3},
	} {
		doc := added(ofHost(evidence.HostFailure{Line: 8, By: by, UserFile: "/w/load.py", UserLine: 4}))
		f := found(doc, "host_out_of_memory")
		if f == nil || f.Severity != want.severity || f.Confidence != want.confidence || len(doc.Findings) != 1 ||
			len(f.Evidence) != 1 || !strings.HasPrefix(f.Evidence[0], "train.log:8: ") || f.Fix == nil {
			t.Errorf("%s: %+v", by, doc.Findings)
			continue
		}
		alike := by == evidence.BySystem || by == evidence.ByPython || by == evidence.ByAllocation
		if other := titles[f.Title]; other != "" && !alike {
			t.Errorf("%s and %s: %s", by, other, f.Title)
		}
		titles[f.Title] = by
		// Where the GPU's memory failed, what may be a failure of the host's is none.
		beside := ofHost(evidence.HostFailure{Line: 8, By: by})
		beside.OOMMessages = []evidence.OOMMessage{failed(1, 2*gib)}
		if f := found(added(beside), "host_out_of_memory"); (f != nil) != (want.severity == report.Critical) {
			t.Errorf("%s beside a failure of the GPU's: %+v", by, f)
		}
	}
	asked, killed := evidence.HostFailure{Line: 3, By: "NumPy", RequestedBytes: new(7 * gib), UserFile: "/w/load.py",
		UserLine: 4},
		evidence.HostFailure{Line: 5, By: evidence.BySignal}
	held := evidence.HostFailure{Line: 9, By: evidence.ByKernel, HeldBytes: 60 * gib}
	for _, test := range []struct {
		name     string
		failures []evidence.HostFailure
		line     int
		says     string
		times    string // in the evidence, "" for once
	}{
		{"what was asked for, and where", []evidence.HostFailure{asked}, 3, "7.00 GiB of CPU memory asked for at w/load.py:4",
			""},
		{"what was held", []evidence.HostFailure{held}, 9, "held 60.00 GiB of CPU memory", ""},
		{"the last", []evidence.HostFailure{asked, held}, 9, "60.00 GiB", ""},
		{"the last that is sure", []evidence.HostFailure{asked, killed}, 3, "7.00 GiB", ""},
		{"what alone is told", []evidence.HostFailure{killed, killed}, 5, "signal 9", "twice"},
		{"by three of one kind", []evidence.HostFailure{asked, asked, held, asked}, 3, "7.00 GiB", "3 times"},
	} {
		f := found(added(ofHost(test.failures...)), "host_out_of_memory")
		if f == nil || !strings.Contains(f.Title, test.says) || !strings.HasPrefix(f.Evidence[0],
			fmt.Sprintf("train.log:%d: ", test.line)) || (len(f.Evidence) > 1) != (test.times != "") ||
			test.times != "" && !strings.Contains(f.Evidence[1], test.times) {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}
