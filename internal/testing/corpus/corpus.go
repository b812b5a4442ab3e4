// Package corpus names recordings, logs and figures that don't ship with the
// source. Tests find them in the folder that .ci/corpus.py prepares and nowhere
// else: without it, nothing outside the project is read.
package corpus

import (
	"os"
	"path/filepath"
	"testing"
)

// variable holds the folder's absolute path.
const variable = "VRAMSCOPE_CORPUS"

// Path is where a file or folder of the corpus lies. Without a corpus the test
// is skipped; with one, what is missing from it is a failure.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skip("needs the folder that .ci/corpus.py prepares")
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Glob are the files of the corpus that match, none without a corpus.
func Glob(t testing.TB, pattern string) []string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: nothing there matches %s: %v", dir, pattern, err)
	}
	return files
}
