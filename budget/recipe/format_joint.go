package recipe

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/internal/pattern"
)

// What more than one field says together.

// torchtuneModel is named by the function that builds the model.
func torchtuneModel(v string, _ *fields) ([]Flag, bool) {
	if !strings.HasPrefix(v, "torchtune.models.") {
		return nil, false
	}
	name := v[strings.LastIndexByte(v, '.')+1:]
	packed := strings.HasPrefix(name, "qlora_")
	flags := []Flag{{modelFlag, strings.TrimPrefix(strings.TrimPrefix(name, "q"), "lora_")}}
	if !packed && !strings.HasPrefix(name, "lora_") {
		flags[0].Value = name
	}
	if packed {
		flags = append(flags, Flag{"precision", "int4"})
	}
	return flags, true
}

// torchtuneTargets are the attention's layers that get adapters, and by two more fields
// those of the feed-forward and the head.
func torchtuneTargets(v string, f *fields) ([]Flag, bool) {
	names := strings.Split(strings.ReplaceAll(v, "output_proj", "o_proj"), ",")
	if f.yes("model.apply_lora_to_mlp") {
		names = append(names, "gate_proj", "up_proj", "down_proj")
	}
	if f.yes("model.apply_lora_to_output") {
		names = append(names, "lm_head")
	}
	return []Flag{{"lora-targets", strings.Join(names, ",")}}, v != ""
}

// fused makes the optimizer that another field names the fused one.
func fused(v string, f *fields) ([]Flag, bool) {
	if isYes(v) {
		for _, field := range []string{"optimizer._component_", "optimizer.name"} {
			if g, ok := words["optimizer"](f.values[field], f); ok && g[0].Value == "adamw" {
				return []Flag{{"optimizer", "adamw-fused"}}, true
			}
		}
	}
	return nil, true
}

// fusedAdam is DeepSpeed's own for Adam and AdamW, unless it is told to take PyTorch's (engine.py, _configure_basic_optimizer).
func fusedAdam(v string, f *fields) ([]Flag, bool) {
	flags, ok := words["optimizer"](v, f)
	own := !f.yes("optimizer.params.torch_adam") && !f.yes("deepspeed.optimizer.params.torch_adam")
	if ok && own && flags[0].Value == "adamw" {
		return []Flag{{"optimizer", "adamw-fused"}}, true
	}
	return flags, ok
}

// titanModel is a model's name from two fields.
func titanModel(_ string, f *fields) ([]Flag, bool) {
	return []Flag{{modelFlag, strings.TrimSpace(f.values["model.name"] + " " + f.values["model.flavor"])}}, true
}

// aboveOne sets flags where there is more than one of something.
func aboveOne(flags ...Flag) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		n, err := strconv.Atoi(v)
		if err == nil && n > 1 {
			return flags, true
		}
		return nil, err == nil
	}
}

// tensorParallel is torchtitan's, which splits sequences along.
func tensorParallel(v string, f *fields) ([]Flag, bool) {
	flags, ok := number("tp")(v, f)
	if ok && flags[0].Value != "1" {
		flags = append(flags, Flag{"sequence-parallel", "true"})
	}
	return flags, ok
}

// titanCheckpointing is by mode, and within the selective one by operation or every Nth.
func titanCheckpointing(_ string, f *fields) ([]Flag, bool) {
	how := f.values["activation_checkpoint.mode"]
	if how == "" || how == "selective" {
		how = f.values["activation_checkpoint.selective_ac_option"]
		if how == "" {
			how = "op"
		}
	}
	return []Flag{{"checkpointing", how}}, how == "op" || how == "none" || how == "full" || isNumber(how)
}

