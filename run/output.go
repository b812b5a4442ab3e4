package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/term"
)

// output passes what the program prints on, and keeps a copy in a log.
type output struct {
	stdout, stderr *os.File // the program's ends
	ends           []*os.File
	log            *log
	streams        []*stream
	over           []func()
}

// stream is one of the program's, on its way to where it went.
type stream struct {
	from, to *os.File
	done     chan struct{}
}

// newOutput prepares the program's output: where ours is a terminal, the program's is one,
// too, so that its progress bars stay.
func newOutput(name string, s Streams) (*output, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	o := &output{log: &log{file: file}}
	if o.stdout, err = o.stream(s.Out); err == nil {
		if sameTerminal(s.Out, s.Err) {
			o.stderr = o.stdout
		} else {
			o.stderr, err = o.stream(s.Err)
		}
	}
	if err != nil {
		o.wait(0)
		return nil, fmt.Errorf("the program's output: %w", err)
	}
	return o, nil
}

func sameTerminal(a, b *os.File) bool {
	if !term.IsTerminal(int(a.Fd())) || !term.IsTerminal(int(b.Fd())) {
		return false
	}
	x, err := a.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// stream makes one end for the program and copies what it writes there.
func (o *output) stream(to *os.File) (*os.File, error) {
	var reader, writer *os.File
	var err error
	if term.IsTerminal(int(to.Fd())) {
		var over func()
		if reader, writer, over, err = openTerminal(to); err == nil {
			o.over = append(o.over, over)
		}
	}
	if writer == nil { // no terminal, or none can be made
		if reader, writer, err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	o.ends = append(o.ends, writer)
	one := &stream{reader, to, make(chan struct{})}
	o.streams = append(o.streams, one)
	go func() {
		defer close(one.done)
		if err := passOn(reader, to, o.log); !errors.Is(err, os.ErrDeadlineExceeded) {
			reader.Close() // a program whose reader has gone is told so, as without us
		}
	}()
	return writer, nil
}

// passOn copies to the end. What can't be logged is shown all the same.
func passOn(from io.Reader, to io.Writer, log io.Writer) error {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				return failed
			}
			log.Write(buffer[:n])
		}
		if err != nil {
			return err // EOF; of a terminal whose other end is closed, EIO
		}
	}
}

// open reports whether more may come.
func (s *stream) open() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// handOver leaves the rest of a stream to a process that lives as long as what the program left behind.
func (s *stream) handOver() error {
	if s.from.SetReadDeadline(time.Now()) == nil {
		<-s.done // so that nothing is read here that isn't written
	}
	if err := blocking(s.from); err != nil {
		return err // it was closed meanwhile: everything has been copied
	}
	defer s.from.Close()
	return passOnBy(s.from, s.to)
}

// started gives the program's ends up, which it has inherited.
func (o *output) started() {
	for _, f := range o.ends {
		f.Close()
	}
	o.ends = nil
}

// wait waits until everything is copied, so long at most, and reports whether it was. What still comes then
// goes on without us and the log.
func (o *output) wait(most time.Duration) bool {
	o.started()
	copied, stop := context.WithTimeout(context.Background(), most)
	defer stop()
	complete := true
	for _, s := range o.streams {
		select {
		case <-s.done:
			continue
		case <-copied.Done():
		}
		if s.open() {
			complete = false
			_ = s.handOver() // without the program for it, output of what was left behind ends here
		}
	}
	for _, over := range o.over {
		over()
	}
	o.log.close()
	return complete
}

// log is a file to which several streams go. It keeps the first and the last part of what
// is too much: an error stands at the end, what was run at the beginning.
type log struct {
	mu      sync.Mutex
	file    *os.File
	size    int64
	failed  error
	rotated bool
}

// maxLog is the size of each of the log's two parts.
const maxLog = 256 << 20

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.failed != nil {
		return len(b), nil
	}
	if l.size+int64(len(b)) > maxLog {
		l.rotate()
	}
	if l.failed == nil {
		_, l.failed = l.file.Write(b)
		l.size += int64(len(b))
	}
	return len(b), nil
}

// rotate goes on in a second file, which is begun anew each time it is full.
func (l *log) rotate() {
	l.size = 0
	if l.rotated {
		_, err := l.file.Seek(0, io.SeekStart)
		l.failed = errors.Join(err, l.file.Truncate(0))
		return
	}
	name := filepath.Join(filepath.Dir(l.file.Name()), endFile)
	l.file.Close()
	l.rotated = true
	l.file, l.failed = os.Create(name)
}

func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = nil
}
