package logs_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/report"
)

// TestMessages judges out-of-memory messages by their own figures. The figures
// are those of messages found in the wild.
func TestMessages(t *testing.T) {
	tests := []struct{ name, log, id, says string }{
		{"more than is free", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 27.82 GiB. GPU 0 has a total " +
			"capacity of 79.10 GiB of which 4.96 GiB is free. Including non-PyTorch memory, this process has 74.13 GiB memory " +
			"in use. Of the allocated memory 72.87 GiB is allocated by PyTorch, and 774.75 MiB is reserved by PyTorch but " +
			"unallocated. If reserved",
			"oom_true_shortage", "22.10 GiB short"},
		{"in pieces", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.53 GiB. GPU 0 has a total capacity of " +
			"79.10 GiB of which 1004.94 MiB is free. Including non-PyTorch memory, this process has 78.12 GiB memory in use. " +
			"Of the allocated memory 53.47 GiB is allocated by PyTorch, and 24.14 GiB is reserved by PyTorch but unallocated. If",
			"oom_fragmentation", "24.14 GiB were free in PyTorch's cache"},
		{"all but scraps in use", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a " +
			"total capacity of 79.10 GiB of which 92.94 MiB is free. Including non-PyTorch memory, this process has 79.01 GiB " +
			"memory in use. Of the allocated memory 74.90 GiB is allocated by PyTorch, and 3.60 GiB is reserved by PyTorch " +
			"but unallocated. If",
			"oom_true_shortage", "PyTorch used 95.4 %"},
		{"a fraction", "OutOfMemoryError: CUDA out of memory. Tried to allocate 120.00 MiB. GPU 0 has a total capacity of " +
			"79.10 GiB of which 52.50 GiB is free. Including non-PyTorch memory, this process has 26.60 GiB memory in use. " +
			"26.10 GiB allowed; Of the allocated memory 25.04 GiB is allocated by PyTorch, and 1.05 GiB is reserved by " +
			"PyTorch but unallocated. If",
			"oom_memory_fraction", "26.10 GiB of 79.10 GiB"},
		{"others, with this process listed among them",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.42 GiB. GPU 0 has a total capacity of 79.25 GiB " +
				"of which 1.08 GiB is free. Process 1209517 has 64.87 GiB memory in use. Process 1212465 has 13.29 GiB memory " +
				"in use. Of the allocated memory 11.09 GiB is allocated by PyTorch, and 124.45 MiB is reserved by PyTorch but " +
				"unallocated. If",
			"oom_other_process", "other processes hold 64.88 GiB"},
		{"others, told by what is missing", "RuntimeError: CUDA out of memory. Tried to allocate 12.00 MiB (GPU 0; 7.76 GiB " +
			"total capacity; 4.42 GiB already allocated; 51.25 MiB free; 4.49 GiB reserved in total by PyTorch) If reserved " +
			"memory is >> allocated",
			"oom_other_process", "PyTorch held only 4.49 GiB"},
		{"a context of another rank makes no difference",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 892.00 MiB. GPU 0 has a total capacity of 178.35 " +
				"GiB of which 438.27 MiB is free. Process 3692507 has 616.00 MiB memory in use. Including non-PyTorch memory, " +
				"this process has 177.19 GiB memory in use. Of the allocated memory 172.96 GiB is allocated by PyTorch, and " +
				"320.19 MiB is reserved by PyTorch but unallocated. If",
			"oom_true_shortage", "758.46 MiB were free: 133.54 MiB short"},
		{"more than any GPU has", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 5607.61 GiB. GPU 0 has " +
			"a total capacity of 79.15 GiB of which 77.73 GiB is free. Including non-PyTorch memory, this process has 1.42 " +
			"GiB memory in use. Of the allocated memory 884.81 MiB is allocated by PyTorch, and 15.19 MiB is reserved by " +
			"PyTorch but unallocated. If",
			"oom_true_shortage", "larger than the GPU"},
		{"of an Intel GPU, which doesn't say what is free",
			"torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.11 GiB. " +
				"Of the allocated memory 12.50 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but " +
				"unallocated. Please use `empty_cache`",
			"oom_unclear", "doesn't say what was free"},
		{"of an Intel GPU that refuses 4 GiB at once", "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 5.00 GiB. " +
			"GPU 0 has a total capacity of 15.11 GiB. Of the allocated memory 1.50 GiB is allocated by PyTorch, and 512.00 MiB " +
			"is reserved by PyTorch but unallocated.", "oom_driver_refused", "refuses a single allocation of 4.00 GiB and more"},
		{"of an APU", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of " +
			"15.00 GiB of which 60.00 GiB is free. Of the allocated memory 2.00 GiB is allocated by PyTorch, and 1.00 GiB is " +
			"reserved by PyTorch but unallocated.", "oom_driver_refused", "60.00 GiB free of 15.00 GiB in all"},
		{"with room at the driver", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a " +
			"total capacity of 6.00 GiB of which 3.50 GiB is free. Of the allocated memory 900.00 MiB is allocated by " +
			"PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.",
			"oom_driver_refused", "3.50 GiB were free on the GPU"},
		{"with room in both together", "RuntimeError: CUDA out of memory. Tried to allocate 6.00 GiB (GPU 0; 24.00 GiB total " +
			"capacity; 13.00 GiB already allocated; 4.50 GiB free; 18.00 GiB reserved in total by PyTorch)",
			"oom_fragmentation", "with the 4.50 GiB free on the GPU they would have met the request"},
		{"beyond any GPU", "RuntimeError: CUDA out of memory. Tried to allocate 5000.00 GiB. GPU", "oom_true_shortage",
			"no GPU has so much"},
		{"beyond any number", "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.", "oom_true_shortage",
			"more than 1 EB asked for; no GPU has so much"},
		{"of MPS, cut", "RuntimeError: MPS backend out of memory (MPS allocated: 20.00 GiB, other allocations: 10.00 GiB, max " +
			"allowed: 36.00 GiB).", "oom_true_shortage", "so it asked for more than the 6.00 GiB that were left"},
		{"of a slice of a GPU", `RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at ` +
			`"/b/c10/cuda/CUDACachingAllocator.cpp":1000, please report a bug`, "oom_true_shortage", "error in disguise"},
		{"of a workspace", "RuntimeError: /x/allocator.h:49: Buffer overflow when allocating memory for tmp_v with size " +
			"536870912 and alignment 16, but only 134217728 bytes available in AlignedAllocator. Increase the " +
			"workspace buffer size.",
			"workspace_full", "512.00 MiB asked for; a library's workspace of 128.00 MiB is full"},
		{"of an allocator that sleeps", "cuda error: out of memory at /x/csrc/cumem_allocator.cpp:60", "oom_true_shortage",
			"sleep-mode allocator"},
		{"without first words", "Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 " +
			"GiB free; 6.00 GiB reserved in total by PyTorch)", "oom_true_shortage", ": 1.00 GiB short"},
		{"of an Intel GPU that it can't fit", "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 " +
			"has a total capacity of 15.11 GiB. Of the allocated memory 12.50 GiB is allocated by PyTorch, and 512.00 MiB is " +
			"reserved by PyTorch but unallocated. Please use `empty_cache`",
			"oom_true_shortage", "with the 12.50 GiB in use it exceeds the GPU's 15.11 GiB by 1.39 GiB"},
		{"of MPS", "RuntimeError: MPS backend out of memory (MPS allocated: 17.20 GB, other allocations: 528.00 MB, max " +
			"allowed: 18.13 GB). Tried to allocate 1.00 GB on private pool. Use PYTORCH_MPS",
			"oom_true_shortage", "with the 17.72 GiB in use it exceeds the 18.13 GiB that MPS allows by 599.68 MiB"},
		{"that only the allocator's counter tells of",
			"|                  PyTorch CUDA memory summary, device ID 0                 |\n|            CUDA OOMs: 2         " +
				"   |        cudaMalloc retries: 5         |\n| Allocated memory      |      0 B   |  77824 MiB |      9 GiB " +
				"|      8 GiB |\n| GPU reserved memory   |      0 B   |  79360 MiB |      9 GiB |      8 GiB |",
			"oom_true_shortage", "PyTorch counted 2 failed requests"},
		{"of vLLM, to which others leave too little",
			"ValueError: Free memory on device (10.25/23.50 GiB) on startup is less than desired GPU memory utilization (0.9, " +
				"21.25 GiB).",
			"oom_other_process", "vLLM wants 21.25 GiB of the GPU's 23.50 GiB, but only 10.25 GiB were free when it started"},
		{"of vLLM's cache", "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV " +
			"cache is needed, which is larger than the available KV cache memory (3.50 GiB).",
			"oom_true_shortage", "3.50 GiB are left for it"},
		{"of cuBLAS", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
			"oom_true_shortage", "cuBLAS could not allocate"},
		{"of vLLM's sampler", "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. " +
			"Please try lowering `max_num_seqs`", "oom_true_shortage",
			"warming up its sampler with as many requests as max_num_seqs"},
		{"of attention in parts", "RuntimeError: Not enough memory, use lower resolution (max approx. 1024x1024). Need: 8.5GB " +
			"free, Have:6.5GB free", "oom_true_shortage", "8.50 GiB asked for; 6.50 GiB were free: 2.00 GiB short"},
		{"of accelerate", "RuntimeError: No executable batch size found, reached zero.", "oom_true_shortage",
			"not even one sample fitted"},
		{"of TGI", "ERROR warmup: text_generation_client: Server error: Not enough memory to handle 4145 prefill tokens. You " +
			"need to decrease", "oom_true_shortage", "--max-batch-prefill-tokens tokens found no room"},
		{"of NCCL", "node1:2:3 [1] include/alloc.h:103 NCCL WARN Cuda failure 'out of memory'", "oom_true_shortage",
			"on GPU 1; NCCL asked the driver"},
		{"of JAX", "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
			"oom_true_shortage", "16.00 GiB asked for; XLA found no room"},
		{"of cudaMallocAsync", "OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of " +
			"memory)\nCurrently allocated : 12.20 GiB\nRequested : 1.50 GiB\nDevice limit : 16.00 GiB\nFree (according to " +
			"CUDA): 512.00 MiB",
			"oom_true_shortage", ": 1.00 GiB short"},
		{"without figures", "torch.OutOfMemoryError: CUDA out of memory.", "oom_unclear", "the message has no figures"},
		{"that only memory_stats() tells of", "{'allocated_bytes.all.peak': 8589934592, 'num_ooms': 2, " +
			"'reserved_bytes.all.peak': 9663676416}", "oom_true_shortage",
			"Out of memory: PyTorch counted 2 failed requests before memory_stats() was printed"},
		{"this process, listed with far more than a context",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 79.15 GiB " +
				"of which 1.06 GiB is free. Process 4012 has 78.07 GiB memory in use. Of the allocated memory 72.50 GiB is " +
				"allocated by PyTorch, with 1.20 GiB allocated in private pools (e.g., CUDA Graphs), and 1.10 GiB is reserved " +
				"by PyTorch but unallocated.",
			"oom_true_shortage", "92.16 MiB short"},
		{"where the driver puts what is too much into the host's memory",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 23.99 GiB " +
				"of which 0 bytes is free. Of the allocated memory 30.21 GiB is allocated by PyTorch, and 1.02 GiB is " +
				"reserved by PyTorch but unallocated.",
			"oom_true_shortage", "PyTorch held 7.24 GiB more than the GPU has already, in the host's memory"},
		{"refused by the driver, for expandable segments", "RuntimeError: CUDA driver error: out of memory", "oom_unclear",
			"driver itself refused"},
		{"refused by the driver", "RuntimeError: CUDA error: out of memory", "oom_unclear", "driver itself refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "train.log", text: test.log + "\n"})
			f := found(doc, test.id)
			if f == nil || f.Severity != report.Critical || !strings.Contains(f.Title, test.says) {
				t.Fatalf("found %+v, want %s that says %q", doc.Findings, test.id, test.says)
			}
			if doc.Verdict.Text != f.Title || f.Fix == nil || len(f.Evidence) == 0 || !strings.Contains(f.Evidence[0],
				"train.log:1") {
				t.Errorf("verdict %q, evidence %q", doc.Verdict.Text, f.Evidence)
			}
		})
	}
}

