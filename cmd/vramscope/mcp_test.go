package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vramscope/vramscope/explain"
)

// served is a client of the program as it is.
func served(t *testing.T, args ...string) *sdk.ClientSession {
	t.Helper()
	program, err := exec.LookPath("vramscope") // of these tests
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, append([]string{"mcp"}, args...)...)
	c.Stderr = os.Stderr
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(),
		&sdk.CommandTransport{Command: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// TestMCP asks the whole program over its standard input and output.
func TestMCP(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"qwen_vocab_oom__05b", "frag_oom__pairwise_docs"} {
		b, err := os.ReadFile(filepath.Join("../../testdata/recordings", name, "snapshot_all.pickle.gz"))
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name+".pickle.gz"), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	session := served(t, "--root", root, "--max-bytes", "8000")
	type m = map[string]any
	ask := func(tool string, in m, into any) {
		t.Helper()
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: in})
		if err != nil {
			t.Fatal(err)
		}
		text := r.Content[0].(*sdk.TextContent).Text
		if r.IsError || len(text) > 8000+300 {
			t.Fatalf("%s: %d bytes, %s", tool, len(text), text)
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	const qwen, frag = "qwen_vocab_oom__05b.pickle.gz", "frag_oom__pairwise_docs.pickle.gz"
	var report struct {
		Schema  string
		Devices []struct{ Findings []struct{ ID string } }
	}
	ask("analyze", m{"paths": []string{qwen}}, &report)
	if report.Schema != "vramscope.report/1" || report.Devices[0].Findings[0].ID != "oom_true_shortage" {
		t.Errorf("%+v", report)
	}
	var answer explain.Document
	ask("explain", m{"paths": []string{qwen}, "kind": "oom", "value": "0"}, &answer)
	for _, n := range answer.Next {
		ask("explain", m{"paths": []string{qwen}, "kind": n.Kind, "value": n.Value}, &explain.Document{})
	}
	var tried struct {
		Scenarios []struct {
			Name string
			OOM  bool
		}
	}
	ask("whatif", m{"path": frag, "conf": []string{"expandable_segments:True"}}, &tried)
	if len(tried.Scenarios) != 2 || tried.Scenarios[1].OOM {
		t.Errorf("%+v", tried)
	}
	var gate struct {
		ExitCode int `json:"exit_code"`
		Messages []string
	}
	ask("diff", m{"before": frag, "after": qwen, "fail_on": []string{"grew>5%"}}, &gate)
	if gate.ExitCode != 1 || !strings.Contains(strings.Join(gate.Messages, " "), "grew>5%") {
		t.Errorf("%+v", gate)
	}
	ask("budget", m{"params": "8B", "batch": 1, "sequence": 1024}, &m{})
	ask("record", m{"kinds": []string{"oom"}}, &m{})

	for _, path := range []string{"/etc/passwd", "../../x", "s3://bucket/key", "-"} {
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "analyze", Arguments: m{"paths": []string{path}}})
		if err != nil || !r.IsError {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
}

// TestMCPRedacts: what the server is told holds for every tool, also where a file is refused.
func TestMCPRedacts(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"zqxfile.json": `{"model_type": "zqxtype"}`, "zqxlog.txt": "zqxline\n", "zqxdump.pickle": "zqx"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	type m = map[string]any
	session := served(t, "--redact", "--root", root)
	for tool, in := range map[string]m{"budget": {"config": "zqxfile.json"}, "analyze": {"paths": []string{"zqxlog.txt"}},
		"explain": {"paths": []string{"zqxdump.pickle"}, "kind": "oom", "value": "0"}, "whatif": {"path": "zqxdump.pickle"},
		"diff": {"before": "zqxdump.pickle", "after": "zqxlog.txt"}} {
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: in})
		if err != nil || !r.IsError {
			t.Errorf("%s: %+v, %v", tool, r, err)
			continue
		}
		if text := r.Content[0].(*sdk.TextContent).Text; strings.Contains(text, "zqx") {
			t.Errorf("%s: %s", tool, text)
		}
	}
}
