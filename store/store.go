// Package store reads a run's files and writes reports wherever a name points:
// a folder of this machine, or the objects below a prefix of a bucket.
//
//	place, err := store.Open(ctx, "s3://team/runs?region=eu-west-1")
//	for f, err := range place.List(ctx) {
//		r, err := place.Read(ctx, f.Name)
//		...
//	}
//	err = place.Write(ctx, "out/runs.parquet", func(w io.Writer) error { ... })
//
// Paths and file:// are folders. s3:// is there when the program was built with
// -tags s3, and is read with the credentials that AWS's own tools would use; gs://
// is there with -tags gs. What is written is whole or absent.
package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// File is one file or object of a place.
type File struct {
	Name    string // below the place, with slashes
	Size    int64  // bytes
	Version string // differs when the content does: size, time and, in a bucket, digest
	// Modified is when it was written, by the clock of where it lies.
	Modified time.Time
}

// Place is a folder, or the objects of a bucket below a prefix. It may be used
// by several goroutines.
type Place struct {
	backend backend
	base    string // as shown: never with credentials or parameters
}

// backend is what a kind of place can do; names are checked before.
type backend interface {
	list(ctx context.Context) iter.Seq2[File, error]
	stat(ctx context.Context, name string) (File, error)
	open(ctx context.Context, name string, offset, length int64) (*content, error) // length -1: to the end
	create(ctx context.Context, name string) (sink, error)
	remove(ctx context.Context, name string) error
	sub(name string) backend
	close() error
}

// sink is a file that isn't there yet.
type sink interface {
	io.Writer
	commit() error
	abort() error // what went wrong underneath, if anything did
}

// content is a part of an object.
type content struct {
	io.ReadCloser
	size    int64        // bytes of the whole object
	version string       // of the object, to tell whether another has taken its place
	md5     []byte       // of the whole object, as the store tells it; nil where it tells none
	meet    *atomic.Bool // whether such a digest of the store was right once
}

// Open names a place; whether anything is there shows when it is read. It is
// made for many reads and writes: keep it open.
func Open(ctx context.Context, name string) (*Place, error) {
	scheme, rest, ok := split(name)
	if !ok {
		return &Place{folder{name}, name}, nil
	}
	fail := func(cause, advice string) (*Place, error) {
		return nil, &Error{URL: Show(name), Cause: cause, Advice: advice}
	}
	rest, query, _ := strings.Cut(rest, "?")
	if scheme == "file" {
		if !strings.HasPrefix(rest, "/") {
			return fail("a file URL needs an absolute path", "Write file:///folder, or the path alone.")
		}
		return &Place{folder{rest}, rest}, nil
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	params, err := url.ParseQuery(query)
	switch {
	case scheme != "s3" && scheme != "gs":
		return fail("no such kind of store: file://, gs://, s3:// are known", "")
	case strings.ContainsAny(bucket, ":@"):
		return fail("a URL isn't the place for credentials",
			"Put them where AWS's own tools look: environment variables or a profile.")
	case bucket == "":
		return fail("no bucket is named", "Write "+scheme+"://BUCKET/PREFIX.")
	case err != nil:
		return fail("the parameters after \"?\" can't be read", "")
	}
	open := openS3
	if scheme == "gs" {
		open = openGS
	}
	p := &Place{base: scheme + "://" + strings.TrimSuffix(bucket+"/"+prefix, "/")}
	if p.backend, err = open(ctx, bucket, params); err != nil {
		return nil, p.fail("", err)
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		p.backend = p.backend.sub(prefix)
	}
	return p, nil
}

// IsURL tells a store's URL from a plain path.
func IsURL(name string) bool {
	_, _, ok := split(name)
	return ok
}

// Path is the path of a name that is one or that is a file:// URL; of others
// the name.
func Path(name string) (path string, ok bool) {
	scheme, rest, url := split(name)
	if scheme == "file" && strings.HasPrefix(rest, "/") {
		return rest, true
	}
	return name, !url
}

// split takes the scheme off; a path may have a colon, not the two slashes
// behind a word.
func split(name string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(name, "://")
	if !ok || scheme == "" || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return "", name, false
	}
	return scheme, rest, true
}

// Show is a name as messages and reports may show it: of a URL, no parameters
// and no user.
func Show(name string) string {
	scheme, rest, ok := split(name)
	if !ok {
		return name
	}
	rest, _, _ = strings.Cut(rest, "?")
	if scheme == "file" {
		return rest
	}
	// no bucket's name has these: a user, and a word with a slash
	if bucket, _, _ := strings.Cut(rest, "/"); strings.ContainsAny(bucket, ":@") {
		rest = rest[strings.LastIndex(rest, "@")+1:]
	}
	return scheme + "://" + rest
}

