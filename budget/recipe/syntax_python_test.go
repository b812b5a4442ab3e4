package recipe

import (
	"strings"
	"testing"
)

const severalSettings = `
from torchtitan.trainer import Trainer

BATCH = 4


def llama3_8b() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("8B"),
        optimizer=OptimizersContainer.Config(lr=3e-4),
        training=TrainingConfig(local_batch_size=BATCH, seq_len=8_192, steps=10 * 100),
        activation_checkpoint=ActivationCheckpointConfig(mode="selective"),
    )


def llama3_8b_float8() -> Trainer.Config:
    config = llama3_8b()
    config.model_converters = ModelConvertersContainer.Config(
        converters=[Float8LinearConverter.Config(enable_fsdp_float8_all_gather=True)],
    )
    config.training.local_batch_size = 2
    return config
`

// TestPythonSettings: settings of one function, of another that changes them, and which of several is asked for.
func TestPythonSettings(t *testing.T) {
	for name, want := range map[string]string{
		"a.py::llama3_8b":        "--batch 4 --seq 8192 --checkpointing op",
		"a.py::llama3_8b_float8": "--batch 2 --seq 8192 --checkpointing op --float8 --float8-all-gather",
	} {
		r, err := Read(name, strings.NewReader(severalSettings))
		if err != nil {
			t.Error(name, err)
			continue
		}
		got := typed(r.Flags())
		for _, w := range strings.Split(want, " --") {
			if !strings.Contains(got+" ", strings.TrimPrefix(w, "--")) {
				t.Errorf("%s: %s is missing in %s", name, w, got)
			}
		}
		if !strings.Contains(r.Model, "llama3 8b") {
			t.Errorf("%s: %q", name, r.Model)
		}
	}
	if _, err := Read("a.py", strings.NewReader(severalSettings)); err == nil || !strings.Contains(err.Error(), "::llama3_8b") {
		t.Error(err)
	}
	if file, function := Place("http://[::1]/a.yaml"); file != "http://[::1]/a.yaml" || function != "" {
		t.Errorf("an address with colons is %q, %q", file, function)
	}
	if _, err := Read("a.py::other", strings.NewReader(severalSettings)); err == nil {
		t.Error("a function that isn't there")
	}
}

