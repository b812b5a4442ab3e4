// Package code finds the text of a program on this machine: a recording names its files, as they
// were called on another.
package code

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/vramscope/vramscope/source"
	"github.com/vramscope/vramscope/store"
)

// Files finds the texts of a program's files: below --source, else below the working directory
// by their whole names, and beside the recordings by the ends of their names.
type Files struct {
	places []place
	known  map[string]found
}

type place struct {
	root   *os.Root
	whole  string
	anyEnd bool
}

// found is a file's text with its name on this machine.
type found struct {
	name string // below the folder in which it was found
	text string
	root string // that folder
	ok   bool
}

// Beside is the program below a folder that is given, else below the working directory and beside inputs.
func Beside(dir string, inputs []string) (*Files, error) {
	p := &Files{known: map[string]found{}}
	if dir != "" {
		if !p.add(dir, true) {
			return nil, fmt.Errorf("--source: %s is no folder that can be read", dir)
		}
		return p, nil
	}
	p.add(".", false)
	for _, in := range inputs {
		name, local := store.Path(in)
		if !local || in == "-" {
			continue
		}
		if st, err := os.Stat(name); err == nil && !st.IsDir() {
			name = filepath.Dir(name)
		}
		p.add(name, true)
	}
	return p, nil
}

// Readable is what Beside is, nil where names are hidden: then no line of the program may be shown.
func Readable(hidden bool, dir string, inputs []string) (*Files, error) {
	if hidden && dir != "" {
		return nil, errors.New("--source has no effect with --redact, which shows no line of code")
	}
	if hidden {
		return nil, nil
	}
	return Beside(dir, inputs)
}

func (p *Files) add(dir string, anyEnd bool) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	whole, err := filepath.Abs(dir)
	p.places = append(p.places, place{root, whole, anyEnd})
	return err == nil
}

// Text is a file that a recording names.
func (p *Files) Text(file string) (string, bool) {
	f := p.find(file)
	return f.text, f.ok
}

func (p *Files) find(file string) found {
	if f, known := p.known[file]; known {
		return f
	}
	f := p.search(file)
	p.known[file] = f
	return f
}

// search is the first file with one of the names that a file may have here.
func (p *Files) search(file string) found {
	for _, at := range p.places {
		for _, name := range namesOf(file, at.whole, at.anyEnd) {
			if text, ok := textOf(at.root, name); ok {
				return found{name, text, at.whole, true}
			}
		}
	}
	return found{}
}

// textOf is a regular file's text, of one that isn't larger than a program.
func textOf(root *os.Root, name string) (string, bool) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > mostBytes {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	return string(text), err == nil
}

// root is the folder that names in a patch start from.
func (p *Files) root() string {
	if len(p.places) == 0 {
		return ""
	}
	return p.places[0].whole
}

// Diff writes changes to the program's text, which are to be applied in the folder that was given,
// else in the working directory.
func (p *Files) Diff(changes *source.Patch) string {
	root := p.root()
	return changes.Diff(func(file string) (string, bool) {
		x := p.find(file)
		return x.name, x.ok && x.root == root
	})
}
