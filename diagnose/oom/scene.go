package oom

import (
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/words"
)

// changeDoing is what helps where a traceback shows what the memory was for,
// however small the request that failed.
var changeDoing = map[evidence.Doing]string{
	evidence.Foreach: "fused=True, or foreach=False, for the optimizer: its default makes temporary copies of lists " +
		"of parameters in every step; if that isn't enough, one with less state (8-bit, Lion), sharded or offloaded",
	evidence.OptimizerLoad: "An optimizer with less state (8-bit), sharding or offloading it: loading brings all of it to " +
		"the GPU, as the first step would; load the file with map_location=\"cpu\" and drop what was loaded, so that no " +
		"second copy stays there",
	evidence.CheckpointLoad: "torch.load(…, map_location=\"cpu\"): without it tensors go back to the GPU that they were " +
		"saved from, beside the model's own",
	evidence.FullState: "Save in shards (torch.distributed.checkpoint, SHARDED_STATE_DICT), or gather on the host of " +
		"one rank (offload_to_cpu=True, rank0_only=True): a full state brings the whole model to a GPU",
	evidence.EvaluationOutputs: "Keep less of each evaluation batch: prediction_loss_only=True, preprocess_logits_for_metrics " +
		"that returns the argmax, or eval_accumulation_steps, which moves outputs to the host; the scores of all batches are " +
		"kept on the GPU otherwise",
	evidence.Buckets: "gradient_as_bucket_view=True, so that gradients lie in DDP's buckets, which are as large as all of " +
		"them; where weights, gradients and state don't fit together, shard them (FSDP, ZeRO)",
	evidence.Replicas: "DistributedDataParallel, or one GPU: DataParallel copies the model to every GPU in each forward " +
		"pass and gathers outputs on the first",
	evidence.ModelCopy: "Keep the copy of the model on the host or in 16 bits: deepcopy doubles its weights",
	evidence.UnfusedAttention: "Let scaled_dot_product_attention take a fused kernel: no attn_mask that none of them takes, " +
		"16 bits, a head size that it knows (torch.nn.attention.sdpa_kernel tells why not; on an NPU " +
		"torch_npu.npu_fusion_attention); else shorter sequences or smaller images, as its plain kernel writes out all " +
		"scores of attention",
	evidence.Pinning: "Pin less host memory: pin_memory=False, fewer workers or prefetched batches, a higher limit for locked " +
		"memory (ulimit -l); in a DataLoader's thread, torch.cuda.set_device first, so that no context is made on GPU 0",
	evidence.ImageDecoder: "pipe.enable_vae_tiling() or enable_vae_slicing(), or fewer or smaller images at once: the " +
		"decoder's " +
		"maps are as large as the images",
	evidence.Diffusion: "pipe.enable_model_cpu_offload(), which holds one part of the pipeline on the GPU at a time; 16 bits " +
		"or " +
		"quantised weights; fewer or smaller images at once",
}

// changeTensor is what helps where the traceback shows what the tensor asked for is.
var changeTensor = map[evidence.Doing]string{
	evidence.Logits: "Chunked or fused cross-entropy (Liger, cut cross-entropy), or fewer tokens at once: the scores of " +
		"all tokens over the whole vocabulary, their copies in 32 bits and their gradient exist at once",
	evidence.Attention: "Attention that keeps no scores: attn_implementation=\"sdpa\" or FlashAttention, " +
		"scaled_dot_product_attention in code of your own; else shorter sequences, as eager attention keeps sequence x " +
		"sequence scores for each head",
	evidence.Convolution: "A smaller batch, smaller images or crops, 16 bits, or checkpointing of the first stages, whose maps " +
		"are the largest",
	evidence.Messages: "Fewer edges at once: sample neighbours (NeighborLoader) or smaller batches of graphs, as each edge has " +
		"a message of its own",
}

var partOf = map[evidence.Doing]int64{evidence.Logits: partOfScores, evidence.Attention: partOfLayers,
	evidence.Convolution: partOfLayers,
	evidence.Messages:    partOfLayers}

// From which part of the GPU on, one in so many, a request tells of what fills it:
const (
	partOfLayers = 400 // where each layer keeps such tensors
	partOfScores = 100 // of logits, which there are a few copies of
	LargeTensors = 10  // where the traceback doesn't show what the tensor is
)

