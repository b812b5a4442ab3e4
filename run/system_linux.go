package run

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// apart keeps a helper from the keys of the terminal, and ends it when we are killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// deadly reports whether a process neither handles nor ignores a signal.
func deadly(pid int, s syscall.Signal) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(text)) {
		name, mask, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "SigIgn" || name == "SigCgt" {
			bits, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if bits>>(s-1)&1 != 0 {
				return false
			}
		}
	}
	return err == nil
}

// pythonIn reports whether a process or one that it has started is a Python, or about to become one.
func pythonIn(pid int) bool {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			parents[n] = parent(n)
		}
	}
	below := map[int]bool{pid: true}
	for grew := true; grew; {
		grew = false
		for n, of := range parents {
			if !below[n] && below[of] {
				below[n], grew = true, true
			}
		}
	}
	for n := range below {
		words, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(n), "cmdline"))
		if bytes.Contains(words, []byte("python")) {
			return true
		}
	}
	return false
}

// parent is a process' parent, 0 where that isn't known.
func parent(pid int) int {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name before may hold anything
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(fields[1]))
	return n
}