// TestUnsureMessages says of failures that are often of memory that they may be
// something else, and nothing of them beside one that is sure.
func TestUnsureMessages(t *testing.T) {
	const cublas = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
	for _, test := range []struct {
		name, log, says string
		severity        report.Severity
		confidence      float64
	}{
		{"cuBLAS", cublas, "Perhaps out of memory; cuBLAS failed (CUBLAS_STATUS_NOT_INITIALIZED): often the GPU's memory was " +
			"full when it asked for its workspace; also", report.Warning, 0.3},
		{"cuDNN", "RuntimeError: FIND was unable to find an engine to execute this computation\n",
			"Perhaps out of memory; cuDNN found no way to run a convolution", report.Warning, 0.3},
		{"beside a sure one", cublas + "RuntimeError: CUDA error: out of memory\n" + cublas,
			"Out of memory; the driver itself refused", report.Critical, 0.3},
	} {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "train.log", text: test.log})
			f := doc.Findings[0]
			if len(doc.Findings) != 1 || !strings.HasPrefix(f.Title, test.says) || f.Severity != test.severity ||
				f.Confidence != test.confidence || *doc.Evidence.OOMMessages[0].Verdict != report.UnclearVerdict {
				t.Errorf("found %+v", doc.Findings)
			}
		})
	}
}

