package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/site/engine"
)

// TestTheTabAnswersAsTheCommandLine compares the page, the ticket and the JSON of both, byte by byte.
func TestTheTabAnswersAsTheCommandLine(t *testing.T) {
	base := "../../testdata/recordings/"
	file := func(name string) string { return base + name }
	cut := filepath.Join(t.TempDir(), "cut.pickle.gz")
	whole, err := os.ReadFile(file("mlp_regression__script/snapshot_all.pickle.gz"))
	if err == nil {
		err = os.WriteFile(cut, whole[:len(whole)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cases := []engine.Request{{Inputs: []string{cut}, Partial: true},
		{Inputs: []string{file("growing_list__step_cache/snapshot_all.pickle.gz"), file("growing_list__step_cache/snapshot_named.pickle.gz")}, Compare: true},
		{Inputs: []string{file("qwen_vocab_oom__05b/snapshot_all.pickle.gz"), file("qwen_vocab_oom__05b/log.txt")}},
		{Inputs: []string{file("qwen_vocab_oom__05b")}},
		{Inputs: []string{"../../testdata/runs/kept_at_exit/eval_dict"}}}
	recordings, _ := filepath.Glob(base + "*/snapshot_*.pickle.gz")
	for i := 0; i < len(recordings); i += 3 {
		cases = append(cases, engine.Request{Inputs: recordings[i : i+1]})
	}
	logs, _ := filepath.Glob(base + "*/log.txt")
	for _, name := range logs[:4] {
		cases = append(cases, engine.Request{Inputs: []string{name}})
	}
	if len(cases) < 20 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, q := range cases {
		t.Run(filepath.Base(filepath.Dir(q.Inputs[0]))+"/"+filepath.Base(q.Inputs[0]), func(t *testing.T) {
			t.Parallel()
			q.Formats = []string{"html", "md", "json"}
			got := map[string][]byte{}
			r := engine.Answer(&q, engine.Options{Version: versionString(), Put: func(format string, content []byte) error {
				got[format] = content
				return nil
			}})
			args := []string{"analyze"}
			if q.Compare {
				args[0] = "diff"
			}
			if q.Partial {
				args = append(args, "--partial")
			}
			folder := t.TempDir()
			for _, format := range q.Formats {
				args = append(args, "-o", filepath.Join(folder, "report."+format))
			}
			var said bytes.Buffer
			if code := run(append(args, q.Inputs...), nil, &said, &said); code != exitFine || r.Error != "" {
				t.Fatalf("%d: %s\n%s", code, said.Bytes(), r.Error)
			}
			for _, format := range q.Formats {
				want, err := os.ReadFile(filepath.Join(folder, "report."+format))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got[format], want) {
					t.Errorf("%s: %d bytes, and %d by the command line", format, len(got[format]), len(want))
				}
			}
		})
	}
}
