package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/batch"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/store"
)

// memoryLimit is --max-memory in bytes; without it, three quarters of the
// container's or machine's.
func memoryLimit(flag string) (int64, error) {
	if flag == "" {
		return batch.MachineMemory() / 4 * 3, nil
	}
	return sizeOf("--max-memory", flag)
}

// sizeOf is a flag's size of memory, in bytes. A small one lacks its unit.
func sizeOf(flag, text string) (int64, error) {
	n, err := units.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	if n < 1<<20 {
		return 0, fmt.Errorf("%s %s: less than 1 MiB; give a unit, as in 8GiB", flag, text)
	}
	return n, nil
}

// readingFlags are those of commands that read one run.
func readingFlags(cmd *cobra.Command, partial, redact *bool, maxMemory *string) {
	flags := cmd.Flags()
	flags.BoolVar(partial, "partial", false, "use what a damaged file still holds")
	flags.BoolVar(redact, "redact", false, redactHelp)
	maxMemoryFlag(cmd, maxMemory)
}

// maxMemoryFlag bounds a command, see boundMemory.
func maxMemoryFlag(cmd *cobra.Command, size *string) {
	cmd.Flags().StringVar(size, "max-memory", "",
		"refuse to use more memory than `SIZE` (default: three quarters of the container's or machine's)")
}

// numberFlag is a flag for a number from 0 on; -1, of which its help says
// nothing, is what it is when it isn't given.
func numberFlag(cmd *cobra.Command, n *int, name, usage string) {
	cmd.Flags().IntVar(n, name, -1, usage)
	cmd.Flags().Lookup(name).DefValue = "0" // which pflag doesn't show
}

// outputFlag is -o where there is one output only: of several the last would
// win, and nobody would hear of the others.
func outputFlag(cmd *cobra.Command, text *string, usage string) {
	cmd.Flags().VarP(&once{text: text}, "output", "o", usage)
}

// once is the text of a flag that is given once at most.
type once struct {
	text  *string
	given bool
}

func (o *once) Set(text string) error {
	if o.given {
		return errors.New("given more than once")
	}
	*o.text, o.given = text, true
	return nil
}

func (o *once) String() string {
	if o.text == nil {
		return ""
	}
	return *o.text
}

func (o *once) Type() string { return "string" }

// capacityOf is the size of the GPU that --gpu names, 0 without one.
func capacityOf(gpu string) (int64, error) {
	if gpu == "" {
		return 0, nil
	}
	found, err := gpus.Find(gpu)
	if err != nil {
		return 0, fmt.Errorf("--gpu: %w", err)
	}
	return found.Capacity, nil
}

// readingLimit is how many bytes reading a recording may take, so that what is
// then made of it, half as much again, stays within --max-memory, too.
func readingLimit(flag string) (int64, error) {
	const program = 24 << 20 // bytes that it takes for nothing
	limit, err := memoryLimit(flag)
	return (limit - min(limit/2, program)) / 3 * 2, err
}

// smallInputs is the size of files, in bytes, below which memory is not worth
// collecting often: a fifth of the time of a short run goes into that.
const smallInputs = 128 << 20

// collectRarely lets garbage lie when all inputs are small files.
func collectRarely(names []string) {
	var bytes int64
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() {
			return
		}
		bytes += st.Size()
	}
	if bytes < smallInputs {
		debug.SetGCPercent(1600)                                           // the first time at 64 MiB, which most never reach
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), 8*smallInputs)) // compressed ones may turn out large
	}
}

// writeJSON writes a value as people can read it, too.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeFile writes a whole file or nothing: to a temporary file beside it
// that then takes its name, or to a store.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := stage(name, write)
	if err != nil {
		return err
	}
	defer f.drop()
	return f.place()
}

// staged is a file that is written, but for its name: place gives it that. What can't
// be had under another name first is only written then. drop leaves nothing behind
// that has no place.
type staged struct {
	place func() error
	drop  func()
}

// stage writes a file beside its name.
func stage(name string, write func(io.Writer) error) (staged, error) {
	name, local := store.Path(name)
	if !local {
		return staged{func() error {
			var stores store.Pool
			defer stores.Close()
			return stores.Write(context.Background(), name, write)
		}, func() {}}, nil
	}
	if irreplaceable(name) {
		return staged{func() error { return writeInto(name, write) }, func() {}}, nil
	}
	f, err := store.Beside(name, ".")
	if err != nil {
		if path := new(fs.PathError); errors.As(err, &path) {
			err = path.Err // of a name that nobody gave
		}
		return staged{}, fmt.Errorf("%s: can't be written: %w", name, err)
	}
	over := removeOnSignal(f.Name())
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
		return staged{}, fmt.Errorf("%s: %w", name, err)
	}
	return staged{func() error {
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

// halfWritten has the names of the temporary files and folders that a signal takes along.
var halfWritten sync.Map

// listen makes an interrupted program leave nothing temporary.
var listen = sync.OnceFunc(func() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-c
		dropHalfWritten()
		number, _ := s.(syscall.Signal)
		os.Exit(128 + int(number)) // as shells tell of a program that a signal ended
	}()
})

func dropHalfWritten() {
	halfWritten.Range(func(name, _ any) bool {
		os.RemoveAll(name.(string))
		return true
	})
}

// removeOnSignal has a file or folder removed if the program is interrupted before done is called.
func removeOnSignal(name string) (done func()) {
	listen()
	halfWritten.Store(name, nil)
	return func() { halfWritten.Delete(name) }
}
