package classify

// marks are what a stack says about the moment it was taken, whoever's
// allocation it is.
type marks uint64

const (
	native       marks = 1 << iota // has C++ frames
	engine                         // under autograd's engine: backward
	release                        // autograd drops a tensor that it had saved
	workspace                      // room for a matrix library
	cast                           // autocast's own casts
	weight                         // modules are built, moved or loaded
	input                          // batches are loaded or moved
	cache                          // a key-value cache of a library
	rebuild                        // checkpointing: its forward, and the recomputation
	restore                        // save_on_cpu copies back
	loss                           // a classification loss
	matmul                         // the operator is a linear map
	copying                        // the operator copies or converts
	filled                         // the operator makes zeros, ones and the like
	state                          // an optimizer makes its state
	comm                           // collective communication, sharding
	bucket                         // DDP's reducer
	flat                           // Megatron's buffers of all weights and of all gradients
	inModule                       // a module's forward
	userInner                      // the innermost Python frame isn't a library's
	lossGrad                       // gradient of a classification loss
	rooted                         // autograd makes the gradient that backward starts from
	keep                           // gradients: those that FSDP reduces are views of communication
	nested                         // the innermost Python frame is where a pass runs the engine
	compiled                       // by torch.compile: operators have no frames
	planar                         // a loss over planes: classes are not the last dimension
	unpacked                       // checkpointing made it again for a saved tensor's hook
	distance                       // a loss that compares numbers: there are no scores
	perClass                       // a loss that compares each score with a target of its own
	stored                         // read from a file
	named                          // a function of the program's own says that it makes weights, or is a constructor
	mask                           // an attention mask, which a variable holds through the whole pass
	checkpointed                   // within the first forward of checkpointing
	ownCache                       // a function of the program's own says that it makes a key-value cache
	anyCache                       // or a cache, of whatever
	softmax                        // the operator is an exponential, as of scores
	custom                         // a function with a backward of its own, which hides its operators
)

// hint is a phase that a stack names, 0 for none.
type hint uint8

func hintOf(p Phase) hint { return hint(p) + 1 }

// evidence of one distinct stack.
type evidence struct {
	marks
	hint  hint
	depth uint8 // nesting of modules' forward
}

// frameRule says what a frame means: a Python frame by the end of its file and
// its function, a C++ frame by a part of its name. The innermost phase wins.
type frameRule struct {
	file, function string
	marks          marks
	hint           hint
}

