package runlog

import "bytes"

// Scene is what the frames of a traceback show beside the phase: code of
// libraries whose memory has its own remedy.
type Scene struct {
	Doing         Doing
	Checkpointing bool   // the trace runs through torch.utils.checkpoint
	NoGrad        bool   // below torch.no_grad or inference_mode, as a decorator
	Evaluating    bool   // below a trainer's evaluation, or a function of such a name
	Server        string // vLLM or sglang, whose worker it is; "" for none
}

// Doing is what innermost frames that are known were doing, "" when none is.
type Doing string

// What a program may have been doing.
const (
	Logits            Doing = "logits"             // scores over a vocabulary, or their loss
	Attention         Doing = "attention"          // attention that keeps its scores
	Convolution       Doing = "convolution"        // maps of features
	Messages          Doing = "messages"           // along the edges of a graph
	Foreach           Doing = "foreach"            // an optimizer's step over lists of tensors
	OptimizerLoad     Doing = "optimizer_load"     // Optimizer.load_state_dict
	CheckpointLoad    Doing = "checkpoint_load"    // torch.load
	FullState         Doing = "full_state"         // a sharded model's state, whole
	EvaluationOutputs Doing = "evaluation_outputs" // joined over batches or ranks
	Buckets           Doing = "buckets"            // DDP's, for gradients
	Replicas          Doing = "replicas"           // DataParallel's
	ModelCopy         Doing = "model_copy"         // copy.deepcopy
	ToDevice          Doing = "to_device"          // the user's line moves a tensor there
	ImageDecoder      Doing = "image_decoder"      // the autoencoder of diffusers
	Diffusion         Doing = "diffusion"          // other parts of its pipelines
)

// sceneMarks are what frames have. Of several the last counts, and of several
// frames the innermost that has one: eager attention calls a softmax that has
// none. PyTorch's own scaled_dot_product_attention has no frame, so one of that
// name is written out.
var sceneMarks = []struct {
	in    string
	doing Doing
}{
	{"diffusers/", Diffusion}, {"diffusers/models/autoencoders/", ImageDecoder},
	{"in conv1d", Convolution}, {"in conv2d", Convolution}, {"in conv3d", Convolution}, {"torch/nn/modules/conv.py", Convolution},
	{"in interpolate", Convolution},
	{"torch_geometric/nn/", Messages}, {"torch_scatter/", Messages}, {"dgl/", Messages},
	{"in ForCausalLMLoss", Logits}, {"in cross_entropy", Logits}, {"in fixed_cross_entropy", Logits}, {"in log_softmax", Logits},
	{"in nll_loss", Logits},
	{"in selective_log_softmax", Logits}, {"in logprobs_from_logits", Logits}, {"in compute_logits", Logits},
	{"in _get_per_token_logps", Logits},
	{"in eager_attention_forward", Attention}, {"in scaled_dot_product_attention", Attention}, {"in sdpa_attention_forward", ""},
	{"in flash_attention_forward", ""},
	{"in multi_head_attention_forward", Attention},
	{"in _multi_tensor_adamw", Foreach}, {"in _multi_tensor_adam", Foreach}, {"in _multi_tensor_sgd", Foreach},
	{"in _multi_tensor_rmsprop", Foreach},
	{"in _multi_tensor_adagrad", Foreach},
	{"in _load_optimizer_and_scheduler", OptimizerLoad},
	{"in _common_unshard_pre_state_dict_hook", FullState}, {"in _full_post_state_dict_hook", FullState},
	{"in full_tensor", FullState},
	{"in _zero3_consolidated_16bit_state_dict", FullState},
	{"in nested_concat", EvaluationOutputs}, {"in torch_pad_and_concatenate", EvaluationOutputs}, {"in gather_for_metrics",
		EvaluationOutputs},
	{"in _ddp_init_helper", Buckets},
	{"torch/nn/parallel/data_parallel.py", Replicas}, {"torch/nn/parallel/replicate.py", Replicas},
	{"in deepcopy", ModelCopy},
}

// evaluations are names of functions below which no training is done.
var evaluations = [...]string{"in evaluation_loop", "in evaluate", "in _evaluate", "in _maybe_log_save_evaluate",
	"in prediction_step", "in validate",
	"in validation", "in validation_step", "in _run_sanity_check", "in eval_epoch", "in val_epoch", "in run_validation"}

// servers are the packages of inference servers.
var servers = [...]struct{ in, name string }{{"/vllm/", "vLLM"}, {"/sglang/", "sglang"}}

// frame notes what one more frame shows, innermost last.
func (s *Scene) frame(line []byte) {
	for _, m := range sceneMarks {
		if names(line, m.in) {
			s.Doing = m.doing
		}
	}
	if loads(line) {
		s.Doing = CheckpointLoad
	}
	if names(line, "in load_state_dict") && names(line, "torch/optim/") {
		s.Doing = OptimizerLoad
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

// doingOf is what the line of source below the innermost frame shows, where
// what it calls has no frame of its own.
func doingOf(code []byte, users bool) Doing {
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
		return Attention
	case has("logits.float()", "lm_head(", "logits.to(", "logsumexp(", "log_softmax(logits", "cross_entropy("):
		return Logits
	case has("dist.Reducer("):
		return Buckets
	case users && has(".cuda(", ".to(device", ".to('cuda", `.to("cuda`) && !has("model"):
		return ToDevice
	}
	return ""
}
