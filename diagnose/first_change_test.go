package diagnose_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/report"
)

// firstChanges are what labelled runs should change first, and why, by the recording with
// all stacks and the log; "" for nothing.
var firstChanges = []struct {
	change, why string
	runs        []string
}{
	{"", "nothing that costs nothing saves a tenth of the peak",
		[]string{"accelerate_loop__bert", "adafactor__t5_base", "adamw_foreach_false__transformer",
			"compile__reduce_overhead", "contrastive__dino_multicrop", "convnet__resnet", "decode__cat_cache",
			"decode__speculative", "detection__detr_varying", "diffusers__sd_lora_fp16", "gan__two_optimizers",
			"grad_accum__gpt2_medium", "hf_trainer__llama_sft", "inference__model_gone",
			"inference__sliding_window_3d", "lora8b__all_linear", "lstm__seq2seq_tbptt",
			"meta__maml_second_order", "mlp_regression__script", "offload__save_on_cpu",
			"pipeline__1f1b_rank1of4", "side_stream__prefetcher", "vit__torch_encoder", "zero2__deepspeed_gpt2"}},
	{"logits=chunked", "scores are a fifth of the peak or more, and a fused loss costs nothing",
		[]string{"bert_mlm__late_recording", "checkpointing__hf_reentrant", "compile__gpt2", "ddp__gpt2",
			"device_map__two_gpus", "distill__cached_scores", "ema__dict", "fp16_scaler__nanogpt",
			"fsdp2__llama_rank0", "gpt2_fp32_adamw__hf_loop", "llama1b_bf16_fused__hf_dataloader",
			"nanogpt_bf16_autocast__gpt124m", "tensor_parallel__dtensor_rank2of4"}},
	{"growing_list", "something stays behind in every step",
		[]string{"growing_list__closures", "growing_list__features", "growing_list__feeder_queue",
			"growing_list__gradient_hook", "growing_list__step_cache"}},
	{"retained_graph", "every step's graph stays",
		[]string{"retained_graph__kept_exceptions", "retained_graph__last_hidden",
			"retained_graph__trainer_entropy"}},
	{"checkpointing=full", "the longest batch fits when activations are made again",
		[]string{"true_shortage_oom__fsdp_gather"}},
	{"expandable_segments:True", "a fifth of what is reserved lies in pieces",
		[]string{"varying_lengths__bert"}},
	{"gradients=set_to_none", "gradients are zeroed in place and lie beside the activations",
		[]string{"grads_kept__set_to_none_false"}},
	{"growing_list", "parts of every matrix are kept: a setting only puts the failure off",
		[]string{"frag_oom__pairwise_docs"}},
	{"loaded_file", "the file that was read is still held; dropping it costs nothing",
		[]string{"true_shortage_oom__resumed_twice"}},
	{"logits=chunked", "95 % are scores",
		[]string{"qwen_vocab_oom__05b"}},
	{"logits=chunked", "64 % are scores, though what becomes of them can't be replayed",
		[]string{"optimizer__muon_gpt"}},
	{"logits=chunked", "the scores of a validation batch are all that is large",
		[]string{"true_shortage_oom__validation"}},
	{"logits_to_keep", "the prompt's scores are computed and not read",
		[]string{"decode__hf_dynamic_cache"}},
	{"memory_fraction", "the GPU has room: the limit is the program's own",
		[]string{"fraction_oom__gpt2_large"}},
	{"missing_no_grad", "the evaluation keeps a graph that nothing uses",
		[]string{"eval_no_nograd__gpt2"}},
	{"optimizer=8bit", "the state of all parameters fits in 8 bits",
		[]string{"llama8b_full_oom__fp32_autocast"}},
}

func checkFirstChange(t *testing.T, run string, doc *report.Document) {
	got := ""
	for _, d := range doc.Devices {
		if rows, _ := d.Priced(); len(rows) > 0 && got == "" {
			got = *rows[0].FixID
		}
	}
	for _, c := range firstChanges {
		if slices.Contains(c.runs, run) && got != c.change {
			t.Errorf("the first change is %q, should be %q: %s", got, c.change, c.why)
		}
	}
}
