//go:build linux

package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRecognised tells processes by the files that they have mapped.
func TestRecognised(t *testing.T) {
	const maps = "7f00-7f10 r-xp 00000000 08:01 123   "
	for _, c := range []struct {
		name, executable, maps string
		minor                  int
		torch                  bool
	}{
		{"of the system", "/usr/bin/python3.14", maps + "/venv/torch/lib/libtorch_python.so\n", 14, true},
		{"of a shared library", "/opt/app/bin/server", maps + "/usr/lib/libpython3.12.so.1.0\n" + maps + "/x/libtorch_cuda.so\n", 12, true},
		{"of a prefix", "/opt/bin/python3", maps + "/opt/lib/python3.9/lib-dynload/_ssl.so\n", 9, false},
		{"without a lock", "/usr/bin/python3.13t", "", 13, false},
		{"another program", "/usr/bin/sleep", maps + "/usr/lib/libc.so.6\n", -1, false},
		{"a number without end", "/usr/bin/python3.99999", "", -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p := recognised(1, c.executable, c.maps); p.minor != c.minor || p.torch != c.torch {
				t.Errorf("Python 3.%d, torch %v; want 3.%d, %v", p.minor, p.torch, c.minor, c.torch)
			}
		})
	}
}

// TestUnreachable names what can't be looked into, before anything is written.
func TestUnreachable(t *testing.T) {
	t.Chdir(t.TempDir())
	sleeping := exec.Command("sleep", "60")
	if err := sleeping.Start(); err != nil {
		t.Skip(err)
	}
	defer sleeping.Process.Kill()
	for pid, want := range map[int]string{
		sleeping.Process.Pid: "is no Python program, nor has it started one that uses PyTorch",
		1<<22 + 1:            "no process 4194305",
	} {
		_, _, err := Attach(t.Context(), Attachment{PID: pid, Wait: time.Second, Stacks: "all", Ring: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("left %s", left[0].Name())
	}
}

func TestAttachmentCheck(t *testing.T) {
	good := Attachment{PID: 1, Wait: time.Second, Stacks: "python", Ring: 1 << 30, Record: time.Minute}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Attachment){
		"--record": func(a *Attachment) { a.Record = time.Millisecond },
		"--wait":   func(a *Attachment) { a.Wait = 0 },
		"--stacks": func(a *Attachment) { a.Stacks = "some" },
		"--ring":   func(a *Attachment) { a.Ring = 1 },
		"-o s3://": func(a *Attachment) { a.Dir = "s3://bucket/x" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want one that says %s", err, want)
		}
	}
}

// TestVisits has a Python run the visits as one that was attached to would, and looks at what they leave.
func TestVisits(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	stub, err := filepath.Abs("../python/tests/stub")
	if err != nil {
		t.Fatal(err)
	}
	a := Attachment{PID: 1, Dir: filepath.Join(t.TempDir(), `o"d`), Stacks: "python", Ring: 1 << 20}
	dir, err := a.options().Folder()
	if err != nil {
		t.Fatal(err)
	}
	v := visitor{dir: dir, options: a.options().text()}
	p := running{pid: 1}
	var program strings.Builder
	program.WriteString("import sys\nsys.path.insert(0, " + literal(stub) + ")\nbefore = set(sys.modules)\n")
	visit := func(what string) {
		answer := filepath.Join(dir, what+".json")
		program.WriteString("exec(compile(" + literal(v.script(p, what, answer)) + ", 'vramscope', 'exec'), {})\n")
		program.WriteString("import os; os.rename(" + literal(answer) + ", " + literal(answer) + " + str(n)); n += 1\n")
	}
	program.WriteString("n = 0\n")
	visit("look") // 0: no PyTorch
	program.WriteString("import torch\n")
	visit("look") // 1: no CUDA
	program.WriteString("seen = [torch.zeros(1 << 20) for _ in range(5)]\nbefore = set(sys.modules)\n")
	visit("look")  // 2
	visit("begin") // 3
	program.WriteString("seen.append(torch.zeros(2 << 20))\n")
	visit("end") // 4
	program.WriteString("torch.cuda.memory._record_memory_history()\n")
	visit("begin") // 5: it records itself
	program.WriteString("assert not [m for m in set(sys.modules) - before if 'vramscope' in m], sys.modules.keys()\n" +
		"assert torch.cuda._device.recording == 'all' and not torch.cuda._device.observers\n")
	cmd := exec.Command(python, "-c", program.String())
	cmd.Env = append(os.Environ(), "TORCH_DEVICE_BACKEND_AUTOLOAD=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{
		"look.json0": "it hasn't imported PyTorch", "look.json1": "CUDA isn't up in it", "look.json2": "", "begin.json3": "",
		"end.json4": "", "begin.json5": "it records itself, or `vramscope run` does: without --record the dump has its events",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := answered(text); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	dumps, _ := filepath.Glob(filepath.Join(dir, "*-attach*.pickle.gz"))
	holders, _ := filepath.Glob(filepath.Join(dir, "*-attach*.holders.json"))
	if len(dumps) != 2 || len(holders) != 2 {
		t.Fatalf("%d dumps, %d files of holders; want 2 of each", len(dumps), len(holders))
	}
	var held struct {
		Holders []struct {
			Path    string `json:"path"`
			Tensors []int64
		} `json:"holders"`
	}
	text, err := os.ReadFile(holders[1]) // the second look's name has its time behind
	if err = errors.Join(err, json.Unmarshal(text, &held)); err != nil {
		t.Fatal(err)
	}
	if len(held.Holders) != 1 || held.Holders[0].Path != "main.seen" || len(held.Holders[0].Tensors) != 5 {
		t.Errorf("held by %+v; want five tensors by main.seen", held.Holders)
	}
}

// TestAttach looks into a program for real, where a Python is here that lets itself be asked.
func TestAttach(t *testing.T) {
	python, err := exec.LookPath("python3.14")
	if err != nil {
		t.Skip("no python3.14 here")
	}
	stub, err := filepath.Abs("../python/tests/stub")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	program := exec.Command(python, "-c", "import sys, time\nsys.path.insert(0, "+literal(stub)+`)
import torch
seen = [torch.zeros(1 << 20) for _ in range(5)]
print("up", flush=True)
while True: time.sleep(0.01)`)
	out, err := program.StdoutPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer program.Process.Kill()
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	dir, r, err := Attach(t.Context(), Attachment{PID: program.Process.Pid, Wait: time.Minute, Stacks: "all", Ring: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("vramscope-pid-%d-1", program.Process.Pid); r.Recorded != 1 || filepath.Base(dir) != want {
		t.Errorf("%d processes recorded into %s; want 1 into %s", r.Recorded, dir, want)
	}
	if r.ExitCode != nil || r.End == nil || r.Command[0] != python {
		t.Errorf("told as %+v", r.Record)
	}
}