// TestSurvived: a failure after which the run went on is no end of it.
func TestSurvived(t *testing.T) {
	const oom = "RuntimeError: CUDA out of memory. Tried to allocate 8.00 GiB (GPU 0; 7.76 GiB total capacity; 4.42 GiB " +
		"already allocated; 51.25 MiB free; 7.49 GiB reserved in total by PyTorch)\n"
	steps := logtext.Steps(6, func(i int) string { return fmt.Sprintf("step %d loss 2.1", i) })
	for log, want := range map[string]report.Severity{steps + oom + steps: report.Warning, steps + oom: report.Critical, steps +
		oom + steps + oom: report.Critical} {
		doc := judged(t, input{name: "train.log", text: log})
		if f := doc.Findings[0]; f.Severity != want ||
			strings.Contains(f.Title, "after step 5; the run went on: 8.00 GiB asked for") != (want == report.Warning) {
			t.Errorf("%+v", f)
		}
	}
}

// TestEachMessage tells of two failures in one log each by its own figures.
func TestEachMessage(t *testing.T) {
	doc := judged(t, input{name: "train.log", text: "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in " +
		"step\n    loss.backward()\n  File \"/p/site-packages/torch/_tensor.py\", line 1, in backward\n" +
		"RuntimeError: CUDA out of memory. Tried to allocate 12.00 MiB (GPU 0; 7.76 GiB total capacity; 4.42 GiB already " +
		"allocated; 51.25 MiB free; 4.49 GiB reserved in total by PyTorch)\n" +
		"step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\nstep 4 loss 1.8\nstep 5 loss 1.8\nstep 6 loss 1.8\nstep 7 loss " +
		"1.8\n" +
		"RuntimeError: CUDA out of memory. Tried to allocate 8.00 GiB (GPU 0; 7.76 GiB total capacity; 4.42 GiB already " +
		"allocated; 51.25 MiB free; 7.49 GiB reserved in total by PyTorch)\n"})
	var got []string
	for _, m := range doc.Evidence.OOMMessages {
		got = append(got, *m.Verdict, cmp.Or(text(m.Phase), "-"), cmp.Or(text(m.UserFunction), "-"), strings.Fields(*m.Fix)[0])
	}
	if want := []string{"other_process", "backward", "step", "Find", "true_shortage", "-", "-", "Look"}; !slices.Equal(got,
		want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestGrewBefore advises against what grew until the request failed, not for a
// smaller batch.
func TestGrewBefore(t *testing.T) {
	const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.90 GiB. GPU 0 has a total capacity of 40.00 " +
		"GiB of which 1.00 GiB is free. " +
		"Including non-PyTorch memory, this process has 39.00 GiB memory in use. Of the allocated memory 37.50 GiB is " +
		"allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n"
	for _, test := range []struct {
		perStep float64 // GiB
		want    bool
	}{{0.25, true}, {0.01, false}, {0, false}} {
		doc := judged(t, input{name: "train.log", text: logtext.Steps(100, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, gibAt(10, test.perStep, i))
		}) + oom})
		if got := strings.Contains(doc.Verdict.Text,
			"a step before, from 10.00 GiB at step 0 to 34.75 GiB at step 99"); got != test.want ||
			strings.HasPrefix(*doc.Verdict.Fix, "Find what is kept") != test.want {
			t.Errorf("%v GiB a step: %+v", test.perStep, doc.Verdict)
		}
	}
}

