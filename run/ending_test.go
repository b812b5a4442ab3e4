//go:build unix

package run

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestEnding(t *testing.T) {
	for _, c := range []struct {
		what   string
		result Result
		log    string
		kills  int
		want   string
	}{
		{"well", Result{}, "", 1, ""},
		{"the kernel", Result{Status: 137, Signal: syscall.SIGKILL}, "", 2,
			"host memory ran out: the kernel killed 2 processes while the program ran (the limit of its control group is 16 GiB)"},
		{"a rank's death", Result{Status: 1}, "", 1, "host memory ran out: the kernel killed a process while"},
		{"kill -9", Result{Status: 137, Signal: syscall.SIGKILL}, "", 0, "the program died of SIGKILL: somebody's kill -9"},
		{"through a shell", Result{Status: 139}, "", 0, "the program died of SIGSEGV: a crash in native code"},
		{"abort", Result{Status: 134, Signal: syscall.SIGABRT}, "", 0, "the program died of SIGABRT: native code gave up"},
		{"Slurm's", Result{Status: 138, Signal: syscall.SIGUSR1}, "", 0, "the program died of SIGUSR1: a signal that it doesn't handle"},
		{"Ctrl-C", Result{Status: 130, Signal: syscall.SIGINT}, "Traceback (most recent call last):\n  File\nKeyboardInterrupt\n", 0, ""},
		{"out of memory", Result{Status: 1, OutOfMemo: true}, "Traceback (most recent call last):\n  File\nValueError: x\n", 0, ""},
		{"an exit code alone", Result{Status: 3}, "bye\n", 0, ""},
		{"an exception", Result{Status: 1}, "a\nTraceback (most recent call last):\n  File\n    x\nValueError: boom\nmore\n", 0,
			"the program failed with ValueError: boom"},
		{"a rank's, in colours", Result{Status: 1}, "[rank1]: Traceback (most recent call last):\r\n[rank1]:   File\r\n" +
			"[rank1]: \x1b[1;35mKeyError\x1b[0m: 'a'\r\nTraceback (most recent call last):\n  File\n" +
			"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n", 0, "the program failed with KeyError: 'a'"},
		{"a secret in it", Result{Status: 1}, "Traceback (most recent call last):\n  x\nHTTPError: token=abc is bad\n", 0,
			"the program failed with HTTPError: token=… is bad"},
	} {
		got := endingOf(&c.result, c.log, c.kills, 16<<30)
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q", c.what, got)
		}
	}
}

func TestHostMemory(t *testing.T) {
	for _, c := range []struct {
		what  string
		files map[string]string
		kills int
		limit int64
	}{
		{"version 2", map[string]string{"/proc/self/cgroup": "0::/user/a\n", "/sys/fs/cgroup/user/a/memory.events": "low 0\noom 3\noom_kill 2\n",
			"/sys/fs/cgroup/user/a/memory.max": "17179869184\n", "/proc/vmstat": "oom_kill 9\n"}, 2, 16 << 30},
		{"a container", map[string]string{"/proc/self/cgroup": "0::/../b\n", "/sys/fs/cgroup/memory.events": "oom_kill 1\n",
			"/sys/fs/cgroup/memory.max": "max\n"}, 1, 0},
		{"version 1", map[string]string{"/proc/self/cgroup": "9:pids:/\n4:memory:/job\n0::/\n",
			"/sys/fs/cgroup/memory/job/memory.oom_control":    "oom_kill_disable 0\noom_kill 4\n",
			"/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n"}, 4, 0},
		{"none", map[string]string{"/proc/vmstat": "nr_free_pages 1\noom_kill 9\n"}, 9, 0},
		{"elsewhere", nil, 0, 0},
	} {
		kills, limit := hostMemory(func(name string) ([]byte, error) {
			if text, ok := c.files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		})
		if kills != c.kills || limit != c.limit {
			t.Errorf("%s: %d killed, %d bytes", c.what, kills, limit)
		}
	}
}
