package advice

// peak is what helps against what fills a peak by design, by the finding's id and the case; {at} and {where} are lines of
// code, {kind} a class of torch.optim, {loop} is what "optimizer_temporaries.loop" says.
var peak = []Advice{
	{ID: "logits_to_keep", For: Any, Text: "Compute logits only for the positions that are read (logits_to_keep=1 " +
		"when generating)"},
	{ID: "logits_dominate", For: Training | Evaluation, Text: "Fused or chunked cross-entropy{at}",
		Code: "from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss   # needs no logits at all\n" +
			"# or: the head and the sum of losses of 1,024 tokens at a time, made again in backward\n" + lossInParts},
	{ID: "logits_dominate.any_loss", For: Training, Text: "Head and loss on a part of the tokens at a " +
		"time{at}", Code: lossInParts},
	{ID: "logits_dominate.untrained", For: Evaluation, Text: "Head and loss on a part of the tokens at a time",
		Code: "loss = sum(cross_entropy(head(h), y, reduction=\"sum\") for h, y in zip(hidden.split(1024), " +
			"labels.split(1024))) / labels.numel()"},
	{ID: "logits_dominate.in_parts", For: Training | Evaluation, Text: "Smaller parts, or a kernel that needs no logits,{at}"},
	{ID: "checkpointing_absent", For: Training, Text: "Activation checkpointing, for about a third more compute; or a " +
		"smaller batch with gradient accumulation", Code: checkpoint},
	{ID: "checkpointing_ineffective.together", For: Training,
		Text: "Checkpoint each block by itself instead of several together", Code: checkpoint},
	{ID: "checkpointing_ineffective.outside", For: Training, Text: "Checkpoint {where}, too", Code: checkpoint},
	{ID: "attention_matrices", For: Any, Text: "torch's scaled_dot_product_attention in place of the softmax in " +
		"{where}: it works in tiles and keeps one number per token instead",
		Code: "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n" +
			"model = AutoModelForCausalLM.from_pretrained(name, attn_implementation=\"sdpa\")   # Transformers"},
	{ID: "attention_matrices.math", For: Any, Text: "scaled_dot_product_attention fell back to its math backend, " +
		"which makes them, at {where}: 16-bit inputs, and no mask that needs a gradient, let the flash or memory-efficient " +
		"backend run",
		Code: "with torch.nn.attention.sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):  # says " +
			"why it can't\n    y = model(batch)"},
	{ID: "optimizer_temporaries", For: Training,
		Text: "fused=True: one kernel updates the weights and needs no temporaries. Or " + loop,
		Code: "optimizer = torch.optim.{kind}(model.parameters(), lr=lr, fused=True)"},
	{ID: "optimizer_temporaries.any", For: Training, Text: "fused=True, which Adam, AdamW and SGD have: one kernel " +
		"updates the weights and needs no temporaries. Or " + loop},
	{ID: "optimizer_temporaries.loop", For: Training, Text: loop,
		Code: "optimizer = torch.optim.{kind}(model.parameters(), lr=lr, foreach=False)"},
	{ID: "gradients_unused", For: Training, Text: "requires_grad_(False) for the weights that these gradients are of: " +
		"they take part in the loss, but no optimizer steps or clears them (a teacher, a critic, a frozen part). Or " +
		"torch.no_grad() around their forward pass, which then saves no activations for them either",
		Code: "teacher.requires_grad_(False)\nwith torch.no_grad():\n    target = teacher(batch)"},
	{ID: "missing_no_grad", For: Evaluation | Inference, Text: "Put torch.no_grad() around {where}: nothing is kept " +
		"for backward then",
		Code: "with torch.no_grad():          # or torch.inference_mode()\n    out = model(batch)\n# model.eval() " +
			"alone doesn't do it"},
	{ID: "missing_no_grad.summed", For: Training, Text: "If these passes are trained on, call backward() after each " +
		"instead of once for the sum of their losses"},
	{ID: "private_pools", For: Any, Text: "Let graphs that never run at the same time share one pool: torch.cuda.graph(g, " +
		"pool=first.pool()); and capture the largest batch first"},
	{ID: "autocast_copies", For: Evaluation | Inference, Text: "Hold the weights in bf16 and drop autocast: no copies, and the " +
		"weights take half", Code: "model = model.to(torch.bfloat16)      # and no torch.autocast around the forward pass"},
	{ID: "kv_cache_in_training", For: Training, Text: "use_cache=False when the model is called for training",
		Code: "out = model(**batch, use_cache=False)      # or model.config.use_cache = False, which is for evaluations, too"},
}

const (
	lossInParts = "loss = sum(checkpoint(head_and_loss, h, y, use_reentrant=False) for h, y in zip(hidden.split(1024), " +
		"labels.split(1024))) / labels.numel()"
	checkpoint = "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\"use_reentrant\": False})   # " +
		"Transformers\n" +
		"x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)                           # in a loop over blocks"
	loop = "foreach=False, which makes them for one weight after the other, and is slower"
)
