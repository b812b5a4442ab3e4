package open

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
)

const (
	bert = `{"model_type": "bert", "architectures": ["BertForMaskedLM"], "num_hidden_layers": 2}`
	qwen = `{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 2, "torch_dtype": "bfloat16"}`
)

// TestProgram: a program's class has another head than the file of the model, and loads weights in a type of its own.
func TestProgram(t *testing.T) {
	const made = "m = AutoModelFor%.from_pretrained('x')\na = TrainingArguments(per_device_train_batch_size=4%)\n"
	for _, tt := range []struct{ config, head, more, precision, class, says string }{
		{bert, "SequenceClassification", "", "fp32", "BertForSequenceClassification", "the head is BertForSequenceClassification's"},
		{bert, "MaskedLM", ", fp16=True", "fp16-mixed", "BertForMaskedLM", ""},
		{bert, "ImageClassification", "", "fp32", "BertForMaskedLM", "isn't counted"},
		{qwen, "CausalLM", ", bf16=True", "bf16", "Qwen2ForCausalLM", "--precision bf16-mixed"},
		{qwen, "CausalLM", "", "bf16", "Qwen2ForCausalLM", "--precision fp32"},
		{qwen, "CausalLM", ", fp16=True", "fp16-mixed", "Qwen2ForCausalLM", ""},
		{qwen, "CausalLM", ", bf16=True, fsdp='full_shard'", "bf16-mixed", "Qwen2ForCausalLM", ""},
		{qwen, "SequenceClassification", ", bf16=True", "bf16", "Qwen2ForSequenceClassification", "the head is"},
	} {
		text := strings.Replace(strings.Replace(made, "%", tt.head, 1), "%", tt.more, 1)
		x, err := recipe.Read("a.py", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := budget.ReadConfig(strings.NewReader(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		r := Recipes{Files: []RecipeFile{{"a.py", x}}}
		var s budget.Setting
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		recipe.SettingFlags(fl, &s)
		s.GPUs = 8
		if _, err := r.Apply(fl, &s); err != nil {
			t.Fatal(err)
		}
		c = r.Program(c, fl, &s, false)
		said := strings.Join(r.Notes, "; ")
		if s.Precision != tt.precision || c.Architecture() != tt.class || !strings.Contains(said, tt.says) {
			t.Errorf("%s%s: %s, %s, %q", tt.head, tt.more, s.Precision, c.Architecture(), said)
		}
	}
}

// TestPacked: what TRL packs lies in one row under a mask, unless a kernel, positions or the user say otherwise.
func TestPacked(t *testing.T) {
	const file = "model_name_or_path: x\nlearning_rate: 1\ndataset_text_field: text\npacking: true\nper_device_train_batch_size: 4\nmax_length: 512\n"
	const llama = `{"model_type": "llama", "num_hidden_layers": 2}`
	for _, tt := range []struct {
		config, more, flags string
		batch, seq          int64
		padding             bool
		says                string
	}{
		{llama, "", "", 1, 2048, true, "4 sequences of 512 tokens lies packed in one row under"},
		{llama, "", "--seq 256", 1, 1024, true, "of 256 tokens"},
		{llama, "", "--batch 8", 1, 4096, true, "8 sequences"},
		{llama, "", "--attention flash", 4, 512, false, ""},
		{llama, "attn_implementation: flash_attention_2\n", "", 4, 512, false, ""},
		{llama, "", "--padding=false", 4, 512, false, ""},
		{llama, "packing_strategy: wrapped\n", "", 4, 512, false, ""},
		{llama, "", "--batch 1099511627776 --seq 1099511627776", 1 << 40, 1 << 40, false, ""},
		{`{"model_type": "gpt2", "n_layer": 2}`, "", "", 4, 512, false, "whose mask isn't counted"},
	} {
		x, err := recipe.Read("a.yaml", strings.NewReader(file+tt.more))
		if err != nil {
			t.Fatal(err)
		}
		c, err := budget.ReadConfig(strings.NewReader(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		var s budget.Setting
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		recipe.SettingFlags(fl, &s)
		if err := fl.Parse(strings.Fields(tt.flags)); err != nil {
			t.Fatal(err)
		}
		r := Recipes{Files: []RecipeFile{{"a.yaml", x}}}
		if _, err := r.Apply(fl, &s); err != nil {
			t.Fatal(err)
		}
		r.Packed(c, fl, &s)
		said := strings.Join(r.Notes, "; ")
		if s.Batch != tt.batch || s.Sequence != tt.seq || s.Padding != tt.padding || !strings.Contains(said, tt.says) ||
			tt.says == "" && strings.Contains(said, "packed") {
			t.Errorf("%s%s %s: %d x %d, padding %v, %q", tt.config, tt.more, tt.flags, s.Batch, s.Sequence, s.Padding, said)
		}
	}
}