// TestFirstRank tells which of several ranks failed first, where the launcher does.
func TestFirstRank(t *testing.T) {
	oom := func(gpu int, free string) string {
		return fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.90 GiB. GPU %d has a total "+
			"capacity of 178.35 GiB of which %s is free. Including non-PyTorch memory, this process has 175.48 GiB memory in "+
			"use. "+
			"Of the allocated memory 173.25 GiB is allocated by PyTorch, and 587.86 MiB is reserved by PyTorch but "+
			"unallocated.\n", gpu, free)
	}
	record := func(rank int, text string) string {
		return fmt.Sprintf("[0]:\n  rank      : %d (local_rank: %d)\n  traceback : %s", rank, rank, text)
	}
	rule := strings.Repeat("-", 60) + "\n"
	root := rule + "Root Cause (first observed failure):\n"
	tests := []struct{ name, log, says string }{
		{"one writes, the record is of another", "[rank0]: " + oom(0, "1.47 GiB") + rule + record(0, oom(0, "1.47 GiB")) +
			record(1, oom(1, "2.86 GiB")) + root + record(4, oom(4, "2.86 GiB")),
			"Out of memory on 3 ranks, rank 4 first: 2.90 GiB"},
		{"a list without tracebacks", "[rank2]: " + oom(2, "2.86 GiB") + "[rank1]: " + oom(1, "2.86 GiB") + root +
			record(2, "To enable traceback see: https://pytorch.org\n"),
			"Out of memory on 2 ranks, rank 2 first: 2.90 GiB"},
		{"of two failures that of the root cause", "[rank2]: " + oom(2, "2.86 GiB") +
			"[rank1]:   File \"/a/other.py\", line 5, in f\n[rank1]: " + oom(1, "2.86 GiB") + root +
			record(2, "To enable traceback see: https://pytorch.org\n"),
			"Out of memory on rank 2, GPU 2: 2.90 GiB"},
		{"no list", "[rank2]: " + oom(2, "2.86 GiB") + "[rank1]: " + oom(1, "2.86 GiB"), "Out of memory on 2 ranks: 2.90 GiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "train.log", text: test.log})
			if !strings.HasPrefix(doc.Verdict.Text, test.says) {
				t.Errorf("verdict %q, want %q", doc.Verdict.Text, test.says)
			}
		})
	}
}

// TestRepeats tells a failure once that a log prints with and without its traceback.
func TestRepeats(t *testing.T) {
	oom := func(free string) string {
		return "RuntimeError: CUDA out of memory. Tried to allocate 10.00 MiB (GPU 0; 23.69 GiB total capacity; 5.97 GiB " +
			"already allocated; " + free + " free; 6.47 GiB reserved in total by PyTorch)\n"
	}
	const trace = "Traceback (most recent call last):\n  File \"/a/train.py\", line 27, in f\n    x()\n"
	const head = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.00 MiB. GPU 0 has a total capacity of " +
		"23.69 GiB of which 7.00 MiB is free."
	for name, test := range map[string]struct {
		log  string
		want int
	}{
		"the same": {oom("7.00 MiB") + trace + oom("7.00 MiB"), 1},
		"another":  {oom("8.00 MiB") + trace + oom("7.00 MiB"), 2},
		"cut off": {trace + head + " Of the allocated memory 22.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by " +
			"PyTorch but unallocated.\nError: " + head + "\n", 1},
	} {
		doc := judged(t, input{name: "train.log", text: test.log})
		if len(doc.Findings) != test.want || !strings.Contains(doc.Verdict.Text, "train.py:27") {
			t.Errorf("%s: found %+v", name, doc.Findings)
		}
	}
}

// TestAsked gives the range of what failures of one line asked for.
func TestAsked(t *testing.T) {
	oom := func(size string) string {
		return "RuntimeError: CUDA out of memory. Tried to allocate " + size +
			" (GPU 0; 23.69 GiB total capacity; 22.97 GiB already allocated; 7.00 MiB free; 22.99 GiB reserved in total by " +
			"PyTorch)\n"
	}
	for log, want := range map[string]string{
		oom("1.50 GiB") + oom("1.25 GiB") + oom("2.00 GiB"): "told 3 times in this log, with 1.25 GiB to 2.00 GiB asked for",
		oom("1.50 GiB") + oom("1.50 GiB"):                   "told twice in this log",
	} {
		if f := found(judged(t, input{name: "train.log", text: log}), "oom_true_shortage"); f == nil ||
			!slices.Contains(f.Evidence, want) {
			t.Errorf("found %+v, want %q", f, want)
		}
	}
}

// TestTraceback names the phase, the step and the user's line.
func TestTraceback(t *testing.T) {
	log := `step 41 | loss 2.31 | 0.52 s
Traceback (most recent call last):
  File "/home/me/train.py", line 88, in <module>
    loss.backward()
  File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 581, in backward
    torch.autograd.backward(
  File "/venv/lib/python3.11/site-packages/torch/autograd/__init__.py", line 347, in backward
    _engine_run_backward(
torch.OutOfMemoryError: CUDA out of memory. ` +
		"Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.00 GiB is free. Including non-PyTorch " +
		"memory, this process has 78.10 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and " +
		"512.00 MiB is reserved by PyTorch but unallocated. If reserved\n"
	doc := judged(t, input{name: "train.log", text: log})
	want := "Out of memory in the backward pass on GPU 3, after step 41: 2.00 GiB asked for at me/train.py:88; 1.50 GiB were " +
		"free: 512.00 MiB short"
	if doc.Verdict.Text != want {
		t.Errorf("verdict\n%s\nwant\n%s", doc.Verdict.Text, want)
	}
	if fix := *doc.Verdict.Fix; !strings.Contains(fix, "Checkpointing") {
		t.Errorf("fix %q", fix)
	}
}

