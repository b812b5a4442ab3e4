package oom_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

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
		if f := judge(t, text); !strings.Contains(f.Change(), test.want) {
			t.Errorf("%s: %q, want %q", name, f.Change(), test.want)
		}
	}
}

// TestDoing: what a traceback shows has an advice of its own, whatever the phase and however
// small the request.
func TestDoing(t *testing.T) {
	advised := map[string]evidence.Doing{}
	for _, what := range []evidence.Doing{evidence.Foreach, evidence.OptimizerLoad, evidence.CheckpointLoad, evidence.FullState,
		evidence.EvaluationOutputs, evidence.Buckets, evidence.Replicas, evidence.ModelCopy, evidence.UnfusedAttention,
		evidence.Pinning, evidence.ImageDecoder, evidence.Diffusion} {
		f := oom.Judge(message(sizes{mib, 100 * gib, 0, 100 * gib, 99 * gib, 0}, doing(what), inPhase("optimizer")))
		if other, ok := advised[f.Change()]; ok {
			t.Errorf("%s is advised as %s", what, other)
		}
		advised[f.Change()] = what
		scattered := oom.Judge(message(sizes{9 * gib, 100 * gib, 0, 100 * gib, 81 * gib, 9 * gib}, doing(what)))
		if got := scattered.Change(); scattered.Cause != report.Fragmentation || !strings.HasSuffix(got, ". Or: "+f.Change()) {
			t.Errorf("%s in pieces: %s", what, got)
		}
	}
	for _, phase := range []string{"", "forward", "backward", "optimizer", "setup", "generate", "data", "zero_grad"} {
		f := oom.Judge(message(sizes{mib, 100 * gib, 0, 100 * gib, 99 * gib, 0}, inPhase(phase)))
		if what, ok := advised[f.Change()]; ok {
			t.Errorf("phase %q is advised as %q", phase, what)
		}
		advised[f.Change()] = evidence.Doing("phase " + phase)
	}
}

// TestLargeEnoughToTell: from which part of the GPU on a request tells of what fills it.
func TestLargeEnoughToTell(t *testing.T) {
	const gpu = 400 << 30
	for _, test := range []struct {
		what  evidence.Doing
		parts int64
	}{{evidence.Logits, 100}, {evidence.Attention, 400}, {evidence.Convolution, 400}, {evidence.Messages, 400},
		{evidence.ToDevice, 10}, {"", 10}} {
		change := func(asked, size int64, phase string) string {
			f := oom.Judge(message(sizes{asked, size, 0, size, size - gib, 0}, doing(test.what), inPhase(phase)))
			if f.Cause != report.TrueShortage {
				t.Errorf("%s: %s", test.what, f.Cause)
			}
			return f.Change()
		}
		small, large := change(gpu/test.parts-1, gpu, "backward"), change(gpu/test.parts, gpu, "backward")
		least := change(1, gpu, "backward")
		if small != least || large == small {
			t.Errorf("%q: %q below the %d. part, %q from it on", test.what, small, test.parts, large)
		}
	}
}

// TestPhaseBeforeSize: what a model or an optimizer's state needs is told by the phase, however
// large one of its tensors is.
func TestPhaseBeforeSize(t *testing.T) {
	of := func(asked int64, phase string) string {
		f := oom.Judge(message(sizes{asked, 100 * gib, 0, 100 * gib, 99 * gib, 0}, inPhase(phase)))
		return f.Change()
	}
	for phase, same := range map[string]bool{"setup": true, "optimizer": true, "forward": false, "backward": false} {
		if (of(50*gib, phase) == of(mib, phase)) != same {
			t.Errorf("%s: %s", phase, of(50*gib, phase))
		}
	}
}

// TestScenesOfPasses: evaluation, inference and checkpointing change what is advised, each within
// its phases only.
func TestScenesOfPasses(t *testing.T) {
	change := func(s evidence.Scene, phase string) string {
		f := oom.Judge(message(sizes{mib, 100 * gib, 0, 100 * gib, 99 * gib, 0}, inPhase(phase),
			func(m *evidence.OOMMessage) { m.Scene = s }))
		return f.Change()
	}
	plain := func(phase string) string { return change(evidence.Scene{}, phase) }
	for _, test := range []struct {
		name   string
		scene  evidence.Scene
		phases string // those in which it makes a difference
	}{
		{"evaluating", evidence.Scene{Evaluating: true}, "forward,"},
		{"evaluating without gradients", evidence.Scene{Evaluating: true, NoGrad: true}, "forward"},
		{"without gradients", evidence.Scene{NoGrad: true}, "forward"},
		{"checkpointing", evidence.Scene{Checkpointing: true}, "forward,backward"},
	} {
		for _, phase := range []string{"", "forward", "backward", "optimizer", "generate"} {
			want := slices.Contains(strings.Split(test.phases, ","), phase)
			if got := change(test.scene, phase) != plain(phase); got != want {
				t.Errorf("%s in %q: advised otherwise: %v", test.name, phase, got)
			}
		}
	}
	logits := evidence.Scene{Doing: evidence.Logits}
	served := evidence.Scene{Doing: evidence.Logits, NoGrad: true}
	of := func(s evidence.Scene) string {
		f := oom.Judge(message(sizes{10 * gib, 100 * gib, 0, 100 * gib, 99 * gib, 0},
			func(m *evidence.OOMMessage) { m.Scene = s }))
		return f.Change()
	}
	if of(logits) == of(served) {
		t.Errorf("scores with and without gradients: %s", of(logits))
	}
}

// TestServers: each server is told how to need less in its own settings, before whatever its
// worker was doing.
func TestServers(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"TGI", "TensorRT-LLM", "LMDeploy", "llama.cpp", "ComfyUI", "Fooocus", "Stable Diffusion web UI",
		"InvokeAI", "vLLM", "sglang"} {
		f := oom.Judge(message(sizes{mib, 100 * gib, 0, 100 * gib, 99 * gib, 0}, doing(evidence.Diffusion),
			func(m *evidence.OOMMessage) { m.Scene.Server = name }))
		if other, ok := seen[f.Change()]; ok || strings.Contains(f.Change(), "pipe.") {
			t.Errorf("%s is advised as %q: %s", name, other, f.Change())
		}
		seen[f.Change()] = name
	}
}
