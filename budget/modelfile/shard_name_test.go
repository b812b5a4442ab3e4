package modelfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOneShard: a shard of a checkpoint alone is no model.
func TestOneShard(t *testing.T) {
	dir := t.TempDir()
	shard := filepath.Join(dir, "model-00001-of-00004.safetensors")
	if _, err := wholeOf(shard); err == nil || !strings.Contains(err.Error(), "one of 4 shards: give model.safetensors.index.json") {
		t.Errorf("without an index: %v", err)
	}
	index := filepath.Join(dir, "model.safetensors.index.json")
	if err := os.WriteFile(index, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{shard: index, filepath.Join(dir, "model.safetensors"): filepath.Join(dir, "model.safetensors"),
		filepath.Join(dir, "model-00001-of-00001.safetensors"): filepath.Join(dir, "model-00001-of-00001.safetensors")} {
		if got, err := wholeOf(path); got != want || err != nil {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
}
