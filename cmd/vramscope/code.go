package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/whole"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/source"
	"github.com/vramscope/vramscope/store"
)

// programs finds the texts of a program's files: below --source, else below the working directory
// by their whole names, and beside the recordings by the ends of their names.
type programs struct {
	places []codeRoot
	known  map[string]found
}

type codeRoot struct {
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

func programsIn(dir string, inputs []string) (*programs, error) {
	p := &programs{known: map[string]found{}}
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

func (p *programs) add(dir string, anyEnd bool) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	whole, err := filepath.Abs(dir)
	p.places = append(p.places, codeRoot{root, whole, anyEnd})
	return err == nil
}

// Text is a file that a recording names.
func (p *programs) Text(file string) (string, bool) {
	f := p.find(file)
	return f.text, f.ok
}

func (p *programs) find(file string) found {
	if f, known := p.known[file]; known {
		return f
	}
	var f found
	for _, at := range p.places {
		for _, name := range namesOf(file, at.whole, at.anyEnd) {
			if text, ok := textOf(at.root, name); ok && !f.ok {
				f = found{name, text, at.whole, true}
			}
		}
	}
	p.known[file] = f
	return f
}

// textOf is a regular file's text, of one that isn't larger than a program.
func textOf(root *os.Root, name string) (string, bool) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > sourceBytes {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(f, sourceBytes))
	return string(text), err == nil
}

// writePatch writes the changes to the program's text as a diff, which is to be applied in the folder
// of --source, else in the working directory.
func (f *analyzeFlags) writePatch(cmd *cobra.Command, p *source.Patch) error {
	root := f.programs.root()
	diff := p.Diff(func(file string) (string, bool) {
		x := f.programs.find(file)
		return x.name, x.ok && x.root == root
	})
	for _, why := range p.Untold {
		fmt.Fprintf(cmd.ErrOrStderr(), "vramscope: --patch: %s\n", view.Printable(why))
	}
	if diff == "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "vramscope: --patch: no statement of a form that is known: nothing was written")
		return nil
	}
	file, err := whole.Stage(f.patch, func(w io.Writer) error {
		_, err := io.WriteString(w, diff)
		return err
	})
	if err != nil {
		return err
	}
	defer file.Drop()
	return file.Place()
}

// root is the folder that names in a patch start from.
func (p *programs) root() string {
	if len(p.places) == 0 {
		return ""
	}
	return p.places[0].whole
}
