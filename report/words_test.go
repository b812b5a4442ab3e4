package report_test

import (
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestOffMachine: a report names files without the folders of a machine, and what was given relative as it was given.
func TestOffMachine(t *testing.T) {
	for given, want := range map[string]string{
		"/home/ann/runs/a/train.log": "a/train.log", "runs/a/train.log": "runs/a/train.log", "train.log": "train.log", "-": "-",
		`C:\Users\ann\a\train.log`: "a/train.log", "s3://bucket/a/b/train.log": "s3://bucket/a/b/train.log",
		"--config=/home/ann/m/config.json": "--config=m/config.json", "--gpu=80GiB": "--gpu=80GiB",
	} {
		if got := report.OffMachine(given); got != want {
			t.Errorf("%s is %s, not %s", given, got, want)
		}
	}
}
