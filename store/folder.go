package store

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// folder is a place on this machine.
type folder struct{ dir string }

func (f folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func (f folder) list(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) { f.walk(ctx, "", yield) }
}

// walk lists a folder's regular files. Folders are sorted as their files'
// names will be: "a-b/x" is before "a/x", as it is in a bucket.
func (f folder) walk(ctx context.Context, below string, yield func(File, error) bool) bool {
	entries, err := os.ReadDir(f.path(below))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return yield(File{Name: below}, err) && ctx.Err() == nil
	}
	key := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(key(a), key(b)) })
	for _, e := range entries {
		name := e.Name()
		if below != "" {
			name = below + "/" + name
		}
		switch {
		case e.IsDir():
			if !f.walk(ctx, name, yield) {
				return false
			}
		case e.Type().IsRegular():
			info, err := e.Info()
			if os.IsNotExist(err) { // gone since
				continue
			}
			file := File{Name: name}
			if err == nil {
				file.Size, file.Version, file.Modified = info.Size(), version(info), info.ModTime()
			}
			if !yield(file, err) {
				return false
			}
		}
	}
	return true
}

// version tells a changed file from what it was.
func version(info fs.FileInfo) string {
	return strconv.FormatInt(info.Size(), 10) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 10)
}

func (f folder) stat(_ context.Context, name string) (File, error) {
	info, err := os.Stat(f.path(name))
	if err == nil && info.IsDir() {
		err = errFolder
	}
	if err != nil {
		return File{}, err
	}
	return File{name, info.Size(), version(info), info.ModTime()}, nil
}

func (f folder) open(_ context.Context, name string, offset, _ int64) (*content, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	return contentFrom(file, offset)
}

// contentFrom is what a file holds from an offset on.
func contentFrom(file *os.File, offset int64) (*content, error) {
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errFolder
	}
	if err == nil {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &content{ReadCloser: file, size: info.Size(), version: version(info)}, nil
}

// unfinished is in the names of files that are being written.
const unfinished = ".vramscope-tmp-"

// temporary is a file beside the one wanted, whose name it takes in the end.
type temporary struct {
	*os.File
	ctx  context.Context
	name string
}

func (f folder) create(ctx context.Context, name string) (sink, error) {
	name = f.path(name)
	for attempt := 0; ; attempt++ {
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		var t *os.File
		if err == nil {
			t, err = Beside(name, unfinished)
		}
		if err == nil {
			return &temporary{t, ctx, name}, nil
		}
		if attempt == 3 || !os.IsNotExist(err) { // remove may take an empty folder away meanwhile
			return nil, err
		}
	}
}

func (t *temporary) commit() error {
	err := t.Close()
	if err == nil {
		err = t.ctx.Err()
	}
	if err == nil {
		err = os.Rename(t.Name(), t.name)
	}
	if err != nil {
		os.Remove(t.Name())
	}
	return err
}

func (t *temporary) abort() error {
	t.Close()
	os.Remove(t.Name())
	return nil
}

// abandoned is the age at which nobody is writing a temporary file any more.
// It is more than the clocks of this machine and of a file server are apart.
const abandoned = 24 * time.Hour

func (f folder) sweep(name string) {
	entries, _ := os.ReadDir(f.path(name))
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), ".") || !strings.Contains(e.Name(), unfinished) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			os.Remove(filepath.Join(f.path(name), e.Name()))
		}
	}
}

func (f folder) remove(_ context.Context, name string) error {
	err := os.Remove(f.path(name))
	for above := path.Dir(name); above != "." && os.Remove(f.path(above)) == nil; above = path.Dir(above) {
	}
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func (f folder) sub(name string) backend { return folder{f.path(name)} }

func (folder) close() error { return nil }
