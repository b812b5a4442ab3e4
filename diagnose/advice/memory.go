package advice

import "cmp"

// memory is what usually costs least against each kind of memory, by category.
var memory = []Advice{
	{ID: "memory.", For: Any, Text: "Look with nvidia-smi for what else holds the GPU's memory, or ask for less at once: the " +
		"recording shows nothing allocated that could make room"},
	{ID: "memory.weights", For: Any, Text: "Load the weights in 16 bits, or shard them over GPUs (FSDP, ZeRO-3), or train " +
		"adapters (LoRA) on quantised ones"},
	{ID: "memory.gradients", For: Training, Text: "Shard the gradients (FSDP, ZeRO-2), or step the optimizer inside the " +
		"backward pass so that they never live all at once"},
	{ID: "memory.optimizer_state", For: Training, Text: "An optimizer with less state (8-bit AdamW, Adafactor, Lion), or shard " +
		"it (FSDP, ZeRO-1), or offload it"},
	{ID: "memory.activations", For: Training, Text: "Activation checkpointing, or a smaller batch with gradient accumulation: " +
		"activations grow with the tokens of a batch"},
	{ID: "memory.logits", For: Any, Text: "Chunked or fused cross-entropy, so that the logits of all tokens never exist at " +
		"once; or a smaller batch"},
	{ID: "memory.kv_cache", For: Any, Text: "A shorter context or fewer sequences at once, a quantised cache, or " +
		"use_cache=False in training"},
	{ID: "memory.inputs", For: Any, Text: "Keep the data set on the host and move one batch at a time"},
	{ID: "memory.autocast_copies", For: Any, Text: "Hold the weights in bf16 from the start: autocast keeps a second copy of " +
		"each in 16 bits"},
	{ID: "memory.communication", For: Any, Text: "Smaller buckets (bucket_cap_mb), or gradient_as_bucket_view=True"},
	{ID: "memory.workspace", For: Any, Text: "CUBLAS_WORKSPACE_CONFIG bounds cuBLAS's workspaces"},
	{ID: "memory.temporary", For: Any, Text: "Process in smaller pieces: what fills the GPU lives only within single " +
		"operations or between them"},
	{ID: "memory.unknown", For: Any, Text: "Hold less at the peak: the table of call sites says where it goes"},
}

// causes are what helps against what filled a GPU that is no category; {at} is the line, {held} the variable.
var causes = []Advice{
	{ID: "kept_exception", For: Training, Text: "Let go of the failed attempt before the next one: an exception keeps the " +
		"tensors of all its frames, so try again outside the except block, and keep str(error) instead of the error",
		Code: "try:\n    step(batch)\nexcept torch.OutOfMemoryError:\n    failed = True   # try the half behind this block"},
	{ID: "request", For: Any, Text: "Check the shapes{at}: a broadcast, an outer product or a sequence that was not cut asks " +
		"for more than the GPU has, and nothing that is freed makes room for it"},
	{ID: "held", For: Any, Text: "Keep less in {held}: drop what isn't used again (del), keep it on the host, or ask for less " +
		"at once"},
}

// changes are what a replay knows, in words, by its name; {at} stands where the
// line belongs that it is about.
var changes = []Advice{
	{ID: "leak=fixed", For: Any, Text: "Fix the leak that has a finding of its own"},
	{ID: "gradients=set_to_none", For: Training, Text: "Free gradients instead of zeroing them",
		Code: "optimizer.zero_grad(set_to_none=True)"},
	{ID: "logits=chunked", For: Training | Evaluation, Text: "Fused or chunked cross-entropy{at}",
		Code: "from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss   # needs no logits at all"},
	{ID: "checkpointing=full", For: Training, Name: "checkpointing", Price: "about a third more " +
		"compute", Text: "Activation checkpointing{at}",
		Code: "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\"use_reentrant\": False})"},
	{ID: "optimizer=fused", For: Training, Text: "fused=True for the optimizer"},
	{ID: "optimizer=8bit", For: Training, Name: "an 8-bit optimizer", Price: "moments rounded to 8 " +
		"bits", Text: "An 8-bit optimizer (bitsandbytes' {optimizer})",
		Code: "optimizer = bitsandbytes.optim.{optimizer}(model.parameters(), lr=lr)"},
	{ID: "sharding", For: Training, Text: "Shard weights, gradients and optimizer state over {value} GPUs (FSDP, ZeRO-3)",
		Code: "for block in model.layers: fully_shard(block)\nfully_shard(model)            # torch.distributed.fsdp"},
	{ID: "batch", For: Training | Evaluation, Text: "A batch {value} times as large, in training with gradients accumulated"},
}

// Cost is free, compute or other: what a change asks for besides the change.
func Cost(id string) string { return cmp.Or(costs[id], "free") }

// costs are what changes cost that aren't free: compute, or accuracy, hardware, another program.
var costs = map[string]string{"checkpointing=full": "compute", "checkpointing_ineffective": "compute",
	"optimizer_temporaries": "compute", "optimizer=8bit": "other", "sharding": "other", "batch": "other",
	"weights_twice": "other", "results_collected": "other", "inputs_kept": "other", "own_temporaries": "other",
	"data_parallel": "other"}