// Frames of torch itself and of public libraries; function "" is any.
var pythonRules = []frameRule{
	{"torch/utils/data/", "", input, hintOf(Data)},
	{"accelerate/utils/operations.py", "send_to_device", input, hintOf(Data)},
	{"accelerate/data_loader.py", "", 0, hintOf(Data)},
	{"lightning", "transfer_batch_to_device", input, hintOf(Data)},
	{"lightning", "move_data_to_device", input, hintOf(Data)},

	{"torch/optim/", "zero_grad", 0, hintOf(ZeroGrad)},
	{"torch/nn/modules/module.py", "zero_grad", 0, hintOf(ZeroGrad)},
	{"pyro/infer/util.py", "zero_grads", keep, hintOf(ZeroGrad)}, // by new ones
	{"torch/optim/", "_init_group", state, hintOf(Optimizer)},
	{"torch/optim/", "add_param_group", 0, hintOf(Setup)},
	{"torch/optim/", "load_state_dict", state, hintOf(Setup)},
	{"torch/optim/", "_process_value_according_to_param_policy", state, hintOf(Setup)},
	{"torch/optim/lr_scheduler.py", "", 0, 0},
	{"torch/optim/swa_utils.py", "__init__", weight, hintOf(Setup)},
	{"torch/optim/adagrad.py", "__init__", state, hintOf(Setup)}, // alone in not waiting for the first step
	{"torch/optim/", "__init__", 0, 0},
	{"torch/optim/", "profile_hook_step", 0, 0},
	{"torch/optim/", "", 0, hintOf(Optimizer)},
	{"bitsandbytes/optim/", "init_state", state, hintOf(Optimizer)},
	{"bitsandbytes/optim/", "", 0, hintOf(Optimizer)},
	{"transformers/optimization.py", "step", 0, hintOf(Optimizer)},
	{"apex/optimizers/", "", 0, hintOf(Optimizer)},
	{"megatron/core/optimizer/", "", 0, hintOf(Optimizer)},
	{"deepspeed/runtime/zero/", "step", 0, hintOf(Optimizer)},
	{"deepspeed/ops/adam/", "step", 0, hintOf(Optimizer)},
	{"deepspeed/runtime/engine.py", "_take_model_step", 0, hintOf(Optimizer)},
	{"accelerate/optimizer.py", "step", 0, hintOf(Optimizer)},
	{"torch/nn/utils/clip_grad.py", "", 0, hintOf(Optimizer)},
	{"gpytorch/kernels/", "", distance, 0}, // a matrix of all pairs of points
	{"torch/amp/grad_scaler.py", "scale", 0, hintOf(Forward)},
	{"torch/amp/grad_scaler.py", "_lazy_init_scale_growth_tracker", state, hintOf(Forward)},
	{"torch/amp/grad_scaler.py", "", 0, hintOf(Optimizer)},
	{"torch/cuda/amp/grad_scaler.py", "", 0, hintOf(Optimizer)},

	{"torch/autograd/__init__.py", "_make_grads", rooted, hintOf(Backward)},
	{"torch/autograd/__init__.py", "backward", 0, hintOf(Backward)},
	{"torch/autograd/__init__.py", "grad", 0, hintOf(Backward)},
	{"torch/_tensor.py", "backward", 0, hintOf(Backward)},
	{"torch/autograd/graph.py", "_engine_run_backward", engine, hintOf(Backward)},
	{"torch/autograd/graph.py", "unpack_from_cpu", restore, 0},
	{"torch/autograd/function.py", "apply", custom, 0},
	{"torch/_functorch/", "_backward_impl", engine, hintOf(Backward)},
	{"torch/_functorch/", "backward", engine, hintOf(Backward)},
	{"torch/_functorch/", "_compiled_backward", engine, hintOf(Backward)},
	{"torch/_functorch/", "forward", inModule, hintOf(Forward)},
	{"torch/_inductor/output_code.py", "", compiled, 0},
	{"torch/utils/checkpoint.py", "backward", engine | rebuild, hintOf(Backward)},
	{"torch/utils/checkpoint.py", "unpack_hook", engine | rebuild, hintOf(Backward)},
	{"torch/utils/checkpoint.py", "recompute_fn", rebuild | unpacked, hintOf(Backward)},
	{"torch/utils/checkpoint.py", "forward", rebuild, 0},
	{"torch/utils/checkpoint.py", "checkpoint", checkpointed, 0},
	{"deepspeed/runtime/activation_checkpointing/checkpointing.py", "backward", engine | rebuild, hintOf(Backward)},
	{"megatron/core/tensor_parallel/random.py", "backward", engine | rebuild, hintOf(Backward)},

	{"torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_reduce", comm | keep, 0},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", "_pre_backward", 0, hintOf(Backward)},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", "post_backward", 0, hintOf(Backward)},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", "pre_forward", 0, hintOf(Forward)},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_state.py", "_root_post_backward_final_callback", 0, hintOf(Backward)},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_state.py", "_pre_backward", 0, hintOf(Backward)},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "", comm, 0},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "alloc_all_gather_outputs", comm, 0},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "init_all_gather_outputs", comm, 0},
	{"torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "_init_sharded_param", weight, hintOf(Setup)},
	{"torch/distributed/fsdp/_runtime_utils.py", "_pre_backward_hook", 0, hintOf(Backward)},
	{"torch/distributed/fsdp/_runtime_utils.py", "_post_backward_hook", comm | keep, hintOf(Backward)},
	{"torch/distributed/fsdp/_runtime_utils.py", "_reduce_grad", comm | keep, hintOf(Backward)},
	{"torch/distributed/fsdp/_flat_param.py", "unshard", comm, 0},
	{"torch/distributed/fsdp/_flat_param.py", "_alloc_padded_unsharded_flat_param", comm, 0},
	{"torch/distributed/fsdp/_flat_param.py", "__init__", weight, hintOf(Setup)},
	{"torch/distributed/distributed_c10d.py", "", comm, 0},
	{"torch/nn/parallel/replicate.py", "", comm, hintOf(Forward)},
	{"torch/nn/parallel/scatter_gather.py", "scatter", input, 0},
	{"torch/nn/parallel/distributed.py", "_pre_forward", bucket, hintOf(Forward)},
	{"torch/nn/parallel/distributed.py", "_ddp_init_helper", bucket, hintOf(Setup)},
	{"torch/nn/parallel/distributed.py", "__init__", 0, hintOf(Setup)},
	{"torch/nn/parallel/distributed.py", "forward", 0, hintOf(Forward)},
	{"deepspeed/runtime/zero/partition_parameters.py", "all_gather", comm, 0},
	{"deepspeed/runtime/zero/partition_parameters.py", "_allgather_params", comm, 0},
	{"deepspeed/runtime/zero/stage_1_and_2.py", "__init__", state, hintOf(Setup)},
	{"deepspeed/runtime/zero/stage3.py", "__init__", state, hintOf(Setup)},
	{flatBuffers, "__init__", flat, hintOf(Setup)},

	{"torch/nn/modules/module.py", "_apply", weight, hintOf(Setup)},
	{"torch/nn/modules/module.py", "load_state_dict", weight, hintOf(Setup)},
	{"torch/nn/modules/module.py", "to_empty", weight, hintOf(Setup)},
	{"torch/nn/modules/module.py", "_call_impl", inModule, hintOf(Forward)},
	{"torch/nn/init.py", "", weight, hintOf(Setup)},
	{"torch/nn/parameter.py", "", weight, hintOf(Setup)},
	{"torch/nn/modules/", "__init__", weight, hintOf(Setup)},
	{"torch/nn/modules/", "reset_parameters", weight, hintOf(Setup)},
	{"torch/nn/modules/linear.py", "forward", matmul, hintOf(Forward)},
	{"torch/nn/modules/", "forward", 0, hintOf(Forward)},
	{"torch/nn/functional.py", "", 0, hintOf(Forward)},
	{"torch/serialization.py", "", weight | stored, hintOf(Setup)},
	{"safetensors/torch.py", "", weight, hintOf(Setup)},
	{"transformers/modeling_utils.py", "from_pretrained", weight, hintOf(Setup)},
	{"transformers/core_model_loading.py", "", weight, hintOf(Setup)},
	{"bitsandbytes/nn/modules.py", "cuda", weight, hintOf(Setup)},
	{"bitsandbytes/nn/modules.py", "_quantize", weight, hintOf(Setup)},
	{"vllm/model_executor/model_loader/", "", weight, hintOf(Setup)},

	{"transformers/loss/loss_utils.py", "", loss, 0},
	{"transformers/cache_utils.py", "", cache, 0},
	{"transformers/masking_utils.py", "", mask, 0},
	{"vllm/", "initialize_kv_cache", cache, hintOf(Setup)},
	{"vllm/", "_allocate_kv_cache", cache, hintOf(Setup)},
	{"vllm/", "_allocate_kv_cache_tensors", cache, hintOf(Setup)},
	{"sglang/srt/mem_cache/memory_pool", "_create_buffers", cache, hintOf(Setup)},
	{"torchtune/modules/kv_cache.py", "__init__", cache, hintOf(Setup)},
	{"lmdeploy/pytorch/engine/cache_engine.py", "_allocate_cache", cache, hintOf(Setup)},
	{"lmdeploy/pytorch/engine/cache_engine.py", "allocate_gpu_cache", cache, hintOf(Setup)},
	{"text_generation_server/layers/attention/kv_cache.py", "__init__", cache, hintOf(Setup)},
	{"transformers/generation/continuous_batching/cache.py", "__init__", cache, hintOf(Setup)},
	{"transformers/generation/utils.py", "", 0, hintOf(Generate)},

	{"transformers/trainer.py", "_clip_grad_norm", 0, hintOf(Optimizer)},
	{"transformers/trainer.py", "prediction_step", 0, hintOf(Forward)},
	{"transformers/trainer.py", "compute_loss", 0, hintOf(Forward)},
	{"transformers/trainer.py", "get_batch_samples", 0, hintOf(OtherPhase)},
	{"transformers/trainer.py", "_get_num_items_in_batch", 0, hintOf(OtherPhase)},
	{"lightning", "configure_gradient_clipping", 0, hintOf(Optimizer)},
	{"lightning", "training_step", 0, hintOf(Forward)},
	{"lightning", "validation_step", 0, hintOf(Forward)},
	{"lightning", "closure", 0, hintOf(Forward)},
}

