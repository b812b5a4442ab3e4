package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
)

// plantJob writes a job's ranks, with several dumps of one and some files
// broken, and the secret in all names and contents.
func plantJob(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), secret)
	first := recorder.Planted(secret)
	fuller := recorder.Simulate(recorder.Program{Seed: 5, Events: 900, Depth: 2, Capacity: 8 << 30}).Recording
	for _, events := range fuller.Traces {
		for i := range events {
			events[i].Stack = first.Traces[0][0].Stack
		}
	}
	style := recorder.Style{Protocol: 4, Era: recorder.V2_15}
	one, other := string(first.Dump(style)), string(fuller.Dump(style))
	for name, text := range map[string]string{
		secret + "_rank0_step1.pickle":        one,
		secret + "_rank0_step2.pickle":        one,
		secret + "_rank1_step2.pickle":        other,
		secret + "_rank2_step2.pickle":        other[:len(other)/2],
		secret + "_rank0_step2.labels.json":   plantLabels(first),
		secret + "_rank1_step2.labels.json":   `{"schema": "vramscope.labels/1", "device": "` + secret + `"}`,
		secret + ".json":                      `{"model_type": "gpt2", "` + secret + `": "` + secret + `", "architectures": ["` + secret + `"]}`,
		secret + "_other/" + secret + ".json": `{"model_type": "` + secret + `"}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRedactRanks looks for the secret in what is said of ranks and dumps, and
// sees that the ranks are told from names that are then hidden.
func TestRedactRanks(t *testing.T) {
	dir := plantJob(t)
	for _, format := range []string{"text", "json", "markdown", "html"} {
		t.Run(format, func(t *testing.T) {
			said := func(flags ...string) string {
				var stdout, stderr bytes.Buffer
				if code := run(append([]string{"analyze", dir, "--format", format}, flags...), strings.NewReader(""), &stdout, &stderr); code != 0 {
					t.Fatalf("exit %d: %s", code, stderr.String())
				}
				return readable(stdout.String() + stderr.String())
			}
			text, plain := said("--redact"), said()
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("…%s…", text[max(0, i-200):min(len(text), i+200)])
			}
			if !strings.Contains(plain, secret) {
				t.Error("not to be seen without --redact, either: the test shows nothing")
			}
			for _, want := range map[string][]string{"json": {`"rank_from": "name"`, `"missing": [`, `"trend": [`}}[format] {
				if !strings.Contains(text, want) {
					t.Errorf("%s is not said", want)
				}
			}
			dumps := format == "text" || strings.Contains(text, "2 dumps of rank 0") // the text has no row without a trend
			if format != "json" && (!strings.Contains(text, "2 ranks of one job") || !dumps) {
				t.Error("the ranks are not told")
			}
		})
	}
}
