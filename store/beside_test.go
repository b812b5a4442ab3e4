package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestBeside: a temporary file has the permissions of what it will replace, or
// those that a new file gets.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	plain, err := os.OpenFile(filepath.Join(dir, "plain"), os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	plain.Close()
	info, _ := os.Stat(plain.Name())
	kept := filepath.Join(dir, "kept.html")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(plain.Name(), filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]os.FileMode{"new.html": info.Mode().Perm(), "kept.html": 0o600, "link": info.Mode().Perm()} {
		f, err := Beside(filepath.Join(dir, name), ".tmp-")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if info, err := os.Stat(f.Name()); err != nil || info.Mode().Perm() != want || filepath.Dir(f.Name()) != dir {
			t.Errorf("%s: %v %v, want %v", name, info, err, want)
		}
	}
	long := strings.Repeat("€", 83) + ".html"
	f, err := Beside(filepath.Join(dir, long), ".tmp-")
	if err != nil || !utf8.ValidString(f.Name()) {
		t.Fatal(err)
	}
	f.Close()
	if err := os.Rename(f.Name(), filepath.Join(dir, long)); err != nil {
		t.Fatal(err)
	}
	if _, err := Beside(filepath.Join(dir, "none", "x"), ".tmp-"); err == nil {
		t.Error("in a folder that isn't there")
	}
}
