// Package whole writes files as a whole or not at all, and leaves nothing half-written
// behind when the program is interrupted.
package whole

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/vramscope/vramscope/store"
)

// Write writes a whole file or nothing: to a temporary file beside it
// that then takes its name, or to a store.
func Write(name string, write func(io.Writer) error) error {
	f, err := Stage(name, write)
	if err != nil {
		return err
	}
	defer f.Drop()
	return f.Place()
}

// Staged is a file that is written, but for its name: Place gives it that. What can't
// be had under another name first is only written then. Drop leaves nothing behind
// that has no place.
type Staged struct {
	Place func() error
	Drop  func()
}

// Stage writes a file beside its name.
func Stage(name string, write func(io.Writer) error) (Staged, error) {
	name, local := store.Path(name)
	if !local {
		return Staged{func() error {
			var stores store.Pool
			defer stores.Close()
			return stores.Write(context.Background(), name, write)
		}, func() {}}, nil
	}
	if irreplaceable(name) {
		return Staged{func() error { return writeInto(name, write) }, func() {}}, nil
	}
	f, err := store.Beside(name, ".")
	if err != nil {
		if path := new(fs.PathError); errors.As(err, &path) {
			err = path.Err // of a name that nobody gave
		}
		return Staged{}, fmt.Errorf("%s: can't be written: %w", name, err)
	}
	over := RemoveOnSignal(f.Name())
	drop := func() { os.Remove(f.Name()); over() } // gone after the rename
	w := bufio.NewWriterSize(f, 1<<16)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		drop()
		return Staged{}, fmt.Errorf("%s: %w", name, err)
	}
	return Staged{func() error {
		if err := os.Rename(f.Name(), name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}, drop}, nil
}

// irreplaceable tells what is to be written into: a device, a pipe, or the
// name of an open file. A file of its name would not do what it does.
func irreplaceable(name string) bool {
	st, err := os.Stat(name)
	if err != nil || st.IsDir() {
		return false
	}
	path, err := filepath.Abs(name)
	return !st.Mode().IsRegular() || err == nil && slices.ContainsFunc(openFiles,
		func(s string) bool { return strings.HasPrefix(path, s) })
}

// openFiles is how names of files begin that a process has open. Other regular files
// in /dev, such as those in /dev/shm, are files like any.
var openFiles = []string{"/proc/", "/dev/fd/", "/dev/std"}

// writeInto writes to what is there, behind what a file already holds: the shell has
// emptied it, or was told to append.
func writeInto(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("%s: can't be written: %w", name, err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// unfinished has the names of the temporary files and folders that a signal takes along.
var unfinished sync.Map

// listen makes an interrupted program leave nothing temporary.
var listen = sync.OnceFunc(func() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-c
		DropUnfinished()
		number, _ := s.(syscall.Signal)
		os.Exit(128 + int(number)) // as shells tell of a program that a signal ended
	}()
})

// DropUnfinished removes what is temporary still.
func DropUnfinished() {
	unfinished.Range(func(name, _ any) bool {
		os.RemoveAll(name.(string))
		return true
	})
}

// RemoveOnSignal has a file or folder removed if the program is interrupted before done is called.
func RemoveOnSignal(name string) (done func()) {
	listen()
	unfinished.Store(name, nil)
	return func() { unfinished.Delete(name) }
}
