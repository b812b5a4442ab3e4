package skill_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/skill"
)

// TestLayout keeps what agents' loaders ask of a skill.
func TestLayout(t *testing.T) {
	m := regexp.MustCompile(`^---\nname: ([a-z0-9-]+)\ndescription: (.+)\n---\n\n# `).FindStringSubmatch(skill.Text)
	if m == nil {
		t.Fatal("SKILL.md doesn't begin with its name and description")
	}
	if m[1] != "vramscope" || len(m[2]) > 1024 || strings.Contains(m[2], ": ") || strings.Contains(m[2], " #") {
		t.Errorf("name %q, a description of %d bytes", m[1], len(m[2]))
	}
	if n := strings.Count(skill.Text, "\n"); n > 200 || len(skill.Text) > 12_000 {
		t.Errorf("%d lines, %d bytes: more than is read at once", n, len(skill.Text))
	}
	files, err := skill.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("`([a-z]+\\.md)`").FindAllStringSubmatch(skill.Text, -1) {
		if files["references/"+name[1]] == "" {
			t.Errorf("the skill names %s, which doesn't come along", name[1])
		}
	}
}

// TestInstall writes over an earlier version, and over nothing else.
func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a/vramscope")
	for range 2 {
		written, err := skill.Install(dir)
		if err != nil || len(written) != 7 {
			t.Fatalf("%q, %v", written, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "SKILL.md")); err != nil || string(b) != skill.Text {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if written, err := skill.Install(dir); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("%q, %v", written, err)
	}
}
