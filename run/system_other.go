//go:build !unix

package run

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// openTerminal can't make one here: the program writes into a pipe.
func openTerminal(*os.File) (reader, writer *os.File, over func(), err error) {
	return nil, nil, nil, errors.ErrUnsupported
}

func passOnBy(*os.File, *os.File) error { return errors.ErrUnsupported }

func blocking(*os.File) error { return nil }

// relay keeps interrupts from ending us before the program, which gets them from its console.
type relay struct{ signals chan os.Signal }

func newRelay(string) *relay {
	r := &relay{make(chan os.Signal, 16)}
	signal.Notify(r.signals, os.Interrupt)
	return r
}

func (r *relay) to(*os.Process) {}

// askRecorders can't: there is no signal for it.
func (r *relay) askRecorders() bool { return false }

func (r *relay) stop() { signal.Stop(r.signals) }

func status(s *os.ProcessState) (int, syscall.Signal) { return s.ExitCode(), 0 }

func nameOfSignal(s syscall.Signal) string { return s.String() }

func apart(*exec.Cmd) {}

// DieOf does nothing: no signal ends a program here.
func DieOf(syscall.Signal) {}
