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
