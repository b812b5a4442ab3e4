package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestLicenses: the texts are those of what is linked; the program that these tests run is linked from more.
func TestLicenses(t *testing.T) {
	var out, errs bytes.Buffer
	code := run([]string{"version", "--licenses"}, strings.NewReader(""), &out, &errs)
	for _, want := range []string{"github.com/spf13/cobra v", "Copyright (c) 2013 TOML authors", "Copyright 2009 The Go Authors", "\necharts 6"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(out.String(), "mousetrap") { // on Windows alone
		t.Error("what isn't linked is told")
	}
	if code != 0 && (!strings.Contains(errs.String(), "no licence is known of ") || strings.Contains(errs.String(), "spf13")) {
		t.Errorf("exit %d: %s", code, &errs)
	}
}

// TestVersion: the first line is the version alone, the second the build.
func TestVersion(t *testing.T) {
	var out bytes.Buffer
	run([]string{"version"}, nil, &out, &out)
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "vramscope ") || !strings.HasPrefix(lines[1], "commit ") || !strings.Contains(lines[1], "go1.") {
		t.Errorf("%q", out.String())
	}
}
