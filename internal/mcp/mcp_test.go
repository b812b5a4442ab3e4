package mcp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// tree is a root with a run, links out of it, and what lies beside it.
func tree(t testing.TB) (root string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(top, "root")
	for _, name := range []string{"secret", "root/run/a.pickle", "root/run/b.pickle", "root/linked/ok", "root-2/x", "outside/y"} {
		full := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"root/out": "../secret", "root/linked/deep": "../../secret", "root/in": "run/a.pickle",
		"root/dir": "../outside", "root/run/b.labels.json": "../../secret", "root/loop": "loop", "root/gone": "nothing"} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Skip(err)
		}
	}
	return root
}

// TestFile says which names may be read.
func TestFile(t *testing.T) {
	root := tree(t)
	r, err := rootsOf([]string{root})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	for _, c := range []struct{ name, want, err string }{
		{"run/a.pickle", "run/a.pickle", ""},
		{filepath.Join(root, "run/a.pickle"), "run/a.pickle", ""},
		{"in", "run/a.pickle", ""},
		{"run/../run/a.pickle", "run/a.pickle", ""},
		{".", "", "is a link to what is not below a root"},
		{"run", "", "b.labels.json is a link to what is not below a root"},
		{"run/b.pickle", "", "b.labels.json is a link"},
		{"linked", "", "deep is a link"},
		{"out", "", "not below a root"},
		{"dir/y", "", "not below a root"},
		{"../secret", "", "not below a root"},
		{"run/../../secret", "", "not below a root"},
		{filepath.Join(root, "../root-2/x"), "", "not below a root"},
		{"/etc/passwd", "", "not below a root"},
		{"/etc/no-such-file", "", "not below a root"},
		{"loop", "", "not below a root"},
		{"gone", "", "not below a root"},
		{"", "", "no name of a file"},
		{"-", "", "no name of a file"},
		{"run/a.pickle\x00", "", "no name of a file"},
		{"s3://bucket/key", "", "only files of this machine"},
		{"file:///etc/passwd", "", "only files of this machine"},
	} {
		got, err := r.file(c.name)
		switch {
		case c.err == "" && (err != nil || got != filepath.Join(root, c.want)):
			t.Errorf("%q: %q, %v", c.name, got, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %q, %v; want %s", c.name, got, err, c.err)
		}
	}
	for _, name := range []string{filepath.Join(root, "run/a.pickle"), filepath.Join(root, "nothing")} {
		if r, err := rootsOf([]string{name}); err == nil {
			t.Errorf("--root %s: %v", name, r)
		}
	}
}

// FuzzFile asks for anything: what may be read lies below the root.
func FuzzFile(f *testing.F) {
	root := tree(f)
	r, err := rootsOf([]string{root})
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"run/a.pickle", "../secret", "in", "out", "//", "run/./..//../secret", "~", "\\..", "%2e%2e/secret"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := r.file(name)
		if err == nil && got != root && !strings.HasPrefix(got, root+string(filepath.Separator)) {
			t.Errorf("%q leads to %q", name, got)
		}
	})
}

