package ending

import (
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

// TestMarks: each mark's example is taken for what the mark tells, and by whom.
func TestMarks(t *testing.T) {
	for i := range Marks {
		m := &Marks[i]
		var r Reader
		f := r.Line(1, 0, []byte(m.Line))
		if how := r.Ended(0).How; f.How != m.How || f.Host.By != m.By || how != m.How {
			t.Errorf("%q: %+v, ended %s, want %s by %s", m.Line, f, how, m.How, m.By)
		}
	}
}

// TestCodes: what a process ended with says how, in the words of shells and of launchers.
func TestCodes(t *testing.T) {
	for line, want := range map[string]evidence.How{
		"trainer-1 exited with code 137": evidence.Killed, "exits with return code = -9": evidence.Killed, "Exited with exit " +
			"code 1": evidence.Failed,
		"exit status 139": evidence.Failed, "Process finished with exit code 0": evidence.EndedWell, "exit code: " +
			"143": evidence.Stopped,
		"failed (exitcode: -15) local_rank: 1": evidence.Stopped, "      Exit Code:    137": evidence.Killed, "terminated " +
			"with exit code 134": evidence.Failed,
		"exit code 1370": evidence.Failed, "the exit is on the left": "", "an existing code 137": "",
	} {
		var r Reader
		if r.Line(1, 0, []byte(line)); r.Ended(0).How != want {
			t.Errorf("%q: %+v, want %q", line, r.Ended(0), want)
		}
	}
}

// TestEnded: what steps follow was no end, what failed first stands, and a code says least.
func TestEnded(t *testing.T) {
	var r Reader
	r.Raised(5, 2, []byte("ValueError: bad"), nil, "/a/x.py", 3)
	if e := r.Ended(2); e.How != evidence.Failed || e.Text != "ValueError: bad" || e.UserLine != 3 {
		t.Errorf("%+v", e)
	}
	if e := r.Ended(3); e.How != "" {
		t.Errorf("a step follows: %+v", e)
	}
	r.Raised(6, 2, []byte("KeyError: 'a'"), nil, "", 0)
	r.Raised(7, 2, []byte("RuntimeError: NCCL timeout"), []byte("rank1"), "", 0)
	r.Raised(8, 2, []byte("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"), nil, "", 0)
	r.Line(9, 2, []byte("srun: error: n1: task 0: Exited with exit code 1"))
	if e := r.Ended(2); e.Text != "KeyError: 'a'" {
		t.Errorf("%+v", e)
	}
	r.Line(10, 2, []byte("Out of memory: Killed process 12 (python)"))
	if e := r.Ended(2); e.How != evidence.HostMemory {
		t.Errorf("%+v", e)
	}
	r.Line(11, 2, []byte("Training completed."))
	if e := r.Ended(2); e.How != evidence.EndedWell {
		t.Errorf("%+v", e)
	}
	for range 3 * maxEnds {
		r.Line(12, 3, []byte("exit code 1"))
	}
	if len(r.ends) > maxEnds {
		t.Errorf("%d ends are kept", len(r.ends))
	}
}

// TestGrammar: endings in words that no single mark has, and words like them that end nothing.
func TestGrammar(t *testing.T) {
	for line, want := range map[string]evidence.How{
		"slurmstepd: error: Exceeded step memory limit at some point.":                                                     evidence.HostMemory,
		"Some of your processes may have been killed by the cgroup out-of-memory handler.":                                 evidence.HostMemory,
		"slurmstepd: error: Detected 1 oom-kill event(s) in step 12345.batch cgroup.":                                      evidence.HostMemory,
		"[12.3] Out of memory: Kill process 4242 (python) score 900 or sacrifice child":                                    evidence.HostMemory,
		"https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html.":                                       evidence.HostMemory,
		"It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.": evidence.HostMemory,
		"RuntimeError: unable to open shared memory object </torch_12_34> in read-write mode: Cannot allocate memory (12)": evidence.HostMemory,
		"Error from slot1@n7: Job has gone over cgroup memory limit of 40960 megabytes.":                                   evidence.HostMemory,
		"   JobState=OUT_OF_MEMORY Reason=OutOfMemory":                                                                     evidence.HostMemory,
		"CUDA_ERROR_OUT_OF_MEMORY: out of memory":                                                                          "",
		"4f3a  vllm:latest  2 hours ago  Exited (137) 4 minutes ago  vllm":                                                 evidence.Killed,
		"4f3a  vllm:latest  2 hours ago  Exited (0) 4 minutes ago  vllm":                                                   "",
		"4f3a  vllm:latest  2 hours ago  Up 2 hours  vllm":                                                                 "",
		"HIP error: OUT_OF_MEMORY":                                                                      "",
		"status OUT_OF_MEMORY while allocating 4.00GiB on GPU 0":                                        "",
		"OUT_OF_MEMORY on device":                                                                       "",
		"OUT_OF_MEMORY":                                                                                 "",
		"rank 3: OUT_OF_MEMORY":                                                                         "",
		"2024 error: OUT_OF_MEMORY 0:125":                                                               "",
		"State: OUT_OF_MEMORY (exit code 0)":                                                            evidence.HostMemory,
		"771201.batch  batch  lab  8  OUT_OF_ME+  0:125":                                                evidence.HostMemory,
		"771201_4|train|GPU|lab|8|OUT_OF_MEMORY|0:125":                                                  evidence.HostMemory,
		"   64000K OUT_OF_ME+ ":                                                                         evidence.HostMemory,
		"Your runtime has been disconnected due to inactivity":                                          evidence.Stopped,
		"systemd[1]: trainer.service: Failed with result 'oom-kill'.":                                   evidence.HostMemory,
		"StatusReason: OutOfMemoryError: Container killed due to memory usage":                          evidence.HostMemory,
		"Error from slot1@node: memory usage exceeded request_memory":                                   evidence.HostMemory,
		"distributed.nanny - WARNING - Worker tcp://a:1 exceeded 95% memory budget. Restarting...":      evidence.HostMemory,
		"Exit Code: 137, Exit Message: \"OOM Killed\"":                                                  evidence.HostMemory,
		"Your notebook restarted because it used too much memory.":                                      evidence.HostMemory,
		"cgroup: memory limit of 64 GiB exceeded, process python (pid 991) killed":                      evidence.HostMemory,
		"Error: Pod evicted due to memory pressure":                                                     evidence.HostMemory,
		"double free or corruption (!prev)":                                                             evidence.Failed,
		"fish: Job 1, 'python train.py' terminated by signal SIGKILL (Forced quit)":                     evidence.Killed,
		"exited: trainer (terminated by SIGKILL; not expected)":                                         evidence.Killed,
		"mpirun noticed that process rank 1 with PID 0 on node box exited on signal 9 (Killed).":        evidence.Killed,
		"make: *** [Makefile:12: train] Error 137":                                                      evidence.Killed,
		"make: *** [Makefile:12: train] Killed":                                                         evidence.Killed,
		"make: *** [Makefile:12: train] Error 1":                                                        evidence.Failed,
		"CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.":          evidence.Killed,
		"Your session crashed for an unknown reason.":                                                   evidence.Killed,
		"TERM_RUNLIMIT: job killed after reaching LSF run time limit.":                                  evidence.Stopped,
		"The runner has received a shutdown signal. This can happen when the runner service is stopped": evidence.Stopped,
		"Terminated":                                      evidence.Stopped,
		"free(): invalid pointer":                         evidence.Failed,
		"Sending SIGKILL to process 4188":                 "",
		"Registered handler for SIGTERM":                  "",
		"exceeded memory limit: 0 times":                  "",
		"raise DeadKernelError(\"Kernel died\")":          "",
		"CUDA memory limit: exceeded memory limit (3 GB)": "",
	} {
		var r Reader
		if r.Line(1, 0, []byte(line)); r.Ended(0).How != want {
			t.Errorf("%q: %+v, want %q", line, r.Ended(0), want)
		}
	}
}

// TestContainers: a list of containers tells of the end only where one is in it, it didn't end well, and nothing else tells.
func TestContainers(t *testing.T) {
	const (
		killed = "4f3a  redis:7  2 weeks ago  Exited (137) 2 weeks ago  cache"
		well   = "4f3b  redis:7  2 weeks ago  Exited (0) 2 weeks ago  cache"
		runs   = "4f3c  redis:7  2 weeks ago  Up 2 weeks  cache"
		done   = "Training completed."
		step   = "" // stands for one
	)
	for name, test := range map[string]struct {
		lines []string
		want  evidence.How
		// of the list alone
		listed evidence.How
	}{
		"one":                       {[]string{step, killed}, evidence.Killed, evidence.Killed},
		"one that failed":           {[]string{"4f3a  vllm  2 weeks ago  Exited (1) About a minute ago  vllm"}, evidence.Failed, evidence.Failed},
		"above the steps":           {[]string{killed, step}, "", ""},
		"above steps that end well": {[]string{killed, step, done}, evidence.EndedWell, ""},
		"below them":                {[]string{step, done, killed}, evidence.EndedWell, ""},
		"two":                       {[]string{step, killed, killed}, "", ""},
		"two, above and below":      {[]string{killed, step, killed}, "", ""},
		"beside one that ended":     {[]string{step, well, killed}, "", ""},
		"beside one that runs":      {[]string{step, killed, runs}, "", ""},
		"that ended well":           {[]string{step, "exit code 1", well}, evidence.Failed, ""},
		"below a code":              {[]string{step, "exit code 1", killed}, evidence.Failed, ""},
	} {
		var r Reader
		steps := 0
		for i, line := range test.lines {
			if line == step {
				steps++
				continue
			}
			r.Line(i+1, steps, []byte(line))
		}
		if e, f := r.Ended(steps), r.Listed(steps); e.How != test.want || f.How != test.listed {
			t.Errorf("%s: %+v, %+v of the list, want %q, %q", name, e, f, test.want, test.listed)
		}
	}
	for _, row := range []string{killed, well} {
		var r Reader
		r.Raised(1, 0, []byte("ValueError: bad"), nil, "", 0)
		if r.Line(2, 0, []byte(row)); r.Ended(0).Text != "ValueError: bad" {
			t.Errorf("%q: %+v", row, r.Ended(0))
		}
	}
}

// TestException: of a program's output the last one counts, whatever it is called, and no launcher's.
func TestException(t *testing.T) {
	const head = "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\n"
	for output, want := range map[string]string{
		"":                                    "",
		"ValueError: no trace stands above\n": "",
		head + "subprocess.TimeoutExpired: Command 'x' timed out after 3 seconds\n":       "subprocess.TimeoutExpired: Command 'x' timed out after 3 seconds",
		head + "KeyError: 'a'\n\nDuring handling of it:\n\n" + head + "ValueError: b\r\n": "ValueError: b",
		"[rank0]: " + head + "[rank0]: OSError: x\n" + head + "a.ChildFailedError: \n":    "OSError: x",
		head + "a.ChildFailedError: \n": "",
		head + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0",
	} {
		if got := Exception([]byte(output), 200); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
