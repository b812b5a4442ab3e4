package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/snapshot"
)

// TestGuidesQuestions asks what five field guides to training memory are asked
// by their readers, with the evidence that such a reader has.
func TestGuidesQuestions(t *testing.T) {
	const wsl = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n" +
		"2026/01/12 21:40:00.000, 0, NVIDIA GeForce RTX 4070, 9800 MiB, 12282 MiB\n2026/01/12 21:50:00.000, 0, NVIDIA GeForce RTX 4070, 12034 MiB, 12282 MiB\n"
	elleci := logtext.Steps(60, func(i int) string {
		seconds, gb := 4.0, 11.4
		switch {
		case i >= 42:
			seconds, gb = 19, 16.3
		case i >= 32:
			seconds, gb = 15, 16.3
		}
		return fmt.Sprintf("step %d | loss 8.1 | time %.1fs | mem %.2f GB", i, seconds+0.1*float64(i%3), gb)
	})
	withoutMemory := logtext.Steps(60, func(i int) string {
		return fmt.Sprintf("step %d | loss 8.1 | time %.1fs", i, 4+11*float64(min(1, i/32)))
	})
	optimizer := func(requested string) string {
		return `Traceback (most recent call last):
  File "/work/train.py", line 61, in <module>
    optimizer.step()
  File "/venv/lib/python3.11/site-packages/torch/optim/adamw.py", line 232, in step
    has_complex = self._init_group(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate ` + requested + ` GPU 0 has a total capacity of 79.10 GiB of which 92.94 MiB is free. Including non-PyTorch memory, this process has 79.01 GiB memory in use. Of the allocated memory 77.90 GiB is allocated by PyTorch, and 612.40 MiB is reserved by PyTorch but unallocated. If
`
	}
	tests := []struct {
		guide, question string
		files           []input
		id, answer      string
	}{
		{"elleci-memory", "Why does memory rise after sixteen steps: a leak?",
			[]input{{name: "train.log", text: logtext.Steps(48, func(i int) string {
				return fmt.Sprintf("step %d loss 7.9 mem %.2f GB", i, 10.1+2.5*float64(min(1, i/16)))
			})}},
			"first_step_state", "once, by 2.33 GiB at step 16, and stays"},
		{"elleci-memory", "Does anything pile up besides?", []input{{name: "train.log", text: logtext.Steps(40, func(i int) string {
			return fmt.Sprintf("step %d loss 7.9 mem %.2f GB", i, 10.1+0.1*float64(i))
		})}}, "memory_grows", "a step in the log"},
		{"elleci-memory", "The GPU is full and nothing fails, but it is slow. Why?", []input{{name: "train.log", text: withoutMemory}, {name: "gpu.csv", text: wsl}},
			"shared_memory_spill", "steps take 15.0 s instead of 4.0 s"},
		{"elleci-status", "Where do 16.3 GB go on a card of 12.88 GB, and what does it cost?", []input{{name: "train.log", text: elleci}, {name: "gpu.csv", text: wsl}},
			"shared_memory_spill", "3.19 GiB more than the GPU has"},
		{"elleci-status", "Is the growth at step 32 a leak?", []input{{name: "train.log", text: elleci}, {name: "gpu.csv", text: wsl}},
			"first_step_state", "by 4.56 GiB at step 32"},
		{"latentwire-safe-training", "The model fitted, but training failed: what allocates the rest?", []input{{name: "train.log", text: optimizer("896.00 MiB.")}},
			"oom_true_shortage", "in the optimizer step"},
		{"latentwire-safe-training", "What did the optimizer's state cost?", []input{{name: "s", snapshot: recording(t, "llama8b_full_oom__fp32_autocast/snapshot_named.pickle.gz")}},
			"oom_true_shortage", "optimizer"},
		{"new-llm-memory", "49 GiB were asked for at once: what is that?", []input{{name: "train.log", text: "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 49.08 GiB (GPU 0; 21.99 GiB total capacity; 3.10 GiB already allocated; 18.00 GiB free; 3.40 GiB reserved in total by PyTorch) If reserved\n"}},
			"oom_true_shortage", "larger than the GPU's 21.99 GiB"},
		{"new-llm-memory", "The vocabulary fills the GPU: how much of it?", []input{{name: "s", snapshot: recording(t, "qwen_vocab_oom__05b/snapshot_named.pickle.gz")}},
			"logits_dominate", "69.55 GiB"},
		{"new-llm-memory", "Which line keeps the graph of every batch?", []input{{name: "s", snapshot: recording(t, "retained_graph__trainer_entropy/snapshot_named.pickle.gz")}},
			"retained_graph", "graph is kept alive"},
		{"new-llm-memory", "Which list keeps growing?", []input{{name: "s", snapshot: recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")}},
			"growing_list", "pile up"},
		{"vibee-memory", "Is it fragmentation?", []input{{name: "s", snapshot: recording(t, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")}},
			"oom_fragmentation", "3.53 GiB"},
		{"vibee-memory", "Would checkpointing help?", []input{{name: "s", snapshot: recording(t, "gpt2_fp32_adamw__hf_loop/snapshot_late.pickle.gz")}},
			"checkpointing_absent", "Activations"},
		{"vibee-memory", "Is something else on the GPU?", []input{{name: "smi.txt", text: logtext.SMI(30000, "100 12000", "200 17000")}}, "outside_pytorch", "2 programs share GPU 0"},
	}
	asked := map[string]bool{}
	for _, test := range tests {
		asked[test.guide] = true
		t.Run(test.guide+"/"+test.question, func(t *testing.T) {
			doc := judged(t, test.files...)
			f := found(doc, test.id)
			if f == nil || !strings.Contains(f.Title, test.answer) {
				t.Errorf("%s answers %+v, want %q; verdict %q", test.id, f, test.answer, doc.Verdict.Text)
			}
		})
	}
	if len(asked) != 5 {
		t.Errorf("%d guides asked", len(asked))
	}
}

// TestGuidesGradients asks whether zero_grad frees the gradients of a run that
// zeroes them in place.
func TestGuidesGradients(t *testing.T) {
	s, err := snapshot.Open("testdata/grads_kept__set_to_none_false__none.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc := judged(t, input{name: "s", snapshot: s})
	if f := found(doc, "gradients_kept"); f == nil {
		t.Errorf("found nothing; verdict %q", doc.Verdict.Text)
	}
}

// TestCapacityOfAnother takes no size from files about a smaller GPU than the
// recording shows, unless its driver may go on in the host's memory.
func TestCapacityOfAnother(t *testing.T) {
	for _, x := range []struct {
		name, mib string
		known     bool
	}{{"NVIDIA A10", "8192", false}, {"NVIDIA GeForce RTX 3060", "8192", true}, {"NVIDIA H100 80GB HBM3", "81559", true}} {
		doc := judged(t, input{name: "s", snapshot: recording(t, "gpt2_fp32_adamw__hf_loop/snapshot_roundup4.pickle.gz")},
			input{name: "gpu.csv", text: "index, name, memory.used [MiB], memory.total [MiB]\n0, " + x.name + ", 9000 MiB, " + x.mib + " MiB\n"})
		if d := doc.Devices[0]; (d.CapacityBytes != nil) != x.known || d.Peaks.Reserved.Bytes < 8192<<20 {
			t.Errorf("%s: capacity %v, reserved %d", x.name, d.CapacityBytes, d.Peaks.Reserved.Bytes)
		}
	}
}