// failed is a message by which a GPU of 100 GiB lacks what is asked for, at a line of its own.
func failed(line int, asked int64, set ...func(*evidence.OOMMessage)) evidence.OOMMessage {
	m := evidence.OOMMessage{Line: line, Backend: "CUDA", RequestedBytes: &asked, CapacityBytes: new(100 * gib),
		DeviceFreeBytes: new(int64(0)), ProcessBytes: new(100 * gib), AllocatedBytes: new(99 * gib),
		ReservedUnallocatedBytes: new(int64(0)), UserFile: new("/w/train.py"), UserLine: new(line), AfterStep: -1, UpToStep: -1}
	for _, f := range set {
		f(&m)
	}
	return m
}

func by(name string) func(*evidence.OOMMessage) { return func(m *evidence.OOMMessage) { m.By = name } }

func onLine(line int) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.UserLine = &line }
}

func ofRank(rank int) func(*evidence.OOMMessage) {
	return func(m *evidence.OOMMessage) { m.Rank = &rank }
}

func withoutFigures(m *evidence.OOMMessage) {
	*m = evidence.OOMMessage{Line: m.Line, Backend: "CUDA", AfterStep: -1, UpToStep: -1}
}

// ofLog is evidence of a log with messages.
func ofLog(messages ...evidence.OOMMessage) *evidence.Evidence {
	ev := evidence.New()
	ev.OOMMessages = messages
	ev.Logs = []evidence.Log{{Steps: &evidence.Steps{}}}
	return ev
}

// TestRecordedIsNotToldTwice: what a device's recording has is left out, what it hasn't is told;
// words that nobody knows count for nothing beside a recorded failure.
func TestRecordedIsNotToldTwice(t *testing.T) {
	unclear := func(m *evidence.OOMMessage) { withoutFigures(m); m.Unclear, m.Quote = true, "no memory" }
	for _, test := range []struct {
		name     string
		recorded []int64 // bytes of failed requests
		message  evidence.OOMMessage
		want     bool
	}{
		{"nothing recorded", nil, failed(1, 2*gib), true},
		{"recorded", []int64{gib, 2 * gib}, failed(1, 2*gib), false},
		{"another recorded", []int64{gib, 3 * gib}, failed(1, 2*gib), true},
		{"unclear, nothing recorded", nil, failed(1, 0, unclear), true},
		{"unclear, another recorded", []int64{gib}, failed(1, 0, unclear), false},
		{"without figures, another recorded", []int64{gib}, failed(1, 0, withoutFigures), true},
	} {
		var d report.Device
		for _, bytes := range test.recorded {
			d.OOMs = append(d.OOMs, report.OOM{RequestedBytes: bytes})
		}
		ev := ofLog(test.message)
		doc := added(ev, d)
		if (len(doc.Findings) > 0) != test.want {
			t.Errorf("%s: %+v", test.name, doc.Findings)
		}
		if ev.OOMMessages[0].Verdict == nil || ev.OOMMessages[0].Fix == nil {
			t.Errorf("%s: the message isn't judged", test.name)
		}
	}
}

// TestLessSure: a failure that may be one is left out beside one that is, and one beside
// PyTorch's allocator beside PyTorch's own.
func TestLessSure(t *testing.T) {
	own, nccl, cut := failed(1, 2*gib), failed(2, 0, withoutFigures, by("NCCL")), failed(3, 0, withoutFigures)
	served := failed(4, 16*gib, by("vLLM"), func(m *evidence.OOMMessage) { m.AllowedBytes = new(gib) })
	type messages = []evidence.OOMMessage
	for _, test := range []struct {
		name     string
		messages messages
		want     []int // lines, the last first
	}{
		{"unclear alone", messages{cut}, []int{3}},
		{"beside PyTorch alone", messages{nccl}, []int{2}},
		{"both", messages{nccl, cut}, []int{2}},
		{"PyTorch's, and one beside it", messages{own, nccl}, []int{1}},
		{"PyTorch's, and an unclear one", messages{own, cut}, []int{1}},
		{"all", messages{own, nccl, cut}, []int{1}},
		{"a server's that is sure", messages{own, served}, []int{4, 1}},
		{"a server's, and one that is less sure", messages{served, nccl}, []int{4}},
	} {
		var lines []int
		for _, f := range added(ofLog(test.messages...)).Findings {
			var line int
			fmt.Sscanf(f.Evidence[0], "train.log:%d:", &line)
			lines = append(lines, line)
		}
		if !slices.Equal(lines, test.want) {
			t.Errorf("%s: lines %d, want %d", test.name, lines, test.want)
		}
	}
}

// TestVerdictOfMessage: a verdict is one from 0.8 on; what is less sure is unknown, but for what
// isn't understood.
func TestVerdictOfMessage(t *testing.T) {
	room := func(m *evidence.OOMMessage) { m.DeviceFreeBytes, m.ProcessBytes = new(50*gib), new(50*gib) }
	crowd := func(m *evidence.OOMMessage) {
		m.DeviceFreeBytes, m.ProcessBytes, m.AllocatedBytes, m.ReservedUnallocatedBytes = new(gib), new(10*gib), new(8*gib),
			new(gib)
	}
	pieces := func(m *evidence.OOMMessage) {
		m.Phase, m.AllocatedBytes, m.ReservedUnallocatedBytes = new("optimizer"), new(80*gib), new(20*gib)
	}
	for _, test := range []struct {
		message    evidence.OOMMessage
		id         string
		confidence float64
		verdict    string
	}{
		{failed(1, 2*gib), "oom_true_shortage", 0.9, report.TrueShortage},
		{failed(1, 2*gib, crowd), "oom_other_process", 0.8, report.OtherProcess},
		{failed(1, 2*gib, pieces), "oom_fragmentation", 0.6, report.UnknownVerdict},
		{failed(1, 2*gib, room), "oom_driver_refused", 0.7, report.UnknownVerdict},
		{failed(1, 2*gib, by("NCCL")), "oom_true_shortage", 0.7, report.UnknownVerdict},
		{failed(1, 2*gib, withoutFigures), "oom_unclear", 0.3, report.UnclearVerdict},
		{failed(1, 2*gib, by("workspace")), report.WorkspaceFull, 0.95, report.WorkspaceFull},
	} {
		ev := ofLog(test.message)
		f := found(added(ev), test.id)
		if m := ev.OOMMessages[0]; f == nil || f.Confidence != test.confidence || *m.Verdict != test.verdict || *m.Fix != *f.Fix {
			t.Errorf("%s: %+v, verdict %s", test.id, f, *ev.OOMMessages[0].Verdict)
			continue
		}
		var saves int64
		if test.id == "oom_other_process" {
			saves = 89 * gib
		}
		id := map[string]string{"oom_other_process": advice.StopOthers, "oom_fragmentation": advice.Expandable}[test.id]
		if evidence.Or(f.SavesBytes, 0) != saves || (f.SavesBytes == nil) != (saves == 0) || evidence.Or(f.FixID, "") != id ||
			(f.FixID == nil) != (id == "") {
			t.Errorf("%s: saves %v by %v", test.id, f.SavesBytes, f.FixID)
		}
		if strings.Contains(f.Title, "probably") != (test.id == "oom_fragmentation") {
			t.Errorf("%s at %v: %s", test.id, test.confidence, f.Title)
		}
	}
}