// titanPipeline divides the batch into micro-batches, and counts GPUs where the degrees
// leave none open.
func titanPipeline(f *fields, r *Recipe) {
	degree := func(name string) int64 {
		n, err := strconv.ParseInt(f.values["parallelism."+name], 10, 32)
		if err != nil {
			return 1
		}
		return n
	}
	batch, err := strconv.ParseInt(f.values["training.local_batch_size"], 10, 32)
	if err != nil {
		batch, err = strconv.ParseInt(f.values["training.batch_size"], 10, 32)
	}
	if pp := degree("pipeline_parallel_degree"); pp > 1 && err == nil && batch > 0 {
		micro := max(degree("pipeline_parallel_microbatch_size"), 1)
		r.implied(Flag{"batch", strconv.FormatInt(micro, 10)}, Flag{"micro-batches", strconv.FormatInt(max(batch/micro, 1),
			10)})
	}
	if shards := degree("data_parallel_shard_degree"); degree("data_parallel_replicate_degree") > 1 && shards > 1 {
		r.many("fsdp-shards", shards)
	}
	n := int64(1)
	for _, name := range []string{"data_parallel_shard_degree", "data_parallel_replicate_degree", "tensor_parallel_degree",
		"pipeline_parallel_degree", "context_parallel_degree"} {
		d := degree(name)
		if d < 1 || d > 1<<20 || n > 1<<30 {
			return // -1: as many as there are
		}
		n *= d
	}
	if _, ok := f.values["parallelism.data_parallel_shard_degree"]; ok {
		r.many("gpus", n)
	}
}

// implied adds what several fields say together.
func (r *Recipe) implied(flags ...Flag) { r.Fields = append(r.Fields, Field{Flags: flags}) }

// many adds a number above zero that they say.
func (r *Recipe) many(flag string, n int64) {
	if n > 0 {
		r.implied(Flag{flag, strconv.FormatInt(n, 10)})
	}
}

// unset adds a flag where a field says nothing, and goes on with the next field and its flag.
func (r *Recipe) unset(f *fields, field, flag, value string, more ...string) {
	if !isSet(f.values[field]) {
		r.unasked(Flag{flag, value})
	}
	if len(more) > 0 {
		r.unset(f, more[0], more[1], more[2], more[3:]...)
	}
}

// times is the product of fields' numbers, each of which is one where it isn't said; 0 without the first.
func (f *fields) times(first string, names ...string) int64 {
	n := f.count(first)
	for _, name := range names {
		n = min(n*max(f.count(name), 1), 1<<31)
	}
	return n
}

// unasked adds what a framework does where no field says otherwise.
func (r *Recipe) unasked(flags ...Flag) {
	for _, g := range flags {
		r.implied(g)
		r.Unasked = append(r.Unasked, g.Name)
	}
}

// factoryPrecision is that of LLaMA-Factory, which loads the model in 16 bits, and what it
// trains of it in 32 unless it is told not to.
func factoryPrecision(width string) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		switch {
		case withAdapters(f):
			return when(Flag{"precision", width})(v, f)
		case f.values["finetuning_type"] == "freeze":
			return when(Flag{"precision", width}, Flag{"trained-dtype", "fp32"})(v, f)
		}
		return when(Flag{"precision", width + "-mixed"})(v, f)
	}
}

// factoryDefaults are what LLaMA-Factory takes for fields that aren't there.
func factoryDefaults(f *fields, r *Recipe) {
	// pairs have a loss of their own, of whole logits beside Liger, too: LLaMA-Factory's is get_batch_logps, ms-swift's TRL's
	if r.pairs(f, "stage") {
		r.implied(Flag{"loss", "log-probs"})
	}
	if r.pairs(f, "rlhf_type") {
		r.implied(Flag{"loss", "log-probs-by-row"})
	}
	if !f.has("freeze_trainable_layers") && f.values["finetuning_type"] == "freeze" { // the last two
		if last, ok := lastBlocks("2", f); ok {
			r.unasked(last...)
		}
	}
	if withAdapters(f) && !f.has("lora_rank") {
		r.unasked(Flag{"lora", "8"})
	}
	if isSet(f.values["additional_target"]) { // all that LLaMA-Factory trains is float32
		r.implied(Flag{"trained-dtype", "fp32"})
	}
}

