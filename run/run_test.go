//go:build unix

package run

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// files are a program's streams as files in a folder.
func files(t *testing.T) (Streams, func() (out, err string)) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	s := Streams{In: nil, Out: open("out"), Err: open("err")}
	return s, func() (string, string) {
		out, _ := os.ReadFile(s.Out.Name())
		err, _ := os.ReadFile(s.Err.Name())
		return string(out), string(err)
	}
}

func options(t *testing.T, shell string) Options {
	return Options{Dir: filepath.Join(t.TempDir(), "run"), Command: []string{"sh", "-c", shell}, Stacks: "all", Ring: 1 << 20}
}

// TestExitCodes: the program's, and its signal's.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		shell  string
		status int
		signal syscall.Signal
	}{
		{"exit 0", 0, 0},
		{"exit 3", 3, 0},
		{"exit 255", 255, 0},
		{"kill -TERM $$", 143, syscall.SIGTERM},
		{"kill -KILL $$", 137, syscall.SIGKILL},
		{"kill -SEGV $$", 139, syscall.SIGSEGV},
	} {
		t.Run(c.shell, func(t *testing.T) {
			s, _ := files(t)
			p, err := Start(options(t, c.shell), s)
			if err != nil {
				t.Fatal(err)
			}
			r := p.Wait()
			if r.Status != c.status || r.Signal != c.signal {
				t.Errorf("status %d, signal %v", r.Status, r.Signal)
			}
			if (r.ExitCode == nil) != (c.signal != 0) || (r.Record.Signal == nil) != (c.signal == 0) {
				t.Errorf("run.json has exit code %v and signal %v", r.ExitCode, r.Record.Signal)
			}
		})
	}
}

// TestNotStarted: what doesn't run has a shell's exit codes, and leaves no directory.
func TestNotStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		code    int
	}{{"no-such-command-anywhere", 127}, {file, 126}} {
		o := options(t, "")
		o.Command = []string{c.command}
		s, _ := files(t)
		_, err := Start(o, s)
		not, ok := err.(*NotStarted)
		if !ok || not.Code != c.code {
			t.Errorf("%s: %v", c.command, err)
		}
		if _, err := os.Stat(o.Dir); err == nil {
			t.Errorf("%s: left a directory", c.command)
		}
	}
}

// TestOutput: both streams go where they went, byte for byte, and into the log.
func TestOutput(t *testing.T) {
	s, read := files(t)
	p, err := Start(options(t, `printf 'a\r\n\033[1mb\377'; printf 'c\n' >&2`), s)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	out, errors := read()
	if out != "a\r\n\033[1mb\377" || errors != "c\n" {
		t.Errorf("%q and %q", out, errors)
	}
	log, _ := os.ReadFile(filepath.Join(p.Dir, LogFile))
	if len(log) != len(out)+len(errors) || !strings.Contains(string(log), out) {
		t.Errorf("the log is %q", log)
	}
}

// TestTerminal: where our output is a terminal, the program's is one of the same size, and what it writes arrives as it is.
func TestTerminal(t *testing.T) {
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer ours.Close()
	if err := pty.Setsize(ours, &pty.Winsize{Rows: 33, Cols: 77}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		b, _ := io.ReadAll(ours) // ends with an error once the other end is closed
		shown <- string(b)
	}()
	null, _ := os.Open(os.DevNull)
	defer null.Close()
	o := options(t, `test -t 1 && test -t 2 && stty size <&1; printf '10%%\r20%%\r\n'; echo end >&2`)
	p, err := Start(o, Streams{null, theirs, theirs})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	theirs.Close()
	log, _ := os.ReadFile(filepath.Join(p.Dir, LogFile))
	if want := "33 77\n10%\r20%\r\nend\n"; string(log) != want {
		t.Errorf("the log is %q, want %q", log, want)
	}
	if got, want := <-shown, "33 77\r\n10%\r20%\r\r\nend\r\n"; got != want { // the terminal's own newlines
		t.Errorf("shown was %q, want %q", got, want)
	}
}

// TestFolders: names are free ones, and a run's directory is not used twice.
func TestFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, want := range []string{"vramscope-train-1", "vramscope-train-2"} {
		dir, err := (&Options{Command: []string{"python", "../x/train.py", "--a"}}).Folder()
		if err != nil || filepath.Base(dir) != want {
			t.Errorf("%s, %v", dir, err)
		}
		for _, name := range []string{"vramscope_hook/recorder.py", "vramscope_hook/__init__.py", "sitecustomize.py",
			"vramscope-*.dist-info/entry_points.txt"} {
			if found, err := filepath.Glob(filepath.Join(dir, hookFolder, name)); len(found) != 1 {
				t.Error(name, found, err)
			}
		}
	}
	for command, want := range map[string]string{"torchrun --nproc-per-node 2 a/b.py x": "b", "python -m pkg.train": "pkg.train",
		"python -m torch.distributed.run --n 2 a/b.py c.py": "b",
		"/bin/sh": "sh", "./..": "run", "ü": "run"} {
		if got := nameOf(strings.Fields(command)); got != want {
			t.Errorf("%s: %q", command, got)
		}
	}
	s, _ := files(t)
	o := Options{Dir: "mine", Command: []string{"true"}, Stacks: "all", Ring: 1 << 20}
	p, err := Start(o, s)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if _, err := Start(o, s); err == nil || !strings.Contains(err.Error(), "holds a run already") {
		t.Errorf("twice into one directory: %v", err)
	}
}

