package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vramscope/vramscope/internal/cut"
)

// running is a process that may have PyTorch in it.
type running struct {
	pid        int
	executable string
	minor      int // of Python 3; -1: none that is known
	torch      bool
}

// Bounds of what is read of the system's processes.
const (
	maxSystem   = 1 << 20
	maxMaps     = 64 << 20
	maxAttached = 64
)

// remoteExec is the first Python 3 that runs a file of another process' choosing.
const remoteExec = 14

// reachable are the processes with PyTorch: the one that is named, or those that it started. A Python without any of
// them may have PyTorch under another name, and says so itself.
func reachable(pid int) ([]running, error) {
	if !alive(pid) {
		return nil, fmt.Errorf("attach: no process %d", pid)
	}
	named, err := looked(pid)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("attach: process %d belongs to somebody else\n  Ask as its user, or with sudo", pid)
	} else if err != nil {
		return nil, fmt.Errorf("attach: process %d: %w", pid, err)
	}
	if named.torch {
		return []running{named}, nil
	}
	var found []running
	for _, child := range below(pid) {
		if p, err := looked(child); err == nil && p.torch {
			found = append(found, p)
		}
	}
	switch {
	case len(found) > maxAttached:
		return nil, fmt.Errorf("attach: %d processes with PyTorch below %d: give one of them", len(found), pid)
	case len(found) > 0:
		return found, nil
	case named.minor >= 0:
		return []running{named}, nil
	}
	return nil, fmt.Errorf("attach: process %d is no Python program, nor has it started one that uses PyTorch", pid)
}

var (
	pythonNumber = regexp.MustCompile(`/(?:lib)?python3\.(\d{1,3})(?:$|t|[/\s.])`)
	torchLoaded  = regexp.MustCompile(`/libtorch_(?:python|cuda|hip)[.\w]*\.so`)
)

// looked says which Python a process is, by the files that it has mapped; -1 for none.
func looked(pid int) (running, error) {
	f, err := os.Open(proc(pid, "maps"))
	if err != nil {
		return running{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMaps))
	if err != nil {
		return running{}, err
	}
	executable, _ := os.Readlink(proc(pid, "exe"))
	return recognised(pid, executable, string(text)), nil
}

// recognised tells a process by its executable and the files that it has mapped.
func recognised(pid int, executable, maps string) running {
	p := running{pid: pid, executable: executable, minor: -1, torch: torchLoaded.MatchString(maps)}
	for _, of := range []string{executable, maps} {
		if m := pythonNumber.FindStringSubmatch(of); m != nil {
			p.minor, _ = strconv.Atoi(m[1])
			break
		}
	}
	return p
}

// below are all processes that a process started, and theirs.
func below(pid int) (found []int) {
	entries, _ := os.ReadDir("/proc")
	children := map[int][]int{}
	for _, e := range entries[:min(len(entries), maxSystem)] {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(proc(n, "stat"))
		_, rest, _ := strings.Cut(string(text), ") ") // a name may hold anything but comes before
		if fields := strings.Fields(rest); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], n)
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		found = append(found, children[next[0]]...)
		next = append(next, children[next[0]]...)
		delete(children, next[0])
	}
	slices.Sort(found)
	return found
}

func proc(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

func alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// seen refuses a process that sees other files than this one: one in a container of its own.
func (p running) seen(name string) error {
	there, err := os.Stat(filepath.Join(proc(p.pid, "root"), name))
	here, errHere := os.Stat(name)
	if err != nil || errHere != nil || !os.SameFile(there, here) {
		return fmt.Errorf("it doesn't see %s: it runs in a container\n"+
			"  Run vramscope attach inside of that, or give -o a directory that both see", name)
	}
	return nil
}

// give lets a process of another user, which root may reach, read the recorder and write its dumps.
func (p running) give(dir string) error {
	var there unix.Stat_t
	if err := unix.Stat(proc(p.pid, "."), &there); err != nil || int(there.Uid) == os.Geteuid() || os.Geteuid() != 0 {
		return err
	}
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		return cmp.Or(err, os.Lchown(name, int(there.Uid), int(there.Gid)))
	})
}

// inject has the process' main thread run a file at its next instruction of Python.
func (p running) inject(ctx context.Context, script string) error {
	if p.minor >= remoteExec {
		if err := p.remote(ctx, script); err == nil {
			return nil
		} else if _, none := exec.LookPath("gdb"); none != nil {
			return err
		}
	}
	return p.debug(ctx, script)
}

// remote asks the process' own Python, from 3.14 on, to do it: no other is sure to know its structures.
func (p running) remote(ctx context.Context, script string) error {
	interpreter := p.executable
	if !strings.Contains(filepath.Base(interpreter), "python") { // embedded
		interpreter = fmt.Sprintf("python3.%d", p.minor)
	}
	cmd := exec.CommandContext(ctx, interpreter, "-I", "-S", "-c", "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])",
		strconv.Itoa(p.pid), script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("sys.remote_exec: %s\n  %s", cmp.Or(lastLine(out), err.Error()), tracing)
	}
	return nil
}

const tracing = "It needs the right to trace: the same user and kernel.yama.ptrace_scope=0, or sudo; in a container " +
	"--cap-add SYS_PTRACE"

// debug has gdb leave a pending call, which Python makes between two instructions, whatever the process does now.
func (p running) debug(ctx context.Context, script string) error {
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		return errors.New("a Python before 3.14 is reached through gdb, which isn't here\n" +
			"  Install gdb, or restart the program with `vramscope run -- …`")
	}
	call := fmt.Sprintf("call ((int(*)(void*,void*))Py_AddPendingCall)((void*)PyRun_SimpleString, %s)",
		literal("exec(compile(open("+literal(script)+").read(), 'vramscope', 'exec'), {})"))
	// PyTorch's libraries have symbols by the gigabyte, of which none is needed.
	cmd := exec.CommandContext(ctx, gdb, "-nx", "-batch", "-iex", "set auto-solib-add off", "-iex", "set debuginfod enabled off",
		"-p", strconv.Itoa(p.pid), "-ex", "sharedlibrary libpython", "-ex", "sharedlibrary libc\\.", "-ex", call, "-ex", "detach")
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "$1 = 0"):
		return nil
	case strings.Contains(text, "ptrace:"), strings.Contains(text, "not permitted"):
		return errors.New("gdb may not trace it\n  " + tracing)
	case strings.Contains(text, "No symbol \"Py_AddPendingCall\""):
		return errors.New("gdb finds no Python in it")
	default:
		return fmt.Errorf("gdb: %s", cmp.Or(lastLine(out), fmt.Sprint(err)))
	}
}

// lastLine is the last one that says anything, without gdb's goodbye.
func lastLine(out []byte) string {
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(out)), "\n")) {
		if !strings.HasPrefix(line, "[Inferior ") && !strings.HasPrefix(line, "Detaching ") {
			return cut.Bytes(line, longestSaid)
		}
	}
	return ""
}
