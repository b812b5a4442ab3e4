package simulate

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// Refusal is a machine or a program that nothing can be simulated for. Its text says what to do instead.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

// Machine is where a program would run.
type Machine struct {
	System, Architecture string
	Root                 string // of its files
}

// Here is this machine.
var Here = Machine{runtime.GOOS, runtime.GOARCH, "/"}

// Check refuses a machine that can't run the program on a simulated GPU.
func (m *Machine) Check() error {
	switch {
	case m.System == "darwin":
		return &Refusal{"no GPU can be simulated on macOS, whose PyTorch has no CUDA: run it in a Linux container " +
			"(docker run --platform linux/amd64), with PyTorch's CUDA wheel"}
	case m.System == "windows":
		return &Refusal{"no GPU can be simulated on Windows itself: run it in WSL2 or a Linux container, with PyTorch's " +
			"CUDA wheel for Linux"}
	case m.System != "linux" || m.Architecture != "amd64" && m.Architecture != "arm64":
		return &Refusal{"a GPU is simulated on Linux x86-64 and aarch64 alone, and this " +
			"is " + m.System + " on " + m.Architecture +
			": run it in such a container"}
	}
	return m.real()
}

// real refuses a machine that has a GPU, whose driver and the simulated one's library would answer side by side.
func (m *Machine) real() error {
	found, err := filepath.Glob(filepath.Join(m.Root, "dev", "nvidia[0-9]*"))
	if err != nil || len(found) == 0 {
		return nil
	}
	f, err := os.Open(found[0])
	if errors.Is(err, os.ErrPermission) {
		return nil // not for this user
	}
	if err == nil {
		f.Close()
	}
	return &Refusal{"this machine has a GPU (/" + rel(m.Root, found[0]) + "), and a simulated one beside it would " +
		"answer for it: leave --simulate out, or run it in a container without the GPU"}
}

func rel(root, path string) string {
	if name, err := filepath.Rel(root, path); err == nil {
		return name
	}
	return path
}
