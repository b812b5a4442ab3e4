//go:build unix

package run

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

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

// relay passes signals on to the program.
type relay struct {
	dir     string
	signals chan os.Signal
	done    chan struct{}
	mu      sync.Mutex
	program *os.Process
	early   []os.Signal // that came before the program was there
}

// passed are the signals by which programs are told something.
var passed = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT}

func newRelay(dir string) *relay {
	r := &relay{dir: dir, signals: make(chan os.Signal, 16), done: make(chan struct{})}
	signal.Notify(r.signals, passed...)
	go func() {
		for {
			select {
			case s := <-r.signals:
				r.pass(s)
			case <-r.done:
				return
			}
		}
	}()
	return r
}

func (r *relay) to(p *os.Process) {
	r.mu.Lock()
	early := r.early
	r.program, r.early = p, nil
	r.mu.Unlock()
	for _, s := range early {
		r.pass(s)
	}
}

func (r *relay) stop() {
	signal.Stop(r.signals)
	close(r.done)
	signal.Reset(passed...)
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

// apart keeps a helper from the keys of the terminal.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// DieOf ends this process by the signal that ended the program, so that whoever started us
// sees the same; it returns where that can't be.
func DieOf(s syscall.Signal) {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
		syscall.SIGALRM:
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s)
		select {} // it is on its way
	}
}
