package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// viewed starts the program as it is, and gives the address that it prints.
func viewed(t *testing.T, tmp string, args ...string) (c *exec.Cmd, address string, said *strings.Builder) {
	t.Helper()
	program, err := exec.LookPath("vramscope") // of these tests
	if err != nil {
		t.Fatal(err)
	}
	c = exec.CommandContext(t.Context(), program, append([]string{"view"}, args...)...)
	c.Env = append(os.Environ(), "TMPDIR="+tmp)
	said = &strings.Builder{}
	c.Stderr = said
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	address, _ = bufio.NewReader(out).ReadString('\n')
	return c, strings.TrimSpace(address), said
}

// Ctrl-C, and what a shell sends when it goes, end the server, and nothing stays behind.
func TestViewEnds(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		tmp := t.TempDir()
		c, address, said := viewed(t, tmp, "--max-memory", "1GiB", "../../testdata/said/said.pickle.gz", "missing.pickle")
		for path, want := range map[string][2]string{"0/": {"200 OK", "user metadata"}, "1/": {"422 Unprocessable Entity", "missing.pickle"}} {
			answer, err := http.Get(address + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.Status != want[0] || !strings.Contains(strings.ToLower(string(body)), strings.ToLower(want[1])) {
				t.Errorf("%s: %s, %d bytes: %v; want %q", path, answer.Status, len(body), err, want)
			}
		}
		if left, _ := filepath.Glob(tmp + "/*/*/columns-0"); len(left) != 1 {
			t.Errorf("columns %v: they should be in %s", left, tmp)
		}
		_ = c.Process.Signal(signal)
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
		if left, err := os.ReadDir(tmp); len(left) > 0 || err != nil {
			t.Errorf("%v left %v, %v", signal, left, err)
		}
		if _, err := http.Get(address + "0/"); err == nil {
			t.Error("something still answers")
		}
		if said.Len() > 0 {
			t.Errorf("it said %q", said)
		}
	}
}

// What can't be viewed is told as analyze tells it, and leaves nothing behind either.
func TestViewNothing(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a missing file": {[]string{"missing.pickle"}, "vramscope: missing.pickle: "},
		"nothing":        {nil, "vramscope: view: no input"},
		"standard input": {[]string{"-"}, "vramscope: view: standard input"},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			cmd, address, said := viewed(t, tmp, c.args...)
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 2 {
				t.Errorf("%v", err)
			}
			if address != "" || !strings.Contains(said.String(), c.want) {
				t.Errorf("%q, said %q; want %q", address, said, c.want)
			}
			if left, err := os.ReadDir(tmp); len(left) > 0 || err != nil {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}
