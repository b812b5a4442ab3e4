// Package device is the simulated GPU: a C library that answers every call that PyTorch makes to CUDA, keeps the books of a
// GPU's memory, and computes nothing. It is preloaded into a program, so the program runs PyTorch's own allocator, autograd
// and optimizers, and needs no GPU:
//
//	path, err := device.Library(cache)
//	command.Env = append(os.Environ(), "LD_PRELOAD="+path, "LD_LIBRARY_PATH="+filepath.Dir(path), "VRAMSCOPE_SIMULATED_GPU=…")
//
// README.md says what the environment holds, and which file answers what.
package device

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

//go:embed source
var sources embed.FS

// Name is the library's file.
const Name = "libvramscope_device.so"

// aliases are the names under which programs open the driver and NVML themselves.
var aliases = []string{"libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"}

const compilesFor = 5 * time.Minute

// ErrNoCompiler says that there is neither a prebuilt library nor a way to build one.
var ErrNoCompiler = errors.New("the simulated GPU needs a C compiler here, once: install cc (gcc or clang), " +
	"or vramscope from PyPI, which brings the library along")

// Library returns the path of the library, in a folder where it has the names of the driver and of NVML, too. It is the
// one that came with the program, or else it is compiled into cache, once for each version of its sources.
func Library(cache string) (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return "", fmt.Errorf("the simulated GPU runs on Linux x86-64 and aarch64, not on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if data, ok := shipped(); ok {
		return place(cache, data, func(folder string) error { return os.WriteFile(filepath.Join(folder, Name), data, 0o755) })
	}
	digest, err := contents()
	if err != nil {
		return "", err
	}
	return place(cache, digest, compile)
}

// shipped is the library that a wheel or an archive has beside the program.
func shipped() ([]byte, bool) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil, false
	}
	folder := filepath.Dir(program)
	for _, at := range []string{filepath.Join(folder, Name), filepath.Join(folder, "..", "lib", "vramscope", Name)} {
		if data, err := os.ReadFile(at); err == nil {
			return data, true
		}
	}
	return nil, false
}

// contents are all that decides what is compiled.
func contents() ([]byte, error) {
	var all bytes.Buffer
	err := each(func(name string, data []byte) error {
		fmt.Fprintf(&all, "%s %d\n%s", name, len(data), data)
		return nil
	})
	return all.Bytes(), err
}

func each(use func(name string, data []byte) error) error {
	entries, err := fs.ReadDir(sources, "source")
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := sources.ReadFile(path.Join("source", e.Name()))
		if err != nil {
			return err
		}
		if err := use(e.Name(), data); err != nil {
			return err
		}
	}
	return nil
}

// place fills a folder of the cache that is named after what's in it, and lets nobody see it before it is whole.
func place(cache string, of []byte, fill func(folder string) error) (string, error) {
	folder := filepath.Join(cache, fmt.Sprintf("device-%x", sha256.Sum256(of))[:len("device-")+16])
	library := filepath.Join(folder, Name)
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(cache, "device-part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := fill(part); err != nil {
		return "", err
	}
	for _, alias := range aliases {
		if err := os.Symlink(Name, filepath.Join(part, alias)); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(part, folder); err != nil {
		if _, there := os.Stat(library); there != nil { // not another process that was faster
			return "", err
		}
	}
	return library, nil
}

func compile(folder string) error {
	compiler, err := compiler()
	if err != nil {
		return err
	}
	from, err := os.MkdirTemp(folder, "source-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(from)
	flags, err := sources.ReadFile("source/flags")
	if err != nil {
		return err
	}
	arguments := slices.Concat(compiler[1:], strings.Fields(string(flags)), []string{"-o", Name})
	err = each(func(name string, data []byte) error {
		if strings.HasSuffix(name, ".c") {
			arguments = append(arguments, name)
		}
		return os.WriteFile(filepath.Join(from, name), data, 0o644)
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), compilesFor)
	defer cancel()
	command := exec.CommandContext(ctx, compiler[0], append(arguments, "-ldl", "-lpthread")...)
	command.Dir = from
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the simulated GPU with %s: %w\n%s", compiler[0], err, bytes.TrimSpace(output))
	}
	return os.Rename(filepath.Join(from, Name), filepath.Join(folder, Name))
}

// compiler is $CC, or the first that is installed.
func compiler() ([]string, error) {
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		return cc, nil
	}
	for _, name := range []string{"cc", "gcc", "clang"} {
		if found, err := exec.LookPath(name); err == nil {
			return []string{found}, nil
		}
	}
	return nil, ErrNoCompiler
}
