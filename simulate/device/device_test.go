package device

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const card = "name=Tesla Test;cc=8.6;sms=84;l2=6291456;total=1073741824;context=25165824"

var built = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "device-test-")
	if err != nil {
		return "", err
	}
	return Library(folder)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(filepath.Dir(path)))
	}
	os.Exit(code)
}

// library is the library built for tests.
func library(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the simulated GPU runs on Linux")
	}
	if _, err := compiler(); err != nil {
		t.Skip(err)
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// checks is the program of testdata/check.c.
var checks = sync.OnceValues(func() (string, error) {
	path, err := built()
	if err != nil {
		return "", err
	}
	cc, err := compiler()
	if err != nil {
		return "", err
	}
	program := filepath.Join(filepath.Dir(path), "check")
	arguments := append(cc[1:], "-w", "-o", program, filepath.Join("testdata", "check.c"), path, "-ldl")
	output, err := exec.Command(cc[0], arguments...).CombinedOutput()
	if err != nil {
		return "", errors.New(string(output))
	}
	return program, nil
})

func ask(t *testing.T, check, gpu string, environment ...string) *exec.Cmd {
	t.Helper()
	path := library(t)
	program, err := checks()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, check)
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "LD_PRELOAD=" + path, "LD_LIBRARY_PATH=" + filepath.Dir(path),
		"VRAMSCOPE_SIMULATED_BESIDE_GPU=1", "VRAMSCOPE_SIMULATED_GPU=" + gpu,
	}, environment...)
	return command
}

func TestDevice(t *testing.T) {
	for check, with := range map[string]struct{ gpu, visible string }{
		"capacity": {}, "pages": {}, "fragmentation": {}, "absurd": {}, "virtual memory": {}, "graphs": {}, "values": {},
		"collectives": {}, "pinned": {}, "handles": {}, "unknown": {}, "properties": {}, "convolution": {}, "recurrent": {},
		"kernels": {},
		"reuse":   {},
		"events":  {gpu: ";lag=3"},
		"visible": {gpu: ";count=4", visible: "3,1,9,0"},
		"nothing": {gpu: "-"},
	} {
		t.Run(check, func(t *testing.T) {
			gpu := card + with.gpu
			if with.gpu == "-" {
				gpu = ""
			}
			command := ask(t, check, gpu)
			if with.visible != "" {
				command.Env = append(command.Env, "CUDA_VISIBLE_DEVICES="+with.visible)
			}
			if output, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
		})
	}
}

// account is the file that a process writes at its end, as the README has it.
type account struct {
	Version, Pid int
	GPU          string
	Devices      []struct{ Device, Used, Peak, Total, Context, Other, Refused int64 }
	Refused      []struct{ Device, Bytes, Free int64 }
	Unknown      map[string]int `json:"unknown_calls"`
	Uncounted    map[string]int `json:"workspaces_not_counted"`
	Convolutions map[string]int `json:"convolutions_not_counted"`
	Versions     map[string]int
}

func read(t *testing.T, path string) account {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var a account
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return a
}

func TestAccount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account.json")
	of := func(check string) account {
		if output, err := ask(t, check, card, "VRAMSCOPE_SIMULATED_ACCOUNT="+path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return read(t, path)
	}
	a := of("capacity")
	if d := a.Devices; len(d) != 1 || a.GPU != "Tesla Test" || d[0].Peak != 1000<<20 || d[0].Refused != 2 || d[0].Total != 1<<30 {
		t.Errorf("capacity: %+v", a)
	}
	if r := a.Refused; len(r) != 2 || r[0].Bytes != 2<<20 || r[0].Free != 0 || r[1].Bytes != 1002<<20 || r[1].Free != 1000<<20 {
		t.Errorf("refused: %+v", a.Refused)
	}
	a = of("unknown")
	if a.Unknown["cudaImportExternalMemory"] != 1 || a.Unknown["cuOfTomorrow?"] != 2 ||
		a.Uncounted["cusolverDnSpotrf_bufferSize"] != 1 {
		t.Errorf("unknown: %+v", a)
	}
	a = of("convolution")
	if len(a.Convolutions) != 1 || a.Convolutions["forward"] != 2 || len(a.Unknown)+len(a.Uncounted) != 0 {
		t.Errorf("convolutions: %+v", a)
	}
}