// torchtuneAlone: which recipe a file is for, its name tells alone.
func torchtuneAlone(f *fields, r *Recipe) {
	if strings.HasPrefix(f.values["loss._component_"], "torchtune.rlhf.loss.DPO") {
		r.inPairs(2*max(f.count("batch_size"), 1), true)
	}
	if strings.Contains(f.file, "single_device") {
		r.implied(Flag{"gpus", "1"})
	}
}

// axolotlShards: FSDP2 is named by its configuration alone, and the ranks by what they divide.
func axolotlShards(f *fields, r *Recipe) {
	r.pairs(f, "rl")
	shards, copies := max(f.count("dp_shard_size"), 1), f.count("dp_replicate_size")
	if (f.has("fsdp_config") || f.has("fsdp_version") || max(shards, copies) > 1) && valueOf(r.Flags(), "fsdp") == "" {
		r.implied(Flag{"fsdp", "full"})
	}
	if copies > 1 {
		r.many("fsdp-shards", shards)
	}
	r.many("gpus", f.times("dp_shard_size", "dp_replicate_size", "tensor_parallel_size", "context_parallel_size"))
}

// axolotlPlugins are modules that replace parts of the training: one makes the loss without logits, Liger's are told by
// fields of their own.
func axolotlPlugins(v string, f *fields) ([]Flag, bool) {
	var flags []Flag
	for name := range strings.SplitSeq(v, ",") {
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "CutCrossEntropyPlugin":
			if !isNo(cmp.Or(f.values["cut_cross_entropy"], "true")) {
				flags = append(flags, Flag{"loss", "fused"})
			}
		case "LigerPlugin", "TokenizerPlugin":
		default:
			return flags, len(flags) > 0
		}
	}
	return flags, true
}

// oneself are methods of training on preferences that ask no second model.
var oneself = pattern.Of(`(?i)^(?:orpo|simpo|cpo)`)

// pairs takes a training on preferences for what it is, by a field that names the method.
func (r *Recipe) pairs(f *fields, name string) bool {
	method := strings.ToLower(f.values[name])
	if _, ok := words["preferences"](method, f); !ok {
		return false
	}
	batch := sequencesOf(method) * cmp.Or(f.count("per_device_train_batch_size", "micro_batch_size"), 1)
	if f.yes("packing") && sequencesOf(method) > 1 && name == "rlhf_type" {
		// ms-swift fills a sequence with whole pairs; others leave pairs unpacked
		batch /= 2
		r.Open = append(r.Open, "pairs that are longer than a row")
	}
	r.inPairs(batch, !oneself().MatchString(cmp.Or(f.values["pref_loss"], method)))
	return true
}

// sequencesOf are an example's under a method: KTO's are judged one by one.
func sequencesOf(method string) int64 {
	if strings.HasPrefix(method, "kto") {
		return 1
	}
	return 2
}

// inPairs counts the sequences of pairs, and what the model that training began with makes of them, where it is asked.
func (r *Recipe) inPairs(sequences int64, asked bool) {
	if r.many("batch", max(sequences, 1)); asked {
		r.implied(Flag{"reference", "1"})
	}
}

// litgptModel is a name; beside it a model may be described field by field, and then is no published one.
func litgptModel(v string, f *fields) ([]Flag, bool) {
	if f.has("model.n_embd") {
		v += " with fields of its own"
	}
	return []Flag{{modelFlag, v}}, v != ""
}

// litgptTargets are the layers that get adapters, one field for each kind.
func litgptTargets(_ string, f *fields) ([]Flag, bool) {
	var names []string
	for _, x := range []struct{ field, unsaid, layers string }{{"lora_query", "true", "q_proj"}, {"lora_key", "", "k_proj"},
		{"lora_value", "true", "v_proj"}, {"lora_projection", "", "o_proj"}, {"lora_mlp", "", "gate_proj,up_proj,down_proj"},
		{"lora_head", "", "lm_head"}} {
		v, ok := f.values[x.field]
		if !ok {
			v = x.unsaid
		}
		if isYes(v) {
			names = append(names, x.layers)
		}
	}
	return []Flag{{"lora-targets", strings.Join(names, ",")}}, len(names) > 0
}

