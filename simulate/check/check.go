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
	"github.com/vramscope/vramscope/internal/units"
	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/solve"
)

// taken are the fields of a setting that the program goes by, or that are refused with words of their own.
var taken = []string{"precision", "batch", "seq", "gpus", "optimizer", "checkpointing", "accumulate", "attention", "drop-outputs",
	"framework"}

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

// Program is a training of Transformers' own model in PyTorch's own loop, by the setting of a budget; an error where the
// setting has what no program is made for.
func Program(config string, s *budget.Setting) (string, error) {
	if err := refused(s); err != nil {
		return "", err
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
	for i := range budget.Fields {
		if f := &budget.Fields[i]; f.Said(s) && !slices.Contains(taken, f.Name) {
			return fmt.Errorf("--check runs full training on one GPU by Transformers' model and loss in a loop of PyTorch: "+
				"it makes no program with --%s", f.Name)
		}
	}
	switch {
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
func Budget(config string, s *budget.Setting, gpu string, doc *budget.Document, hidden bool) (string, error) {
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
	program, err := Program(path, s)
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
	return fmt.Sprintf(": %.200q (it needs a python with torch and transformers)", lines[len(lines)-1])
}
