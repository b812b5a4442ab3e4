package redact

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/pattern"
)

//go:embed known/packages.txt
var packagesText string

//go:embed known/stdlib.txt
var stdlibText string

//go:embed known/parts.txt
var partsText string

//go:embed known/functions.txt
var functionsText string

var (
	// packages are installed packages whose code is public.
	packages = wordSet(packagesText)
	// stdlib are the modules of Python's own library.
	stdlib = wordSet(stdlibText)
	// parts are folders and files of packages that are often run from a
	// checkout, where a private file may lie beside them.
	parts = wordSet(partsText)
)

// wordSet are the words of a text, told apart when they are first asked for.
func wordSet(text string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for _, w := range strings.Fields(text) {
			set[w] = true
		}
		return set
	})
}

// commonFunctions are names of functions that tell nothing of the program:
// anybody's, and those by which trainers' and optimizers' work is recognised.
var commonFunctions = wordSet(functionsText +
	`<module> <lambda> <listcomp> <dictcomp> <setcomp> <genexpr> forward backward main call
	wrapper wrapped inner _wrapped decorate_context new_forward`)

var dunder = pattern.Of(`^__(init|new|call|enter|exit|del|iter|next|len|getitem|setitem|getattr|setattr|post_init|` +
	`torch_function|torch_dispatch)__$`)

func commonFunction(name string) bool { return commonFunctions()[name] || dunder().MatchString(name) }

// modelWords are parts of the names of modules and tensors that models share.
var modelWords = wordSet(
	`model module modules layer layers block blocks h transformer encoder decoder embeddings embed embedding embed_tokens wte wpe
	lm_head head self_attn attn attention self cross_attn crossattention query key value q_proj k_proj v_proj o_proj qkv qkv_proj c_attn c_proj c_fc out_proj in_proj
	mlp ffn feed_forward gate_proj up_proj down_proj gate_up_proj fc fc1 fc2 dense intermediate output input norm norm1 norm2 ln_1 ln_2 ln_f layernorm layer_norm
	input_layernorm post_attention_layernorm final_layer_norm rotary_emb dropout experts gate router shared_expert weight bias weights gradients gradient grad grads
	optimizer optimizer_state exp_avg exp_avg_sq step momentum_buffer activations activation logits loss kv_cache cache key_cache value_cache inputs input_ids labels
	attention_mask position_ids base_model lora_A lora_B default conv conv1 conv2 conv3 bn1 bn2 bn3 relu pooler pool vision_model text_model language_model
	forward backward zero_grad data setup generate prefill decode train eval temporary workspace communication unknown parameter parameters buffer buffers state`)

// optimizers are the classes in torch's own annotations.
var optimizers = wordSet(
	`Adam AdamW SGD RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD LBFGS Rprop SparseAdam Adafactor Muon Lion
	AdamW8bit Adam8bit PagedAdamW PagedAdamW8bit PagedAdamW32bit Lion8bit FusedAdam FusedLAMB LAMB DeepSpeedCPUAdam AcceleratedOptimizer
	Optimizer ZeroRedundancyOptimizer DistributedFusedAdam DistributedOptimizer ChainedOptimizer AdamWScheduleFree SGDScheduleFree Dion Shampoo SOAP`)

// options are the allocator's, in PYTORCH_CUDA_ALLOC_CONF and in what a
// snapshot says of it.
var options = wordSet(
	`PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF max_split_size max_split_size_mb garbage_collection_threshold
	expandable_segments pinned_num_register_threads release_lock_on_cudamalloc release_lock_on_hipmalloc pinned_use_cuda_host_register
	pinned_use_hip_host_register pinned_use_background_threads graph_capture_record_stream_reuse max_round_threshold max_non_split_rounding_mb max_cached_size
	roundup_power2_divisions roundup_bypass_threshold_mb backend native cudaMallocAsync pinned_reserve_segment_size_mb per_process_memory_fraction
	trace_alloc_max_entries trace_alloc_record_context large_segment_size_mb`)