// TestManyLines: failures of five lines are told, the last first, and how many more there are.
func TestManyLines(t *testing.T) {
	for n := 1; n <= 7; n++ {
		var messages []evidence.OOMMessage
		for line := 1; line <= n; line++ {
			messages = append(messages, failed(10*line, 2*gib))
		}
		list := added(ofLog(messages...)).Findings
		if len(list) != min(n, 5) {
			t.Fatalf("%d lines: %d findings", n, len(list))
		}
		last := list[len(list)-1].Evidence
		more := strings.Contains(last[len(last)-1], fmt.Sprintf("%d other line", n-5))
		if more != (n > 5) || !strings.HasPrefix(list[0].Evidence[0], fmt.Sprintf("train.log:%d:", 10*n)) {
			t.Errorf("%d lines: %q, then %q", n, list[0].Evidence, last)
		}
	}
}

// TestOneFailureOfMany: messages of one cause and line are one failure, with the range of what was
// asked for, whose they are, and how often.
func TestOneFailureOfMany(t *testing.T) {
	survived := func(up int64) func(*evidence.OOMMessage) {
		return func(m *evidence.OOMMessage) { m.WentOn, m.UpToStep, m.AfterStep = true, up, 3 }
	}
	onGPU := func(gpu int) func(*evidence.OOMMessage) { return func(m *evidence.OOMMessage) { m.GPU = &gpu } }
	type messages = []evidence.OOMMessage
	var many messages
	for rank := range 18 {
		many = append(many, failed(rank+1, 2*gib, onLine(5), ofRank(rank)))
	}
	for _, test := range []struct {
		name     string
		messages messages
		severity report.Severity
		title    string // a part
		evidence []string
	}{
		{"one", messages{failed(1, 2*gib)}, report.Critical, "Out of memory: ", nil},
		{"of different sizes", messages{failed(1, 2*gib, onLine(5)), failed(9, 3*gib, onLine(5)), failed(11, gib, onLine(5))},
			report.Critical, "", []string{"told 3 times in this log, with 1.00 GiB to 3.00 GiB asked for"}},
		{"of one rank", messages{failed(1, 2*gib, ofRank(4))}, report.Critical, " on rank 4: ", nil},
		{"of one rank with its GPU", messages{failed(1, 2*gib, ofRank(4), onGPU(0))}, report.Critical, " on rank 4, GPU 0: ",
			nil},
		{"of two GPUs", messages{failed(1, 2*gib, onLine(5), onGPU(3)), failed(2, 2*gib, onLine(5), onGPU(1))}, report.Critical,
			" on 2 GPUs: ", []string{"told twice in this log", "GPUs 1, 3"}},
		{"of 18 ranks", many, report.Critical, " on 18 ranks: ",
			[]string{"told 18 times in this log", "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 2 more"}},
		{"of 16 ranks", many[:16], report.Critical, " on 16 ranks: ",
			[]string{"told 16 times in this log", "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"}},
		{"after the first step", messages{failed(1, 2*gib, func(m *evidence.OOMMessage) { m.AfterStep = 0 })}, report.Critical,
			", after step 0: ", nil},
		{"survived", messages{failed(1, 2*gib, survived(17))}, report.Warning, "after step 3; the run went on",
			[]string{"steps follow it in the log, up to step 17"}},
		{"survived, once", messages{failed(1, 2*gib, onLine(5), survived(17)), failed(40, 2*gib, onLine(5))}, report.Critical,
			"Out of memory: ", []string{"told twice in this log"}},
		{"survived, then steps without numbers", messages{failed(1, 2*gib, survived(-1))}, report.Warning, "the run went on",
			nil},
		{"with graphs", messages{failed(1, 2*gib, func(m *evidence.OOMMessage) { m.PrivatePoolBytes = new(3 * gib) })},
			report.Critical, "", []string{"3.00 GiB lie in private pools (CUDA graphs), which no other code can use"}},
		{"with an engine's", messages{failed(1, 2*gib, func(m *evidence.OOMMessage) {
			m.PrivatePoolBytes, m.Scene.Server = new(3*gib), "vLLM"
		})}, report.Critical, "", []string{"3.00 GiB lie in private pools (vLLM's CUDA graphs, or its sleep mode), which no other " +
			"code can use"}},
		{"at no line", messages{failed(1, 2*gib, func(m *evidence.OOMMessage) { m.UserLine = nil })}, report.Critical,
			" asked for at w/train.py; ", nil},
		{"in a library's file, below the program's own", messages{failed(1, 2*gib, func(m *evidence.OOMMessage) {
			m.OwnFile, m.OwnLine = "/home/u/own.py", 7
		})}, report.Critical, " asked for at u/own.py:7; ", nil},
		{"of no bytes that a number holds", messages{failed(1, 2*gib, func(m *evidence.OOMMessage) {
			m.RequestedBytes, m.Beyond = nil, true
		})}, report.Critical, "more than 1 EB asked for", nil},
	} {
		list := added(ofLog(test.messages...)).Findings
		if len(list) != 1 || list[0].Severity != test.severity || !strings.Contains(list[0].Title, test.title) {
			t.Errorf("%s: %+v", test.name, list)
			continue
		}
		var told []string // less the figures and what lies outside PyTorch
		for _, e := range list[0].Evidence[1:] {
			if !strings.HasPrefix(e, "outside PyTorch") {
				told = append(told, e)
			}
		}
		if !slices.Equal(told, test.evidence) {
			t.Errorf("%s: %q, want %q", test.name, told, test.evidence)
		}
	}
}