// litgptRanks: on several devices litgpt shards, and fine-tunes with checkpointing. It fine-tunes on one unless it is told, and
// trains on all.
func litgptRanks(f *fields, r *Recipe) {
	devices := f.count("devices")
	if !f.has("devices") && !f.has("model_name") && !f.has("model.name") {
		devices = 1
	}
	n := devices * max(f.count("num_nodes"), 1)
	if r.many("gpus", n); n != 1 {
		r.implied(Flag{"fsdp", "full"}, Flag{"fsdp-version", "1"})
		if f.has("checkpoint_dir") {
			r.implied(Flag{"checkpointing", "full"})
		}
	}
	if global := f.count("train.global_batch_size"); n > 0 && global > 0 {
		r.many("accumulate", max(global/(n*max(f.count("train.micro_batch_size"), 1)), 1))
	}
}

// count is the whole number above zero of the first of some fields that has one, else 0.
func (f *fields) count(names ...string) int64 {
	for _, name := range names {
		if n := whole(f.values[name]); n > 0 {
			return min(n, 1<<31)
		}
	}
	return 0
}

// swiftDefaults are what ms-swift takes for fields that aren't there.
func swiftDefaults(f *fields, r *Recipe) {
	modelDefaults(f, r)
	if !f.has("per_device_train_batch_size") {
		r.implied(Flag{"batch", "1"})
	}
	factoryDefaults(f, r)
	if keeps := f.values["use_logits_to_keep"]; (keeps == "" || isYes(keeps)) && valueOf(r.Flags(), "loss") != "fused" {
		r.Open = append(r.Open, "tokens without a label, of which no logits are made: with half of them --set labelled=0.5")
	}
}

// peftDefaults are the layers that PEFT takes where none are named: queries and values.
func peftDefaults(f *fields, r *Recipe) {
	if strings.EqualFold(f.values["peft_type"], "lora") && !isSet(f.values["target_modules"]) {
		r.implied(Flag{"lora-targets", "qv"})
	}
}

// sftFields are fields of TRL's trainer of plain sequences.
var sftFields = []string{"completion_only_loss", "assistant_only_loss", "dataset_text_field", "packing",
	"padding_free"}

// trlTrainers are what TRL's trainers take for fields that aren't there. Which trainer a file is for, the command says that
// it is given to.
func trlTrainers(f *fields, r *Recipe) {
	modelDefaults(f, r)
	if withAdapters(f) {
		trlAdapters(f, r)
	}
	method := strings.ToLower(f.values["trl"])
	switch {
	case method != "" && method != "true":
	case f.has("num_generations") || f.has("max_completion_length"):
		method = "grpo"
	case f.has("precompute_ref_log_probs") || f.has("beta"):
		method = "dpo"
	case f.has("max_seq_length") || slices.ContainsFunc(sftFields, f.has):
		method = "sft"
	default:
		method = ""
	}
	if r.trainedBy(method, f); method != "grpo" && !f.has("max_length") && !f.has("max_seq_length") {
		r.unasked(Flag{"seq", "1024"})
	}
	if method == "" {
		r.trainer = func(method string) { r.trainedBy(method, f) }
	}
}

