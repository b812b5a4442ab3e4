//go:build unix

package whole

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
	if err := Write(pipe, hello); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "hello <nil>" {
		t.Errorf("read %q", got)
	}
	if err := Write(os.DevNull, hello); err != nil {
		t.Error(err)
	}
	for name, kind := range map[string]os.FileMode{pipe: os.ModeNamedPipe, os.DevNull: os.ModeCharDevice} {
		if st, err := os.Stat(name); err != nil || st.Mode()&kind == 0 {
			t.Errorf("%s is no longer what it was: %v, %v", name, st.Mode(), err)
		}
	}
}

// A regular file is replaced wherever it lies, but for the name of an open one: that is
// written into, behind what a shell that appends has there already.
func TestOpenFiles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string]bool{f.Name(): false, fmt.Sprintf("/dev/fd/%d", f.Fd()): true}
	if shm, err := os.CreateTemp("/dev/shm", "vramscope-"); err == nil {
		shm.Close()
		defer os.Remove(shm.Name())
		names[shm.Name()] = false
	}
	const was = "what was there before"
	for name, into := range names {
		if err := os.WriteFile(name, []byte(was), 0o600); err != nil {
			t.Skip(err)
		}
		before, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(name, func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(name)
		if err != nil || os.SameFile(before, after) != into {
			t.Errorf("%s: written into %v, want %v; %v", name, !into, into, err)
		}
		want := "hello"
		if into {
			want = was + want
		}
		if b, err := os.ReadFile(name); string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
