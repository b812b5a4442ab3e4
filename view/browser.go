package view

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"time"
)

// Say prints the address, and the way there from another machine.
func (s *Server) Say(w io.Writer, opened bool) {
	fmt.Fprintf(w, "%s\n", s.URL())
	if !opened {
		name, host := "USER", "HOST"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		if h, err := os.Hostname(); err == nil {
			host = h
		}
		fmt.Fprintf(w, "  from another machine: ssh -N -L %d:127.0.0.1:%d %s@%s, and open that address there\n", s.Port(),
			s.Port(), name, host)
	}
	fmt.Fprintln(w, "  Ctrl-C ends it")
}

// OpenBrowser opens the pages in this machine's browser, where somebody sits in front of it.
func (s *Server) OpenBrowser() bool {
	if os.Getenv("SSH_CONNECTION") != "" {
		return false
	}
	address, err := s.Door()
	if err != nil {
		return false
	}
	var command []string
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", address}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return false
		}
		command = []string{"xdg-open", address}
	}
	c := exec.Command(command[0], command[1:]...)
	if c.Start() != nil {
		return false
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		return err == nil
	case <-time.After(3 * time.Second):
		return true // it is the browser itself
	}
}
