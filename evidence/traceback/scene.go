package traceback

import (
	"bytes"
	"slices"

	"github.com/vramscope/vramscope/evidence"
)

// sceneMarks are what frames have. Of several the last counts, and of several
// frames the innermost that has one: eager attention calls a softmax that has
// none. PyTorch's own scaled_dot_product_attention has no frame, so one of that
// name is written out.
var sceneMarks = []struct {
	doing evidence.Doing
	in    []string
}{
	{evidence.Diffusion, []string{"diffusers/"}}, {evidence.ImageDecoder, []string{"diffusers/models/autoencoders/"}},
	{evidence.Convolution, []string{"in conv1d", "in conv2d", "in conv3d", "torch/nn/modules/conv.py", "in interpolate"}},
	{evidence.Messages, []string{"torch_geometric/nn/", "torch_scatter/", "dgl/"}},
	{evidence.Logits, []string{"in ForCausalLMLoss", "in cross_entropy", "in fixed_cross_entropy", "in log_softmax",
		"in nll_loss", "fused_cross_entropy.py", "tensor_parallel/cross_entropy.py", "in selective_log_softmax",
		"in logprobs_from_logits",
		"in compute_logits", "in _get_per_token_logps"}},
	{evidence.Attention, []string{"in eager_attention_forward", "in scaled_dot_product_attention"}},
	{"", []string{"in sdpa_attention_forward", "in flash_attention_forward"}},
	{evidence.Attention, []string{"in multi_head_attention_forward"}},
	{evidence.Foreach, []string{"in _multi_tensor_adamw", "in _multi_tensor_adam", "in _multi_tensor_sgd",
		"in _multi_tensor_rmsprop", "in _multi_tensor_adagrad"}},
	{evidence.OptimizerLoad, []string{"in _load_optimizer_and_scheduler"}},
	{evidence.FullState, []string{"in _common_unshard_pre_state_dict_hook", "in _full_post_state_dict_hook", "in full_tensor",
		"in _zero3_consolidated_16bit_state_dict"}},
	{evidence.EvaluationOutputs, []string{"in nested_concat", "in torch_pad_and_concatenate", "in gather_for_metrics"}},
	{evidence.Buckets, []string{"in _ddp_init_helper"}},
	{evidence.FullState, []string{"Failed to clone() tensor", "_state_dict_utils.py"}},
	{evidence.Pinning, []string{"in pin_memory", "in _pin_memory", "in _pin_memory_loop"}},
	{evidence.Replicas, []string{"torch/nn/parallel/data_parallel.py", "torch/nn/parallel/replicate.py"}},
	{evidence.ModelCopy, []string{"in deepcopy"}},
}

// evaluations are names of functions below which no training is done.
var evaluations = [...]string{"in evaluation_loop", "in evaluate", "in _evaluate", "in _maybe_log_save_evaluate",
	"in prediction_step", "in validate",
	"in validation", "in validation_step", "in _run_sanity_check", "in eval_epoch", "in val_epoch", "in run_validation"}

// servers are the packages of programs that serve or draw.
var servers = [...]struct{ in, name string }{{"/vllm/", "vLLM"}, {"/vllm_ascend/", "vLLM"}, {"/sglang/", "sglang"},
	{"/text_generation_server/", "TGI"}, {"/tensorrt_llm/", "TensorRT-LLM"}, {"/lmdeploy/", "LMDeploy"},
	{"ComfyUI/", "ComfyUI"}, {"/comfy/", "ComfyUI"}, {"in get_output_data", "ComfyUI"}, {"/fcbh/", "Fooocus"},
	{"/ldm_patched/", "Fooocus"}, {"stable-diffusion-webui", "Stable Diffusion web UI"}, {"/invokeai/", "InvokeAI"}}

// AddFrame notes what one more frame shows, innermost last.
func AddFrame(s *evidence.Scene, line []byte) {
	for _, m := range sceneMarks {
		if slices.ContainsFunc(m.in, func(in string) bool { return names(line, in) }) {
			s.Doing = m.doing
		}
	}
	if loads(line) {
		s.Doing = evidence.CheckpointLoad
	}
	if names(line, "in load_state_dict") && names(line, "torch/optim/") {
		s.Doing = evidence.OptimizerLoad
	}
	if names(line, "torch/utils/checkpoint.py") {
		s.Checkpointing = true
	}
	if names(line, "in decorate_context") {
		s.NoGrad = true
	}
	for _, in := range evaluations {
		s.Evaluating = s.Evaluating || names(line, in)
	}
	for _, server := range servers {
		if names(line, server.in) {
			s.Server = server.name
		}
	}
}

// DoingOf is what the line of source below the innermost frame shows, where
// what it calls has no frame of its own.
func DoingOf(code []byte, users bool) evidence.Doing {
	code = bytes.ToLower(code)
	has := func(words ...string) bool {
		for _, w := range words {
			if bytes.Contains(code, []byte(w)) {
				return true
			}
		}
		return false
	}
	switch {
	case has("softmax(") && has("attn", "att_", "attention", "scores", "q @ k", "query", "@ k."), has("baddbmm(", "einsum(q, k",
		"q @ k", "attn_weights =", "attn_scores =", "attention_scores ="):
		return evidence.Attention
	case has("scaled_dot_product_attention("):
		return evidence.UnfusedAttention
	case has(".pin_memory(", "cudahostregister(", "cudahostalloc("):
		return evidence.Pinning
	case has("logits.float()", "lm_head(", "logits.to(", "logsumexp(", "log_softmax(logits", "cross_entropy("):
		return evidence.Logits
	case has("dist.Reducer("):
		return evidence.Buckets
	case users && has(".cuda(", ".to(device", ".to('cuda", `.to("cuda`) && !has("model"):
		return evidence.ToDevice
	}
	return ""
}
