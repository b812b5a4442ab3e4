package whole

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A program that a signal ends while it writes leaves nothing temporary, and
// has the exit code of one that a signal ended.
func TestInterrupted(t *testing.T) {
	if folder := os.Getenv("VRAMSCOPE_TEST_INTERRUPTED"); folder != "" { // the program
		defer RemoveOnSignal(folder)()
		os.Stdout.WriteString("ready\n")
		select {}
	}
	folder := filepath.Join(t.TempDir(), "unfinished")
	if err := os.MkdirAll(filepath.Join(folder, "tables"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := exec.Command(os.Args[0], "-test.run=^TestInterrupted$")
	program.Env = append(os.Environ(), "VRAMSCOPE_TEST_INTERRUPTED="+folder)
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(out); in.Scan() && in.Text() != "ready"; {
	}
	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = program.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("ended with %v", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", folder)
	}
}
