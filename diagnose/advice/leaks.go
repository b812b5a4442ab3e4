package advice

// leaks are what usually helps against a leak, by kind; {where} is its line in parentheses, if it's known, {stored}
// says what stores it, {keep} is "in" the variable that holds it, or "beyond the step"; {holder} is that variable.
var leaks = []Advice{
	{ID: "leak.growing_list", For: Any,
		Text: "{stored}. Store a scalar or a copy on the host instead, or bound the container.",
		Code: "kept.append(x.detach().cpu())      # on the host, without its graph\n" +
			"history = collections.deque(maxlen=100)"},
	{ID: "leak.cycle", For: Any,
		Text: "No variable leads to what is kept in {holder}{where}: objects there refer to each other, and only " +
			"Python's garbage collector frees them, whenever it comes by. Break the cycle with a weak reference; in an " +
			"autograd Function use save_for_backward instead of attributes of ctx.",
		Code: "self.parent = weakref.ref(parent)  # instead of parent\n" +
			"ctx.save_for_backward(x, y)        # instead of ctx.x, ctx.y = x, y"},
	{ID: "leak.growing_list.part", For: Any,
		Text: "{stored}, and means a part of it{part}: a slice or view keeps the whole tensor's memory. Store a copy of the part.",
		Code: "kept.append(hidden[:, -1].clone())  # or .cpu(), which copies, too"},
	{ID: "leak.growing_list.joined", For: Any,
		Text: "A tensor is joined with what it holds so far in every step{where}: it grows, and while it is made it is " +
			"there twice. Move each piece to the host and join them in the end, or keep the last ones only.",
		Code: "pieces.append(x.detach().cpu())    # torch.cat(pieces) in the end\n" +
			"bank = torch.cat([bank, x.detach()])[-size:].clone()"},
	{ID: "leak.retained_graph", For: Training,
		Text: "Keep a scalar or a detached tensor {keep}{where}: what is kept now holds its autograd graph.",
		Code: "self.hidden = hidden.detach()      # a state carried into the next step\n" +
			"total += loss.item()               # a loss or metric that is summed or logged\n" +
			"with torch.no_grad(): ...          # around what is never trained on"},
	{ID: "leak.retained_graph.sum", For: Any,
		Text: "Detach what is added to {holder}{where}: one tensor, and the autograd graph of every step behind it.",
		Code: "total += loss.item()               # or loss.detach()\n" +
			"avg = 0.9 * avg + 0.1 * acc.detach()"},
	{ID: "leak.retained_graph.untrained", For: Evaluation | Inference,
		Text: "Results of forward passes that no backward pass follows{where} are kept with their autograd graphs, and " +
			"with them everything that was saved for backward. Build none: torch.no_grad() around the call.",
		Code: "with torch.no_grad():              # or torch.inference_mode(); model.eval() alone doesn't do it\n" +
			"    out = model(batch)"},
	{ID: "leak.retained_graph.create_graph", For: Training,
		Text: "backward(create_graph=True) keeps the graph of the backward pass, too, and what is kept {keep}{where} holds it. " +
			"Pass create_graph only where a second derivative is taken, and keep scalars or detached tensors.",
		Code: "loss.backward()                    # without create_graph\n" +
			"norms.append(norm.item())          # of a gradient that has a graph"},
	{ID: "leak.gradients_kept", For: Training,
		Text: "Free gradients instead of zeroing them in place.{near}",
		Code: "optimizer.zero_grad(set_to_none=True)   # the default since PyTorch 2.0"},
	{ID: "leak.stale_outputs", For: Training,
		Text: "Drop the step's outputs{where} when the step is done: they live until the next forward has made new ones.",
		Code: "loss.backward()\noptimizer.step()\n" +
			"del outputs, loss                  # or leave the scope of a function"},
	{ID: "leak.stale_outputs.forward", For: Evaluation | Inference,
		Text: "Drop the step's outputs{where} when the step is done: they live until the next forward has made new ones.",
		Code: "outputs = model(batch)\n...                                # what is done with them\n" +
			"del outputs                        # or leave the scope of a function"},
	{ID: "leak.varying_shapes", For: Any,
		Text: "Let segments grow (expandable_segments:True), or pad to a few lengths{where}: freed blocks rarely fit the next " +
			"request.",
		Code: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" +
			"batch = tokenizer.pad(batch, pad_to_multiple_of=64)"},
	{ID: "leak.varying_shapes.expandable", For: Any,
		Text: "Every step asks for other sizes{where}: segments grow, so freed blocks fit again, but the largest step " +
			"sets the peak. Cap the length, or batch by the number of tokens.",
		Code: "batch = tokenizer(texts, truncation=True, max_length=512)"},
	{ID: "leak.fragmentation_creep", For: Any,
		Text: "Reserved memory grows from step to step by more than what is allocated: free memory lies in pieces that " +
			"no request fits. Let segments grow, or make what lives long before what doesn't.",
		Code: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
	{ID: "leak.fragmentation_creep.expandable", For: Any,
		Text: "Reserved memory grows from step to step by more than what is allocated: free memory lies in pieces that " +
			"no request fits, though segments grow. Make what lives long before what doesn't; emptying the cache " +
			"gives back the pages that are free.",
		Code: "torch.cuda.empty_cache()           # once in a while, between steps"},
	{ID: "leak.first_step_state", For: Training,
		Text: "The optimizer makes its state in its first step and keeps it: memory jumps once and stays. That is no " +
			"leak. If the room is missing, fewer bytes per parameter help.",
		Code: "optimizer = bitsandbytes.optim.{optimizer}(model.parameters(), lr=lr{momentum})   # 1 byte for each number of " +
			"the state"},
}
