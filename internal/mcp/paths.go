package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// roots are the folders below which files may be read, without links.
type roots []string

func rootsOf(names []string) (roots, error) {
	var out roots
	for _, name := range names {
		full, err := filepath.Abs(name)
		if err == nil {
			full, err = filepath.EvalSymlinks(full)
		}
		if err != nil {
			return nil, fmt.Errorf("--root %s: %w", name, err)
		}
		if st, err := os.Stat(full); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("--root %s: not a folder", name)
		}
		out = append(out, full)
	}
	return out, nil
}

// errOutside is all that is said of what lies elsewhere: not whether it is there.
var errOutside = errors.New("not below a root of this server")

// maxEntries bounds the files of a folder that are looked at.
const maxEntries = 10_000

// file is a name without links, if what it leads to lies below a root, and so does what
// would be read along with it. A relative name is looked for in each root.
func (r roots) file(name string) (string, error) {
	switch {
	case name == "" || name == "-" || strings.ContainsRune(name, 0):
		return "", fmt.Errorf("%q is no name of a file", name)
	case strings.Contains(name, "://"):
		return "", fmt.Errorf("%q: only files of this machine are read", name)
	}
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		candidates = nil
		for _, root := range r {
			candidates = append(candidates, filepath.Join(root, name))
		}
	}
	for _, candidate := range candidates {
		full, err := filepath.EvalSymlinks(candidate)
		if err != nil || !r.has(full) {
			continue
		}
		if err := r.along(full); err != nil {
			return "", fmt.Errorf("%q: %w", name, err)
		}
		return full, nil
	}
	return "", fmt.Errorf("%q: %w", name, errOutside)
}

// has reports whether a path without links lies below a root.
func (r roots) has(full string) bool {
	for _, root := range r {
		if below, err := filepath.Rel(root, full); err == nil && filepath.IsLocal(below) {
			return true
		}
	}
	return false
}

// along refuses links out of the roots among what is read with a name: all of a folder,
// and what lies beside a file under the beginning of its name.
func (r roots) along(full string) error {
	st, err := os.Stat(full)
	if err != nil {
		return errOutside
	}
	if st.IsDir() {
		return r.within(full)
	}
	if !st.Mode().IsRegular() {
		return errors.New("neither a file nor a folder")
	}
	stem, _, _ := strings.Cut(filepath.Base(full), ".")
	beside, err := os.ReadDir(filepath.Dir(full))
	if err != nil {
		return errOutside
	}
	for _, entry := range beside {
		if strings.HasPrefix(entry.Name(), stem) {
			if err := r.entry(filepath.Join(filepath.Dir(full), entry.Name()), entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// within looks at all of a folder.
func (r roots) within(folder string) error {
	n := 0
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > maxEntries {
			return fmt.Errorf("more than %d files: name some of them", maxEntries)
		}
		return r.entry(name, entry)
	})
}

// entry refuses a link that leads elsewhere.
func (r roots) entry(name string, entry fs.DirEntry) error {
	if entry.Type()&fs.ModeSymlink == 0 {
		return nil
	}
	if full, err := filepath.EvalSymlinks(name); err != nil || !r.has(full) {
		return fmt.Errorf("%s is a link to what is %w", filepath.Base(name), errOutside)
	}
	return nil
}
