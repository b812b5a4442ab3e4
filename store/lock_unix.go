//go:build unix

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock holds a lock on a file of the folder, which goes with the process.
func (f folder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(f.dir, LockName)
	for {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			defer file.Close()
			return nil, &takenError{whoIn(file)}
		case err != nil:
			file.Close()
			return nil, fmt.Errorf("%w: %w", ErrNoLocks, err)
		}
		if !isAt(file, name) { // its holder has just let go of it
			file.Close()
			continue
		}
		text, _ := json.Marshal(self()) // plain data always can be
		_ = file.Truncate(0)            // a full disk has no name of the holder
		_, _ = file.WriteAt(append(text, '\n'), 0)
		return func() {
			os.Remove(name) // while nobody else can have it
			file.Close()
		}, nil
	}
}

// isAt reports whether a file still has its name.
func isAt(file *os.File, name string) bool {
	a, err := file.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// whoIn says who holds a lock. A process that has only just got it names itself in a moment.
func whoIn(r io.ReaderAt) string {
	const tries, pause = 20, 10 * time.Millisecond
	for range tries {
		var h holder
		if json.NewDecoder(io.NewSectionReader(r, 0, 1<<12)).Decode(&h) == nil {
			return h.String()
		}
		time.Sleep(pause)
	}
	return "another process"
}

// runs reports whether there is a process of that number.
func runs(pid int) bool { return pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
