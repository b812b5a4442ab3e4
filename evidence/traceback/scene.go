package traceback

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
)

// sceneMarks are what frames have. Of several the last counts, and of several
// frames the innermost that has one: eager attention calls a softmax that has
// none. PyTorch's own scaled_dot_product_attention has no frame, so one of that
// name is written out.
var sceneMarks = []struct {
	in    string
	doing evidence.Doing
}{
	{"diffusers/", evidence.Diffusion}, {"diffusers/models/autoencoders/", evidence.ImageDecoder},
	{"in conv1d", evidence.Convolution}, {"in conv2d", evidence.Convolution}, {"in conv3d", evidence.Convolution},
	{"torch/nn/modules/conv.py", evidence.Convolution},
	{"in interpolate", evidence.Convolution},
	{"torch_geometric/nn/", evidence.Messages}, {"torch_scatter/", evidence.Messages}, {"dgl/", evidence.Messages},
	{"in ForCausalLMLoss", evidence.Logits}, {"in cross_entropy", evidence.Logits}, {"in fixed_cross_entropy", evidence.Logits},
	{"in log_softmax", evidence.Logits}, {"fused_cross_entropy.py", evidence.Logits},
	{"tensor_parallel/cross_entropy.py", evidence.Logits}, // Megatron's
	{"in nll_loss", evidence.Logits},
	{"in selective_log_softmax", evidence.Logits}, {"in logprobs_from_logits", evidence.Logits},
	{"in compute_logits", evidence.Logits},
	{"in _get_per_token_logps", evidence.Logits},
	{"in eager_attention_forward", evidence.Attention}, {"in scaled_dot_product_attention", evidence.Attention},
	{"in sdpa_attention_forward", ""},
	{"in flash_attention_forward", ""},
	{"in multi_head_attention_forward", evidence.Attention},
	{"in _multi_tensor_adamw", evidence.Foreach}, {"in _multi_tensor_adam", evidence.Foreach}, {"in _multi_tensor_sgd",
		evidence.Foreach},
	{"in _multi_tensor_rmsprop", evidence.Foreach},
	{"in _multi_tensor_adagrad", evidence.Foreach},
	{"in _load_optimizer_and_scheduler", evidence.OptimizerLoad},
	{"in _common_unshard_pre_state_dict_hook", evidence.FullState}, {"in _full_post_state_dict_hook", evidence.FullState},
	{"in full_tensor", evidence.FullState},
	{"in _zero3_consolidated_16bit_state_dict", evidence.FullState},
	{"in nested_concat", evidence.EvaluationOutputs}, {"in torch_pad_and_concatenate", evidence.EvaluationOutputs},
	{"in gather_for_metrics",
		evidence.EvaluationOutputs},
	{"in _ddp_init_helper", evidence.Buckets},
	{"Failed to clone() tensor", evidence.FullState}, {"_state_dict_utils.py", evidence.FullState},
	{"in pin_memory", evidence.Pinning}, {"in _pin_memory", evidence.Pinning}, {"in _pin_memory_loop", evidence.Pinning},
	{"torch/nn/parallel/data_parallel.py", evidence.Replicas}, {"torch/nn/parallel/replicate.py", evidence.Replicas},
	{"in deepcopy", evidence.ModelCopy},
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
		if names(line, m.in) {
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