// changeShown is what to do by what the traceback shows, "" where that is no
// more than the phase.
// The most telling one is tried first.
func (f *Failure) changeShown() string {
	s := f.Scene
	if s.Server != "" {
		return changeServer[s.Server]
	}
	if change := changeDoing[s.Doing]; change != "" {
		return change
	}
	if change := changeTensor[s.Doing]; change != "" && f.asksFor(partOf[s.Doing]) {
		if s.Doing == evidence.Logits && s.NoGrad {
			return "Fewer tokens at once, or the scores of the last one alone (logits_to_keep=1): those of all tokens over " +
				"the whole vocabulary exist at once"
		}
		return change
	}
	if s.Doing == evidence.ToDevice && f.asksFor(LargeTensors) {
		return "Keep the data on the host and bring one batch at a time to the GPU: the whole of it is moved at that line"
	}
	switch {
	case s.Evaluating && !s.NoGrad && (f.PhaseName == words.Forward.String() || f.PhaseName == ""):
		return "Evaluate under torch.no_grad() or inference_mode(), if that line doesn't yet (model.eval() alone keeps " +
			"activations), with a smaller batch, and let go of the last step's loss before"
	case s.Evaluating && f.PhaseName == words.Forward.String():
		return "A smaller batch for evaluation: without gradients no more than a layer's activations and the scores are there " +
			"at once"
	case f.PhaseName == words.Forward.String() && s.NoGrad:
		return "A smaller batch, shorter sequences or smaller images, or weights in 16 bits, quantised or offloaded: without " +
			"gradients a pass keeps little beside them"
	case s.Checkpointing && (f.PhaseName == words.Forward.String() || f.PhaseName == words.Backward.String()):
		return "A smaller batch or shorter sequences; checkpointing is on already, so beside weights, gradients and state " +
			"there are one layer's activations, each layer's input and the scores (chunk the loss if the vocabulary is large)"
	}
	return ""
}

// asksFor reports whether the request is at least one in so many parts of the GPU.
func (f *Failure) asksFor(parts int64) bool {
	return f.Capacity > 0 && f.Requested >= f.Capacity/parts
}

// changeServer is how inference servers, and programs that draw, are told to need less.
var changeServer = map[string]string{
	"TGI": "Lower --max-batch-prefill-tokens, --max-total-tokens or --cuda-memory-fraction, quantise the weights, or " +
		"spread them over more GPUs (--num-shard)",
	"TensorRT-LLM": "Lower free_gpu_memory_fraction, max_batch_size or max_num_tokens, quantise the weights, or spread them " +
		"over more GPUs (tp_size)",
	"LMDeploy": "Lower --cache-max-entry-count, quantise the weights, or spread them over more GPUs (--tp)",
	"llama.cpp": "Fewer layers on the GPU (-ngl), a shorter context (-c), a quantised cache (-ctk q8_0 -ctv q8_0) or a " +
		"smaller quantisation of the weights",
	"ComfyUI": "Fewer or smaller images at once, tiled VAE decoding, a quantised model (fp8, GGUF), or --lowvram, which keeps " +
		"only parts of the model on the GPU; with --disable-pinned-memory nothing of the host's memory is pinned",
	"Fooocus": "Smaller images, or --always-low-vram, which keeps only parts of the model on the GPU; the VAE decodes in " +
		"tiles where the GPU has too little for it in one piece",
	"Stable Diffusion web UI": "Smaller images or batches, --medvram or --lowvram, tiled VAE, or attention that writes no " +
		"scores out (--opt-sdp-attention, --xformers)",
	"InvokeAI": "Smaller images, tiled decoding, a quantised model, or a lower max_cache_vram_gb",
	"vLLM": "Lower gpu_memory_utilization, which leaves more of the GPU beside weights and key-value cache, or " +
		"max_num_batched_tokens, max_num_seqs or max_model_len, so that a pass needs less of it; where the weights alone " +
		"don't fit, quantise them or spread them over more GPUs (tensor_parallel_size)",
	"sglang": "Lower --mem-fraction-static, which leaves more of the GPU beside weights and key-value cache, or " +
		"--cuda-graph-max-bs or --chunked-prefill-size, so that a pass needs less of it; where the weights alone don't " +
		"fit, quantise them or spread them over more GPUs (--tp)",
}
