package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDiscard: nobody works out the digest of a file that is passed over.
func TestDiscard(t *testing.T) {
	name := filepath.Join(t.TempDir(), "other.txt")
	if err := os.WriteFile(name, []byte(strings.Repeat("no recording\n", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	in, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.Content(); err != nil {
		t.Fatal(err)
	}
	in.Discard()
	if sum, _ := in.Digest(); sum != "" {
		t.Errorf("digest %s", sum)
	}
}