// trainedBy is what one of TRL's trainers does. Preferences come in pairs, and beside the model is the one that it began as,
// unless that is the model without its adapters, or was asked before. Rewards are one score each.
func (r *Recipe) trainedBy(method string, f *fields) {
	batch := cmp.Or(f.count("per_device_train_batch_size"), 8)
	if withAdapters(f) && (f.yes("disable_dropout") || !f.has("disable_dropout") && withoutDropout[method]) {
		r.implied(Flag{"lora-dropout", "0"})
	}
	switch method {
	case "sft":
		r.OneRow = f.yes("packing") && f.values["packing_strategy"] != "wrapped"
	case "grpo":
		prompt, answer := cmp.Or(f.count("max_prompt_length"), 512), cmp.Or(f.count("max_completion_length"), 512)
		r.implied(Flag{"seq", strconv.FormatInt(prompt+answer, 10)}, Flag{"padding", "true"})
		if beta, err := strconv.ParseFloat(f.values["beta"], 64); err == nil && beta != 0 && !withAdapters(f) {
			r.implied(Flag{"reference", "1"})
		}
		if !f.has("max_prompt_length") {
			r.Open = append(r.Open, "how long prompts are (512 tokens)")
		}
		r.Open = append(r.Open, "what generates the answers, and its cache")
	case "dpo", "kto", "orpo", "cpo":
		r.inPairs(sequencesOf(method)*batch, !f.yes("precompute_ref_log_probs") && !oneself().MatchString(method))
	case "reward":
		r.inPairs(2*batch, false)
		r.Head, r.Labels = "SequenceClassification", 1
	}
}

// withoutDropout are the methods that turn dropout off unless they are told not to.
var withoutDropout = map[string]bool{"dpo": true, "kto": true, "orpo": true, "cpo": true, "reward": true}

// trlCommand is one that has its settings in a file of its own.
func trlCommand(f *fields, r *Recipe) {
	r.method, r.settings = strings.ToLower(f.values["trl"]), f.values["config"]
}

// chosen gives TRL's settings the trainer of the command that stands beside them; without one they count as plain sequences.
func chosen(rs []*Recipe) (open []string) {
	method := ""
	for _, r := range rs {
		method = cmp.Or(r.method, method)
		if r.settings != "" && !slices.ContainsFunc(rs, func(x *Recipe) bool { return x.Format == "TRL arguments" }) {
			open = append(open, "the settings are in "+Clipped(r.settings)+Unread)
		}
	}
	for _, r := range rs {
		switch {
		case r.trainer == nil:
		case method != "":
			r.trainer(method)
		default:
			open = append(open, "which of TRL's trainers runs isn't said, and is taken as sft: a second --recipe with the "+
				"command (trl dpo --config FILE) tells it")
		}
		r.trainer = nil
	}
	return open
}

// trlAdapters are those that TRL makes where little is said of them; beside packed weights they
// have the type that is computed in.
func trlAdapters(f *fields, r *Recipe) {
	r.unset(f, "lora_r", "lora", "16", "lora_dropout", "lora-dropout", "0.05", "lora_target_modules", "lora-targets", "qv")
	if f.yes("load_in_4bit") || f.yes("load_in_8bit") {
		r.unasked(Flag{"lora-dtype", "model"})
	}
}

// inPasses counts the sequences of all forward passes that one loss is of.
func inPasses(v string, f *fields) ([]Flag, bool) {
	n := whole(v) * f.count("per_device_train_batch_size")
	if n == 0 {
		return nil, true
	}
	return []Flag{{"batch", strconv.FormatInt(n, 10)}}, true
}

// loopDefaults are those of a program's own loop: a model of Transformers fills its cache unless it is told not to, or is
// checkpointed, and Accelerate's launcher may say what is computed in.
func loopDefaults(f *fields, r *Recipe) {
	argumentDefaults(f, r)
	if !f.yes("gradient_checkpointing") && !isNo(cmp.Or(f.values["use_cache"], "true")) {
		r.unasked(Flag{"use-cache", "true"})
	}
	if f.has("accelerator") && !f.has("mixed_precision") && !f.has("autocast") {
		r.Open = append(r.Open, "mixed precision, which accelerate launch may set")
	}
	for _, x := range [][2]string{{"optim", "which optimizer it is"}, {"per_device_train_batch_size", "how large a batch is"}} {
		if !f.has(x[0]) {
			r.Open = append(r.Open, x[1])
		}
	}
}

