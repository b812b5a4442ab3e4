package oom_test

import (
	"strings"
	"testing"
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
