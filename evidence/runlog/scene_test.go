package runlog

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

// TestScene tells what a traceback shows by its innermost known frame, and by the
// line of source where that calls what has none.
func TestScene(t *testing.T) {
	const packages = "/x/site-packages/"
	for name, test := range map[string]struct {
		frames []string // file, function and source
		want   evidence.Scene
		phase  string
	}{
		"eager attention": {[]string{packages + "transformers/models/llama/modeling_llama.py|eager_attention_forward|w = softmax(w)", packages + "torch/nn/functional.py|softmax|ret = input.softmax(dim)"},
			evidence.Scene{Doing: evidence.Attention}, "forward"},
		"attention of the user's own": {[]string{"/a/gpt.py|forward|att = torch.softmax(q @ k.transpose(-2, -1), dim=-1)"}, evidence.Scene{Doing: evidence.Attention}, "forward"},
		"written out":                 {[]string{"/a/model.py|scaled_dot_product_attention|x = einsum(a, b)"}, evidence.Scene{Doing: evidence.Attention}, ""},
		"kernels without scores":      {[]string{packages + "transformers/x.py|eager_attention_forward|y()", packages + "transformers/integrations/sdpa_attention.py|sdpa_attention_forward|z()"}, evidence.Scene{}, ""},
		"a loss":                      {[]string{packages + "transformers/loss/loss_utils.py|ForCausalLMLoss|x()", packages + "torch/nn/functional.py|cross_entropy|return torch._C._nn.cross_entropy_loss("}, evidence.Scene{Doing: evidence.Logits}, "forward"},
		"scores in 32 bits":           {[]string{packages + "transformers/models/llama/modeling_llama.py|forward|logits = logits.float()"}, evidence.Scene{Doing: evidence.Logits}, "forward"},
		"scores of an outer frame":    {[]string{"/a/train.py|step|loss = F.cross_entropy(model(x), y)", "/a/net.py|forward|x = self.pool(x)"}, evidence.Scene{}, "forward"},
		"recomputed": {[]string{packages + "torch/_tensor.py|backward|torch.autograd.backward(", packages + "torch/utils/checkpoint.py|unpack_hook|frame.recompute_fn(*args)"},
			evidence.Scene{Checkpointing: true}, "backward"},
		"an optimizer's lists":         {[]string{"/a/train.py|step|opt.step()", packages + "torch/optim/adamw.py|_multi_tensor_adamw|x = torch._foreach_sqrt(y)"}, evidence.Scene{Doing: evidence.Foreach}, "optimizer"},
		"an optimizer's state, loaded": {[]string{packages + "torch/optim/optimizer.py|load_state_dict|state_dict[0] = _cast("}, evidence.Scene{Doing: evidence.OptimizerLoad}, "setup"},
		"torch.load":                   {[]string{"/a/train.py|<module>|ck = torch.load(f)", packages + "torch/serialization.py|_deserialize|return obj.cuda(device)"}, evidence.Scene{Doing: evidence.CheckpointLoad}, "setup"},
		"torch.save":                   {[]string{packages + "torch/serialization.py|_save|storage = storage.cpu()"}, evidence.Scene{}, ""},
		"outputs of an evaluation": {[]string{packages + "transformers/trainer.py|evaluation_loop|x()", packages + "transformers/trainer_pt_utils.py|nested_concat|y()"},
			evidence.Scene{Doing: evidence.EvaluationOutputs, Evaluating: true}, ""},
		"a validation": {[]string{"/a/train.py|validate|out = model(x)", "/a/net.py|forward|x = self.conv(x)"}, evidence.Scene{Evaluating: true}, "forward"},
		"a server": {[]string{packages + "vllm/v1/worker/gpu_worker.py|profile|x()", packages + "torch/utils/_contextlib.py|decorate_context|return func(*args)", packages + "vllm/model_executor/models/qwen2.py|forward|y()"},
			evidence.Scene{Server: "vLLM", NoGrad: true}, "forward"},
		"all of the data": {[]string{"/a/train.py|<module>|X = torch.tensor(X).cuda()"}, evidence.Scene{Doing: evidence.ToDevice}, ""},
		"on Windows":      {[]string{`C:\p\Lib\site-packages\torch\optim\adam.py|_multi_tensor_adam|x()`}, evidence.Scene{Doing: evidence.Foreach}, "optimizer"},
	} {
		text := "Traceback (most recent call last):\n"
		for _, f := range test.frames {
			part := strings.Split(f, "|")
			text += "  File \"" + part[0] + "\", line 3, in " + part[1] + "\n    " + part[2] + "\n"
		}
		m := parse(text + "torch.OutOfMemoryError: " + message).OOMs[0]
		if m.Scene != test.want || evidence.Or(m.Phase, "") != test.phase {
			t.Errorf("%s: %+v in phase %q, want %+v in %q", name, m.Scene, evidence.Or(m.Phase, ""), test.want, test.phase)
		}
	}
}

// TestSceneOfArrow takes the marked one of the lines of source that IPython shows.
func TestSceneOfArrow(t *testing.T) {
	const trace = "File /a/train.py:12, in step(x)\n     11 att = softmax(scores)\n---> 12 loss = F.cross_entropy(x, y)\n     13 z = attn_weights = 1\n\nOutOfMemoryError: "
	if m := parse(trace + message).OOMs[0]; m.Scene.Doing != evidence.Logits {
		t.Errorf("%+v", m.Scene)
	}
}
