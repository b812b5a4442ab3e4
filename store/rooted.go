package store

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
)

// Untrusted is the place for reading alone, what somebody else made: in a folder, links
// lead nowhere, and nothing but files is opened.
func (p *Place) Untrusted() *Place {
	if f, ok := p.backend.(folder); ok {
		return &Place{rooted{f.dir, ""}, p.base}
	}
	return p
}

// rooted is a folder that nothing leads out of, and what lies below a path in it.
type rooted struct{ dir, below string }

var errNoFile = errors.New("is no file: links and the like aren't followed")

func (r rooted) list(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		root, err := os.OpenRoot(r.dir)
		if err != nil {
			yield(File{}, err)
			return
		}
		defer root.Close()
		below, err := fs.Sub(root.FS(), path.Join(".", r.below))
		if err != nil {
			yield(File{}, err)
			return
		}
		_ = fs.WalkDir(below, ".", func(name string, d fs.DirEntry, err error) error {
			f := File{Name: name}
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case err == nil && !d.Type().IsRegular():
				return nil
			case err == nil:
				var info fs.FileInfo
				if info, err = d.Info(); err == nil {
					f.Size, f.Version, f.Modified = info.Size(), version(info), info.ModTime()
				}
			}
			if !yield(f, err) || ctx.Err() != nil {
				return fs.SkipAll
			}
			return nil
		})
	}
}

// lstat finds a file that is one.
func (r rooted) lstat(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(path.Join(r.below, name))
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	return info, err
}

func (r rooted) stat(_ context.Context, name string) (File, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return File{}, err
	}
	defer root.Close()
	info, err := r.lstat(root, name)
	if err != nil {
		return File{}, err
	}
	return File{name, info.Size(), version(info), info.ModTime()}, nil
}

func (r rooted) open(_ context.Context, name string, offset, _ int64) (*content, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := r.lstat(root, name); err != nil {
		return nil, err
	}
	file, err := root.Open(path.Join(r.below, name))
	if err != nil {
		return nil, err
	}
	return contentFrom(file, offset)
}

var errReadOnly = errors.New("is only read")

func (rooted) create(context.Context, string) (sink, error) { return nil, errReadOnly }

func (rooted) remove(context.Context, string) error { return errReadOnly }

func (r rooted) sub(name string) backend { return rooted{r.dir, path.Join(r.below, name)} }

func (rooted) close() error { return nil }