// modelDefaults are those of TRL's ModelConfig, whose 4-bit weights have plain scales.
func modelDefaults(f *fields, r *Recipe) {
	if f.yes("load_in_4bit") && !f.has("use_bnb_nested_quant") {
		r.implied(Flag{"plain-scales", "true"})
	}
	r.many("gpus", f.times("nproc_per_node", "nnodes"))
}

// argumentDefaults are those of scripts with TrainingArguments: what type weights are loaded in, the model's own
// configuration tells where no field does.
func argumentDefaults(f *fields, r *Recipe) {
	modelDefaults(f, r)
	if f.plain && withAdapters(f) { // PEFT's own
		r.unset(f, "lora_r", "lora", "8", "lora_target_modules", "lora-targets", "qv")
	}
	r.Untyped = !slices.ContainsFunc([]string{"dtype", "torch_dtype", "load_in_4bit", "load_in_8bit", "mixed_precision"}, f.has)
}

// autoModelSteps divides NeMo AutoModel's batch of a step by what all GPUs take at once.
func autoModelSteps(f *fields, r *Recipe) {
	once := max(f.count("step_scheduler.local_batch_size"), 1) * max(f.count("distributed.dp_size"), 0)
	if all := f.count("step_scheduler.global_batch_size"); once > 0 && all > once {
		r.many("accumulate", all/once)
	}
}

// megatronSwift is what ms-swift has Megatron-LM do unasked: a divided optimizer, copies and gradients in float32 of what is
// trained in full, recomputed products of attention, and rank 8.
func megatronSwift(f *fields, r *Recipe) {
	g := &fields{values: map[string]string{}}
	for name, v := range f.values {
		g.values[strings.ReplaceAll(name, "_", "-")] = v
	}
	ways := max(f.count("tensor_model_parallel_size"), 1) * max(f.count("pipeline_model_parallel_size"), 1)
	gpus := max(f.times("nproc_per_node", "nnodes"), ways*max(f.count("context_parallel_size"), 1))
	if r.many("gpus", gpus); gpus > ways {
		r.implied(Flag{"zero", "1"})
	}
	if !withAdapters(f) {
		r.implied(Flag{"master-weights", "true"}, Flag{"gradient-dtype", "fp32"})
	} else if !f.has("lora_rank") {
		r.unasked(Flag{"lora", "8"})
	}
	megatronSteps(g, r, gpus)
	if !f.has("recompute_granularity") {
		r.unasked(Flag{"checkpointing", "selective"})
	}
	r.pairs(f, "rlhf_type")
}

// otherModels are arguments of models that are made of other layers than are counted here.
var otherModels = []string{"multi-latent-attention", "moe-layer-freq", "moe-shared-expert-intermediate-size",
	"hybrid-override-pattern",
	"experimental-attention-variant"}

// megatronModel makes a model's configuration of Megatron's arguments.
func megatronModel(f *fields, r *Recipe) {
	for _, name := range otherModels {
		if f.has(name) {
			r.Shape, r.Model = nil, "with --"+name
			return
		}
	}
	shape := r.Shape
	if shape["num_hidden_layers"] == nil || shape["hidden_size"] == nil {
		r.Shape = nil
		return
	}
	shape["model_type"] = "gpt2"
	switch {
	case f.yes("swiglu") && f.has("num-experts"):
		shape["model_type"] = "mixtral"
	case f.yes("swiglu"):
		shape["model_type"] = "llama"
	default:
		shape["n_inner"] = shape["intermediate_size"]
	}
	if shape["num_key_value_heads"] == nil && shape["model_type"] != "gpt2" {
		shape["num_key_value_heads"] = shape["num_attention_heads"]
	}
	if _, ok := shape["tie_word_embeddings"]; !ok {
		shape["tie_word_embeddings"] = true
	}
	if shape["vocab_size"] == nil {
		shape["vocab_size"] = 50304.0
	}
	megatronRanks(f, r)
}