// TestTwoProcesses has two that run at the same time, each with an account of its own.
func TestTwoProcesses(t *testing.T) {
	folder := t.TempDir()
	var both []*exec.Cmd
	for range 2 {
		command := ask(t, "capacity", card, "VRAMSCOPE_SIMULATED_ACCOUNT="+filepath.Join(folder, "%p.json"))
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		both = append(both, command)
	}
	for _, command := range both {
		if err := command.Wait(); err != nil {
			t.Fatal(err)
		}
		pid := command.Process.Pid
		a := read(t, filepath.Join(folder, strconv.Itoa(pid)+".json"))
		if a.Pid != pid || a.Devices[0].Peak != 1000<<20 {
			t.Errorf("account of %d: %+v", pid, a)
		}
	}
}

// TestSharedBooks has two on one GPU: the second sees what the first holds, until that one ends, or is killed.
func TestSharedBooks(t *testing.T) {
	books := "VRAMSCOPE_SIMULATED_BOOKS=" + filepath.Join(t.TempDir(), "books")
	for _, end := range []func(*exec.Cmd, io.Closer){
		func(_ *exec.Cmd, in io.Closer) { in.Close() },
		func(c *exec.Cmd, _ io.Closer) { c.Process.Kill() },
	} {
		first := ask(t, "holds", card, books)
		in, err := first.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := first.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if output, err := ask(t, "beside", card, books).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		end(first, in)
		_ = first.Wait()
		if output, err := ask(t, "capacity", card, books).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	}
}

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if output, err := ask(t, "virtual memory", card, "VRAMSCOPE_SIMULATED_LOG="+path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"reserve 0x302000000 41943040\n", "create 0 1 20971520\n", "map 0 0x302000000 20971520\n", "unmap 0x302000000 20971520\n",
		"release 1\n",
	} {
		if !strings.Contains(string(data), line) {
			t.Errorf("no %q in\n%s", line, data)
		}
	}
}

// TestRefusesBesideDriver runs a program that has a driver loaded.
func TestRefusesBesideDriver(t *testing.T) {
	path := library(t)
	cc, _ := compiler()
	folder := t.TempDir()
	driver, program := filepath.Join(folder, "libcuda.so.1"), filepath.Join(folder, "program")
	source := filepath.Join(folder, "a.c")
	if err := os.WriteFile(source, []byte("int f(void); int main(void) { return f(); }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "b.c"), []byte("int f(void); int f(void) { return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"-shared", "-fPIC", "-o", driver, filepath.Join(folder, "b.c")},
		{"-o", program, source, driver, "-Wl,-rpath," + folder},
	} {
		if output, err := exec.Command(cc[0], append(cc[1:], arguments...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	for beside, want := range map[string]int{"0": 2, "1": 0} {
		command := exec.Command(program)
		command.Env = []string{"LD_PRELOAD=" + path, "VRAMSCOPE_SIMULATED_BESIDE_GPU=" + beside}
		output, _ := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != want || strings.Count(string(output), "\n") != want/2 {
			t.Errorf("beside=%s: exit %d, %q", beside, code, output)
		}
	}
}

func TestLibraryIsBuiltOnce(t *testing.T) {
	path := library(t)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CC", "/nonexistent")
	again, err := Library(filepath.Dir(filepath.Dir(path)))
	after, _ := os.Stat(path)
	if err != nil || again != path || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%s, %v", again, err)
	}
	for _, name := range []string{"libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"} {
		if to, err := os.Readlink(filepath.Join(filepath.Dir(path), name)); err != nil || to != Name {
			t.Errorf("%s is %q, %v", name, to, err)
		}
	}
}

func TestNoCompiler(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the simulated GPU runs on Linux")
	}
	t.Setenv("CC", "")
	t.Setenv("PATH", t.TempDir())
	cache := t.TempDir()
	if _, err := Library(cache); !errors.Is(err, ErrNoCompiler) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(cache); len(left) != 0 {
		t.Errorf("%v stays in the cache", left)
	}
}

// TestPlacedWhole has several processes' worth of builders at once: everybody gets the same whole folder.
func TestPlacedWhole(t *testing.T) {
	cache := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			path, err := place(cache, []byte("x"), func(folder string) error {
				return os.WriteFile(filepath.Join(folder, Name), []byte("whole"), 0o755)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != "whole" {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
	all.Wait()
	if left, _ := os.ReadDir(cache); len(left) != 1 {
		t.Errorf("%v in the cache", left)
	}
}
