package diagnose

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// input is one file of a run: a text, or a shipped recording.
type input struct {
	name, text string
	snapshot   *snapshot.Snapshot
}

// judged is the report on a run that left these files behind.
func judged(t *testing.T, files ...input) *report.Document {
	t.Helper()
	ev := evidence.New()
	var sources []Source
	for i, f := range files {
		if f.snapshot != nil {
			sources = append(sources, Source{Path: f.name, Kind: "snapshot", Snapshot: f.snapshot})
			continue
		}
		kinds, found, err := read.Evidence(strings.NewReader(f.text), f.name, i)
		if err != nil {
			t.Fatal(err)
		}
		ev.Add(found)
		sources = append(sources, Source{Path: f.name, Kind: kinds[0], Contains: kinds})
	}
	doc, err := Run(sources, ev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// recording reads a shipped recording.
func recording(t *testing.T, name string) *snapshot.Snapshot {
	t.Helper()
	in, err := snapshot.OpenInput(filepath.Join("..", "testdata", "recordings", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, err := in.Snapshot(snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// found is the finding with an id, wherever it stands.
func found(doc *report.Document, id string) *report.Finding {
	all := slices.Clone(doc.Findings)
	for i := range doc.Devices {
		all = append(all, doc.Devices[i].Findings...)
	}
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

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
		{"with room at the driver", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total " +
			"capacity of 6.00 GiB of which 3.50 GiB is free. Of the allocated memory 900.00 MiB is allocated by PyTorch, and " +
			"20.00 MiB is reserved by PyTorch but unallocated.", "oom_driver_refused", "3.50 GiB were free on the GPU"},
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
		{"of a workspace", "RuntimeError: /x/allocator.h:49: Buffer overflow when allocating memory for tmp_v with size 536870912 " +
			"and alignment 16, but only 134217728 bytes available in AlignedAllocator. Increase the workspace buffer size.",
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
	steps := stepLog(6, func(i int) string { return fmt.Sprintf("step %d loss 2.1", i) })
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

// TestShown advises by what the traceback shows, as far as the request is large
// enough to tell.
func TestShown(t *testing.T) {
	const packages = "/x/site-packages/"
	attention := []string{packages + "transformers/m.py|eager_attention_forward|w = softmax(w)"}
	loss := []string{packages + "torch/nn/functional.py|cross_entropy|return torch._C._nn.cross_entropy_loss("}
	for name, test := range map[string]struct {
		frames []string
		asked  string
		want   string
	}{
		"attention":            {attention, "2.00 GiB", "attn_implementation=\"sdpa\""},
		"a little of it":       {attention, "20.00 MiB", "A smaller batch"},
		"a loss":               {loss, "2.00 GiB", "Chunked or fused cross-entropy"},
		"a little of it, too":  {loss, "200.00 MiB", "A smaller batch"},
		"nothing known, large": {[]string{"/a/t.py|f|x = y * z"}, "20.00 GiB", "Look at what the line that asked makes"},
		"evaluation": {[]string{"/a/t.py|validate|out = model(x)", "/a/n.py|forward|x = f(x)"}, "2.00 GiB",
			"torch.no_grad()"},
		"an inference": {[]string{packages + "torch/utils/_contextlib.py|decorate_context|return func()",
			"/a/n.py|forward|x = f(x)"}, "2.00 GiB", "without gradients a pass keeps little"},
		"checkpointing": {[]string{packages + "torch/_tensor.py|backward|x()", packages +
			"torch/utils/checkpoint.py|recompute_fn|y()"}, "2.00 GiB", "checkpointing is on already"},
		"a server":      {[]string{packages + "vllm/v1/worker.py|execute_model|x()"}, "2.00 GiB", "Lower gpu_memory_utilization"},
		"a small state": {[]string{packages + "torch/optim/adamw.py|_multi_tensor_adamw|x()"}, "20.00 MiB", "fused=True"},
		"the data":      {[]string{"/a/t.py|<module>|X = X.cuda()"}, "20.00 GiB", "Keep the data on the host"},
	} {
		text := "Traceback (most recent call last):\n"
		for _, f := range test.frames {
			part := strings.Split(f, "|")
			text += "  File \"" + part[0] + "\", line 3, in " + part[1] + "\n    " + part[2] + "\n"
		}
		text += "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + test.asked +
			". GPU 0 has a total capacity of 79.10 GiB of which 10.00 MiB is free. " +
			"Including non-PyTorch memory, this process has 79.08 GiB memory in use. Of the allocated memory 78.40 GiB is " +
			"allocated by PyTorch, and 50.00 MiB is reserved by PyTorch but unallocated.\n"
		if doc := judged(t, input{name: "train.log", text: text}); doc.Verdict.Fix == nil || !strings.Contains(*doc.Verdict.Fix,
			test.want) {
			t.Errorf("%s: %+v, want %q", name, doc.Verdict, test.want)
		}
	}
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
		doc := judged(t, input{name: "train.log", text: stepLog(100, func(i int) string {
			return fmt.Sprintf("step %d loss 2.1 mem %.2f GiB", i, gibAt(10, test.perStep, i))
		}) + oom})
		if got := strings.Contains(doc.Verdict.Text,
			"a step before, from 10.00 GiB at step 0 to 34.75 GiB at step 99"); got != test.want ||
			strings.HasPrefix(*doc.Verdict.Fix, "Find what is kept") != test.want {
			t.Errorf("%v GiB a step: %+v", test.perStep, doc.Verdict)
		}
	}
}

// TestFragmentationOfMessage claims no saving that only a replay could tell.
func TestFragmentationOfMessage(t *testing.T) {
	f := found(judged(t, input{name: "train.log", text: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.53 " +
		"GiB. GPU 0 has a total capacity of 79.10 GiB of which 1004.94 MiB is free. " +
		"Including non-PyTorch memory, this process has 78.12 GiB memory in use. Of the allocated memory 53.47 GiB is " +
		"allocated by PyTorch, and 24.14 GiB is reserved by PyTorch but unallocated.\n"}), "oom_fragmentation")
	if f == nil || f.SavesBytes != nil || !strings.Contains(*f.Fix, "up to 24.14 GiB") {
		t.Errorf("found %+v", f)
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

// TestToolsOfTheMaker sends nobody with an AMD GPU to nvidia-smi.
func TestToolsOfTheMaker(t *testing.T) {
	for backend, want := range map[string]string{
		"HIP":  "Find the other processes with rocm-smi --showpids and stop them, or move to a free GPU (HIP_VISIBLE_DEVICES)",
		"CUDA": "Find the other processes with nvidia-smi and stop them, or move to a free GPU (CUDA_VISIBLE_DEVICES)",
	} {
		doc := judged(t, input{name: "train.log", text: "torch.OutOfMemoryError: " + backend +
			" out of memory. Tried to allocate 978.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 630.00 MiB is " +
			"free. " +
			"Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n"})
		if doc.Verdict.Fix == nil || *doc.Verdict.Fix != want {
			t.Errorf("%s: %+v", backend, doc.Verdict)
		}
	}
}

// TestOwnServer stops no process that the run may have started itself.
func TestOwnServer(t *testing.T) {
	const oom = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.43 GiB. GPU 0 has a total capacity " +
		"of 79.25 GiB of which 1.09 GiB is free. Process 4001 has 64.85 GiB memory in use. " +
		"Including non-PyTorch memory, this process has 13.30 GiB memory in use. Of the allocated memory 11.10 GiB is " +
		"allocated by PyTorch, and 134.90 MiB is reserved by PyTorch but unallocated.\n"
	const sglang = "03:04:05 INFO: Launch command: python3 -m sglang.launch_server --port 18424 --mem-fraction-static 0.8\n"
	tests := []struct{ name, log, fix string }{
		{"sglang", sglang + oom, "Give the sglang server less of the GPU (--mem-fraction-static)"},
		{"vLLM's command", "+ vllm serve some/model --port 8000\n" + oom,
			"Give the vLLM server less of the GPU (gpu_memory_utilization)"},
		{"vLLM in a program", "INFO 03-04 05:06:07 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: " +
			"model='some/model'\n" + oom, "Give the vLLM server"},
		{"nvidia-smi names it", strings.ReplaceAll(smiTable(80000, "4001 66000", "4002 13000"), "python", "VLLM::EngineCore") +
			oom, "Give the vLLM server"},
		{"a worker of Ray", strings.ReplaceAll(smiTable(80000, "4001 66000", "4002 13000"), "python", "ray::Worker") + oom,
			"it is a worker of Ray"},
		{"a server started later", oom + sglang, "Stop process 4001"},
		{"a GPU that was empty", smiTable(0) + oom, "Find out whether process 4001 (64.85 GiB) is of this run"},
		{"a GPU that was full before", smiTable(66406, "4001 66406") + oom, "Stop process 4001"},
		{"nothing known", "pip install vllm sglang\n" + oom, "Stop process 4001"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := found(judged(t, input{name: "train.log", text: test.log}), "oom_other_process")
			if f == nil || !strings.Contains(*f.Fix, test.fix) || strings.HasPrefix(*f.Fix, "Stop") != (f.SavesBytes != nil) {
				t.Fatalf("found %+v", f)
			}
		})
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
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated. If reserved
`
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

// TestOthersDecide gives a recorded failure the figures of other processes,
// which the recording itself can't have.
func TestOthersDecide(t *testing.T) {
	s := recording(t, "qwen_vocab_oom__05b/snapshot_named.pickle.gz")
	const message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 27.82 GiB. GPU 0 has a total capacity of " +
		"%s of which 4.96 GiB is free. %sIncluding non-PyTorch memory, this process has 74.13 GiB memory in use. Of the " +
		"allocated memory 72.87 GiB is allocated by PyTorch, and 774.75 MiB is reserved by PyTorch but unallocated. If\n"
	for _, test := range []struct {
		name     string
		evidence input
		want     string
	}{
		{"alone", input{name: "train.log", text: fmt.Sprintf(message, "79.10 GiB", "")}, "true_shortage"},
		{"beside a process that holds what is missing", input{name: "train.log", text: fmt.Sprintf(message, "139.80 GiB",
			"Process 7 has 60.50 GiB memory in use. ")}, "other_process"},
		{"beside a small one", input{name: "train.log", text: fmt.Sprintf(message, "84.40 GiB",
			"Process 7 has 5.30 GiB memory in use. ")}, "true_shortage"},
		{"on a GPU that nvidia-smi knows to be larger", input{name: "gpu.csv",
			text: "index, memory.used [MiB], memory.total [MiB]\n0, 140000 MiB, 143771 MiB\n"}, "other_process"},
		{"on a GPU of just this size", input{name: "gpu.csv", text: "index, memory.used [MiB], memory.total [MiB]\n0, 81000 " +
			"MiB, 81559 MiB\n"}, "true_shortage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := judged(t, input{name: "s", snapshot: s}, test.evidence).Devices[0]
			if got := d.OOMs[len(d.OOMs)-1].Verdict; got != test.want {
				t.Errorf("verdict %s, want %s", got, test.want)
			}
		})
	}
}

// TestOutsidePyTorch takes what PyTorch reserved from what the GPU had in use.
func TestOutsidePyTorch(t *testing.T) {
	const gib = 1 << 30
	message, err := filepath.Abs("../testdata/recordings/frag_oom__pairwise_docs/log.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := recording(t, "mlp_regression__script/snapshot_all.pickle.gz")
	reserved := judged(t, input{name: "s", snapshot: s}).Devices[0].Peaks.Reserved.Bytes
	mib := func(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
	gpu := func(used int64) string {
		return fmt.Sprintf("index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA H100 80GB HBM3, %d MiB, 81559 MiB\n",
			mib(used))
	}
	tests := []struct {
		name                         string
		files                        []input
		context, others, unaccounted int64 // -1: null; in MiB
		severity                     report.Severity
	}{
		{"the message says it all", []input{{name: "s", snapshot: recording(t, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")},
			fileInput(t, message)}, 522, 0, 0, report.Info},
		{"as much as a context", []input{{name: "s", snapshot: s}, {name: "gpu.csv", text: gpu(reserved + gib/2)}}, 512, -1, 0,
			report.Info},
		{"more than a context", []input{{name: "s", snapshot: s}, {name: "gpu.csv", text: gpu(reserved + 9*gib)}}, -1, -1, 9216,
			report.Warning},
		{"the process list divides it", []input{{name: "s", snapshot: s}, {name: "smi.txt", text: smiTable(mib(reserved+9*gib),
			fmt.Sprintf("4711 %d", mib(reserved+gib/2)), "4712 8192")}}, 512, 8192, 512, report.Warning},
		{"less than PyTorch had: another moment", []input{{name: "s", snapshot: s}, {name: "gpu.csv", text: gpu(gib / 4)}}, -1,
			-1, -1, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, test.files...)
			m := doc.Devices[0].AtPeak
			for i, want := range []int64{test.context, test.others, test.unaccounted} {
				bytes := []*int64{m.CUDAContext, m.OtherProcesses, m.Unaccounted}[i]
				if want < 0 && bytes != nil || want >= 0 && (bytes == nil || *bytes>>20 > want+1 || *bytes>>20 < want-1) {
					t.Errorf("part %d: %v, want %d MiB", i, bytes, want)
				}
			}
			f := found(doc, "outside_pytorch")
			if test.severity == "" && f != nil || test.severity != "" && (f == nil || f.Severity != test.severity) {
				t.Errorf("finding %+v", f)
			}
		})
	}
}

// smiTable is nvidia-smi's table with processes given as "PID MIB".
func smiTable(used int64, processes ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.10                 Driver Version: 570.10         CUDA Version: 12.8     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                    0 |
| N/A   52C    P0            432W /  700W | %7dMiB /  81559MiB |     98%%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
`, used)
	for _, p := range processes {
		var pid, mib int64
		fmt.Sscan(p, &pid, &mib)
		fmt.Fprintf(&b, "|    0   N/A  N/A      %10d      C   python                            %7dMiB |\n", pid, mib)
	}
	b.WriteString("+-----------------------------------------------------------------------------------------+\n")
	return b.String()
}