// Split parts a name into the place that holds it and its own name there: of
// s3://bucket/run/a.pickle?region=x, s3://bucket/run?region=x and a.pickle.
func Split(name string) (place, file string) {
	rest, query := name, ""
	if IsURL(name) {
		rest, query, _ = strings.Cut(name, "?")
	}
	if query != "" {
		query = "?" + query
	}
	i := strings.LastIndexByte(rest, '/')
	switch {
	case i < 0:
		return ".", rest
	case i == 0:
		return "/", rest[1:]
	}
	return rest[:i] + query, rest[i+1:]
}

// Join is a name below a place, such as pool.Write takes: as path.Join, and
// parameters stay at the end.
func Join(place string, names ...string) string {
	rest, query := place, ""
	if IsURL(place) {
		var given bool
		if rest, query, given = strings.Cut(place, "?"); given {
			query = "?" + query
		}
	}
	return strings.TrimSuffix(rest, "/") + "/" + path.Join(names...) + query
}

// Local is the folder on this machine, if it is one.
func (p *Place) Local() (dir string, ok bool) {
	switch b := p.backend.(type) {
	case folder:
		return b.dir, true
	case rooted:
		return path.Join(b.dir, b.below), true
	}
	return "", false
}

// URL is the name of a file for messages and reports, the place's own for "".
func (p *Place) URL(name string) string {
	switch {
	case name == "":
		return p.base
	case p.base == "":
		return name
	}
	return strings.TrimSuffix(p.base, "/") + "/" + name
}

// List is every file of the place in the order of the names' bytes, read page
// by page. A folder that can't be read is an error in its place, and the files
// of others follow; of a bucket, an error is the last thing said.
func (p *Place) List(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for f, err := range p.backend.list(ctx) {
			if err != nil {
				err = p.fail(f.Name, err)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// Stat is what List would say of one file.
func (p *Place) Stat(ctx context.Context, name string) (File, error) {
	if err := p.check(name); err != nil {
		return File{}, err
	}
	f, err := p.backend.stat(ctx, name)
	return f, p.fail(name, err)
}

// Read opens a file to be read from its beginning. The context holds for all
// that is read.
func (p *Place) Read(ctx context.Context, name string) (*Reader, error) {
	if err := p.check(name); err != nil {
		return nil, err
	}
	r := &Reader{ctx: ctx, place: p, name: name, jumped: true}
	if err := r.reopen(); err != nil {
		return nil, err
	}
	r.Size, r.version, r.check = r.content.size, r.content.version, newCheck(r.content)
	return r, nil
}

// Write makes a file of what the function writes: whole, or, when that or the
// writing fails, not at all, and what was there before stays.
func (p *Place) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	w, err := p.Create(ctx, name)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		if under := w.Abort(); under != nil {
			return under // the function's is often only that the upload had ended
		}
		return err
	}
	return w.Commit()
}

// Writer writes a file that is there once it is committed.
type Writer struct {
	w     *bufio.Writer
	sink  sink
	place *Place
	name  string
	over  bool
}

// Create begins a file; Commit or Abort must follow. The context holds for all
// of it: when it ends before Commit there is no file.
func (p *Place) Create(ctx context.Context, name string) (*Writer, error) {
	if err := p.check(name); err != nil {
		return nil, err
	}
	s, err := p.backend.create(ctx, name)
	if err != nil {
		return nil, p.fail(name, err)
	}
	return &Writer{w: bufio.NewWriterSize(s, 1<<16), sink: s, place: p, name: name}, nil
}

// Write writes on.
func (w *Writer) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	return n, w.place.fail(w.name, err)
}

// Commit puts the file in its place.
func (w *Writer) Commit() error {
	if err := w.w.Flush(); err != nil {
		if under := w.Abort(); under != nil {
			return under
		}
		return w.place.fail(w.name, err)
	}
	w.over = true
	return w.place.fail(w.name, w.sink.commit())
}

// Abort drops what was written, unless it is committed: it may be deferred. The
// error is what had gone wrong before, if anything had.
func (w *Writer) Abort() error {
	if w.over {
		return nil
	}
	w.over = true
	return w.place.fail(w.name, w.sink.abort())
}

// Remove deletes a file; that it isn't there is no error. As in a bucket there
// are no empty folders below a place: those that it leaves go, too.
func (p *Place) Remove(ctx context.Context, name string) error {
	if err := p.check(name); err != nil {
		return err
	}
	return p.fail(name, p.backend.remove(ctx, name))
}

// Sub is a place below this one, on the same connection.
func (p *Place) Sub(name string) *Place { return &Place{p.backend.sub(name), p.URL(name)} }

// Sweep removes what a program that was killed while it wrote, a day ago or
// more, has left of files in one folder of the place, "" for the place itself.
// What is younger may be another program's that is about to commit it.
func (p *Place) Sweep(name string) {
	if f, ok := p.backend.(folder); ok {
		f.sweep(name)
	}
}

// Close lets go of connections.
func (p *Place) Close() error { return p.backend.close() }

// check refuses names that lead out of the place.
func (p *Place) check(name string) error {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") {
		return &Error{URL: p.base, Cause: fmt.Sprintf("%q is no file's name", name)}
	}
	return nil
}
