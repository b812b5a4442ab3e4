package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vramscope/vramscope/internal/testing/fakes3"
)

// TestStores runs the command line on an object store. RECORDINGS is the folder
// of the shipped recordings.
func TestStores(t *testing.T) {
	s := fakes3.Start(t)
	recordings, err := filepath.Abs("../../testdata/recordings")
	if err != nil {
		t.Fatal(err)
	}
	s.PutFolder(t, "runs/qwen", filepath.Join(recordings, "qwen_vocab_oom__05b"))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/stores",
		Setup: func(env *testscript.Env) error {
			for name, value := range fakes3.Environment(s.URL) {
				env.Setenv(name, value)
			}
			env.Setenv("RECORDINGS", recordings)
			return nil
		},
	})
}
