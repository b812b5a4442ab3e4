//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe or a device that -o names is written into, and stays what it is.
func TestWriteInto(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	read := make(chan string)
	go func() {
		b, err := os.ReadFile(pipe)
		read <- fmt.Sprintf("%s %v", b, err)
	}()
	hello := func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }
	if err := writeFile(pipe, hello); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "hello <nil>" {
		t.Errorf("read %q", got)
	}
	if err := writeFile(os.DevNull, hello); err != nil {
		t.Error(err)
	}
	for name, kind := range map[string]os.FileMode{pipe: os.ModeNamedPipe, os.DevNull: os.ModeCharDevice} {
		if st, err := os.Stat(name); err != nil || st.Mode()&kind == 0 {
			t.Errorf("%s is no longer what it was: %v, %v", name, st.Mode(), err)
		}
	}
}