// TestWhichMessage: a failure has the figures of the rank that failed first, else of the last message
// that has some in the first log.
func TestWhichMessage(t *testing.T) {
	of := func(source, line, rank int, set ...func(*evidence.OOMMessage)) evidence.OOMMessage {
		set = append([]func(*evidence.OOMMessage){onLine(5)}, set...)
		if rank >= 0 {
			set = append(set, ofRank(rank))
		}
		return failed(line, 2*gib, append(set, func(m *evidence.OOMMessage) { m.Source = source })...)
	}
	nccl := func(m *evidence.OOMMessage) { withoutFigures(m); m.By = "NCCL" }
	type messages = []evidence.OOMMessage
	for _, test := range []struct {
		name     string
		first    int // rank in the launcher's list, -1: there is none
		messages messages
		want     string
	}{
		{"the last", -1, messages{of(0, 1, -1), of(0, 2, -1)}, "train.log:2"},
		{"the last of the first log", -1, messages{of(0, 1, -1), of(0, 2, -1), of(1, 3, -1)}, "train.log:2"},
		{"the first rank's", 1, messages{of(0, 1, 0), of(0, 2, 1), of(0, 3, 2)}, "train.log:2"},
		{"rank 0's", 0, messages{of(0, 1, 0), of(0, 2, 1)}, "train.log:1"},
		{"the last of the first rank's", 1, messages{of(0, 1, 1), of(0, 2, 0), of(0, 3, 1)}, "train.log:3"},
		{"the first rank's, which another log has", 1, messages{of(0, 1, 0), of(0, 2, 0), of(1, 3, 1), of(1, 4, 0)}, "gpu.csv:3"},
		{"of a rank that wrote nothing", 7, messages{of(0, 1, 0), of(0, 2, 1)}, "train.log:2"},
		{"the one without figures where none has any", -1, messages{of(0, 1, -1, nccl), of(0, 2, -1, nccl)}, "train.log:1"},
		{"the one with figures", -1, messages{of(0, 1, -1, nccl), of(1, 2, -1, nccl,
			func(m *evidence.OOMMessage) { m.RequestedBytes = new(gib) })}, "gpu.csv:2"},
	} {
		ev := ofLog(test.messages...)
		ev.Logs = append(ev.Logs, evidence.Log{Source: 1, Steps: &evidence.Steps{}})
		for i := range ev.Logs {
			if test.first >= 0 {
				ev.Logs[i].Failures = []evidence.RankFailure{{Rank: 3}, {Rank: test.first, First: true}, {Rank: 4}}
			}
		}
		list := added(ev).Findings
		if len(list) != 1 || !strings.HasPrefix(list[0].Evidence[0], test.want+": ") {
			t.Errorf("%s: %+v", test.name, list)
			continue
		}
		says := strings.Contains(strings.Join(list[0].Evidence, "\n"), fmt.Sprintf("rank %d failed before all others",
			test.first))
		if want := test.first == 0 || test.first == 1; says != want {
			t.Errorf("%s: %q", test.name, list[0].Evidence)
		}
	}
}

