package store

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// schemes are the kinds of buckets this program was built with.
var schemes = map[string]func(ctx context.Context, bucket string, params url.Values) (*blob.Bucket, error){"s3": openS3, "gs": openGS}

func known() string {
	names := slices.Sorted(maps.Keys(schemes))
	return "file://, " + strings.Join(names, "://, ") + ":// are known"
}

// objects is a place in a bucket.
type objects struct {
	bucket *blob.Bucket
	prefix string // "" or with a slash at its end
}

func (o *objects) list(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for it := o.bucket.List(&blob.ListOptions{Prefix: o.prefix}); ; {
			obj, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(File{}, err)
				return
			}
			name := strings.TrimPrefix(obj.Key, o.prefix)
			if name == "" || strings.HasSuffix(name, "/") { // what consoles make for a folder
				continue
			}
			if !yield(file(name, obj), nil) {
				return
			}
		}
	}
}

func file(name string, obj *blob.ListObject) File {
	version := strconv.FormatInt(obj.Size, 10) + "-" + strconv.FormatInt(obj.ModTime.UnixNano(), 10) + "-" + hex.EncodeToString(obj.MD5)
	return File{name, obj.Size, version}
}

// stat lists the names that begin with the one wanted: it is the first of them.
// A listing says more of an object than the object's own headers do.
func (o *objects) stat(ctx context.Context, name string) (File, error) {
	obj, err := o.bucket.List(&blob.ListOptions{Prefix: o.prefix + name}).Next(ctx)
	if errors.Is(err, io.EOF) || err == nil && obj.Key != o.prefix+name {
		err = errAbsent
	}
	if err != nil {
		return File{}, err
	}
	return file(name, obj), nil
}

func (o *objects) open(ctx context.Context, name string, offset, length int64) (*content, error) {
	r, err := o.bucket.NewRangeReader(ctx, o.prefix+name, offset, length, nil)
	if err != nil {
		return nil, err
	}
	return &content{r, r.Size(), r.ModTime().String()}, nil
}

// contentTypes let a browser show a report where it lies.
var contentTypes = map[string]string{".html": "text/html; charset=utf-8", ".json": "application/json", ".md": "text/markdown; charset=utf-8",
	".txt": "text/plain; charset=utf-8", ".csv": "text/csv; charset=utf-8", ".jsonl": "application/jsonl", ".parquet": "application/vnd.apache.parquet"}

// upload is an object that appears when it is completed, and doesn't when its
// context ends before.
type upload struct {
	*blob.Writer
	drop context.CancelFunc
}

func (o *objects) create(ctx context.Context, name string) (sink, error) {
	kind := contentTypes[path.Ext(name)]
	if kind == "" {
		kind = "application/octet-stream"
	}
	ctx, drop := context.WithCancel(ctx)
	w, err := o.bucket.NewWriter(ctx, o.prefix+name, &blob.WriterOptions{ContentType: kind})
	if err != nil {
		drop()
		return nil, err
	}
	return &upload{w, drop}, nil
}

func (u *upload) commit() error {
	defer u.drop()
	return u.Close()
}

func (u *upload) abort() error {
	u.drop()
	if err := u.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (o *objects) remove(ctx context.Context, name string) error {
	err := o.bucket.Delete(ctx, o.prefix+name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return err
}

func (o *objects) sub(name string) backend { return &objects{o.bucket, o.prefix + name + "/"} }

func (o *objects) close() error { return o.bucket.Close() }
