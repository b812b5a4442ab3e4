package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/internal/units"
	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/solve"
)

// checkProgram is a training of Transformers' own model in PyTorch's own loop, by the setting that the budget was asked for.
func checkProgram(config string, s *budget.Setting) (string, error) {
	switch {
	case s.Inference || s.GPUs > 1 || s.LoRA > 0 || s.Copies > 0 || s.Compile || s.Freeze > 0 ||
		s.Offload != "" && s.Offload != "none":
		return "", errors.New("--check runs full training on one GPU: nothing sharded, adapted, compiled, offloaded or served")
	case s.Framework != "" && s.Framework != "transformers" || s.Trainer || s.Loss != "" && s.Loss != "default":
		return "", errors.New("--check runs Transformers' model and loss in a loop of PyTorch: no other --framework, --trainer or --loss")
	case s.Checkpointing != "" && s.Checkpointing != "none" && s.Checkpointing != "full":
		return "", errors.New("--check knows --checkpointing none and full")
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
	var b strings.Builder
	fmt.Fprintf(&b, "import torch\nfrom transformers import AutoConfig, AutoModelForCausalLM\n"+
		"config = AutoConfig.from_pretrained(%q)\nconfig.use_cache = False\nwith torch.device(\"cuda\"):\n"+
		"    model = AutoModelForCausalLM.from_config(config, dtype=torch.%s%s)\nmodel.train()\n", config, dtype, attention)
	if s.Checkpointing == "full" {
		b.WriteString("model.gradient_checkpointing_enable({\"use_reentrant\": False})\n")
	}
	outputs := "outputs = model(input_ids=ids, labels=ids); loss = outputs.loss"
	if s.DropOutputs {
		outputs = "loss = model(input_ids=ids, labels=ids).loss"
	}
	fmt.Fprintf(&b, "optimizer = torch.optim.AdamW(model.parameters()%s)\nfor step in range(3):\n    for part in range(%d):\n"+
		"        ids = torch.zeros(%d, %d, dtype=torch.long, device=\"cuda\")\n"+
		"        with torch.autocast(\"cuda\", torch.bfloat16, enabled=%s):\n            %s\n        loss.backward()\n        outputs = loss = None\n    optimizer.step()\n    optimizer.zero_grad()\n", steps, max(s.Accumulate, 1), s.Batch, s.Sequence,
		map[bool]string{true: "True", false: "False"}[s.Precision == "bf16-mixed"], outputs)
	return b.String(), nil
}

// checkBudget runs that program on a simulated GPU, and tells its figures beside the budget's.
func checkBudget(config string, s *budget.Setting, gpu string, doc *budget.Document) (string, error) {
	if config == "" {
		return "", errors.New("--check needs the model's --config FILE")
	}
	path, err := filepath.Abs(config)
	if err != nil {
		return "", err
	}
	program, err := checkProgram(path, s)
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
		return "", errors.New("--check: python has no torch and transformers that run this model: " + lastLine(failed.Log))
	case err != nil:
		return "", fmt.Errorf("--check: %w", err)
	case !out.Fits:
		return fmt.Sprintf("checked on a simulated %s with torch %s: the framework's own code doesn't fit: %s", gpu, out.Torch,
			out.Lacks), nil
	}
	return fmt.Sprintf("checked on a simulated %s with torch %s: the framework's own code allocates %s at the peak, this answer has "+
		"%s (%+.1f %%); it reserves %s, this answer has %s (%+.1f %%)", gpu, out.Torch, units.Bytes(out.Allocated),
		units.Bytes(doc.PeakBytes), over(doc.PeakBytes, out.Allocated), units.Bytes(out.Reserved), units.Bytes(doc.Reserved),
		over(doc.Reserved, out.Reserved)), nil
}

func over(said, was int64) float64 { return 100 * (float64(said)/float64(max(was, 1)) - 1) }

// lastLine is a log's, as far as it fits a line.
func lastLine(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("%.200q", lines[len(lines)-1])
}
