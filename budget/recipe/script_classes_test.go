package recipe

import (
	"strings"
	"testing"
)

// TestCheckpointingIsSwitchedOn: by a call on the model, which may stand in a branch.
func TestCheckpointingIsSwitchedOn(t *testing.T) {
	const trains = "args = TrainingArguments(per_device_train_batch_size=2)\nmodel = AutoModelForCausalLM.from_pretrained('a/b')\n"
	for text, open := range map[string]bool{trains + "model.gradient_checkpointing_enable()\n": false,
		trains + "if small:\n  model.gradient_checkpointing_enable()\n": true} {
		r, err := Read("a.py", strings.NewReader(text))
		if err != nil || valueOf(r.Flags(), "checkpointing") != "full" || open != strings.Contains(strings.Join(r.Open, ";"), "gradient_checkpointing true (in a branch)") {
			t.Errorf("%s: %v %v", text, err, r)
		}
	}
}

// TestClassesOfSettings: fields of a class of a program's own count, unless something may give them other values.
func TestClassesOfSettings(t *testing.T) {
	const class = "@dataclass\nclass C:\n  name: str = 'a/b'\n  batch: int = 4\n  long: int = field(default=512)\n"
	const trains = "SFTTrainer(model=cfg.name, args=SFTConfig(per_device_train_batch_size=cfg.batch, max_length=cfg.long))\n"
	for _, tt := range []struct{ name, text, model, batch, seq string }{
		{"an object", class + "cfg = C()\n" + trains, "a/b", "4", "512"},
		{"an argument of its type", class + "def main(cfg: C):\n  " + trains + "main(C())\n", "a/b", "4", "512"},
		{"the class itself", strings.ReplaceAll(class+trains, "cfg.", "C."), "a/b", "4", "512"},
		{"another value in a call", class + "def main(cfg: C):\n  " + trains + "main(C(batch=16))\n", "a/b", "", "512"},
		{"another value in a line", class + "cfg = C()\ncfg.long = n\n" + trains, "a/b", "4", ""},
		{"values by place", class + "cfg = C('c/d', 2)\n" + trains, "", "", ""},
		{"a parser of the command line", class + "cfg: C = HfArgumentParser(C).parse()\n" + trains, "", "", ""},
		{"a dictionary", "CONF = {'batch': 4, 'name': 'a/b'}\nSFTTrainer(model=CONF['name'], args=SFTConfig(per_device_train_batch_size=CONF['batch'], " +
			"max_length=CONF['none']))\n", "a/b", "4", ""},
	} {
		r, err := Read("a.py", strings.NewReader(tt.text))
		if err != nil {
			r = &Recipe{}
		}
		if batch, seq := valueOf(r.Flags(), "batch"), valueOf(r.Flags(), "seq"); r.Model != tt.model ||
			tt.batch != "" && batch != tt.batch || tt.seq != "" && seq != tt.seq || tt.batch == "" && batch == "4" || tt.seq == "" && seq == "512" {
			t.Errorf("%s: %v, model %q, batch %q, length %q", tt.name, err, r.Model, batch, seq)
		}
	}
}