// TestColon: PYTHONPATH can't hold a directory with a colon: a link leads there while the program runs.
func TestColon(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, read := files(t)
	o := options(t, `echo "$PYTHONPATH"; cat "${PYTHONPATH%%:*}/sitecustomize.py"`)
	o.Dir = filepath.Join(t.TempDir(), "2026-11-28T02:55:32")
	p, err := Start(o, s)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	out, _ := read()
	if at, text, _ := strings.Cut(out, "\n"); strings.Contains(at, o.Dir) || !strings.Contains(text, "vramscope_hook.start()") {
		t.Errorf("PYTHONPATH is %s, there lies %q", at, text)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, err := Place(o.Dir); err == nil {
		t.Error("it has a place of its own")
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	o.Dir += "-2"
	if _, err := Start(o, s); err == nil || !strings.Contains(err.Error(), "Give -o a directory without it") {
		t.Errorf("without a folder for a link: %v", err)
	}
}

// TestOptions: what is said to the recorder, and what can't be meant.
func TestOptions(t *testing.T) {
	o := Options{Stacks: "python", Ring: 1 << 20, Steps: "3:5", Ranks: "0,2-3"}
	if err := o.Check(); err != nil {
		t.Error(err)
	}
	if got := o.text(); got != "stacks=python,ring=1048576,steps=3:5,holders=0,ranks=0+2-3" {
		t.Error(got)
	}
	for _, v := range o.Environment("/d", "/d/.hook/path", func(name string) (string, bool) {
		if name == variablePath {
			return "/mine", true
		}
		return "", false
	}) {
		if v.Name == variablePath && v.Value != "/d/.hook/path:/mine" {
			t.Error(v.Value)
		}
	}
	o = Options{Stacks: "all", Ring: 1 << 20, Steps: "1000:", Every: 10 * time.Minute, Holders: true}
	if err := o.Check(); err != nil || o.text() != "stacks=all,ring=1048576,since=1000,every=600" {
		t.Error(o.text(), err)
	}
	for _, bad := range []Options{{Stacks: "some", Ring: 1 << 20},
		{Stacks: "all", Ring: 1 << 20, Steps: "0:"}, {Stacks: "all", Ring: 1 << 20, Steps: ":"},
		{Stacks: "all", Ring: 1 << 20, Every: time.Millisecond}, {Stacks: "all", Ring: 1 << 20, Dir: "s3://bucket/x"}, {Stacks: "all", Ring: 1}, {Stacks: "all", Ring: 1 << 20, Steps: "0:3"},
		{Stacks: "all", Ring: 1 << 20, Steps: "5:3"}, {Stacks: "all", Ring: 1 << 20, Steps: "x"},
		{Stacks: "all", Ring: 1 << 20, Ranks: "0,,1"}, {Stacks: "all", Ring: 1 << 20, Ranks: "3-1"}} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestCommit reads git's files, packed or not.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	below := filepath.Join(dir, "a", "b")
	write("a/b/x", "")
	if got := commitOf(below); got != nil && *got == "" {
		t.Error("an empty commit")
	}
	write(".git/HEAD", "ref: refs/heads/main\n")
	write(".git/packed-refs", "# pack-refs\n1111 refs/heads/main\n")
	if got := commitOf(below); got == nil || *got != "1111" {
		t.Errorf("packed: %v", got)
	}
	write(".git/refs/heads/main", "2222\n")
	if got := commitOf(below); got == nil || *got != "2222" {
		t.Errorf("loose: %v", got)
	}
	write(".git/HEAD", "3333\n")
	if got := commitOf(below); got == nil || *got != "3333" {
		t.Errorf("detached: %v", got)
	}
}

// TestLogIsBounded keeps its first and its last part.
func TestLogIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), LogFile)
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	l := &log{file: f, size: maxLog - 2}
	for _, text := range []string{"ab", "cd"} {
		l.Write([]byte(text))
	}
	l.size = maxLog
	l.Write([]byte("ef"))
	l.close()
	first, _ := os.ReadFile(name)
	last, _ := os.ReadFile(strings.TrimSuffix(name, ".log") + "-end.log")
	if string(first) != "ab" || string(last) != "ef" {
		t.Errorf("%q and %q", first, last)
	}
}

// TestMonitor has a program named nvidia-smi tell of the GPU and its driver, and stops it in the end.
func TestMonitor(t *testing.T) {
	bin := t.TempDir()
	smi := "#!/bin/sh\ncase $1 in *gpu=*) echo 'timestamp, index, name, memory.used [MiB], memory.total [MiB], driver_version'\n" +
		"echo '2026/01/01 00:00:00.000, 0, NVIDIA L4, 3000 MiB, 23034 MiB, 570.86.15';; esac\nexec sleep 60\n"
	if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(smi), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	s, _ := files(t)
	o := options(t, `while ! grep -q L4 "$VRAMSCOPE_RUN/gpu.csv"; do sleep 0.05; done`)
	p, err := Start(o, s)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Wait()
	if d := r.Environment.Driver; d == nil || *d != "570.86.15" {
		t.Errorf("driver %v", d)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, appsFile)); err == nil {
		t.Error("a file without a reading is left")
	}
}
