package secrets

import (
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for given, want := range map[string]string{
		"python train.py --hf_token hf_SECRET --wandb_key=K": "python train.py --hf_token … --wandb_key=…",
		"python -m x --password p --lr 1e-4":                 "python -m x --password … --lr 1e-4",
		"python x.py wandb.api_key=abc +hub.token=d":         "python x.py wandb.api_key=… +hub.token=…",
		"env HF_TOKEN=abc AWS_SECRET_ACCESS_KEY=x python a":  "env HF_TOKEN=… AWS_SECRET_ACCESS_KEY=… python a",
		"x --use_auth_token --lr 3":                          "x --use_auth_token --lr 3",
		"x hf_abcdefgh12 sk-proj-abcdefgh123 ghp_0123456789": "x hf_… sk-… ghp_…",
		"x AKIAIOSFODNN7EXAMPLE":                             "x AKIA…",
		"git clone https://me:pw@host/x":                     "git clone https://me:…@host/x",
		"python x.py --api-key 'it is'":                      "python x.py --api-key …",
		// What is none.
		"x --tokenizer gpt2 --max_tokens 512 --num_key_value_heads 8": "x --tokenizer gpt2 --max_tokens 512 --num_key_value_heads 8",
		"x --pad_token <pad> model.eos_token=</s> --sort-key length":  "x --pad_token <pad> model.eos_token=</s> --sort-key length",
		"x --model hf_transformers --keys a":                          "x --model hf_transformers --keys a",
	} {
		words := strings.Fields(strings.ReplaceAll(given, "'it is'", "it-is"))
		if got := strings.Join(Words(words), " "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", given, got, want)
		}
		if got := Text(given); got != want {
			t.Errorf("in one line, %s:\n got %s\nwant %s", given, got, want)
		}
	}
	script := []string{"sh", "-c", "export WANDB_API_KEY=abc; exec python x.py --token 'a b'"}
	if got := Words(script); !slices.Equal(got, []string{"sh", "-c", "export WANDB_API_KEY=…; exec python x.py --token …"}) {
		t.Errorf("in a script: %q", got)
	}
}

func TestTwice(t *testing.T) {
	once := Text("x --token=abc --key 'a b' https://u:p@h hf_ABCDEFGH1")
	if twice := Text(once); twice != once {
		t.Errorf("%s, then %s", once, twice)
	}
}
