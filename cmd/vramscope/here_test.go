package main

import (
	"bytes"
	"os"
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
		{"names for a shell", "a'b$(x).pickle", `vramscope analyze 'a'\''b$(x).pickle'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, name := range strings.Fields(c.files) {
				if err := os.WriteFile(name, nil, 0o600); err != nil {
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