// nemoNames are what Megatron's arguments call a NeMo configuration's fields.
var nemoNames = map[string]string{"trainer.devices": "nproc-per-node", "trainer.num_nodes": "nnodes",
	"model.tensor_model_parallel_size": "tensor-model-parallel-size", "model.global_batch_size": "global-batch-size",
	"model.pipeline_model_parallel_size": "pipeline-model-parallel-size", "model.context_parallel_size": "context-parallel-size",
	"model.micro_batch_size": "micro-batch-size", "model.num_moe_experts": "num-experts",
	"model.virtual_pipeline_model_parallel_size": "num-virtual-stages-per-pipeline-rank"}

// nemoModel makes a model's configuration of NeMo's, whose network is Megatron's.
func nemoModel(f *fields, r *Recipe) {
	g := &fields{values: map[string]string{}}
	for _, from := range slices.Sorted(maps.Keys(nemoNames)) {
		if v := f.values[from]; isSet(v) {
			g.names, g.values[nemoNames[from]] = append(g.names, nemoNames[from]), v
		}
	}
	if strings.Contains(f.values["model.activation"], "swiglu") {
		g.values["swiglu"] = "true"
	}
	if apart := f.values["model.share_embeddings_and_output_weights"]; apart != "" && isNo(apart) && r.Shape != nil {
		r.Shape["tie_word_embeddings"] = false
	}
	if f.yes("model.sequence_parallel") && f.count("model.tensor_model_parallel_size") > 1 {
		r.implied(Flag{"sequence-parallel", "true"})
	}
	megatronModel(g, r)
}

// megatronRanks counts GPUs, and the micro-batches that each gets of the batch.
func megatronRanks(f *fields, r *Recipe) {
	gpus := f.times("nproc-per-node", "nnodes")
	r.many("gpus", gpus)
	megatronSteps(f, r, gpus)
	if f.has("num-layers-per-virtual-pipeline-stage") || f.has("num-virtual-stages-per-pipeline-rank") {
		r.implied(Flag{"schedule", "interleaved"})
	}
}

// megatronSteps divides the batch into what each GPU takes at once.
func megatronSteps(f *fields, r *Recipe, gpus int64) {
	ways := max(f.count("tensor-model-parallel-size"), 1) * max(f.count("pipeline-model-parallel-size"), 1) *
		max(f.count("context-parallel-size"), 1)
	what := "accumulate"
	if f.count("pipeline-model-parallel-size") > 1 {
		what = "micro-batches"
	}
	if global := f.count("global-batch-size"); gpus >= ways && global > 0 {
		r.many(what, max(global/(max(f.count("micro-batch-size"), 1)*(gpus/ways)), 1))
	}
}

// servingByPieces is what engines do unasked: experts are divided over the ranks that divide all else.
func servingByPieces(f *fields, r *Recipe) {
	if f.count("max-model-len", "context-length") == 0 {
		r.Open = append(r.Open, "how long requests are: as the model's positions allow, else --context N")
	}
	if tp, ok := number("ep")(f.values["tensor-parallel-size"], f); ok && f.yes("enable-expert-parallel") {
		r.implied(tp...)
	}
}

// bucket is a number of elements, or as many as Transformers makes of the hidden size.
func bucket(flag string) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if v == "auto" {
			return []Flag{{flag, "-1"}}, true
		}
		return atLeastNone(flag)(v, f)
	}
}

// prefetch is how much ZeRO 3 gathers ahead; what counts is whether it does.
func prefetch(v string, f *fields) ([]Flag, bool) {
	if v == "0" {
		return []Flag{{"prefetch-bucket", "-1"}}, true
	}
	return number("")(v, f)
}

