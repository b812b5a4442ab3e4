package html_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var packed = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// TestStateAtAnyEvent asks the page's script for the blocks right after 50 events of
// each recording, and the table of blocks for the same.
func TestStateAtAnyEvent(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no node to run scripts with (Debian: apt-get install nodejs)")
	}
	for _, name := range []string{"decode__hf_dynamic_cache/snapshot_all", "frag_oom__pairwise_docs/snapshot_all", "frag_oom__pairwise_docs/snapshot_expandable",
		"gpt2_fp32_adamw__hf_loop/snapshot_late", "gpt2_fp32_adamw__hf_loop/snapshot_ring", "gpt2_fp32_adamw__hf_loop/snapshot_roundup4",
		"growing_list__feeder_queue/snapshot_python", "growing_list__step_cache/snapshot_none", "llama8b_full_oom__fp32_autocast/snapshot_named",
		"pipeline__1f1b_rank1of4/snapshot_none", "qwen_vocab_oom__05b/snapshot_all", "retained_graph__trainer_entropy/snapshot_named",
		"side_stream__prefetcher/snapshot_all", "true_shortage_oom__fsdp_gather/snapshot_python", "device_map__two_gpus/snapshot_named"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := snapshot.Open(filepath.Join("..", "..", "testdata", "recordings", name+".pickle.gz"), snapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			doc := analyzed(t, []diagnose.Source{{Path: "a.pickle", Kind: "snapshot", Snapshot: s}}, evidence.New())
			compareBlocks(t, node, doc, s)
		})
	}
}

func compareBlocks(t *testing.T, node string, doc *report.Document, s *snapshot.Snapshot) {
	data := packed.FindSubmatch(written(t, doc))
	var text string
	if data == nil || json.Unmarshal(data[1], &text) != nil {
		t.Fatal("the page has no data")
	}
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	line := timeline.New(s, s.Device(doc.Devices[0].Device))
	random := rand.New(rand.NewPCG(4, 3))
	args, want := []string{"../../templates/test/layouts.mjs", file}, strings.Builder{}
	recording := dataset.Recording{Timeline: line, View: frames.New(s), Classes: classify.New(line, classify.Options{})}
	for range 50 {
		event := random.IntN(line.Device.Events.Len())
		args = append(args, strconv.Itoa(event))
		fmt.Fprintf(&want, "event %d\n", event)
		writeBlocks(t, &want, recording, event)
	}
	out, err := exec.Command(node, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, expected := strings.Split(string(out), "\n"), strings.Split(want.String(), "\n")
	event := ""
	for i := range expected {
		if strings.HasPrefix(expected[i], "event") {
			event = expected[i]
		}
		if i >= len(got) || got[i] != expected[i] {
			t.Fatalf("%s, line %d: the page has\n%s\nand the table\n%s", event, i, strings.Join(got[i:min(i+2, len(got))], "\n"), expected[i])
		}
	}
	if len(expected) < 200 {
		t.Errorf("only %d lines", len(expected))
	}
}

// writeBlocks writes the rows of the table of blocks as layouts.mjs does.
func writeBlocks(t *testing.T, w *strings.Builder, r dataset.Recording, event int) {
	t.Helper()
	var table bytes.Buffer
	sink, err := dataset.NewSink(&table, dataset.JSONL, dataset.Blocks)
	if err == nil {
		err = r.Write(sink, dataset.Blocks, event)
	}
	if err == nil {
		err = sink.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for rows := json.NewDecoder(&table); rows.More(); {
		var row struct {
			Segment, Bytes  int64
			Address         uint64
			Requested       *int64 `json:"requested_bytes"`
			State, Category string
			Allocation      *int64
		}
		if err := rows.Decode(&row); err != nil {
			t.Fatal(err)
		}
		number := func(n *int64) string {
			if n == nil {
				return ""
			}
			return strconv.FormatInt(*n, 10)
		}
		fmt.Fprintln(w, row.Segment, row.Address, row.Bytes, number(row.Requested), row.State, number(row.Allocation), row.Category)
	}
}
