//go:build unix

package run

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// openTerminal makes a terminal like the one given. It passes bytes on as they are: the
// real one does what a terminal does with them.
func openTerminal(like *os.File) (reader, writer *os.File, over func(), err error) {
	reader, writer, err = pty.Open()
	if err != nil {
		return nil, nil, nil, err
	}
	if _, err = term.MakeRaw(int(writer.Fd())); err != nil {
		reader.Close()
		writer.Close()
		return nil, nil, nil, err
	}
	_ = pty.InheritSize(like, reader)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-resized:
				_ = pty.InheritSize(like, reader)
			case <-done:
				return
			}
		}
	}()
	return reader, writer, sync.OnceFunc(func() {
		signal.Stop(resized)
		close(done)
	}), nil
}

// passOnBy starts a process that copies the rest of the program's output.
func passOnBy(from, to *os.File) error {
	path, err := exec.LookPath("cat")
	if err != nil {
		return err
	}
	cmd := exec.Command(path)
	cmd.Stdin, cmd.Stdout = from, to
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

// blocking makes reads of a file wait in the system, as other programs expect of what they are given.
func blocking(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), false) })
	return errors.Join(failed, err)
}

// relay passes signals on to the program.
type relay struct {
	dir     string
	passed  []os.Signal
	signals chan os.Signal
	done    chan struct{}
	mu      sync.Mutex
	program *os.Process
	early   []os.Signal      // that came before the program was there
	again   <-chan time.Time // when a kept SIGUSR2 is tried again
}

// listening is how often it is looked whether somebody listens for a kept SIGUSR2.
const listening = 200 * time.Millisecond

// told are the signals by which programs are told something.
var told = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT}

// newRelay passes on what nobody had ignored when we were started; the rest stays ignored, also for the program.
func newRelay(dir string) *relay {
	r := &relay{dir: dir, signals: make(chan os.Signal, 16), done: make(chan struct{})}
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT) // a shell ignores both for what it puts behind; Go tells of the first alone
	}
	for _, s := range told {
		if !signal.Ignored(s.(syscall.Signal)) {
			r.passed = append(r.passed, s)
		}
	}
	signal.Notify(r.signals, r.passed...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // for good: writing to a reader that has gone fails, and no more
	go r.work()
	return r
}

func (r *relay) work() {
	for {
		select {
		case s := <-r.signals:
			r.pass(s)
		case <-r.again:
			r.again = nil
			r.pass(syscall.SIGUSR2)
		case <-r.done:
			return
		}
	}
}

func (r *relay) to(p *os.Process) {
	r.mu.Lock()
	r.program = p
	early := r.early
	r.mu.Unlock()
	for _, s := range early {
		r.signals <- s
	}
}

func (r *relay) stop() {
	signal.Stop(r.signals)
	close(r.done)
	signal.Reset(r.passed...)
}

// pass passes one signal on. What a terminal's keys send reaches the program by itself.
func (r *relay) pass(s os.Signal) {
	r.mu.Lock()
	program := r.program
	if program == nil {
		r.early = append(r.early, s)
	}
	r.mu.Unlock()
	switch {
	case program == nil:
	case (s == syscall.SIGINT || s == syscall.SIGQUIT) && ofTerminal():
	case s == syscall.SIGUSR2 && r.askRecorders():
	case s == syscall.SIGUSR2 && deadly(program.Pid, syscall.SIGUSR2) && pythonIn(program.Pid):
		r.again = time.After(listening) // a recorder will listen once PyTorch has come up
	default:
		_ = program.Signal(s)
	}
}

// askRecorders has the processes that listen for it dump; false when there are none. A launcher
// between would die of the signal.
func (r *relay) askRecorders() bool {
	host, _ := os.Hostname()
	asked := false
	for _, p := range processes(r.dir) {
		if p.Signals && p.State == "cuda" && p.Host == host && syscall.Kill(p.PID, syscall.SIGUSR2) == nil {
			asked = true
		}
	}
	return asked
}

// ofTerminal reports whether we are in the foreground of a terminal, whose keys signal all of its foreground.
func ofTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// status is how a program ended.
func status(s *os.ProcessState) (int, syscall.Signal) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), w.Signal()
	}
	return s.ExitCode(), 0
}

func nameOfSignal(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

// DieOf ends this process by the signal that ended the program, so that whoever started us
// sees the same; it returns where that can't be, and 128 and the signal is to be the exit code.
func DieOf(s syscall.Signal) {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL:
		if !signal.Ignored(s) {
			signal.Reset(s)
			_ = syscall.Kill(os.Getpid(), s)
			time.Sleep(time.Second) // it is on its way
		}
	}
}