// talk connects a client to a server whose commands are run by a function.
func talk(t *testing.T, o Options) *sdk.ClientSession {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	there, here := sdk.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// said is the text of a result.
func said(t *testing.T, session *sdk.ClientSession, tool string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), true
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// TestCommandLines says what each tool runs. Values can't become flags of their own.
func TestCommandLines(t *testing.T) {
	root := tree(t)
	var ran []string
	session := talk(t, Options{Roots: []string{root}, Timeout: time.Minute, MaxBytes: 20_000, MaxMemory: "1GiB", Redact: true,
		Run: func(_ context.Context, args []string) (Result, error) {
			ran = args
			return Result{Stdout: []byte(`{"schema":"x"}`)}, nil
		}})
	type m = map[string]any
	const common, reading = "--format=json --max-bytes=20000", " --max-memory=1GiB --redact"
	for _, c := range []struct {
		tool string
		in   m
		want string
	}{
		{"analyze", m{"paths": []string{"run/a.pickle"}, "gpu": "--output=x", "fail_on": []string{"leak"}},
			"analyze --gpu=--output=x --fail-on=leak " + common + reading + " -- ROOT/run/a.pickle"},
		{"explain", m{"paths": []string{"in"}, "kind": "site", "value": "--o=x", "device": 1},
			"explain --site=--o=x --device=1 " + common + reading + " -- ROOT/run/a.pickle"},
		{"whatif", m{"path": "in", "conf": []string{"a:b"}, "capacity": []string{"1GiB", "2GiB"}},
			"whatif --capacity=1GiB --capacity=2GiB --conf=a:b " + common + reading + " -- ROOT/run/a.pickle"},
		{"budget", m{"params": "8B", "batch": 2, "inference": true, "gpu": []string{"80GiB"}},
			"budget --params=8B --batch=2 --inference --gpu=80GiB " + common + reading + " --"},
		{"diff", m{"before": "in", "after": "in"}, "diff " + common + reading + " -- ROOT/run/a.pickle ROOT/run/a.pickle"},
		{"record", m{"kinds": []string{"--output"}}, "record -- --output"},
	} {
		_, _ = said(t, session, c.tool, c.in)
		if got := strings.ReplaceAll(strings.Join(ran, " "), root, "ROOT"); got != c.want {
			t.Errorf("%s runs %s\nwant %s", c.tool, got, c.want)
		}
	}
	ran = nil
	for _, c := range []struct {
		tool string
		in   m
		want string
	}{
		{"analyze", m{"paths": []string{}}, "give 1 to 64"},
		{"analyze", m{"paths": slices.Repeat([]string{"in"}, 65)}, "give 1 to 64"},
		{"analyze", m{"paths": []string{"in"}, "max_bytes": 10}, "max_bytes: 1000 to 200000"},
		{"analyze", m{"paths": []string{"in"}, "gpu": strings.Repeat("x", 5000)}, "too long"},
		{"analyze", m{"paths": []string{"in"}, "output": "x"}, "output"},
		{"analyze", m{"paths": "in"}, "paths"},
		{"explain", m{"paths": []string{"in"}, "kind": "output", "value": "x"}, "kind: one of"},
		{"whatif", m{"path": "in", "conf": slices.Repeat([]string{"x"}, 17)}, "conf: at most 16"},
	} {
		if text, failed := said(t, session, c.tool, c.in); !failed || !strings.Contains(text, c.want) || ran != nil {
			t.Errorf("%s %.80v: %s, ran %v", c.tool, c.in, text, ran)
		}
	}
}

// TestDocuments reads what reports name without a network.
func TestDocuments(t *testing.T) {
	session := talk(t, Options{Roots: []string{t.TempDir()}, Timeout: time.Second, MaxBytes: 20_000})
	r, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "vramscope://help/findings"})
	if err != nil || !strings.Contains(r.Contents[0].Text, "`logits_dominate`") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "vramscope://help/../x"}); err == nil {
		t.Errorf("%+v", r)
	}
}

// TestEnds ends calls that take too long, and tells errors of commands.
func TestEnds(t *testing.T) {
	root := tree(t)
	for _, c := range []struct {
		run  func(ctx context.Context) (Result, error)
		want string
	}{
		{func(ctx context.Context) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }, "not done within 50ms"},
		{func(context.Context) (Result, error) {
			return Result{Stderr: []byte("vramscope: damaged\n"), Code: 2}, nil
		},
			"vramscope: damaged"},
		{func(context.Context) (Result, error) { return Result{Stdout: []byte("{")}, nil }, "can't be read"},
		{func(context.Context) (Result, error) { return Result{}, errors.New("no such program") }, "no such program"},
	} {
		session := talk(t, Options{Roots: []string{root}, Timeout: 50 * time.Millisecond, MaxBytes: 20_000,
			Run: func(ctx context.Context, _ []string) (Result, error) { return c.run(ctx) }})
		if text, failed := said(t, session, "analyze", map[string]any{"paths": []string{"in"}}); !failed ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s, want %s", text, c.want)
		}
	}
}
