package recipe

import (
	"slices"
	"strings"
	"testing"
)

// TestLoops: what a program's own training loop says by its calls, and by the order of its lines.
func TestLoops(t *testing.T) {
	const model = "model = AutoModel.from_pretrained('a/b', use_cache=False)\nopt = torch.optim.AdamW(model.parameters())\n"
	for _, tt := range []struct{ name, text, want string }{
		{"gradients go in front of forward", model + "for x in DataLoader(d, batch_size=4):\n  opt.zero_grad()\n  loss = model(x).loss\n" +
			"  loss.backward()\n  opt.step()\n", "batch=4 optimizer=adamw"},
		{"between forward and backward", model + "for x in DataLoader(d, 4):\n  out = model(x)\n  opt.zero_grad()\n  out.loss.backward()\n" +
			"  opt.step()\n", "batch=4 optimizer=adamw outputs-stay=true zeroed-late=true"},
		{"outputs are deleted", model + "for x in DataLoader(d):\n  out = model(x)\n  loss = out.loss\n  del out\n  loss.backward()\n  opt.step()\n",
			"batch=1 optimizer=adamw"},
		{"a step in a function of its own", model + "def train_step(x):\n  out = model(x)\n  out.loss.backward()\n" +
			"for x in DataLoader(d, batch_size=2):\n  train_step(x)\n  opt.step()\n", "batch=2 optimizer=adamw"},
		{"two passes, one by a function", model + "def embed(x):\n  return model(x).last_hidden_state\nfor a, b in DataLoader(d, batch_size=8):\n" +
			"  loss = f(embed(a), embed(b))\n  loss.backward()\n  opt.step()\nfor x in DataLoader(e, batch_size=64):\n  embed(x)\n",
			"batch=16 optimizer=adamw"},
		{"autocast, checkpointed, SGD", "m = X.from_pretrained('a')\nm.gradient_checkpointing_enable()\no = SGD(m.parameters(), momentum=0.9)\n" +
			"with torch.autocast('cuda', dtype=torch.bfloat16):\n  l = m(x)\nl.backward()\n",
			"checkpointing=full optimizer=momentum precision=bf16-mixed"},
		{"the launcher may say the type", model + "acc = Accelerator(gradient_accumulation_steps=4)\nacc.backward(model(x))\n",
			"accumulate=4 drop-outputs=false framework=accelerate optimizer=adamw trainer=true"},
		{"lengths by their names", model + "MAX_SOURCE_LENGTH, max_label_length = 512, 64\nmodel(x).backward()\n",
			"decoder-seq=64 optimizer=adamw seq=512"},
	} {
		r, err := Read("a.py", strings.NewReader(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := ""
		for _, name := range strings.Fields("accumulate batch checkpointing decoder-seq drop-outputs framework optimizer outputs-stay " +
			"precision seq trainer zeroed-late") {
			if v := valueOf(r.Flags(), name); v != "" && v != "transformers" {
				got += " " + name + "=" + v
			}
		}
		if got = strings.TrimSpace(got); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// TestLoopsInDoubt: what a program may mean in another way is said beside what is taken.
func TestLoopsInDoubt(t *testing.T) {
	const model = "model = AutoModel.from_pretrained('a/b', dtype=torch.bfloat16)\nopt = torch.optim.AdamW(model.parameters())\n"
	const loop = "for x in dl:\n  loss = model(x).loss\n  loss.backward()\n  opt.step()\n"
	for _, tt := range []struct{ name, text, batch, open string }{
		{"two loaders", model + "val = DataLoader(v, batch_size=64)\ndl = DataLoader(d, batch_size=4)\n" + loop, "64",
			"per_device_train_batch_size 64 (the first of several)"},
		{"no loader", model + loop, "", "how large a batch is"},
		{"a sampler of batches", model + "dl = DataLoader(d, batch_sampler=s)\n" + loop, "", "how large a batch is"},
		{"a validation in the loop", model + "def check():\n  return model(v)\ndl = DataLoader(d, batch_size=4)\nfor x in dl:\n  if n % 9 == 0:\n" +
			"    check()\n  with torch.no_grad():\n    teacher = model(x)\n  model(x).loss.backward()\n  opt.step()\n", "4", ""},
		{"two passes", model + "dl = DataLoader(d, batch_size=4)\nfor x in dl:\n  loss = f(model(x), model(y))\n  loss.backward()\n  opt.step()\n",
			"8", "passes_per_loss 2 (in some runs)"},
		{"another type", model + "model = model.to(torch.float32)\ndl = DataLoader(d, 4)\n" + loop, "4", "dtype torch.bfloat16 (a line converts it)"},
		{"two models", "t = AutoModel.from_pretrained('c/d')\n" + model + "dl = DataLoader(d, 4)\n" + loop, "4",
			"model_name_or_path a/b (the last of several)"},
		{"two lengths", model + "MAX_LEN = 512\nlong.max_len = 9\nmax_length = 1024\ndl = DataLoader(d, 4)\n" + loop, "4", ""},
	} {
		r, err := Read("a.py", strings.NewReader(tt.text))
		if err != nil || valueOf(r.Flags(), "batch") != tt.batch || valueOf(r.Flags(), "seq") != "" ||
			tt.open != "" && !slices.Contains(r.Open, tt.open) {
			t.Errorf("%s: %v, batch %q, open %q", tt.name, err, valueOf(r.Flags(), "batch"), r.Open)
		}
	}
}

// TestNestedKeywords: a keyword's dictionary is fields below its name, and many that hold one another are refused.
func TestNestedKeywords(t *testing.T) {
	r, err := Read("a.py", strings.NewReader("args = TrainingArguments(per_device_train_batch_size=2, fsdp='full_shard', "+
		"fsdp_config={'activation_checkpointing': True, 'limit': {'a': 1}}, deepspeed={'zero_optimization': {'stage': 2}})\n"+
		"t = SFTTrainer(model='a/b', args=args)"))
	if err != nil || r.Model != "a/b" || valueOf(r.Flags(), "checkpointing") != "full" || valueOf(r.Flags(), "zero") != "2" {
		t.Errorf("%v %v", r, err)
	}
	bomb := "d0 = {}\n"
	for _, c := range "abcdefghijklmnopqrst" {
		bomb += string(c) + "1 = {'x': d0, 'y': d0}\nd0 = {'x': " + string(c) + "1, 'y': " + string(c) + "1}\n"
	}
	if _, err := Read("a.py", strings.NewReader(bomb+"TrainingArguments(per_device_train_batch_size=1, a=d0)")); err != nil &&
		!strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}