// C++ frames by a part of their name. Half of the names are missing when the
// recorder looks symbols up with dladdr; those here are exported ones.
var nativeRules = []frameRule{
	{"", "torch::autograd::Engine::", engine, hintOf(Backward)},
	{"", "Backward0::apply", engine, hintOf(Backward)},
	{"", "torch::autograd::AccumulateGrad", engine, hintOf(Backward)},
	{"", "SavedVariable", release, 0},
	{"", "::release_variables", release, 0},
	{"", "allocateCUDABlasWorkspace", workspace, 0},
	{"", "CUDABlasLtWorkspace", workspace, 0},
	{"", "at::cuda::getNewWorkspace", workspace, 0}, // up to torch 2.8
	{"", "at::native::Workspace", workspace, 0},
	{"", "at::autocast::cached_cast", cast, 0},
	{"", "c10d::Reducer", bucket, 0},
	{"", "c10d::ProcessGroup", comm, 0},
	{"", "ncclComm", comm, 0},
	{"", "LogSoftmaxBackward", lossGrad, 0},
	{"", "NllLoss", lossGrad, 0},
}

// Operators by name, as in at::_ops::NAME::call.
var operators = map[string]marks{
	"mm": matmul, "addmm": matmul, "bmm": matmul, "baddbmm": matmul, "matmul": matmul, "linear": matmul, "_addmm_activation": matmul,
	"_to_copy": copying, "copy_": copying, "clone": copying, "contiguous": copying, "to_copy": copying,
	"zeros": filled, "zeros_like": filled, "new_zeros": filled, "ones": filled, "ones_like": filled, "full": filled, "full_like": filled,
	"nll_loss2d": planar, "nll_loss2d_backward": lossGrad | planar,
	"_log_softmax": loss, "log_softmax_int": loss, "nll_loss_forward": loss, "nll_loss2d_forward": loss | planar, "cross_entropy_loss": loss, "binary_cross_entropy_with_logits": perClass,
	"_log_softmax_backward_data": lossGrad, "nll_loss_backward": lossGrad,
	"_softmax": softmax, "exp": softmax, "logsumexp": softmax, "_logcumsumexp": softmax,
	"mse_loss": distance, "l1_loss": distance, "smooth_l1_loss": distance, "huber_loss": distance,
}
