package read

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead reads anything as evidence: notebooks, UTF-16, traces and text.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.*")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && len(data) < 8<<10 {
			f.Add(data)
		}
	}
	f.Add([]byte(`{"cells": [{"outputs": [{"data": {"text/html": ["<table><tr><th>Step</th><th>Training Loss</th></tr><tr><td>1</td><td>2.5</td></tr>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		kinds, ev, err := Evidence(bytes.NewReader(data), "x", 0)
		if (len(kinds) == 0) != (ev == nil) || err == nil && len(kinds) == 0 {
			t.Fatalf("kinds %v, evidence %v, error %v", kinds, ev, err)
		}
		if _, err := json.Marshal(ev); err != nil {
			t.Fatal(err)
		}
	})
}
