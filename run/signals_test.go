//go:build unix

package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launched is the test run again as the launcher, with a program and its output's first line.
type launched struct {
	*exec.Cmd
	dir   string
	out   *bufio.Reader
	close func() error // as a reader that goes away
}

// asLauncher runs a program when the test was started for that, and ends as the command does.
func asLauncher(t *testing.T) {
	dir := os.Getenv("RUN_TEST_DIR")
	if dir == "" {
		return
	}
	o := Options{Dir: dir, Stacks: "all", Ring: 1 << 20, Command: []string{"sh", "-c", os.Getenv("RUN_TEST_SHELL")}}
	p, err := Start(o, Streams{nil, os.Stdout, os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Wait()
	DieOf(r.Signal)
	os.Exit(r.Status)
}

// launch starts the launcher behind words of a shell, and waits for what the program says first. Later output is read as wanted.
func launch(t *testing.T, before, shell string, environment ...string) *launched {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	l := &launched{dir: filepath.Join(t.TempDir(), "run")}
	l.Cmd = exec.Command("sh", "-c", before+` exec "$0" -test.run "$1"`, os.Args[0], "^"+name+"$")
	l.Env = append(append(os.Environ(), environment...), "RUN_TEST_DIR="+l.dir, "RUN_TEST_SHELL="+shell)
	l.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from the terminal of whoever tests
	out, err := l.StdoutPipe()
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(time.Minute, func() { l.Process.Kill() })
	t.Cleanup(func() {
		stop.Stop()
		l.Process.Kill()
	})
	l.out, l.close = bufio.NewReader(out), out.Close
	if line, err := l.out.ReadString('\n'); line != "up\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
	return l
}

// end waits for the launcher, and says how a shell would see its end.
func (l *launched) end(t *testing.T) int {
	t.Helper()
	rest, _ := io.ReadAll(l.out)
	err := l.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err, string(rest))
	}
	code, _ := status(l.ProcessState)
	return code
}

const wait = `while :; do sleep 0.05; done`

// TestSignals: what comes to us reaches the program, whose end is ours.
func TestSignals(t *testing.T) {
	asLauncher(t)
	for _, c := range []struct {
		signal syscall.Signal
		shell  string
		want   int
	}{
		{syscall.SIGTERM, `trap 'exit 5' TERM; echo up; ` + wait, 5},
		{syscall.SIGINT, `trap 'exit 6' INT; echo up; ` + wait, 6},
		{syscall.SIGHUP, `trap 'exit 7' HUP; echo up; ` + wait, 7},
		{syscall.SIGUSR2, `trap 'exit 8' USR2; echo up; ` + wait, 8},
		{syscall.SIGTERM, `echo up; ` + wait, 128 + 15},
		{syscall.SIGINT, `echo up; exec sleep 60`, 128 + 2},
		{syscall.SIGHUP, `echo up; ` + wait, 128 + 1},
		{syscall.SIGQUIT, `ulimit -c 0; echo up; ` + wait, 128 + 3},
		{syscall.SIGUSR1, `echo up; ` + wait, 128 + int(syscall.SIGUSR1)},
		{syscall.SIGUSR2, `echo up; ` + wait, 128 + int(syscall.SIGUSR2)},
	} {
		t.Run(fmt.Sprint(c.want, c.signal), func(t *testing.T) {
			l := launch(t, "", c.shell)
			l.Process.Signal(c.signal)
			if code := l.end(t); code != c.want {
				t.Errorf("ended with %d, want %d", code, c.want)
			}
			var record Record
			text, _ := os.ReadFile(filepath.Join(l.dir, RecordFile))
			if json.Unmarshal(text, &record) != nil || record.End == nil {
				t.Errorf("run.json is %s", text)
			}
		})
	}
}

// TestDeaths: a program that dies of any signal ends us with 128 and its number, or by the signal.
func TestDeaths(t *testing.T) {
	asLauncher(t)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGKILL, syscall.SIGUSR1,
		syscall.SIGSEGV, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGXCPU, syscall.SIGVTALRM,
		syscall.SIGPROF, syscall.SIGSYS} {
		l := launch(t, "", fmt.Sprintf("ulimit -c 0; echo up; kill -%d $$; %s", s, wait))
		if code := l.end(t); code != 128+int(s) {
			t.Errorf("%v: ended with %d", s, code)
		}
	}
}

// TestIgnored: what was ignored when we were started reaches nobody, as with nohup and what scripts put behind.
func TestIgnored(t *testing.T) {
	asLauncher(t)
	for _, c := range []struct {
		trap    string
		signals []syscall.Signal
	}{{"HUP", []syscall.Signal{syscall.SIGHUP}}, {"INT QUIT", []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}}} {
		t.Run(c.trap, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "go")
			l := launch(t, fmt.Sprintf("trap '' %s;", c.trap), fmt.Sprintf(`echo up; while ! test -e '%s'; do sleep 0.05; done; exit 4`, gate))
			for _, s := range c.signals {
				l.Process.Signal(s)
			}
			time.Sleep(300 * time.Millisecond) // one that is passed on would end the program
			if err := os.WriteFile(gate, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if code := l.end(t); code != 4 {
				t.Errorf("ended with %d", code)
			}
		})
	}
}

// until waits for something that happens soon.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never happened: ", what)
		}
	}
}

// gone reports whether a process has ended; whoever inherited it may not have noticed.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// TestNothingStays: the program named nvidia-smi ends when we are killed, and when whoever read our output goes away.
func TestNothingStays(t *testing.T) {
	asLauncher(t)
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere a killed parent's helpers go on")
	}
	for name, end := range map[string]func(*launched){
		"killed":     func(l *launched) { l.Process.Kill() },
		"no readers": func(l *launched) { l.close() },
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			text := fmt.Sprintf("#!/bin/sh\ntrap '' PIPE\necho $$ >>%s/pids\nwhile :; do echo '0, 1 MiB'; sleep 0.1; done\n", bin)
			if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			l := launch(t, "", `echo up; while :; do echo more; sleep 0.05; done`, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			var pids []string
			until(t, "nvidia-smi starts", func() bool {
				text, _ := os.ReadFile(filepath.Join(bin, "pids"))
				pids = strings.Fields(string(text))
				return len(pids) == len(samples)
			})
			end(l)
			for _, word := range pids {
				pid, _ := strconv.Atoi(word)
				until(t, "nvidia-smi ends", func() bool { return gone(pid) })
			}
		})
	}
}

// TestLeftBehind: what the program leaves behind doesn't hold us, and what it prints later arrives all the same.
func TestLeftBehind(t *testing.T) {
	asLauncher(t)
	gate := filepath.Join(t.TempDir(), "go")
	l := launch(t, "", fmt.Sprintf(`(while ! test -e '%s'; do sleep 0.05; done; echo late) & echo up; exit 3`, gate))
	var record Record
	until(t, "run.json is complete", func() bool {
		text, _ := os.ReadFile(filepath.Join(l.dir, RecordFile))
		return json.Unmarshal(text, &record) == nil && record.End != nil
	})
	until(t, "the launcher ends", func() bool { return gone(l.Process.Pid) })
	if len(record.Notes) == 0 || !strings.Contains(record.Notes[len(record.Notes)-1], "left behind") {
		t.Errorf("notes %q", record.Notes)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(l.out)
	if string(rest) != "late\n" {
		t.Errorf("later it printed %q", rest)
	}
	if code := l.end(t); code != 3 {
		t.Errorf("ended with %d", code)
	}
}