// Sibling is a configuration that lies where a recipe's model is a folder, "" where it
// isn't one.
func (r *Recipe) Sibling(file string) string {
	switch {
	case r.Model == "" || strings.Contains(r.Model, "://") || strings.ContainsRune(r.Model, 0):
		return ""
	case path.IsAbs(r.Model):
		return path.Join(r.Model, "config.json")
	}
	return path.Join(path.Dir(file), r.Model, "config.json")
}

// wholly is a meaning that a field has where the model itself is trained, and no adapters.
func wholly(m meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if withAdapters(f) {
			return nil, true
		}
		return m(v, f)
	}
}

// expressions are names of weights. One that Go doesn't know, as (?!x), and a range of a weight's rows aren't understood.
func expressions(flag string) meaning {
	return func(v string, _ *fields) ([]Flag, bool) {
		return []Flag{{flag, v}}, isSet(v) && areNames(v) && !rowsOfOne().MatchString(v)
	}
}

// rowsOfOne tells a range of a weight's rows, which axolotl trains alone: embed_tokens.weight$[:32000].
var rowsOfOne = pattern.Of(`\[\d*:\d*\]\s*(,|$)`)

// areNames says whether a list holds expressions, and no numbers of blocks.
func areNames(list string) bool {
	words, err := budget.Names(list)
	return err == nil && !slices.ContainsFunc(words, isNumber)
}

// lastBlocks are those that LLaMA-Factory trains alone, or the first with a number below zero, beside other modules by name.
func lastBlocks(v string, f *fields) ([]Flag, bool) {
	n, err := strconv.Atoi(v)
	if f.values["finetuning_type"] != "freeze" {
		return nil, true
	}
	names := strconv.Itoa(-n)
	for module := range strings.SplitSeq(f.values["freeze_extra_modules"], ",") {
		if module = strings.TrimSpace(module); isSet(module) {
			names += ",.*" + regexp.QuoteMeta(module)
		}
	}
	modules := f.values["freeze_trainable_modules"]
	return []Flag{{"trained", names}}, err == nil && n != 0 && (modules == "" || modules == "all") && !f.yes("use_llama_pro")
}

// swiftNames are expressions for names that begin with one of some words, and for those that an expression is found in.
func swiftNames(flag, begin, search string, f *fields) ([]Flag, bool) {
	var words []string
	for word := range strings.SplitSeq(f.values[begin], ",") {
		if word = strings.TrimSpace(word); isSet(word) {
			words = append(words, regexp.QuoteMeta(word))
		}
	}
	if re := f.values[search]; isSet(re) {
		if one, err := budget.Names(re); err != nil || len(one) != 1 {
			return nil, false
		}
		words = append(words, ".*(?:"+re+")")
	}
	list := strings.Join(words, ",")
	return []Flag{{flag, list}}, list != "" && areNames(list)
}

// swiftFrozen are what ms-swift freezes, swiftTrained what it trains though it was to freeze all, and swiftRatio is how much it
// was to freeze: what it trains of a part that is frozen isn't known.
func swiftFrozen(_ string, f *fields) ([]Flag, bool) {
	switch {
	case swiftAll(f):
		return nil, true
	case f.has("trainable_parameters"), f.has("trainable_parameters_regex"):
		return nil, false
	}
	return swiftNames("frozen", "freeze_parameters", "freeze_parameters_regex", f)
}

func swiftTrained(_ string, f *fields) ([]Flag, bool) {
	if !swiftAll(f) {
		return nil, false
	}
	return swiftNames("trained", "trainable_parameters", "trainable_parameters_regex", f)
}

// swiftAll says whether ms-swift freezes all weights at first.
func swiftAll(f *fields) bool {
	ratio := f.values["freeze_parameters_ratio"]
	return ratio == "1" || ratio == "1.0"
}

func swiftRatio(v string, f *fields) ([]Flag, bool) {
	return nil, isNo(v) || v == "0.0" || withAdapters(f) || swiftAll(f) && (f.has("trainable_parameters") ||
		f.has("trainable_parameters_regex"))
}
