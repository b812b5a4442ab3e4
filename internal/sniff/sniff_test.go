package sniff

import (
	"strings"
	"testing"
)

const message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"

// TestContent: what the first bytes of files say.
func TestContent(t *testing.T) {
	nul := strings.Repeat("\x00", 64)
	for _, c := range []struct {
		name, head string
		is         string // the only test that holds
	}{
		{"a log", message, ""},
		{"a log with a hole", "step 1\n" + nul + message, ""},
		{"a log behind a hole of a page", strings.Repeat(nul, 64) + message, ""},
		{"a progress bar", strings.Repeat("\b", 80) + "10/10 loss: 2.1", ""},
		{"colours", strings.Repeat("\x1b[31mstep 1\x1b[0m\n", 9), ""},
		{"nothing", "", ""},
		{"nothing but a hole", nul, "binary"},
		{"a tar", tarOf("train.log"), "binary"},
		{"data", "\x00\x01\x02\x03loss", "binary"},
		{"data without NUL", "\x01\x02\x03loss", "binary"},
		{"16-bit text", "\xff\xfes\x00t\x00e\x00p\x00", "utf16"},
		{"a snapshot", "\x80\x04}\x94(\x8c\x08segments\x94]\x94", "recording"},
		{"of one process", "\x80\x02]q\x00}q\x01(X\x0e\x00\x00\x00allocated_sizeq\x02", "recording"},
		{"another pickle", "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.", "binary"},
		{"a checkpoint", "\x40\x00\x00\x00\x00\x00\x00\x00{\"wte\":" + strings.Repeat(" ", 100), "safetensors"},
		{"a page", " <!DOCTYPE html><html>" + message, "report"},
		{"a report", `{"schema": "vramscope.report/1", "devices": []}`, "report"},
		{"labels", `{"schema": "vramscope.labels/1"}`, "labels"},
		{"labels that are cut", `{"device": 0, "schema": "vramscope.labels/1", "labels": [{"addr`, "labels"},
		{"labels of another number", `{"schema": "vramscope.labels/2", "hidden_size": "8"}`, "config"},
		{"a configuration", "\n{\"vocab_size\": 50257,\n\"n_embd\": 768}\n", "config"},
		{"a part of something else", `{"step": 1, "model": {"hidden_size": 8}}`, ""},
		{"a log of objects", `{"model_type": "gpt2", "step": 0}` + "\n" + `{"step": 1, "loss": 2.1}`, ""},
		{"a trace", `{"schemaVersion": 1, "traceEvents": []}`, ""},
	} {
		head := []byte(c.head)
		got := map[string]bool{"binary": IsBinary(head) && !IsRecording(head), "utf16": IsUTF16(head), "recording": IsRecording(head), "report": IsReport(head),
			"safetensors": IsSafetensors(head, 0), "labels": AccessoryOf(head) == Labels, "config": AccessoryOf(head) == Config}
		for is, holds := range got {
			if holds != (is == c.is) {
				t.Errorf("%s: %s is %t", c.name, is, holds)
			}
		}
	}
	if IsSafetensors([]byte("\x40\x00\x00\x00\x00\x00\x00\x00{\"wte\":"), 20) {
		t.Error("a header longer than the file is one")
	}
}

// TestNames: what is not looked at.
func TestNames(t *testing.T) {
	for name, other := range map[string]bool{
		"rank0/snapshot.pickle": false, "logs/train.log": false, "nvidia-smi.csv": false, "slurm-17": false, "trace.json.gz": false, "page": false, "run.sh": false, "conf.yml": false,
		"readme.pickle": false, "Requirements_bert.pkl.gz": false, "runs/py/x": false,
		"job.sbatch": true, "job.slurm": true, "train.py": true, "TRAIN.PY.GZ": true, "kernel.cuh": true, "Model.java": true, "fix.patch": true,
		"paper.pdf": true, "curve.png": true, "table.parquet": true, "uv.lock": true, "README": true, "Makefile": true, "LICENSE-MIT": true,
		"Dockerfile.gpu": true, "requirements-dev.txt": true, ".snapshot.pickle": true,
		".git/rank9.pickle": true, "a/__pycache__/x.pickle": true, "venv/lib/log.txt": true, "lib/dist-packages/log.txt": true, "a/node_modules/b/c.log": true,
	} {
		if Other(name) != other {
			t.Errorf("%s: %t", name, !other)
		}
	}
	for name, settings := range map[string]bool{"run.sh": true, "conf.yml": true, "Train.TOML": true, "a.yaml.gz": true, "config.yaml": false,
		"hparams.yaml": false, "args.json": false, "yaml": false} {
		if CalledSettings(name) != settings {
			t.Errorf("%s: %t", name, !settings)
		}
	}
	for name, recording := range map[string]bool{"a.pickle": true, "d/A.PKL": true, "a.pickle.zst": true, "a.pickle.log": false, "pickle": false, "a.pt": false} {
		if CalledRecording(name) != recording {
			t.Errorf("%s: %t", name, !recording)
		}
	}
}
