package runlog

// stopWord is a word that tells that a line or a number isn't what it looks like,
// with a line that needs it.
type stopWord struct{ word, line string }

// knownLines are what frameworks say about memory without a step.
var knownLines = []stopWord{
	{"GPU KV cache usage", "INFO 02-28 12:20:01 [loggers.py:80] Running: 8 reqs, GPU KV cache usage: 3.2%"},
	{"Avg prompt throughput", "INFO 02-28 12:20:01 metrics.py:455] Avg prompt throughput: 12.0 tokens/s"},
	{"CUDA memory usage for model", "[titan] 2026-05-20 04:24:30,935 - root - INFO - CUDA memory usage for model: " +
		"4.18GiB(2.35%)"},
	{"trainable params:", "trainable params: 41,943,040 || all params: 8,072,204,288"},
	{"see_memory_usage", "[2021-05-27 21:32:00,326] [INFO] [utils.py:588:see_memory_usage] After Building Model 1"},
	{"eak memory usage", "Peak memory usage: 62389.67MiB"},
	{"max_memory_allocated", "max_memory_allocated: 12345678"},
}

// results are the words of evaluations, in lines that have a fraction.
var results = []stopWord{
	{"loss", "validation loss: 2.31"},
	{"bpb", "Step 00250 | Validation bpb: 0.8123"}, // nanochat's base_train.py
	{"ppl", "step 100 | eval ppl 12.3"},
	{"perplexity", "step 100 | eval perplexity 12.3"},
	{"ccuracy", "Epoch 3 eval Accuracy 0.71"},
	{"runtime", "step 100 eval_runtime 12.50"},
	{"acc", "Epoch 3 val acc 0.71"},
}

// endings end a step's line that has no figure.
var endings = []stopWord{
	{" done", "step 3 done"},
	{"completed", "step 0 is completed"},
	{"finished", "step 3 finished"},
	{"complete.", "step 3 complete."},
}