// TestBeforeFailure: allocated memory that rose before by no less than a smaller batch would win is
// what is told, whatever failed in the end.
func TestBeforeFailure(t *testing.T) {
	for _, test := range []struct {
		name  string
		asked int64
		rise  int64 // from the first step to the last
		gpu   int64
		set   func(*evidence.OOMMessage)
		want  bool
	}{
		{"a tenth of the GPU", gib, 10 * gib, 100 * gib, nil, true},
		{"a byte less", gib, 10*gib - 100, 100 * gib, nil, false},
		{"as much as was asked for", 20 * gib, 20 * gib, 100 * gib, nil, true},
		{"less than that", 20 * gib, 20*gib - 100, 100 * gib, nil, false},
		{"before a failure of NCCL's", gib, 50 * gib, 100 * gib, by("NCCL"), false},
		{"before a garbled size", 1 << 41, 1 << 42, 100 * gib, nil, false},
	} {
		m := failed(1000, test.asked)
		if test.set != nil {
			test.set(&m)
		}
		ev := ofLog(m)
		steps := ev.Logs[0].Steps
		for i := range int64(101) {
			steps.Curve = append(steps.Curve, evidence.Step{Line: int(i), Number: 100 + i, Seconds: -1,
				AllocatedBytes: 20*gib + test.rise*i/100})
		}
		f := allOf(added(ev), "oom_true_shortage")
		if len(f) != 1 || strings.Contains(f[0].Title, "at step 100 to ") != test.want || (f[0].FixID != nil) && test.want {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}

// TestCounted: PyTorch's own counter tells of failures where nothing else does.
func TestCounted(t *testing.T) {
	summary := func(line int, ooms int64, device int) evidence.MemorySummary {
		return evidence.MemorySummary{Line: line, OOMs: evidence.Known(ooms), Device: evidence.Known(device),
			PeakAllocatedBytes: new(40 * gib), PeakReservedBytes: new(50 * gib)}
	}
	type summaries = []evidence.MemorySummary
	for _, test := range []struct {
		name      string
		summaries summaries
		line      int // 0: nothing is told
		says      string
	}{
		{"none", summaries{summary(5, 0, 0)}, 0, ""}, {"unknown", summaries{summary(5, -1, 0)}, 0, ""},
		{"one", summaries{summary(5, 1, 3)}, 5, " on GPU 3: PyTorch counted 1 failed request "},
		{"two, then none", summaries{summary(5, 2, 3), summary(9, 0, 3)}, 5, " 2 failed requests "},
		{"two, then three", summaries{summary(5, 2, 3), summary(9, 3, 3)}, 9, " 3 failed requests "},
		{"by no device", summaries{summary(5, 2, -1)}, 5, "Out of memory: "},
	} {
		ev := evidence.New()
		ev.MemorySummaries = test.summaries
		doc := added(ev)
		f := found(doc, "oom_true_shortage")
		if (f != nil) != (test.line > 0) || f != nil && (f.Confidence != 0.3 || !strings.Contains(f.Title, test.says) ||
			!strings.HasPrefix(f.Evidence[0], fmt.Sprintf("train.log:%d:", test.line)) ||
			!strings.Contains(f.Evidence[1], "40.00 GiB allocated and 50.00 GiB reserved")) {
			t.Errorf("%s: %+v", test.name, f)
		}
		if f == nil && !strings.Contains(doc.Verdict.Text, "40.00 GiB allocated and 50.00 GiB reserved") {
			t.Errorf("%s: %s", test.name, doc.Verdict.Text)
		}
		if f := found(added(ev, report.Device{OOMs: []report.OOM{{RequestedBytes: gib}}}), "oom_true_shortage"); f != nil {
			t.Errorf("%s, beside a recorded failure: %+v", test.name, f)
		}
		if f := found(added(ev, report.Device{}), "oom_true_shortage"); (f != nil) != (test.line > 0) {
			t.Errorf("%s, beside a recording: %+v", test.name, f)
		}
		ev.OOMMessages = []evidence.OOMMessage{failed(1, 2*gib)}
		if f := found(added(ev), "oom_true_shortage"); f != nil {
			t.Errorf("%s, beside a message: %+v", test.name, f)
		}
	}
}

// TestWithoutTraceback: the same figures without a traceback are the same failure, and so are
// those that are cut off behind what was free.
func TestWithoutTraceback(t *testing.T) {
	bare := func(m *evidence.OOMMessage) { m.UserFile, m.UserLine = nil, nil }
	placed := func(m *evidence.OOMMessage) { withoutFigures(m); m.By, m.UserFile = "NCCL", new("/w/train.py") }
	cut := func(m *evidence.OOMMessage) { bare(m); m.AllocatedBytes, m.ReservedUnallocatedBytes = nil, nil }
	type messages = []evidence.OOMMessage
	for _, test := range []struct {
		name     string
		messages messages
		want     int
	}{
		{"with and without", messages{failed(1, 2*gib), failed(9, 2*gib, bare)}, 1},
		{"of NCCL, which has no figures", messages{failed(1, 0, placed), failed(9, 0, withoutFigures, by("NCCL"))}, 1},
		{"of another size", messages{failed(1, 2*gib), failed(9, 3*gib, bare)}, 2},
		{"of another rank", messages{failed(1, 2*gib, ofRank(0)), failed(9, 2*gib, bare, ofRank(1))}, 2},
		{"cut off", messages{failed(1, 2*gib), failed(9, 2*gib, cut)}, 1},
		{"cut off, of another size", messages{failed(1, 2*gib), failed(9, 3*gib, cut)}, 2},
		{"cut off before what was free", messages{failed(1, 2*gib), failed(9, 2*gib, cut,
			func(m *evidence.OOMMessage) { m.DeviceFreeBytes = nil })}, 1}, // unclear beside a sure one
	} {
		if list := added(ofLog(test.messages...)).Findings; len(list) != test.want {
			t.Errorf("%s: %+v", test.name, list)
		}
	}
}

// TestServerOfLog: a message without a traceback is the server's, in a log in which nothing trains.
func TestServerOfLog(t *testing.T) {
	bare := func(m *evidence.OOMMessage) { m.UserFile, m.UserLine = nil, nil }
	inPhase := func(m *evidence.OOMMessage) { bare(m); m.Phase = new("forward") }
	engine := func(l *evidence.Log) { l.Engine.Name = "sglang" }
	servers := func(l *evidence.Log) {
		l.Servers = []evidence.Server{{Name: "ComfyUI", Line: 3}, {Name: "vLLM", Line: 4}}
	}
	both := func(l *evidence.Log) { engine(l); servers(l) }
	training := func(l *evidence.Log) { both(l); l.Steps.Count = 1 }
	for _, test := range []struct {
		name    string
		log     func(*evidence.Log)
		message evidence.OOMMessage
		want    string
	}{
		{"an engine", engine, failed(9, 2*gib, bare), "sglang"}, {"the first of two", servers, failed(9, 2*gib, bare), "ComfyUI"},
		{"an engine before others", both, failed(9, 2*gib, bare), "sglang"}, {"beside a training", training, failed(9, 2*gib,
			bare), ""},
		{"with a traceback", both, failed(9, 2*gib), ""}, {"in a phase", both, failed(9, 2*gib, inPhase), ""},
		{"none", func(*evidence.Log) {}, failed(9, 2*gib, bare), ""},
	} {
		ev := ofLog(test.message)
		test.log(&ev.Logs[0])
		added(ev)
		if got := ev.OOMMessages[0].Scene.Server; got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
