package diagnose_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/report/view"
)

// TestManyRuns: recordings of runs that have nothing to do with each other, some failed, some leaking, are told apart, and
// what reads a folder of them one by one is named.
func TestManyRuns(t *testing.T) {
	const dir = "../testdata/recordings/"
	var files []string
	for _, name := range []string{"decode__hf_dynamic_cache/snapshot_all", "frag_oom__pairwise_docs/snapshot_all",
		"growing_list__feeder_queue/snapshot_python", "growing_list__step_cache/snapshot_all",
		"growing_list__step_cache/snapshot_python", "mlp_regression__script/snapshot_all", "mlp_regression__script/snapshot_python",
		"qwen_vocab_oom__05b/snapshot_all", "retained_graph__trainer_entropy/snapshot_named", "side_stream__prefetcher/snapshot_all",
		"true_shortage_oom__resumed_twice/snapshot_all"} {
		files = append(files, filepath.FromSlash(dir+name+".pickle.gz"))
	}
	run, err := open.Files(files, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	doc, err := diagnose.Run(run.Sources, run.Evidence, diagnose.Options{Capacity: 80 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Ranks == nil || doc.Ranks.Sure || len(doc.Ranks.Rows) != len(files) {
		t.Fatalf("%+v", doc.Ranks)
	}
	if title := view.RanksTitle(doc.Ranks); !strings.Contains(title, "vramscope batch") {
		t.Error(title)
	}
}

// TestLogOfAnotherRun: a log of a GPU that is smaller than what the recording reserved is no part of its run.
func TestLogOfAnotherRun(t *testing.T) {
	log := func(capacity string) string {
		file := filepath.Join(t.TempDir(), "train.log")
		text := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of " + capacity +
			" GiB of which 1.21 GiB is free. Including non-PyTorch memory, this process has 6.10 GiB memory in use. Of the allocated " +
			"memory 5.60 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, c := range []struct {
		capacity string
		joined   bool
	}{{"7.50", false}, {"23.50", true}} {
		files := []string{"../testdata/recordings/gpt2_fp32_adamw__hf_loop/snapshot_roundup4.pickle.gz", log(c.capacity)}
		run, err := open.Files(files, open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		doc, err := diagnose.Run(run.Sources, run.Evidence, diagnose.Options{})
		if err != nil {
			t.Fatal(err)
		}
		noted := len(doc.Inputs[1].Notes) > 0 && strings.Contains(doc.Inputs[1].Notes[0], "of another run")
		failed := strings.Contains(doc.Verdict.Text, "ut of memory")
		if failed != c.joined || noted == c.joined || (len(doc.Evidence.OOMMessages) > 0) != c.joined {
			t.Errorf("%s GiB: %q, %q", c.capacity, doc.Verdict.Text, doc.Inputs[1].Notes)
		}
	}
}
