package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHere: without a command the program says what it would do with the recordings of the working directory.
func TestHere(t *testing.T) {
	for _, c := range []struct{ name, files, want string }{
		{"none", "notes.txt model.bin", "Examples:\n  vramscope analyze snapshot.pickle train.log"},
		{"one with its log", "snapshot.pickle train.log config.json", "  vramscope analyze snapshot.pickle config.json train.log\n"},
		{"ranks", "rank0.pickle rank1.pickle", "  vramscope analyze rank0.pickle rank1.pickle\n"},
		{"two", "after.pickle before.pickle", "  vramscope diff after.pickle before.pickle\n"},
		{"many", "a.pickle b.pickle c.pickle d.pickle", "  vramscope batch . -o reports\n"},
		{"what run left", "train.py vramscope-train-1/rank0-pid7-0-exit.pickle.gz vramscope-train-1/output.log .git/old.pickle",
			"1 recording here.\n\n  vramscope analyze vramscope-train-1\n"},
		{"runs in folders", "a/x.pickle b/x.pickle c/x.pickle", "  vramscope batch . -o reports\n"},
		{"deeper", "reports/runs/x.pickle", "Examples:\n"},
		{"names for a shell", "a'b$(x).pickle", `vramscope analyze 'a'\''b$(x).pickle'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, name := range strings.Fields(c.files) {
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			var out, errs bytes.Buffer
			if code := run([]string{}, nil, &out, &errs); code != exitFine || !strings.Contains(out.String(), c.want) {
				t.Errorf("%d\n%s%s", code, &out, &errs)
			}
		})
	}
	var errs bytes.Buffer
	if code := run([]string{"analyse"}, nil, &errs, &errs); code != exitUnusable || !strings.Contains(errs.String(), "analyse") {
		t.Errorf("%d %s", code, &errs)
	}
}

// TestCompletion: the shell completes files, topics, findings and GPUs.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"explain x.pickle --finding logits", "logits_dominate\n"},
		{"help findings logits", "logits_dominate\n"},
		{"help find", "findings\n"},
		{"budget --gpu H100", "H100 80GB\n"},
		{"analyze x", ":0\n"}, // files
	} {
		var out, errs bytes.Buffer
		run(append([]string{"__complete"}, strings.Fields(c.args)...), nil, &out, &errs)
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %q", c.args, out.String())
		}
	}
}
