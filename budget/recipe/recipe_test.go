package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
)

var update = flag.Bool("update", false, "rewrite golden files")

// told is a recipe as golden files have it.
func told(r *Recipe) string {
	var b strings.Builder
	fmt.Fprintf(&b, "format: %s\nmodel: %s\n", r.Format, r.Model)
	if fields, called := r.Config(); fields != nil {
		text, _ := json.Marshal(fields)
		fmt.Fprintf(&b, "called: %s\nconfiguration: %s\n", called, text)
	}
	for _, f := range r.Fields {
		fmt.Fprintf(&b, "%s: %s", f.Name, f.Value)
		for _, g := range f.Flags {
			fmt.Fprintf(&b, " --%s %s", g.Name, g.Value)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "ignored: %s\nopen: %s\n", strings.Join(r.Ignored, " "), strings.Join(r.Open, "; "))
	if r.Head != "" || r.method != "" || r.Untyped {
		fmt.Fprintf(&b, "head: %s %d\ntrainer: %s\nuntyped: %v\n", r.Head, r.Labels, r.method, r.Untyped)
	}
	return b.String()
}

// TestGolden reads a file of each format.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, ".md") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Read(path, bytes.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		seen[r.Format] = true
		golden := filepath.Join("testdata/golden", filepath.Base(path)+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(told(r)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != told(r) {
			t.Errorf("%s: %v\n%s", path, err, told(r))
		}
	}
	for _, name := range Formats() {
		if !seen[name] {
			t.Errorf("no file of format %q in testdata", name)
		}
	}
}

// TestModels: the shapes of models that are known by name have the published numbers of
// parameters, under the names that frameworks call them by.
func TestModels(t *testing.T) {
	for _, m := range models() {
		text, err := json.Marshal(m.Config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := budget.ReadConfig(bytes.NewReader(text))
		if err != nil {
			t.Fatal(m.Name, err)
		}
		if n, err := budget.Count(c); err != nil || n.Total != m.Parameters {
			t.Errorf("%s: %d parameters, %v, want %d", m.Name, n.Total, err, m.Parameters)
		}
	}
	for name, want := range map[string]string{
		"meta-llama/Llama-3.1-8B-Instruct": "Llama-3.1-8B", "llama3_1_8b": "Llama-3.1-8B", "llama3 70B": "Llama-3.1-70B",
		"gpt2":                     "gpt2",
		"meta-llama/Llama-2-7b-hf": "Llama-2-7B", "/models/Qwen2.5-0.5B-Instruct/": "Qwen2.5-0.5B",
		"qwen2_5_7b_base":             "Qwen2.5-7B",
		"unsloth/llama-3-8b-bnb-4bit": "Llama-3.1-8B", "mistralai/Mistral-7B-v0.1": "Mistral-7B-v0.1",
		"gemma2_9b":               "Gemma-2-9B",
		"deepseek-ai/DeepSeek-V3": "DeepSeek-V3", "microsoft/Phi-3-mini-4k-instruct": "Phi-3-mini",
		"TinyLlama/TinyLlama-1.1B-Chat-v1.0": "TinyLlama-1.1B",
		"me/my-own":                          "", "llama-3.2-11B-Vision": "", "Qwen3-30B": "", "gpt2-like": "",
	} {
		if _, called := (&Recipe{Model: name}).Config(); called != want {
			t.Errorf("%s: taken as %q, want %q", name, called, want)
		}
	}
}

// TestMeanings are fields that depend on each other, and values that say nothing.
func TestMeanings(t *testing.T) {
	for _, tt := range []struct{ name, file, text, want string }{
		{"every second layer", "a.toml",
			"[model]\nname='llama3'\nflavor='8B'\n[training]\nseq_len=10\n[activation_checkpoint]\nmode='selective'\nselective_ac_option='2'",
			"seq=10 checkpointing=2 framework=torchtitan precision=bf16-mixed optimizer=adamw-fused loss=default fsdp=full allocator=expandable"},
		{"a pipeline's micro-batches", "a.toml",
			"[model]\nname='llama3'\nflavor='8B'\n[training]\nlocal_batch_size=8\n[parallelism]\npipeline_parallel_degree=4\ndata_parallel_shard_degree=-1\npipeline_parallel_schedule='Interleaved1F1B'",
			"pp=4 schedule=interleaved framework=torchtitan precision=bf16-mixed optimizer=adamw-fused loss=default fsdp=full allocator=expandable batch=1 micro-batches=8"},
		{"FSDP1 keeps what it gathers", "a.yaml",
			"distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 1\n  fsdp_sharding_strategy: SHARD_GRAD_OP",
			"gpus=8 fsdp-version=1 fsdp=full keep-gathered=true"},
		{"FSDP2 keeps what it gathers", "a.yaml",
			"distributed_type: FSDP\nnum_processes: 16\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: false",
			"fsdp=full gpus=16 fsdp-version=2 keep-gathered=true"},
		{"Transformers, sharded with replicas", "a.yaml", "per_device_train_batch_size: 2\noutput_dir: x\nfsdp: hybrid_shard_zero2",
			"batch=2 fsdp=hybrid keep-gathered=true framework=transformers trainer=true optimizer=adamw-fused"},
		{"packed weights", "a.yaml",
			"model_name_or_path: a/b\nfinetuning_type: lora\nquantization_bit: 4\nbf16: true\nlora_rank: 4",
			"precision=int4 lora=4 framework=transformers trainer=true checkpointing=full optimizer=adamw-fused"},
		{"full in 32 bits", "a.yaml",
			"model_name_or_path: a/b\nfinetuning_type: full\nbf16: true\ndisable_gradient_checkpointing: true",
			"precision=bf16-mixed checkpointing=none framework=transformers trainer=true optimizer=adamw-fused"},
		{"a merge in YAML", "a.yaml", "base: &b\n  lr: 1\nbase_model: x\nmicro_batch_size: 3\nother:\n  <<: *b",
			"batch=3 framework=axolotl trainer=true optimizer=adamw-fused"},
		{"lines that end as Windows' do", "a.sh", "trl sft \\\r\n  --max_length 77 \\\r\n  --per_device_train_batch_size 3\r\n",
			"seq=77 batch=3 framework=trl checkpointing=full precision=bf16-mixed optimizer=adamw-fused"},
		{"a line that no shell takes", "a.sh", "echo a) b\ntrl sft --max_length 77 --per_device_train_batch_size 3\n",
			"seq=77 batch=3 framework=trl checkpointing=full precision=bf16-mixed optimizer=adamw-fused"},
		{"arguments in a variable", "a.sh",
			"ARGS=\"--num-layers 2 --hidden-size 64\"\nN=4\npretrain $ARGS --seq-length ${N:-1} --micro-batch-size ${M:-2}",
			"seq=4 batch=2 framework=megatron optimizer=adamw-fused"},
		{"unknown words", "a.json", `{"per_device_train_batch_size": "auto", "optim": "nonesuch", "bf16": "maybe"}`,
			"framework=transformers trainer=true optimizer=adamw-fused"},
		{"a stage by a name", "a.json", `{"per_device_train_batch_size": 1, "deepspeed": "examples/ds_z3_offload_config.json"}`,
			"batch=1 zero=3 offload=params framework=transformers trainer=true optimizer=adamw-fused"},
		{"axolotl's adapters", "a.yaml", "base_model: x\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_modules_to_save: [embed_tokens, lm_head]\n" +
			"peft_use_rslora: true\nbnb_config_kwargs:\n  bnb_4bit_use_double_quant: false",
			"precision=int4 lora=8 modules-to-save=embed_tokens,lm_head adapter=rslora plain-scales=true framework=axolotl trainer=true optimizer=adamw-fused"},
		{"LLaMA-Factory's adapters", "a.yaml",
			"model_name_or_path: a/b\nfinetuning_type: lora\nquantization_bit: 4\ndouble_quantization: true\nadditional_target: lm_head\nuse_dora: true",
			"precision=int4 modules-to-save=lm_head dora=true framework=transformers trainer=true checkpointing=full optimizer=adamw-fused lora=8 trained-dtype=fp32"},
		{"TRL's packed weights", "a.json", `{"per_device_train_batch_size": 1, "use_peft": true, "lora_r": 4, "load_in_4bit": true}`,
			"batch=1 lora=4 precision=int4 framework=trl checkpointing=full optimizer=adamw-fused plain-scales=true lora-dropout=0.05 lora-targets=qv " +
				"lora-dtype=model seq=1024"},
		{"TRL's preference pairs with adapters", "a.sh", "trl dpo --model_name_or_path x --use_peft --per_device_train_batch_size 2",
			"framework=trl checkpointing=full precision=bf16-mixed optimizer=adamw-fused lora=16 lora-targets=qv lora-dropout=0 batch=4 reference=1 seq=1024"},
		{"TRL in 32 bits", "a.yaml", "model_name_or_path: x\ndataset_text_field: text\nbf16: false\ngradient_checkpointing: false\nmax_length: 64",
			"precision=fp32 checkpointing=none seq=64 framework=trl batch=8 optimizer=adamw-fused"},
		{"(IA)3", "a.json", `{"peft_type": "IA3", "task_type": "CAUSAL_LM", "target_modules": null, "feedforward_modules": null}`, "adapter=ia3"},
		{"PEFT's own choice of layers", "a.json", `{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "target_modules": null}`,
			"lora=8 lora-targets=qv"},
		{"another kind of PEFT", "a.json", `{"peft_type": "VERA", "task_type": "CAUSAL_LM", "r": 8}`, ""},
		{"no adapter is named", "a.yaml", "base_model: x\nadapter:\nlora_r: 8\nmicro_batch_size: 1", "batch=1 framework=axolotl trainer=true optimizer=adamw-fused"},
		{"layers by an expression", "a.yaml", "base_model: x\nadapter: lora\nlora_r: 8\nlora_target_modules: 'model.layers.[\\d]+.(mlp|self_attn).(q|down)_proj'",
			"lora=8 lora-targets=q_proj,down_proj framework=axolotl trainer=true optimizer=adamw-fused"},
		{"FSDP2 by its configuration", "a.yaml", "base_model: x\nmicro_batch_size: 1\nfsdp_version: 2\nfsdp_config:\n  offload_params: true",
			"batch=1 fsdp-version=2 offload=params framework=axolotl trainer=true optimizer=adamw-fused fsdp=full"},
		{"four bits by a name, computed in 16", "a.yaml", "model_name_or_path: a/b-GPTQ\nfinetuning_type: lora\nbf16: true",
			"framework=transformers trainer=true checkpointing=full optimizer=adamw-fused lora=8 precision=int4"},
		{"loaded in 16 bits", "a.yaml", "per_device_train_batch_size: 1\nbf16: true\ntorch_dtype: bfloat16", "batch=1 precision=bf16 framework=transformers trainer=true optimizer=adamw-fused"},
		{"packed whatever is computed in", "a.yaml", "per_device_train_batch_size: 1\nload_in_4bit: true\nbf16: true\nuse_peft: true\nlora_r: 4",
			"batch=1 precision=int4 lora=4 framework=trl checkpointing=full optimizer=adamw-fused plain-scales=true lora-dropout=0.05 lora-targets=qv " +
				"lora-dtype=model seq=1024"},
		{"another optimizer by a switch", "a.yaml", "model_name_or_path: a/b\nfinetuning_type: full\nuse_apollo: true\napollo_layerwise: true",
			"optimizer=apollo optimizer-in-backward=true framework=transformers trainer=true checkpointing=full"},
		{"compiled loss alone", "a.toml", "[model]\nname='llama3'\nflavor='8B'\n[training]\nseq_len=10\n[compile]\nenable=true\ncomponents=['loss']",
			"seq=10 framework=torchtitan precision=bf16-mixed optimizer=adamw-fused loss=default fsdp=full allocator=expandable"},
		{"a value of another field", "a.yaml", "model:\n  _component_: torchtune.models.llama3.llama3_8b\nlength: 512\ntokenizer:\n  _component_: x\n  max_seq_len: ${length}",
			"seq=512 framework=torchtune lora-dtype=model fsdp=full fsdp-ends=together"},
		{"one device by the recipe's name", "8B_full_single_device.yaml", "model:\n  _component_: torchtune.models.llama3.llama3_8b\noptimizer:\n  _component_: bitsandbytes.optim.PagedAdamW",
			"optimizer=adamw-fused offload=optimizer framework=torchtune lora-dtype=model fsdp=full fsdp-ends=together gpus=1"},
		{"many requests of unknown length", "serve", "vllm serve a/b --max-num-seqs 512 --gpu-memory-utilization 0.9", "batch=512 gpu-share=0.9 inference=true engine=vllm"},
		{"replicas of shards", "a.yaml", "base_model: x\nmicro_batch_size: 1\ndp_shard_size: 4\ndp_replicate_size: 2\ntensor_parallel_size: 2",
			"batch=1 fsdp=hybrid tp=2 framework=axolotl trainer=true optimizer=adamw-fused fsdp-shards=4 gpus=16"},
		{"eight bits by a name", "serve", "vllm serve a/b-FP8 --max-model-len 100", "context=100 inference=true engine=vllm precision=int8"},
		{"and trained", "a.yaml", "base_model: a/b-FP8\nmicro_batch_size: 1\nbf16: true", "batch=1 precision=bf16 framework=axolotl trainer=true optimizer=adamw-fused"},
		{"a default that is switched off", "a.sh", "swift sft --model a/b --train_type full --gradient_checkpointing false",
			"checkpointing=none framework=transformers trainer=true precision=bf16 batch=1"},
		{"thousands", "serve", "vllm serve a/b --max-model-len 32K", "context=32768 inference=true engine=vllm"},
		{"a loss by a plugin, and packed sequences", "a.yaml", "base_model: x\nmicro_batch_size: 1\nsample_packing: true\n" +
			"plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\nactivation_offloading: true",
			"batch=1 loss=fused activation-offload=true framework=axolotl trainer=true optimizer=adamw-fused"},
		{"the plugin, switched off", "a.yaml", "base_model: x\nmicro_batch_size: 1\nplugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n" +
			"cut_cross_entropy: false", "batch=1 framework=axolotl trainer=true optimizer=adamw-fused"},
		{"low-rank gradients, and a list of words", "a.sh", "swift sft --model a/b --tuner_type full --use_galore true --modules_to_save embed_tokens lm_head \\\n --max_length 9",
			"optimizer=galore seq=9 framework=transformers trainer=true checkpointing=full precision=bf16 batch=1"},
		{"more than one word for an option", "a.sh", "swift sft --model a/b --tuner_type lora --modules_to_save embed_tokens lm_head \\\n --target_modules q_proj v_proj\nnext words",
			"modules-to-save=embed_tokens,lm_head lora-targets=q_proj,v_proj framework=transformers trainer=true checkpointing=full " +
				"precision=bf16 batch=1 lora=8"},
		{"axolotl's pairs", "a.yaml", "base_model: x\nmicro_batch_size: 2\nrl: dpo", "framework=axolotl trainer=true optimizer=adamw-fused batch=4 reference=1"},
		{"LLaMA-Factory's, with adapters", "a.yaml", "model_name_or_path: a/b\nfinetuning_type: lora\nstage: dpo\nper_device_train_batch_size: 3",
			"framework=transformers trainer=true checkpointing=full optimizer=adamw-fused batch=6 reference=1 loss=log-probs lora=8"},
		{"ms-swift's, without a second model", "a.sh", "swift rlhf --rlhf_type orpo --model a/b --train_type full",
			"framework=transformers trainer=true checkpointing=full precision=bf16 batch=2 loss=log-probs-by-row"},
		{"torchtune's", "a.yaml", "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\ntokenizer:\n  _component_: x\nbatch_size: 4\n" +
			"loss:\n  _component_: torchtune.rlhf.loss.DPOLoss", "framework=torchtune lora-dtype=model fsdp=full fsdp-ends=together batch=8 reference=1"},
		{"four bits by a name", "serve", "vllm serve a/b-AWQ --max-model-len 100",
			"context=100 inference=true engine=vllm precision=int4"},
		{"Megatron-SWIFT in full, in pairs", "a.sh", "NPROC_PER_NODE=4 megatron rlhf --rlhf_type dpo --model a/b --tensor_model_parallel_size 4 --micro_batch_size 8",
			"tp=4 framework=megatron precision=bf16 optimizer=adamw-fused gpus=4 master-weights=true gradient-dtype=fp32 checkpointing=selective " +
				"batch=16 reference=1"},
		{"OpenRLHF's rewards", "a.sh", "deepspeed --module openrlhf.cli.train_rm --pretrain a/b --micro_train_batch_size 1 --chosen_key c --zero_stage 2 --bf16",
			"zero=2 framework=openrlhf precision=bf16 optimizer=adamw-fused checkpointing=none attention=flash master-weights=true batch=2"},
		{"OpenRLHF's pairs with adapters, whose reference is another model", "a.sh",
			"python -m openrlhf.cli.train_dpo --pretrain a/b --micro_train_batch_size 1 --chosen_key c --zero_stage 2 --bf16 --lora_rank 8",
			"zero=2 lora=8 framework=openrlhf precision=bf16 optimizer=adamw-fused checkpointing=none attention=flash batch=2 reference=1 copies=1"},
		{"litgpt on one device, as no file names more", "a.sh",
			"litgpt finetune_full a/b --precision bf16-true --train.micro_batch_size 4 --train.global_batch_size 8 --train.max_seq_length 1024 --out_dir x",
			"precision=bf16 batch=4 seq=1024 framework=litgpt loss=cross-entropy lora-dtype=model gpus=1 accumulate=2"},
		{"a tokenizer's length", "a.py", "from transformers import Trainer, TrainingArguments\ndef tok(b):\n  return tokenizer(b['t'], truncation=True, max_length=256)\n" +
			"args = TrainingArguments(per_device_train_batch_size=16)\n", "batch=16 seq=256 framework=transformers trainer=true optimizer=adamw-fused"},
		{"a length that the program works out, beside one that it has", "a.py", "from transformers import Trainer, TrainingArguments\ndef tok(b):\n" +
			"  x = tokenizer(b['t'], truncation=True, max_length=n())\n  y = tokenizer(b['s'], truncation=True, max_length=64)\n" +
			"args = TrainingArguments(per_device_train_batch_size=16)\n", "batch=16 framework=transformers trainer=true optimizer=adamw-fused"},
		{"tokenizers' longest length, and that of labels", "a.py", "from transformers import Trainer, TrainingArguments\ndef tok(b):\n" +
			"  x = tokenizer(b['t'], truncation=True, max_length=256)\n  y = tokenizer(text_target=b['s'], truncation=True, max_length=64)\n" +
			"  z = tokenizer(b['q'], truncation=True, max_length=32)\n  tokenizer(b['u'], truncation=False, max_length=512)\n" +
			"args = TrainingArguments(per_device_train_batch_size=16)\n",
			"batch=16 seq=256 decoder-seq=64 framework=transformers trainer=true optimizer=adamw-fused"},
		{"a configuration's length before a tokenizer's", "a.py", "from trl import SFTConfig\nargs = SFTConfig(max_length=512, per_device_train_batch_size=1)\n" +
			"def tok(b):\n  return tokenizer(b['t'], truncation=True, max_length=64)\n",
			"seq=512 batch=1 framework=trl checkpointing=full precision=bf16-mixed optimizer=adamw-fused"},
		{"sound by the second", "a.sh", "python run_speech_recognition_ctc.py --model_name_or_path a/b --per_device_train_batch_size 8 --max_duration_in_seconds 10.0",
			"batch=8 framework=transformers trainer=true optimizer=adamw-fused padding=true seq=160000"},
		{"classes of what torchtitan keeps", "a.py", "def qwen3_32b():\n    return Trainer.Config(\n        training=TrainingConfig(local_batch_size=2, seq_len=4096),\n" +
			"        activation_checkpoint=FullAC.Config(),\n    )\n",
			"batch=2 seq=4096 checkpointing=full framework=torchtitan precision=bf16-mixed optimizer=adamw-fused loss=default fsdp=full allocator=expandable"},
		{"ms-swift's pairs, packed", "a.sh", "swift rlhf --rlhf_type dpo --model a/b --tuner_type full --packing true --per_device_train_batch_size 2",
			"framework=transformers trainer=true checkpointing=full precision=bf16 batch=2 reference=1 loss=log-probs-by-row"},
		{"LLaMA-Factory's pairs, which it never packs", "a.yaml", "model_name_or_path: a/b\nfinetuning_type: lora\nstage: dpo\npacking: true\nper_device_train_batch_size: 3",
			"framework=transformers trainer=true checkpointing=full optimizer=adamw-fused batch=6 reference=1 loss=log-probs lora=8"},
		{"SGLang's model by the other name", "a.sh", "python -m sglang.launch_server --model a/b --chunked-prefill-size 4096 --mem-fraction-static 0.8",
			"batch-tokens=4096 gpu-share=0.8 inference=true engine=sglang"},
	} {
		r, err := Read(tt.file, strings.NewReader(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var words []string
		for _, g := range r.Flags() {
			words = append(words, g.Name+"="+g.Value)
		}
		if got := strings.Join(words, " "); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// TestOpen: what isn't counted though a peak may depend on it is told apart from what is passed over.
func TestOpen(t *testing.T) {
	for _, tt := range []struct{ file, text, want string }{
		{"a.json", `{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}, "train_batch_size": "auto", "steps_per_print": 10}`, "bf16.enabled auto"},
		{"a.yaml", "base_model: x\nmicro_batch_size: 1\nrl: grpo\ntrl:\n  num_generations: 8\nlearning_rate: 1e-5", "rl grpo; trl.num_generations 8"},
		{"a.yaml", "model_name_or_path: a/b\nfinetuning_type: oft\nstage: dpo\nplot_loss: true",
			"finetuning_type oft"},
		{"a.yaml", "base_model: x\nmicro_batch_size: 1\nquantize_moe_experts: true\nplugins:\n  - axolotl.integrations.kd.KDPlugin",
			"quantize_moe_experts true; plugins axolotl.integrations.kd.KDPlugin"},
		{"a.toml", "[model]\nname='llama3'\nflavor='8B'\n[parallelism]\nenable_async_tensor_parallel=true\nexpert_tensor_parallel_degree=1\n[checkpoint]\ninterval=5",
			""},
		{"a.sh", "for tp in 2 4; do\nvllm serve a/b --tensor-parallel-size ${tp} --max-model-len 100 --port 8000\ndone", "tensor-parallel-size ${tp}"},
		{"a.yaml", "base_model: x\nmicro_batch_size: 1\nload_in_8bit: false\nbf16: auto\nexpert_parallel_size: 1", ""},
	} {
		r, err := Read(tt.file, strings.NewReader(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := strings.Join(r.Open, "; "); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.text, got, tt.want)
		}
		for _, x := range r.Open {
			if n := len([]rune(x)); n > clippedRunes {
				t.Errorf("%q is cut where it is told: %d", x, n)
			}
		}
	}
}

// TestTogether: what the Trainer is told and what DeepSpeed is told make one setting.
func TestTogether(t *testing.T) {
	var rs []*Recipe
	for _, text := range []string{`{"per_device_train_batch_size": 2, "bf16": true}`, `{"zero_optimization": {"stage": 2}}`} {
		r, err := Read("a.json", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	flags := Together(rs)
	for _, want := range []Flag{{"batch", "2"}, {"zero", "2"}, {"precision", "bf16"}, {"master-weights", "true"}} {
		if !slices.Contains(flags, want) {
			t.Errorf("no %v in %v", want, flags)
		}
	}
}

// TestTypesTogether: what is computed in never unpacks weights, in whichever order the files come.
func TestTypesTogether(t *testing.T) {
	const (
		factory  = "model_name_or_path: a/b\nfinetuning_type: lora\nquantization_bit: 4\nbf16: true"
		loaded16 = "per_device_train_batch_size: 1\nbf16: true\ntorch_dtype: bfloat16"
		plain    = "per_device_train_batch_size: 1\noutput_dir: x"
		wide     = "per_device_train_batch_size: 1\ndtype: float32"
		mixed    = "distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: bf16"
		zero     = `{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}`
		fsdp     = "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 2\nmixed_precision: 'no'"
		adapters = "per_device_train_batch_size: 1\nbf16: true\ntorch_dtype: bfloat16\nuse_peft: true\nlora_r: 8"
		pure     = "per_device_train_batch_size: 1\nbf16: false\ntorch_dtype: bfloat16"
		dpo      = "per_device_train_batch_size: 1\ndtype: bfloat16\nbeta: 0.1\nloss_type: sigmoid"
		axolotl  = "base_model: a/b\nmicro_batch_size: 2\nbf16: true"
	)
	for _, tt := range []struct{ a, b, want, master string }{
		{factory, mixed, "int4", ""}, {factory, zero, "int4", "true"}, {loaded16, mixed, "bf16", ""},
		{plain, mixed, "bf16-mixed", ""}, {plain, zero, "bf16", "true"}, {wide, mixed, "bf16-mixed", ""},
		// Accelerate's FSDP keeps what is trained in float32 where mixed precision is on
		{loaded16, fsdp, "bf16-mixed", ""}, {dpo, fsdp, "bf16-mixed", ""}, {pure, fsdp, "bf16", ""}, {adapters, fsdp, "bf16", ""},
		{axolotl, fsdp, "bf16", ""},
	} {
		for _, texts := range [][]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			var rs []*Recipe
			for _, text := range texts {
				r, err := Read("a.yaml", strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				rs = append(rs, r)
			}
			flags := Together(rs)
			if got, master := valueOf(flags, "precision"), valueOf(flags, "master-weights"); got != tt.want || master != tt.master {
				t.Errorf("%q: precision %s, master weights %q; want %s, %q", texts, got, master, tt.want, tt.master)
			}
		}
	}
}

// TestContradictions: fields of two files are named where they say two things, and what is computed in isn't one.
func TestContradictions(t *testing.T) {
	var rs []*Recipe
	for _, text := range []string{"base_model: a/b\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true",
		`{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4, "fp16": {"enabled": true}}`} {
		r, err := Read("a.yaml", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	got := strings.Join(Contradictions([]string{"a.yml", "ds.json"}, rs), "\n")
	if got != "fp16 of ds.json is what is computed in: weights stay bf16\na.yml says --batch 2 (micro_batch_size), ds.json says 8 (train_micro_batch_size_per_gpu): the latter counts" {
		t.Error(got)
	}
}

// TestApply: what a file leaves open, and what can't be as it says.
func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name  string
		texts []string
		gpus  int64
		open  string
	}{
		{"more ranks than GPUs", []string{"pretrain --num-layers 8 --hidden-size 64 --num-attention-heads 8 --seq-length 32 " +
			"--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --nproc_per_node 8"}, 16,
			"the file's 8 GPUs cannot be divided by --tp 4 x --pp 4 x --cp 1: counted on 16; give --gpus N"},
		{"a configuration that is named", []string{`{"per_device_train_batch_size": 1, "deepspeed": "conf/zero3.json", "max_seq_length": 8, "world_size": 2}`},
			2, "of conf/zero3.json the name alone is used: with --recipe it is read, too"},
		{"and read", []string{`{"per_device_train_batch_size": 1, "deepspeed": "conf/zero3.json", "max_seq_length": 8, "world_size": 2}`,
			`{"zero_optimization": {"stage": 3}}`}, 2, ""},
	} {
		var rs []*Recipe
		for _, text := range tt.texts {
			r, err := Read("", strings.NewReader(text))
			if err != nil {
				t.Fatal(tt.name, err)
			}
			rs = append(rs, r)
		}
		var s budget.Setting
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		SettingFlags(fl, &s)
		_, open, err := Apply(fl, rs, &s)
		if got := strings.Join(open, "; "); err != nil || s.GPUs != tt.gpus || got != tt.open {
			t.Errorf("%s: %v, %d GPUs, %q", tt.name, err, s.GPUs, got)
		}
	}
}

// TestTrainers: a file of TRL's that doesn't tell its trainer takes the one of the command beside it.
func TestTrainers(t *testing.T) {
	const file = "model_name_or_path: a/b\nper_device_train_batch_size: 4\nmax_length: 512\ndtype: bfloat16\n"
	for _, tt := range []struct{ command, more, want, head string }{
		{"", "", "batch=4", ""},
		{"trl sft --config a.yaml", "", "batch=4", ""},
		{"trl dpo --config a.yaml", "", "batch=8 reference=1", ""},
		{"trl dpo --config a.yaml", "use_peft: true\n", "batch=8 reference=1", ""},
		{"accelerate launch trl/scripts/reward.py --config a.yaml", "", "batch=8", "SequenceClassification"},
		{"trl dpo --config a.yaml", "packing: true\n", "batch=4", ""}, // the file is sft's: it counts
	} {
		var rs []*Recipe
		for name, text := range map[string]string{"a.yaml": file + tt.more, "a.sh": tt.command} {
			if text == "" {
				continue
			}
			r, err := Read(name, strings.NewReader(text))
			if err != nil {
				t.Fatal(tt.command, err)
			}
			rs = append(rs, r)
		}
		var s budget.Setting
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		SettingFlags(fl, &s)
		_, open, err := Apply(fl, rs, &s)
		got, head := fmt.Sprintf("batch=%d", s.Batch), ""
		if s.References > 0 {
			got += fmt.Sprintf(" reference=%d", s.References)
		}
		for _, r := range rs {
			head += r.Head
		}
		if err != nil || got != tt.want || head != tt.head || s.Checkpointing != "full" {
			t.Errorf("%s, %q: %s, %s, checkpointing %s, %v", tt.command, tt.more, got, head, s.Checkpointing, err)
		}
		if said := strings.Contains(strings.Join(open, "; "), "trainers"); said != (tt.command == "") {
			t.Errorf("%s: %q", tt.command, open)
		}
	}
}

// TestSizeInName: an error suggests the size that a name tells, and none of some experts only.
func TestSizeInName(t *testing.T) {
	for name, want := range map[string]string{"tencent/Hunyuan-0.5B-Instruct": "0.5B", "me/model_7b_chat": "7B", "a/Falcon-H1-1.5B": "1.5B",
		"x/SmolVLM-500M": "500M", "meta-llama/Llama-4-Scout-17B-16E": "8B", "me/own": "8B", "": "8B"} {
		if got := SizeInName(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestRefusals: what isn't a recipe, and what is one that nobody writes.
func TestRefusals(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 8), i-1)
	}
	for _, tt := range []struct{ name, file, text, want string }{
		{"aliases upon aliases", "a.yaml", bomb, "more than 20000 fields"},
		{"an alias in itself", "a.yaml", "a: &a\n  b: *a\n", "line 2: deeper than 64 levels"},
		{"depth in YAML", "a.yaml", strings.Repeat("[", 100) + strings.Repeat("]", 100), "deeper than 64"},
		{"depth in JSON", "a.json", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), "deeper than 64"},
		{"depth in TOML", "a.toml", "a = " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "deeper than 16"},
		{"many fields", "a.json", `{"a": [` + strings.Repeat(`{"b": {}},`, 10) + strings.Repeat(`{"b":1},`, 30_000) + `1]}`,
			"more than 20000 fields"},
		{"cut JSON", "a.json", `{"a": 1`, "offset 7: no JSON: unexpected EOF"},
		{"no YAML", "a.yaml", "a: [", "no YAML: line 1"},
		{"size", "a.yaml", strings.Repeat("#", maxBytes+1), "more than 1 MiB"},
		{"another file", "a.yaml", "services:\n  web: nginx\n", "no recipe of a known framework"},
		{"a run's own record", "run.json", `{"schema": "vramscope.run/1", "command": ["python", "train.py"], "model": "a"}`, "no recipe of a known framework"},
		{"nothing", "a.yaml", "", "no recipe of a known framework"},
		{"a program", "a.sh", "echo hello\nexit 1\n", "no recipe of a known framework"},
		{"a program that names one", "a.sh", "torchrun train.py --config conf/a.yaml\n", "the script names conf/a.yaml, which may be one"},
		{"containers upon containers", "a.yaml", strings.Repeat("- ", 100) + "image: x", "deeper than 64"},
	} {
		r, err := Read(tt.file, strings.NewReader(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", tt.name, r, err, tt.want)
		}
	}
	if _, err := Read("a.yaml", strings.NewReader("a: 1")); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// fuzz reads whatever it is given as one syntax. What is read keeps the bounds.
func fuzz(f *testing.F, end string) {
	paths, err := filepath.Glob("testdata/*" + end)
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read("fuzz"+end, bytes.NewReader(text))
		if err != nil {
			return
		}
		if n := len(r.Fields) + len(r.Ignored); n > maxFields+100 {
			t.Errorf("%d fields", n)
		}
		for _, x := range r.Fields {
			if len(x.Value) > maxText {
				t.Errorf("a value of %d bytes", len(x.Value))
			}
		}
		if fields, _ := r.Config(); fields != nil {
			text, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := budget.ReadConfig(bytes.NewReader(text)); err == nil {
				_, _ = budget.Count(c)
			}
		}
	})
}

func FuzzYAML(f *testing.F)      { fuzz(f, ".yaml") }
func FuzzTOML(f *testing.F)      { fuzz(f, ".toml") }
func FuzzJSON(f *testing.F)      { fuzz(f, ".json") }
func FuzzArguments(f *testing.F) { fuzz(f, ".sh") }
func FuzzPython(f *testing.F)    { fuzz(f, ".py") }

// TestRows: every row's meaning is known, and each section belongs to a format.
func TestRows(t *testing.T) {
	for _, x := range formats() {
		if len(x.rows) == 0 {
			t.Errorf("%s has no rows", x.name)
		}
		for _, r := range x.rows {
			if r.field == "" || r.means == nil {
				t.Errorf("%s: %q means nothing", x.name, r.field)
			}
		}
	}
	if n := strings.Count(rowsText, " = "); n < 400 {
		t.Errorf("%d rows", n)
	}
	for name := range meanings {
		if !strings.Contains(rowsText, " "+name+"\n") {
			t.Errorf("no row means %s", name)
		}
	}
}

// TestWhichHead: a class in a branch gives way to one outside, and a program that trains to what runs before and after it.
func TestWhichHead(t *testing.T) {
	const plain, branch = "AutoModelForSequenceClassification.from_pretrained('b')\n", "AutoModelForTokenClassification.from_pretrained('b')\n"
	for _, tt := range []struct{ file, text, head string }{
		{"a.py", "model = " + plain + "if x:\n    model = " + branch + "args = TrainingArguments(per_device_train_batch_size=4)\n", "SequenceClassification"},
		{"a.py", "if x:\n    model = " + branch + "model = " + plain + "args = TrainingArguments(per_device_train_batch_size=4)\n", "SequenceClassification"},
		{"a.py", "if x:\n    model = " + branch + "args = TrainingArguments(per_device_train_batch_size=4)\n", "TokenClassification"},
		{"a.sh", "python prepare.py\npython run_qa.py --model_name_or_path a/b --per_device_train_batch_size 4\npython eval.py --x 1\n", "QuestionAnswering"},
	} {
		r, err := Read(tt.file, strings.NewReader(tt.text))
		if err != nil || r.Head != tt.head || strings.HasPrefix(tt.text, "model") != (len(r.Open) == 1) {
			t.Errorf("%q: %v, head %s, open %q", tt.text, err, r.Head, r.Open)
		}
	}
}

// TestNamesOfWeights: what a recipe leaves untrained by name is told as its framework reads it; what isn't understood is open.
func TestNamesOfWeights(t *testing.T) {
	const (
		axolotl = "base_model: a/b\nmicro_batch_size: 1\nsequence_len: 64\nunfrozen_parameters:\n"
		factory = "model_name_or_path: a/b\nfinetuning_type: freeze\nstage: sft\n"
		swift   = "swift sft --model a/b --train_type full "
	)
	for _, tt := range []struct{ name, text, frozen, trained, open string }{
		{"a.yaml", axolotl + "  - ^lm_head\n  - model.layers.(1[0-9]|2{1,2})", "", "^lm_head,model.layers.(1[0-9]|2{1,2})", ""},
		{"a.yaml", axolotl + "  - ^model.embed_tokens.weight$[:32000]", "", "", "unfrozen_parameters"},
		{"a.yaml", axolotl + "  - ^model.(?!layers)", "", "", "unfrozen_parameters"},
		{"a.yaml", axolotl + "  - '*.norm'", "", "", "unfrozen_parameters"},
		{"a.yaml", axolotl + "  - a{1000}", "", "", "unfrozen_parameters"},
		{"a.yaml", factory, "", "-2", ""},
		{"a.yaml", factory + "freeze_trainable_layers: 3\nfreeze_extra_modules: norm", "", "-3,.*norm", ""},
		{"a.yaml", factory + "use_llama_pro: true", "", "", "use_llama_pro"},
		{"a.yaml", factory + "use_llama_pro: true\nfreeze_trainable_layers: 3", "", "", "use_llama_pro"},
		{"a.yaml", factory + "freeze_trainable_modules: mlp", "", "", "freeze_trainable_modules"},
		{"a.sh", swift + "--freeze_parameters model.visual lm_head", `model\.visual,lm_head`, "", ""},
		{"a.sh", swift + "--freeze_parameters_regex 'layers.(0|1)[.]'", ".*(?:layers.(0|1)[.])", "", ""},
		{"a.sh", swift + "--freeze_parameters a.b --freeze_parameters_regex norm", `a\.b,.*(?:norm)`, "", ""},
		{"a.sh", swift + "--freeze_parameters_regex 'x)|('", "", "", "freeze_parameters_regex"},
		{"a.sh", swift + "--freeze_parameters a --trainable_parameters a.b", "", "", "freeze_parameters"},
		{"a.sh", swift + "--freeze_parameters_ratio 1 --trainable_parameters lm_head --trainable_parameters_regex norm", "",
			"lm_head,.*(?:norm)", ""},
	} {
		r, err := Read(tt.name, strings.NewReader(tt.text))
		if err != nil {
			t.Fatal(tt.text, err)
		}
		open := strings.Join(r.Open, "; ")
		if valueOf(r.Flags(), "frozen") != tt.frozen || valueOf(r.Flags(), "trained") != tt.trained ||
			tt.open == "" && strings.Contains(open, "free") || !strings.Contains(open, tt.open) {
			t.Errorf("%s\n%s open: %s", tt.text, typed(r.Flags()), open)
		}
	}
}

// TestDiffusersScripts: what a script trains is told by its name where it is known, and open elsewhere; so are published models.
func TestDiffusersScripts(t *testing.T) {
	const v1, xl = "stable-diffusion-v1-5/stable-diffusion-v1-5", "stabilityai/stable-diffusion-xl-base-1.0"
	for _, tt := range []struct{ command, flags, open, called string }{
		{"train_text_to_image.py --use_ema --pretrained_model_name_or_path " + v1, "--copies 1 --resolution 512", "", "Stable Diffusion 1"},
		{"train_text_to_image.py --use_ema --offload_ema --pretrained_model_name_or_path CompVis/stable-diffusion-v1-4", "--resolution 512", "",
			"Stable Diffusion 1"},
		{"train_text_to_image_lora.py --pretrained_model_name_or_path " + v1, "--lora 4 --resolution 512", "", "Stable Diffusion 1"},
		{"train_text_to_image_sdxl.py --pretrained_model_name_or_path " + xl, "--resolution 1024", "", "Stable Diffusion XL"},
		{"train_dreambooth_lora_sdxl.py --with_prior_preservation --pretrained_model_name_or_path " + xl, "--lora 4 --resolution 1024",
			"with_prior_preservation", "Stable Diffusion XL"},
		{"textual_inversion.py --pretrained_model_name_or_path " + v1, "--resolution 512", "textual_inversion.py", "Stable Diffusion 1"},
		{"train_controlnet.py --pretrained_model_name_or_path " + v1, "", "train_controlnet.py", "Stable Diffusion 1"},
		{"train_instruct_pix2pix.py --pretrained_model_name_or_path " + v1, "", "train_instruct_pix2pix.py", "Stable Diffusion 1"},
		{"train_dreambooth.py --pretrained_model_name_or_path " + v1, "", "train_dreambooth.py", "Stable Diffusion 1"},
		{"train_text_to_image.py --pretrained_model_name_or_path a/stable-diffusion-v1-5-inpainting", "--resolution 512", "", ""},
		{"train_text_to_image.py --pretrained_model_name_or_path a/stable-diffusion-xlarge", "--resolution 512", "", ""},
		{"train_text_to_image.py --pretrained_model_name_or_path a/stable-diffusion-v1-5-something", "", "", ""},
		{"train_text_to_image.py --pretrained_model_name_or_path a/stable-diffusion-2-1-base", "", "", "Stable Diffusion 2"},
	} {
		r, err := Read("a.sh", strings.NewReader("accelerate launch "+tt.command+" --train_batch_size 1\n"))
		if err != nil {
			t.Fatal(tt.command, err)
		}
		got, open := typed(r.Flags())+" ", strings.Join(r.Open, "; ")
		for flag := range strings.SplitSeq(tt.flags, " --") {
			if !strings.Contains(got, strings.TrimPrefix(flag, "--")+" ") {
				t.Errorf("%s: no %s in %s", tt.command, flag, got)
			}
		}
		if _, called := r.Config(); called != tt.called || !strings.Contains(open, tt.open) || tt.open == "" && open != "" ||
			strings.Contains(got, "--copies") != strings.Contains(tt.flags, "--copies") {
			t.Errorf("%s: called %q, open %s, %s", tt.command, called, open, got)
		}
	}
}
