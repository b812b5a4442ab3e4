package run

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/evidence/runlog"
	"github.com/vramscope/vramscope/internal/secrets"
	"github.com/vramscope/vramscope/internal/units"
)

// crashes are what signals mean that a program didn't send itself, as a rule.
var crashes = map[string]string{
	"SIGSEGV": "a crash in native code, of which Python knows nothing",
	"SIGBUS":  "memory that couldn't be had, often a full /dev/shm",
	"SIGABRT": "native code gave up: a failed check or a C++ exception",
	"SIGFPE":  "a crash in native code, of which Python knows nothing",
	"SIGILL":  "native code that this processor doesn't know",
	"SIGKILL": "somebody's kill -9, and not the kernel for want of host memory, as far as it tells",
	"SIGXCPU": "the limit of processor time",
	"SIGUSR1": "a signal that it doesn't handle, as Slurm's --signal sends it",
	"SIGUSR2": "a signal that it doesn't handle",
	"SIGALRM": "a timer that it doesn't handle",
}

// endingOf says how the program ended where that isn't told by its output alone; "" when it ended well.
func endingOf(r *Result, log string, kills int, limit int64) string {
	name := ""
	if r.Signal != 0 {
		name = nameOfSignal(r.Signal)
	} else if r.Status > 128 {
		name = nameOfSignal(syscall.Signal(r.Status - 128)) // as a shell passes it on
	}
	switch why := crashes[name]; {
	case r.Status == 0:
		return ""
	case kills > 0:
		text := "host memory ran out: the kernel killed a process while the program ran"
		if kills > 1 {
			text = "host memory ran out: the kernel killed " + units.Count(kills) + " processes while the program ran"
		}
		if limit > 0 {
			text += fmt.Sprintf(" (the limit of its control group is %s)", units.Size(limit))
		}
		return text
	case why != "":
		return "the program died of " + name + ": " + why
	case r.OutOfMemo || name != "":
		return ""
	}
	if e := exception(log); e != "" {
		return "the program failed with " + e
	}
	return ""
}

// exception is the one that the program's output says it failed with.
func exception(log string) string {
	return secrets.Text(ending.Exception(runlog.StripColours(nil, []byte(log)), longestSaid))
}

// longestSaid bounds an exception's text.
const longestSaid = 200

// lastOf is the end of the program's output.
func lastOf(dir string) string {
	name := filepath.Join(dir, endFile)
	if _, err := os.Stat(name); err != nil {
		name = filepath.Join(dir, LogFile)
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, err = f.Seek(-most, io.SeekEnd)
		if err != nil {
			return ""
		}
	}
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return string(text)
}

// hostMemory counts the processes that the kernel has killed for host memory, and tells the limit, 0 without one.
func hostMemory(read func(string) ([]byte, error)) (kills int, limit int64) {
	known := false
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && parts[1] != "memory" {
			continue
		}
		root, events, most := "/sys/fs/cgroup/memory", "memory.oom_control", "memory.limit_in_bytes"
		if parts[1] == "" {
			root, events, most = "/sys/fs/cgroup", "memory.events", "memory.max"
		}
		for _, folder := range []string{filepath.Join(root, parts[2]), root} { // a container sees its own as the root
			text, err := read(filepath.Join(folder, events))
			if err != nil {
				continue
			}
			known, kills = true, kills+countIn(text)
			text, _ = read(filepath.Join(folder, most))
			limit = cmp.Or(limit, bytesIn(text))
			break
		}
	}
	if !known {
		text, _ := read("/proc/vmstat") // of the whole machine
		kills = countIn(text)
	}
	return kills, limit
}

// countIn reads the line of kills in a file of counters.
func countIn(text []byte) (n int) {
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "oom_kill %d", &n); err == nil {
			return n
		}
	}
	return 0
}

// bytesIn reads a limit; a very large one is none.
func bytesIn(text []byte) (n int64) {
	if _, err := fmt.Sscan(string(text), &n); err != nil || n >= 1<<60 {
		return 0
	}
	return n
}