// TestPythonBranches: what a condition decides is named, and a variable that one sets isn't known.
func TestPythonBranches(t *testing.T) {
	const text = `
def main():
    dtype = torch.float16
    if args.bf16:
        dtype = torch.bfloat16
    if args.four:
        bnb = BitsAndBytesConfig(load_in_4bit=True)
    elif args.eight:
        bnb = BitsAndBytesConfig(load_in_8bit=True)
    with something():
        model = AutoModelForCausalLM.from_pretrained("a/b", torch_dtype=dtype, attn_implementation="sdpa")
    args = TrainingArguments("out", per_device_train_batch_size=4)

if __name__ == "__main__":
    trainer = SFTTrainer(model, max_seq_length=512)
    main()
`
	r, err := Read("a.py", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := "torch_dtype, which the program works out; load_in_4bit True (in a branch); load_in_8bit True (in a branch)"
	if got := strings.Join(r.Open, "; "); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestPythonScripts: what training scripts say in calls.
func TestPythonScripts(t *testing.T) {
	for name, tt := range map[string]struct{ text, format, flags string }{
		"adapters": {`
model_id = "Qwen/Qwen2.5-7B"
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True)
model = AutoModelForCausalLM.from_pretrained(model_id, quantization_config=bnb, attn_implementation="flash_attention_2")
args = SFTConfig(per_device_train_batch_size=2, max_length=4096, output_dir=f"out/{model_id}", learning_rate=2e-4)
trainer = SFTTrainer(model=model, args=args, peft_config=LoraConfig(r=32, target_modules=["q_proj", "v_proj"]))
`, "TRL arguments", "--precision int4 --attention flash --batch 2 --seq 4096 --lora 32 --lora-targets q_proj,v_proj"},
		"adapters without TRL": {`
args = TrainingArguments("out", per_device_train_batch_size=4, bf16=True)
model = get_peft_model(AutoModelForCausalLM.from_pretrained("a/b"), LoraConfig(r=8))
Trainer(model, args).train()
`, "TrainingArguments", "--lora 8 --batch 4 --precision bf16-mixed --optimizer adamw-fused"},
		"whole": {`
from transformers import TrainingArguments
args = TrainingArguments("out", per_device_train_batch_size=4, bf16=True, optim="adamw_torch_fused")
`, "TrainingArguments", "--batch 4 --precision bf16-mixed --optimizer adamw-fused"},
		"in functions": {`
def main(batch=1):
    rate = 1e-4 * \
        world
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
    if world > 1: rate = rate / 2; bits = 8
    args = SFTConfig(per_device_train_batch_size=batch,
max_length=2048)
`, "TRL arguments", "--batch 1 --seq 2048"},
		"nothing else": {"per_device = 4\nargs = TrainingArguments(per_device_train_batch_size=per_device * 2, bf16=True)\n",
			"", ""},
	} {
		r, err := Read("train.py", strings.NewReader(tt.text))
		if tt.format == "" {
			if err == nil {
				t.Errorf("%s: %s", name, typed(r.Flags()))
			}
			continue
		}
		if err != nil || r.Format != tt.format {
			t.Errorf("%s: %v, %v", name, r, err)
			continue
		}
		got := " " + typed(r.Flags()) + " "
		for _, w := range strings.Split(strings.TrimPrefix(tt.flags, "--"), " --") {
			if !strings.Contains(got, " --"+w+" ") {
				t.Errorf("%s: --%s is missing in%s", name, w, got)
			}
		}
	}
}

// TestPythonBroken: what is no Python, or is made to go deep, ends soon and without a recipe.
func TestPythonBroken(t *testing.T) {
	for _, text := range []string{"", "x = '", strings.Repeat("(", 1<<16), "a = " + strings.Repeat("f(x=", 1<<15),
		strings.Repeat("[", 1<<16) + "1", "def f(", "return", "a.b.c.d(", "f(a=1", "1e", "f(**{'a': 1})", "\\", "a = = 1", "x: int = 3"} {
		if r, err := Read("a.py", strings.NewReader(text)); err == nil {
			t.Errorf("%.20q: %v", text, r)
		}
	}
}

// TestPythonChanging: a name that is changed, or one of several that one value is taken apart for, stands for no constant.
func TestPythonChanging(t *testing.T) {
	r, err := Read("train.py", strings.NewReader(`
batch = 2
batch = batch // world
length = 3072
length //= 2
if length == 3072: length += 1
rank, rows = sizes
args = SFTConfig(model_name_or_path="Qwen/Qwen2.5-7B", per_device_train_batch_size=batch, max_length=length, lora_r=rank,
    gradient_accumulation_steps=rows, attn_implementation=f"{kind}_attention", bf16=True)
`))
	if err != nil {
		t.Fatal(err)
	}
	if open := strings.Join(r.Open, "; "); !strings.Contains(open, "max_length, which the program works out") ||
		!strings.Contains(open, "per_device_train_batch_size") || strings.Contains(open, "bf16") {
		t.Errorf("open: %s", open)
	}
	got := " " + typed(r.Flags()) + " "
	for _, w := range []string{"--batch 2 ", "--seq 3072", "--lora", "--accumulate", "--attention"} {
		if strings.Contains(got, " "+w) {
			t.Errorf("%s is told by%s", w, got)
		}
	}
}

// TestPythonNested: settings stand in dictionaries, functions without a name and beside one another, too.
func TestPythonNested(t *testing.T) {
	r, err := Read("train.py", strings.NewReader(`
source, target = 512, 96
loading = dict(dtype="bfloat16")
data = raw.map(lambda b, i: tokenizer(b["text"], truncation=True, max_length=source), batched=True)
labels = tokenizer(text_target=x, truncation=True, max_length=target)
args = SFTConfig(model_init_kwargs={"attn_implementation": "eager", **other, "use_cache": False}, bf16=True, per_device_train_batch_size=1)
trainer = SFTTrainer(model="a/b", args=args)
again = SFTConfig(model_init_kwargs=loading)
`))
	if err != nil {
		t.Fatal(err)
	}
	got := " " + typed(r.Flags()) + " "
	for _, w := range []string{"--seq 512", "--decoder-seq 96", "--precision bf16", "--attention eager"} {
		if !strings.Contains(got, " "+w+" ") {
			t.Errorf("no %s in%s", w, got)
		}
	}
}

// TestPythonDicts: a dictionary that is changed anywhere, or is one of several, stands for no constant.
func TestPythonDicts(t *testing.T) {
	for text, constant := range map[string]bool{"": true, "print(kw['x'])": true, "y = {**kw}": true, "kw['attn_implementation'] = 'sdpa'": false,
		"kw |= more": false, "kw.update(more)": false, "kw.pop('dtype')": false, "kw.setdefault('a', 1)": false, "if x: kw = {}": false,
		"del kw['dtype']": false, "other = kw": false, "def f():\n    kw['dtype'] = 'float32'": false} {
		for _, late := range []bool{false, true} {
			use := "args = SFTConfig(model_init_kwargs=kw, per_device_train_batch_size=1)\n"
			program := "kw = {'dtype': 'bfloat16'}\n" + text + "\n" + use
			if late {
				program = "kw = {'dtype': 'bfloat16'}\n" + use + text + "\n"
			}
			r, err := Read("train.py", strings.NewReader(program))
			if err != nil {
				t.Fatal(text, err)
			}
			open := strings.Contains(strings.Join(r.Open, " "), "model_init_kwargs")
			if got := valueOf(r.Flags(), "precision") == "bf16"; got != constant || open == constant {
				t.Errorf("%q: %s", text, typed(r.Flags()))
			}
		}
	}
	r, err := Read("train.py", strings.NewReader("kw = {'dtype': 'bfloat16'} if x else {'dtype': 'float32'}\n"+
		"args = SFTConfig(model_init_kwargs=kw, per_device_train_batch_size=1)"))
	if err != nil || valueOf(r.Flags(), "precision") == "bf16" {
		t.Error(err, typed(r.Flags()))
	}
}

// TestPythonFrozen: what isn't trained is told by the lines that programs have for it; what isn't understood is named.
func TestPythonFrozen(t *testing.T) {
	const tail, all = "trainer = Trainer(model=model, args=TrainingArguments(output_dir='x', per_device_train_batch_size=1, bf16=True))\n",
		"for p in model.parameters():\n    p.requires_grad = False\n"
	const load = "model = AutoModelForCausalLM.from_pretrained('x')\n"
	const each = "for n, p in model.named_parameters():\n"
	for _, tt := range []struct{ text, frozen, trained, open string }{
		{load + "for p in model.roberta.embeddings.parameters():\n    p.requires_grad = False", `roberta\.embeddings\.`, "", ""},
		{load + "model.vit.requires_grad_(False)", `vit\.`, "", ""},
		{load + "model.vit.requires_grad_(requires_grad=False)", `vit\.`, "", ""},
		{load + "model.lm_head.weight.requires_grad = False", `lm_head\.weight$`, "", ""},
		{load + "model.freeze_encoder()", `(model\.)?encoder\.`, "", ""},
		{load + all + "for p in model.fc.parameters():\n  p.requires_grad = True", "", `fc\.`, ""},
		{load + all + "for p in model.fc.parameters(): p.requires_grad_(True)", "", `fc\.`, ""},
		{load + all + "model.fc.weight.requires_grad = True", "", `fc\.weight$`, ""},
		{load + each + "    if 'lm_head' not in n:\n        p.requires_grad = False", "", ".*lm_head", ""},
		{load + each + "    if n.startswith('bert.pooler'):\n        p.requires_grad = False", `bert\.pooler`, "", ""},
		{load + each + "    if 'head' in n:\n        p.requires_grad = True\n    else:\n        p.requires_grad = False", "", ".*head", ""},
		{load + each + "    if 'head' not in n: p.requires_grad = True\n    else: p.requires_grad = False", ".*head", "", ""},
		{"model, tok = FastLanguageModel.from_pretrained('x')\nmodel.vit.requires_grad_(False)", `vit\.`, "", ""},
		{load + "model = model.to('cuda')\nmodel.config.use_cache = False\nmodel.vit.requires_grad_(False)", `vit\.`, "", ""},
		{"if __name__ == '__main__':\n    model = AutoModel.from_pretrained('x')\n    model.vit.requires_grad_(False)", `vit\.`, "", ""},
		// other models
		{load + "ref = copy.deepcopy(model)\nref.requires_grad_(False)", "", "", ""},
		{load + "ref_model = AutoModel.from_pretrained('y')\nfor p in ref_model.parameters():\n    p.requires_grad = False", "", "", ""},
		{load + "teacher = AutoModel.from_pretrained('y').eval()\nteacher.requires_grad_(False)", "", "", ""},
		{load + "tower = AutoModel.from_pretrained('y')\nmodel.tower = tower\ntower.requires_grad_(False)", "", "", "open"},
		{"base = AutoModel.from_pretrained('y')\nmodel = Classifier(base)\nbase.requires_grad_(False)", "", "", "open"},
		// what only reads
		{load + "n = sum(p.numel() for p in model.parameters() if p.requires_grad)\nfor x in model.parameters():\n    print(x)", "", "", ""},
		{load + "opt = AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1)", "", "", ""},
		// not understood
		{load + each + "    if n in kept:\n        p.requires_grad = False", "", "", "open"},
		{load + each + "    p.requires_grad = 'head' in n", "", "", "open"},
		{load + each + "    if 'a' in n:\n        p.requires_grad = False\n    elif 'b' in n:\n        p.requires_grad = False", "", "", "open"},
		{load + "if careful:\n    for p in model.bert.parameters():\n        p.requires_grad = False", "", "", "open"},
		{load + "if careful: model.bert.requires_grad_(False)", "", "", "open"},
		{load + "model.requires_grad_(False)", "", "", "open"},
		{load + all + "for layer in model.model.layers[-4:]:\n    for p in layer.parameters():\n        p.requires_grad = True", "", "", "open"},
		{load + all + "for layer in model.model.layers[-4:]:\n    layer.requires_grad_(True)", "", "", "open"},
		{load + "model.vit.requires_grad_(False)\nfor l in model.layers[:8]:\n    l.requires_grad_(False)", "", "", "open"},
		{load + "model.model.layers[:8].requires_grad_(False)", "", "", "open"},
		{load + "for p in model.get_input_embeddings().parameters():\n    p.requires_grad = False", "", "", "open"},
		{load + "model.get_input_embeddings().requires_grad_(False)", "", "", "open"},
		{load + "for p in list(model.parameters())[:-2]:\n    p.requires_grad = False", "", "", "open"},
		{load + all + "head = model.lm_head\nhead.requires_grad_(True)", "", "", "open"},
		{load + all + "for p in model.lm_head.parameters():\n    setattr(p, 'requires_grad', True)", "", "", "open"},
		{load + "def hook(module, input, output):\n    output.requires_grad_(True)", "", "", "open"},
		{load + "def freeze(model):\n    for p in model.vit.parameters():\n        p.requires_grad = False\n", "", "", "open"},
		{load + "freeze_layers(model, 4)", "", "", "open"},
		{load + "model.freeze_base_model()", "", "", "open"},
		{load + "inputs_embeds.requires_grad_(True)", "", "", "open"},
		{load + "[p.requires_grad_(False) for p in model.vit.parameters()]", "", "", "open"},
		{load + "model.vit.requires_grad = False", "", "", "open"},
		{load + "model.a.weight.requires_grad, y = False, True", "", "", "open"},
		{load + "for model in models:\n    x()\nmodel.vit.requires_grad_(False)", "", "", "open"},
		{load + "a, b, model = many()\nmodel.vit.requires_grad_(False)", "", "", "open"},
		{load + "x = model = other()\nmodel.vit.requires_grad_(False)", "", "", "open"},
		{load + "model.vit.requires_grad_(False)\nmodel.vit = Other()", "", "", "open"},
		{load + "trainer = Trainer(model=student)\nmodel.vit.requires_grad_(False)", "", "", "open"},
		{"model = load()\nmodel.vit.requires_grad_(False)", "", "", "open"},
		{"def main():\n    model = AutoModel.from_pretrained('x')\n    model.vit.requires_grad_(False)", "", "", "open"},
		{"model = AutoModel.from_pretrained('x').encoder\nmodel.vit.requires_grad_(False)", "", "", "open"},
		{load + each + "    if 'a' not in n:\n        p.requires_grad = False\n" + each + "    if 'b' not in n:\n        p.requires_grad = False", "",
			"", "open"},
		{"for", "", "", ""}, {"for p in model.parameters(", "", "", ""},
	} {
		r, err := Read("train.py", strings.NewReader(tt.text+"\n"+tail))
		if err != nil {
			t.Fatal(err)
		}
		open := ""
		if len(r.Open) > 0 {
			open = "open"
		}
		if valueOf(r.Flags(), "frozen") != tt.frozen || valueOf(r.Flags(), "trained") != tt.trained || open != tt.open {
			t.Errorf("%s\n%s %v", tt.text, typed(r.Flags()), r.Open)
		}
	}
}

// TestPythonTexts: no text or list takes more memory than a value may have.
func TestPythonTexts(t *testing.T) {
	long := "a = " + strings.Repeat(`"x" `, 1<<12) + "\nb = '" + strings.Repeat("x", 1<<16) + "'\nc = " + strings.Repeat("1", 1<<16)
	p, err := parsePython([]byte(long))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := len(p.constants[name].text); n == 0 || n > maxText {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
	f := &fields{values: map[string]string{}}
	c := &pyCall{names: []string{"x"}, by: map[string]pyValue{"x": {list: make([]pyValue, 1<<16)}}}
	for i := range c.by["x"].list {
		c.by["x"].list[i] = p.constants["b"]
	}
	if n := testing.AllocsPerRun(1, func() { f.keywords(c, nil) }); n > 16 {
		t.Errorf("%v allocations", n)
	}
}
