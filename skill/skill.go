// Package skill is what a coding agent needs to know to work with this program: a
// SKILL.md with references, in the layout that agents share.
//
//	written, err := skill.Install(".agents/skills/vramscope")
package skill

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/vramscope/vramscope/doc"
	"github.com/vramscope/vramscope/record"
)

// Text is the skill itself.
//
//go:embed SKILL.md
var Text string

// topics are the documents that come along.
var topics = []string{"findings", "categories", "rules", "json", "changes"}

// Files are the skill's, by their path within its folder.
func Files() (map[string]string, error) {
	files := map[string]string{"SKILL.md": Text, "references/recording.md": "# How to record\n\n```python\n" +
		record.Text(record.Recipes...) + "```\n"}
	for _, topic := range topics {
		text, err := doc.Topic(topic, "")
		if err != nil {
			return nil, err
		}
		files["references/"+topic+".md"] = text
	}
	return files, nil
}

// Install writes the skill into a folder, over an earlier version of it, and gives the
// files' names. A folder of something else is left alone.
func Install(dir string) (written []string, err error) {
	if err := own(dir); err != nil {
		return nil, err
	}
	files, err := Files()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return written, err
		}
		if err := replace(full, files[name]); err != nil {
			return written, err
		}
		written = append(written, full)
	}
	return written, nil
}

// own refuses a folder that holds anything but an earlier version.
func own(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "SKILL.md" && e.Name() != "references" {
			return fmt.Errorf("%s has %s in it, which is no part of the skill: name another --dir", dir, e.Name())
		}
	}
	return nil
}

// replace writes a file whole or not at all.
func replace(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".skill-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
