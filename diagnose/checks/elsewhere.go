package checks

// Elsewhere are findings of which no look at one device tells, but logs, monitors,
// traces, other ranks or a budget.
func Elsewhere() []Check {
	return []Check{
		{ID: "outside_pytorch", Group: outside,
			Severity: "info; a warning where other processes or an unaccounted rest hold 5 % of the GPU or more",
			Doc: "The GPU holds memory that PyTorch's allocator doesn't: a context and libraries, other processes, or a rest " +
				"that is unaccounted for. That rest may be of another container or user, or what a dead run left. The " +
				"evidence says what each figure was taken from.",
			Saves: "what other processes hold."},
		{ID: "oom_driver_refused", Group: failed, Severity: "critical",
			Doc: "A message says that the GPU had room for the request, so the driver or a limit refused it. That may be " +
				"Windows' limit on what may be committed, the 4 GiB that Intel's driver allows for a single allocation, a " +
				"slice of a GPU, or host memory to be pinned. A message counts, too, whose figures contradict each other, as " +
				"on an APU."},
		{ID: "oom_unclear", Group: failed, Severity: "critical; a warning where it may be no failure, or the run went on",
			Doc: "A log speaks of a failed request in words that aren't understood, or its message has no figures that tell " +
				"why. The evidence quotes the line."},
		{ID: "workspace_full", Group: failed, Severity: "critical",
			Doc: "A library's workspace is full, not the GPU: it took a buffer of fixed size at its start, and a pass needed " +
				"more of that."},
		{ID: "engine_accounting", Group: outside,
			Severity: "info; a warning where nothing is left for the cache, or requests were preempted for want of it",
			Doc: "What an inference engine says of the GPU: its share, weights, activations, graphs, and what that leaves for " +
				"its key-value cache. Read are vLLM, sglang, TensorRT-LLM, TGI and llama.cpp. Where nothing is left, the " +
				"change is the share from which on there is room."},
		{ID: "host_out_of_memory", Group: outside,
			Severity: "critical; a warning where a process was killed by signal 9 and nobody says why",
			Doc: "The host's memory failed. That may be PyTorch's allocator there (`DefaultCPUAllocator`), NumPy, a process " +
				"that the kernel, Slurm, Kubernetes or Ray killed for it, or a full `/dev/shm`. The evidence gives the line, " +
				"and what was asked for or held."},
		{ID: "shared_memory_spill", Group: outside, Severity: "warning",
			Doc: "Memory goes beyond the size of the GPU while steps become slow, as drivers for Windows and WSL let it. The " +
				"evidence gives the bytes beyond, and what that costs in step time.",
			Saves: "the bytes beyond the size of the GPU."},
		{ID: "gpu_full", Group: outside, Severity: "warning",
			Doc: "nvidia-smi saw a GPU full, or an instance that MIG made of it."},
		{ID: "gpu_idle", Group: outside, Severity: "info",
			Doc: "nvidia-smi saw a GPU that held memory and computed nothing."},
		{ID: "memory_grows", Group: outside, Severity: "warning; info where nvidia-smi watched for less than two minutes and " +
			"saw less than half at first: that may be loading",
			Doc: "What a log, nvidia-smi or a trace shows rises all along. In a log it may also rise by the same amount at " +
				"each of three epochs or more."},
		{ID: "step_time_jump", Group: outside, Severity: "warning",
			Doc: "Steps become slower at some step and stay so."},
		{ID: "rank_imbalance", Group: outside, Severity: "info; a warning from 10 % on, or where ranks share a device",
			Doc: "One rank holds 5 % and 64 MiB more at its peak than is usual among the ranks, or others hold memory on its " +
				"device. In a log whose lines name ranks or GPUs: 10 % and 512 MiB more. The evidence tells by category.",
			Saves: "what that rank holds more, or what other ranks hold on its device."},
		{ID: "over_budget", Group: outside, Severity: "info",
			Doc: "With `--config`: the recording holds at least 10 % and 64 MiB more than the model and setting should need. " +
				"The evidence compares by category, with the reason where one is known.",
			Saves: "the difference to the budget of the model in the category that the finding names."},
		{ID: "recipe_contradicted", Group: outside, Severity: "info",
			Doc: "A framework's file beside the recording (a recipe, `TrainingArguments`, an argument list) says one thing of " +
				"the setting, and the recording shows another, which the comparison with the budget takes. The evidence gives " +
				"each field, what was read of it, and why."},
	}
}
