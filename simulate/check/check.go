// Package check holds a budget against the framework's own code, run on a simulated GPU.
package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/settings"
	"github.com/vramscope/vramscope/internal/units"
	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/solve"
)

// taken are the fields of a setting that the program goes by, or that are refused with words of their own.
var taken = []string{"precision", "batch", "seq", "gpus", "optimizer", "checkpointing", "accumulate", "attention", "drop-outputs",
	"framework", "trainer", "padding"}

// text is the program, but for what a setting puts in.
const text = `import torch
from transformers import AutoConfig, AutoModelForCausalLM

config = AutoConfig.from_pretrained(%q)
config.use_cache = False
with torch.device("cuda"):
    model = AutoModelForCausalLM.from_config(config, dtype=torch.%s%s)
model.train()
%soptimizer = torch.optim.AdamW(model.parameters()%s)
for step in range(3):
    for part in range(%d):
        ids = torch.zeros(%d, %d, dtype=torch.long, device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=%s):
            %s
        loss.backward()
        outputs = loss = None
    optimizer.step()
    optimizer.zero_grad()
`

// trained is the program of Transformers' own Trainer.
const trained = `import torch
import transformers
from transformers import AutoConfig, Trainer, TrainingArguments

config = AutoConfig.from_pretrained(%q%s)
with torch.device("cuda"):
    model = transformers.%s.from_config(config, dtype=torch.%s%s)

class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return %d

    def __getitem__(self, index):
        ids = torch.ones(%d, dtype=torch.long)
        return {"input_ids": ids, "labels": %s%s}

args = TrainingArguments(output_dir="out", max_steps=3, report_to=[], save_strategy="no", disable_tqdm=True,
                         per_device_train_batch_size=%d, gradient_accumulation_steps=%d, optim=%q%s)
Trainer(model=model, args=args, train_dataset=Sentences()).train()
`

// trainer is a training by Transformers' Trainer of a model of a class, with the head that this names.
func trainer(config string, c *budget.Config, s *budget.Setting) (string, error) {
	kinds := map[string][2]string{"bf16": {"bfloat16", ", bf16=True"}, "": {"bfloat16", ", bf16=True"}, "fp32": {"float32", ""},
		"bf16-mixed": {"float32", ", bf16=True"}, "fp16-mixed": {"float32", ", fp16=True"}}
	optimizers := map[string]string{"": "adamw_torch_fused", "adamw": "adamw_torch", "adamw-fused": "adamw_torch_fused",
		"adafactor-hf": "adafactor"}
	kind, known := kinds[s.Precision]
	optimizer, fine := optimizers[s.Optimizer]
	if !known || !fine {
		return "", errors.New("--check knows a Trainer in --precision bf16, fp32, bf16-mixed and fp16-mixed, with adamw, " +
			"adamw-fused and adafactor-hf")
	}
	class, labels, count := "AutoModelForCausalLM", "ids", ""
	switch name := c.Architecture(); {
	case strings.HasSuffix(name, "ForSequenceClassification"):
		class, labels, count = "AutoModelForSequenceClassification", "0", fmt.Sprintf(", num_labels=%d", c.Labels())
	case strings.HasSuffix(name, "ForMaskedLM"):
		class = "AutoModelForMaskedLM"
	case !strings.HasSuffix(name, "ForCausalLM") && !strings.HasSuffix(name, "LMHeadModel"):
		return "", fmt.Errorf("--check trains language models and classifiers of sentences by a Trainer, not %.60q", name)
	}
	attention, mask, more := "", "", kind[1]
	if s.Attention == "eager" || s.Attention == "sdpa" {
		attention = fmt.Sprintf(", attn_implementation=%q", s.Attention)
	}
	if s.Padding {
		mask = ", \"attention_mask\": ids"
	}
	if s.Checkpointing == "full" {
		more += ", gradient_checkpointing=True"
	}
	parts := max(s.Accumulate, 1)
	return fmt.Sprintf(trained, config, count, class, kind[0], attention, 3*parts*s.Batch, s.Sequence, labels, mask, s.Batch,
		parts, optimizer, more), nil
}

