package recipe

import (
	"cmp"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// Files of frameworks that train on answers, and of those whose settings name one another.

// openRLHFTrainers: PPO's actor sees prompts and answers; pairs have a reference beside; DeepSpeed keeps float32 copies.
func openRLHFTrainers(f *fields, r *Recipe) {
	full := f.count("lora_rank") == 0
	if !f.has("zero_stage") {
		r.unasked(Flag{"zero", "2"})
	}
	if full {
		r.implied(Flag{"master-weights", "true"})
	}
	r.many("gpus", f.times("actor_num_gpus_per_node", "actor_num_nodes"))
	if n := f.count("prompt_max_len") + f.count("generate_max_len"); n > 0 {
		r.many("seq", n)
		r.Open = append(r.Open, "what generates the answers, and its cache")
	}
	if f.has("chosen_key") {
		rewards := strings.HasSuffix(cmp.Or(f.values["module"], f.values["m"]), "train_rm")
		r.inPairs(2*f.count("micro_train_batch_size"), !rewards)
		switch {
		case rewards:
			r.Head, r.Labels = "SequenceClassification", 1
		case !full: // the reference is loaded of its own
			r.implied(Flag{"copies", "1"})
		}
	}
}

// verlActor: of verl's settings those of the actor that learns count. With batches by tokens, one row holds as many as fit; else
// a row is a prompt and its answer.
func verlActor(f *fields, r *Recipe) {
	if r.many("gpus", f.times("trainer.n_gpus_per_node", "trainer.nnodes")); !f.has("actor_rollout_ref") {
		return
	}
	row := cmp.Or(f.count("data.max_prompt_length"), 512) + cmp.Or(f.count("data.max_response_length"), 512)
	if tokens := f.count("actor_rollout_ref.actor.ppo_max_token_len_per_gpu"); f.yes("actor_rollout_ref.actor.use_dynamic_bsz") {
		row = cmp.Or(tokens, 16384)
		r.implied(Flag{"batch", "1"})
	}
	r.many("seq", row)
	r.Open = append(r.Open, "the reference model and what generates the answers, where they stay on the GPU")
}

// foundryRanks: Composer's FSDP is the first, and a mosaicml name gives the shape of no published model.
func foundryRanks(f *fields, r *Recipe) {
	if f.has("fsdp_config") {
		r.implied(Flag{"fsdp-version", "1"})
	}
	if name := f.values["model.name"]; r.Model == "" && name != "" {
		r.Model = strings.ReplaceAll(name, "_causal_lm", "")
	}
}

// diffusersScripts are those of which it is known what they train and have beside it.
var diffusersScripts = pattern.Of(`^train_(?:text_to_image|text_to_image_lora|dreambooth_lora)(_sdxl)?\.py$`)

// diffusersDefaults are those of scripts that train adapters, by their names or a rank: rank 4, beside weights in the type
// that is computed in; others have weights in float32.
func diffusersDefaults(f *fields, r *Recipe) {
	program := diffusersScripts().FindStringSubmatch(strings.ToLower(f.program))
	if f.program != "" && program == nil {
		r.Open = append(r.Open, "what "+f.program+" trains, and what is beside it")
	}
	if !f.has("resolution") {
		size := "512"
		if _, called := r.Config(); program == nil && called == "Stable Diffusion XL" || program != nil && program[1] != "" {
			size = "1024"
		}
		r.unasked(Flag{"resolution", size})
	}
	if !f.has("lora_script") && !f.has("rank") {
		if !f.has("mixed_precision") {
			r.unasked(Flag{"precision", "fp32"})
		}
		return
	}
	if !f.has("rank") {
		r.unasked(Flag{"lora", "4"})
	}
	switch f.values["mixed_precision"] {
	case "fp16", "bf16":
		r.implied(Flag{"precision", f.values["mixed_precision"]})
	default:
		r.unasked(Flag{"precision", "fp32"})
	}
}

// unslothDefaults are those of FastLanguageModel: weights of four bits unless a field says otherwise, and rank 16 on all layers.
func unslothDefaults(f *fields, r *Recipe) {
	packed := f.values["load_in_4bit"]
	if packed == "" && !f.yes("load_in_8bit") && !f.yes("full_finetuning") {
		r.unasked(Flag{"precision", "int4"})
	}
	if packed != "" && isNo(packed) && !f.yes("load_in_8bit") {
		r.unasked(Flag{"precision", "bf16"})
	}
	if f.yes("use_peft") {
		r.unset(f, "lora_r", "lora", "16", "lora_target_modules", "lora-targets", "all")
	}
}

// titanConfig names a model and its size.
func titanConfig(v string, f *fields) ([]Flag, bool) {
	return []Flag{{modelFlag, strings.ReplaceAll(v, "_", " ")}}, v != ""
}

// titanDefaults are those of torchtitan's Trainer.Config, which a named function may change: its models of 8B and more train
// one sequence of 8,192 tokens.
func titanDefaults(f *fields, r *Recipe) {
	for _, x := range []struct{ field, flag, value string }{{"training.local_batch_size", "batch", "1"},
		{"training.seq_len", "seq", "8192"}} {
		if !f.has(x.field) {
			r.unasked(Flag{x.flag, x.value})
		}
	}
	if !f.has("activation_checkpoint.mode") && !f.has("activation_checkpoint.selective_ac_option") {
		r.unasked(Flag{"checkpointing", "op"})
	}
	titanPipeline(f, r)
}
