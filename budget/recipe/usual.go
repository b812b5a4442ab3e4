package recipe

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
)

// usual is what a framework's own files or scripts say where a training's flags name the framework and nothing else. What
// files have on or off as the model needs, such as checkpointing, isn't among it; litgpt's scripts checkpoint where they shard.
var usual = map[string][]Flag{
	"torchtune":  {{"optimizer", "adamw-fused"}, {"loss", "chunked"}, {"fsdp", "full"}, {"lora-dtype", "model"}},
	"torchtitan": {{"precision", "bf16-mixed"}, {"optimizer", "adamw-fused"}, {"fsdp", "full"}},
	"litgpt": {{"loss", "cross-entropy"}, {"fsdp", "full"}, {"checkpointing", "full"}, {"lora-dtype", "model"},
		{"lora-targets", "qv"}, {"lora-dropout", "0.05"}},
}

// Usual sets what the framework that the user has named does unasked, and gives these flags as text, empty without any.
func Usual(fl *pflag.FlagSet, s *budget.Setting) string {
	if !fl.Changed("framework") || s.Inference {
		return ""
	}
	many := s.GPUs > max(s.TP, 1)*max(s.PP, 1)
	var said []string
	for _, g := range usual[s.Framework] {
		alone := g.Name == "fsdp" || s.Framework == "litgpt" && g.Name == "checkpointing" // where there is more than one GPU
		switch {
		case fl.Changed(g.Name), alone && (!many || s.Zero > 0), strings.HasPrefix(g.Name, "lora-") && s.LoRA == 0:
			continue
		}
		if fl.Lookup(g.Name).Value.Set(g.Value) == nil {
			said = append(said, "--"+g.Name+" "+g.Value)
		}
	}
	return strings.Join(said, " ")
}