// Program is a training of Transformers' own model in PyTorch's own loop, or in Transformers' Trainer, by the setting of a
// budget; an error where the setting has what no program is made for.
func Program(config string, c *budget.Config, s *budget.Setting) (string, error) {
	if err := refused(s); err != nil {
		return "", err
	}
	if s.Trainer {
		return trainer(config, c, s)
	}
	types := map[string]string{"": "bfloat16", "bf16": "bfloat16", "fp32": "float32", "bf16-mixed": "float32"}
	optimizers := map[string]string{"": "", "adamw": "", "adamw-fused": ", fused=True", "adamw-loop": ", foreach=False"}
	dtype, known := types[s.Precision]
	steps, fine := optimizers[s.Optimizer]
	if !known || !fine {
		return "", errors.New("--check knows --precision bf16, fp32 and bf16-mixed, and AdamW: adamw, adamw-fused, adamw-loop")
	}
	attention := ""
	if s.Attention == "eager" || s.Attention == "sdpa" {
		attention = fmt.Sprintf(", attn_implementation=%q", s.Attention)
	}
	checkpointing, forward := "", "outputs = model(input_ids=ids, labels=ids); loss = outputs.loss"
	if s.Checkpointing == "full" {
		checkpointing = "model.gradient_checkpointing_enable({\"use_reentrant\": False})\n"
	}
	if s.DropOutputs {
		forward = "loss = model(input_ids=ids, labels=ids).loss"
	}
	autocast := map[bool]string{true: "True", false: "False"}[s.Precision == "bf16-mixed"]
	return fmt.Sprintf(text, config, dtype, attention, checkpointing, steps, max(s.Accumulate, 1), s.Batch, s.Sequence, autocast,
		forward), nil
}

// refused says what of a setting no program is made for.
func refused(s *budget.Setting) error {
	for i := range settings.Fields {
		if f := &settings.Fields[i]; f.Said(s) && !slices.Contains(taken, f.Name) {
			return fmt.Errorf("--check runs full training on one GPU by Transformers' model and loss, in a loop of PyTorch "+
				"or Transformers' Trainer: it makes no program with --%s", f.Name)
		}
	}
	switch {
	case s.Padding && !s.Trainer:
		return errors.New("--check knows --padding with --trainer alone")
	case s.GPUs > 1:
		return errors.New("--check runs one GPU, and the setting has more")
	case s.Framework != "" && s.Framework != "transformers":
		return fmt.Errorf("--check runs Transformers' model in a loop of PyTorch, not --framework %s", s.Framework)
	case s.Checkpointing != "" && s.Checkpointing != "none" && s.Checkpointing != "full":
		return errors.New("--check knows --checkpointing none and full")
	}
	return nil
}

// Budget runs that program on a simulated GPU, and tells its figures beside the budget's. What the program says is left out
// where names are hidden.
func Budget(config string, c *budget.Config, s *budget.Setting, gpu string, doc *budget.Document, hidden bool) (string, error) {
	if gpu == "all" {
		return "", errors.New("--check runs one --gpu, not all of them")
	}
	if config == "" {
		return "", errors.New("--check needs the model's --config FILE")
	}
	path, err := filepath.Abs(config)
	if err != nil {
		return "", err
	}
	program, err := Program(path, c, s)
	if err != nil {
		return "", err
	}
	on, err := simulate.Read(gpu)
	if err != nil {
		return "", fmt.Errorf("--check: %w", err)
	}
	dir, err := os.MkdirTemp("", "vramscope-check-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "check.py")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		return "", err
	}
	out, err := solve.Run(&vrun.Options{Command: []string{"python", file}, Dir: filepath.Join(dir, "run"), Simulated: on})
	var failed *solve.Failed
	switch {
	case errors.As(err, &failed):
		return "", errors.New("--check: the model's own code ended with " + failed.Ending + plainly(failed.Log, hidden))
	case err != nil:
		return "", fmt.Errorf("--check: %w", err)
	case !out.Fits:
		return fmt.Sprintf("checked on a simulated %s with torch %s: the framework's own code doesn't fit: %s", gpu, out.Torch,
			out.Lacks), nil
	}
	return fmt.Sprintf("checked on a simulated %s with torch %s: the framework's own code allocates %s at the peak, this "+
		"answer has %s (%+.1f %%); it reserves %s, this answer has %s (%+.1f %%)", gpu, out.Torch, units.Bytes(out.Allocated),
		units.Bytes(doc.PeakBytes), over(doc.PeakBytes, out.Allocated), units.Bytes(out.Reserved), units.Bytes(doc.Reserved),
		over(doc.Reserved, out.Reserved)), nil
}

func over(said, was int64) float64 { return 100 * (float64(said)/float64(max(was, 1)) - 1) }

// plainly is a log's last line, as far as it fits a line, behind what it explains; "" where names are hidden.
func plainly(name string, hidden bool) string {
	text, err := os.ReadFile(name)
	if err != nil || hidden {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf(": %.200q (it needs a python with torch and transformers, for a Trainer with accelerate, too)",
		lines[len(lines)-1])
}
