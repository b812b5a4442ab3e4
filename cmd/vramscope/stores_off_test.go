//go:build !s3

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWithoutStores: every command that is given a bucket ends with how to get there,
// before it works on anything else, and leaves nothing.
func TestWithoutStores(t *testing.T) {
	t.Setenv("VRAMSCOPE_REDACT_KEY", "key")
	recording, err := filepath.Abs("../../testdata/recordings/mlp_regression__script")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"analyze", "s3://team/x"}, {"analyze", "--redact", "s3://team/x"}, {"analyze", recording, "-o", "s3://team/x.html"},
		{"batch", "s3://team/x", "-o", "out"}, {"batch", recording, "-o", "s3://team/out"}, {"merge", "s3://team/out", "-o", "out"},
		{"export", "s3://team/x.pickle", "--table", "events"}, {"whatif", "s3://team/x.pickle"}, {"explain", "s3://team/x.pickle", "--oom", "0"},
		{"diff", "s3://team/x.pickle", "s3://team/y.pickle"}, {"analyze", "gs://team/x"},
	} {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		said := errs.String()
		if code != exitUnusable || out.Len() > 0 || strings.Count(said, "\n") != 2 || !strings.Contains(said, ": this program was built without ") ||
			!strings.Contains(said, "Build it with `go build -tags "+tagOf(args)+" ./cmd/vramscope`.") {
			t.Errorf("%q: exit code %d, printed %q, said %q", args, code, out.String(), said)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// tagOf is the tag of the store that is named.
func tagOf(args []string) string {
	if strings.Contains(strings.Join(args, " "), "gs://") {
		return "gs"
	}
	return "s3"
}
