package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
)

// firstChanges are the labelled recordings, with what helps most and why: "" where the
// run is fine as it is.
var firstChanges = []struct{ run, file, change, why string }{
	{"decode__hf_dynamic_cache", "snapshot_all", "logits_to_keep", "prefill makes logits of all positions, and one is read: " +
		"a third of the peak for nothing"},
	{"device_map__two_gpus", "snapshot_named", "logits=chunked", "a third of the fuller GPU, and a fused loss costs nothing"},
	{"frag_oom__pairwise_docs", "snapshot_all", "growing_list", "parts of every matrix are kept: a setting only puts the failure off"},
	{"gpt2_fp32_adamw__hf_loop", "snapshot_late", "logits=chunked", "a quarter of the peak, and a fused loss costs nothing"},
	{"growing_list__step_cache", "snapshot_all", "growing_list", "72 MiB stay behind in every step"},
	{"llama8b_full_oom__fp32_autocast", "snapshot_named", "optimizer=8bit", "the state of all parameters doesn't fit; in 8 bits " +
		"it does, on the same GPU"},
	{"mlp_regression__script", "snapshot_all", "", "1.2 GiB, all of it at work"},
	{"qwen_vocab_oom__05b", "snapshot_all", "logits=chunked", "95 % are logits: without them the peak is 5 GiB"},
	{"retained_graph__trainer_entropy", "snapshot_named", "retained_graph", "every step's graph stays: 785 MiB a step"},
	{"side_stream__prefetcher", "snapshot_all", "", "nothing that costs nothing saves a fifth"},
	{"true_shortage_oom__resumed_twice", "snapshot_all", "loaded_file", "it costs nothing, and the request is met: whether the " +
		"rest of the step fits then, nothing shows"},
}

// TestShort: what a terminal shows of each labelled recording, in a screen of 40 lines, and
// the change that it names first.
func TestShort(t *testing.T) {
	for _, c := range firstChanges {
		t.Run(c.run, func(t *testing.T) {
			dir := filepath.Join("../../testdata/recordings", c.run)
			args := []string{"analyze", filepath.Join(dir, c.file+".pickle.gz"), filepath.Join(dir, "log.txt")}
			said := func(flags ...string) []byte {
				var stdout, stderr bytes.Buffer
				if code := run(append(args, flags...), strings.NewReader(""), &stdout, &stderr); code != 0 {
					t.Fatalf("exit %d: %s", code, stderr.String())
				}
				return stdout.Bytes()
			}
			var doc report.Document
			if err := json.Unmarshal(said("--format", "json"), &doc); err != nil {
				t.Fatal(err)
			}
			got := ""
			if rows, _ := doc.Devices[0].Priced(); len(rows) > 0 {
				got = *rows[0].FixID
			}
			if got != c.change {
				t.Errorf("the first change is %q, should be %q: %s", got, c.change, c.why)
			}
			short := said()
			if n := bytes.Count(short, []byte("\n")); n > 40 {
				t.Errorf("%d lines", n)
			}
			golden := filepath.Join("testdata", "short", c.run+".txt")
			if *update {
				if err := os.WriteFile(golden, short, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(short, want) {
				t.Errorf("%v; -update rewrites %s:\n%s", err, golden, short)
			}
			if ticket, _, ok := strings.Cut(string(said("--format", "markdown")), "<details>"); !ok || strings.Count(ticket, "\n") > 30 {
				t.Errorf("before the first fold, %d lines:\n%s", strings.Count(ticket, "\n"), ticket)
			}
		})
	}
}
