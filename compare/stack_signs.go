package compare

import (
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// sign is something that the stacks of a step say about how it was made.
type sign uint32

const (
	stacks        sign = 1 << iota // there are any, with Python lines
	compiled                       // torch.compile
	converted                      // Accelerate's conversion of outputs to float32
	masked                         // an attention mask is written out
	scaler                         // a GradScaler
	checkpointing                  // torch.utils.checkpoint
	eager                          // attention writes its scores out
	dropout
	libraryLoss // the loss is computed in Transformers
	directLoss  // the loss is computed outside it
	liger       // by a fused kernel
	ligerKernels
	loop    // the optimizer goes through its parameters one by one
	foreach // the optimizer takes all parameters at once
	fsdp
	accelerated // Accelerate's code is there
	smoothing   // the Trainer's own loss
	hostSaved   // saved activations go to host memory
)

// signsOfFrames tell a sign by a file and a function; the first that fits counts.
var signsOfFrames = []struct {
	sign sign
	fits func(file, function string) bool
}{
	{compiled, func(file, _ string) bool { return strings.Contains(file, "torch/_inductor/") }},
	{converted, func(file, function string) bool {
		return strings.HasSuffix(file, "accelerate/utils/operations.py") && strings.Contains(function, "convert_to_fp32")
	}},
	{masked, func(_, function string) bool {
		return function == "sdpa_mask" || strings.HasPrefix(function, "_prepare_4d_") ||
			strings.Contains(function, "convert_boolean_attn_mask")
	}},
	{scaler, func(_, function string) bool { return function == "_unscale_grads_" }}, // a disabled scaler does not come here
	{checkpointing, func(file, _ string) bool {
		return strings.HasSuffix(file, "torch/utils/checkpoint.py") || strings.HasSuffix(file, "tensor_parallel/random.py") ||
			strings.Contains(file, "activation_checkpointing/") || strings.HasSuffix(file, "gradient_checkpointing.py")
	}},
	{eager, func(_, function string) bool { return function == "eager_attention_forward" }},
	{liger, func(file, _ string) bool {
		return strings.Contains(file, "liger_kernel/") && strings.Contains(file, "cross_entropy")
	}},
	{ligerKernels, func(file, _ string) bool { return strings.Contains(file, "liger_kernel/") }},
	{fsdp, func(file, _ string) bool { return strings.Contains(file, "torch/distributed/fsdp/") }},
	{accelerated, func(file, _ string) bool { return strings.Contains(file, "accelerate/") }},
	{smoothing, func(file, _ string) bool { return strings.HasSuffix(file, "transformers/trainer_pt_utils.py") }},
	{hostSaved, func(file, function string) bool {
		return function == "pack_to_cpu" || function == "unpack_from_cpu" || strings.HasSuffix(file, "activation_offloading.py")
	}},
	{directLoss, func(_, function string) bool { return function == "cross_entropy" }},
	{dropout, func(_, function string) bool {
		return function == "dropout" || strings.Contains(function, "native_dropout")
	}},
	{loop, func(_, function string) bool { return strings.HasPrefix(function, "_single_tensor_") }},
	{foreach, func(_, function string) bool { return strings.HasPrefix(function, "_multi_tensor_") }},
}

// named is a name for what parts of a file's path tell.
type named struct{ file, name string }

// note notes what the path of a file tells.
func note(names map[string]bool, rows []named, file string) {
	for _, x := range rows {
		if strings.Contains(file, x.file) {
			names[x.name] = true
		}
	}
}

// libraryFiles tell by whose code a model is trained.
var libraryFiles = []named{
	{"torchtitan/models/", "torchtitan"}, {"torchtitan/trainer.py", "torchtitan"}, {"torchtitan/train.py", "torchtitan"},
	{"torchtune/modules/", "torchtune"}, {"litgpt/model.py", "litgpt"}, {"megatron/core/", "megatron"},
	{"nemo/collections/", "nemo"},
	{"deepspeed/runtime/", "deepspeed"}, {"trl/trainer/", "trl"}, {"transformers/trainer.py", "transformers"},
}

// shows reports whether a sign is on any stack.
func (o *observed) shows(s sign) bool { return o.signs&s != 0 }

// readStacks looks through the stacks of the events that are compared, each once.
func (o *observed) readStacks() {
	o.optimizers, o.libraries, o.masking = map[string]bool{}, map[string]bool{}, map[snapshot.StackID]bool{}
	seen := map[snapshot.StackID]bool{}
	o.within(func(id timeline.AllocationID) { o.readStack(seen, id) })
	for i, category := range o.c.Category { // made in the first step
		if category == classify.OptimizerState {
			o.readStack(seen, timeline.AllocationID(i))
		}
	}
}

func (o *observed) readStack(seen map[snapshot.StackID]bool, id timeline.AllocationID) {
	stack := o.t.Stack(id)
	if stack == 0 || seen[stack] {
		return
	}
	seen[stack] = true
	var found sign
	library := false
	optimizer := o.c.Category[id] == classify.OptimizerState || o.c.Phase[id] == classify.Optimizer
	for _, f := range o.t.Snapshot.Stack(stack) {
		l := o.v.Line(f)
		file := strings.ReplaceAll(l.File, `\`, "/")
		if strings.HasSuffix(file, ".py") {
			found |= stacks
		}
		library = library || strings.Contains(file, "transformers/")
		for _, x := range signsOfFrames {
			if x.fits(file, l.Function) {
				found |= x.sign
				break
			}
		}
		note(o.libraries, libraryFiles, file)
		if optimizer {
			note(o.optimizers, optimizerFiles, file)
		}
	}
	if found&masked != 0 {
		o.masking[stack] = true
	}
	if library && found&directLoss != 0 {
		found ^= directLoss | libraryLoss
	}
	o.signs |= found
}
