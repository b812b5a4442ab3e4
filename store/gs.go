//go:build gs

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcerrors"
	"gocloud.dev/gcp"
)

// gsObjects are those of a bucket whose names begin with a prefix.
type gsObjects struct {
	bucket *blob.Bucket
	prefix string // "" or with a slash at its end
}

// openGS opens a bucket of Google Cloud Storage with the machine's default
// credentials; ?anonymous=true reads a public one without.
func openGS(ctx context.Context, bucket string, params url.Values) (backend, error) {
	anonymous := params.Get("anonymous") == "true"
	params.Del("anonymous")
	for name := range params {
		return nil, &Error{Cause: fmt.Sprintf("unknown query parameter %q", name)}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	usualPatience.limit(transport)
	client := gcp.NewAnonymousHTTPClient(transport)
	if !anonymous {
		credentials, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, err
		}
		if client, err = gcp.NewHTTPClient(transport, gcp.CredentialsTokenSource(credentials)); err != nil {
			return nil, err
		}
	}
	b, err := gcsblob.OpenBucket(ctx, client, bucket, nil)
	if err != nil {
		return nil, err
	}
	return &gsObjects{bucket: b}, nil
}

// told marks the errors that messages and callers tell apart.
func told(err error) error {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fmt.Errorf("%w: %w", errAbsent, err)
	case gcerrors.PermissionDenied:
		return fmt.Errorf("%w: %w", errDenied, err)
	}
	return err
}

func (o *gsObjects) list(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for it := o.bucket.List(&blob.ListOptions{Prefix: o.prefix}); ; {
			obj, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(File{}, told(err))
				return
			}
			name := strings.TrimPrefix(obj.Key, o.prefix)
			if !isFolder(name) && !yield(gsFile(name, obj), nil) {
				return
			}
		}
	}
}

func gsFile(name string, obj *blob.ListObject) File {
	return File{name, obj.Size, objectVersion(obj.Size, obj.ModTime, obj.MD5), obj.ModTime}
}

func (o *gsObjects) stat(ctx context.Context, name string) (File, error) {
	obj, err := o.bucket.List(&blob.ListOptions{Prefix: o.prefix + name}).Next(ctx)
	if errors.Is(err, io.EOF) || err == nil && obj.Key != o.prefix+name {
		err = errAbsent
	}
	if err != nil {
		return File{}, told(err)
	}
	return gsFile(name, obj), nil
}

func (o *gsObjects) open(ctx context.Context, name string, offset, length int64) (*content, error) {
	r, err := o.bucket.NewRangeReader(ctx, o.prefix+name, offset, length, nil)
	if err != nil {
		return nil, told(err)
	}
	return &content{ReadCloser: r, size: r.Size(), version: r.ModTime().String()}, nil
}

// gsUpload is an object that appears when it is completed, and doesn't when its
// context ends before.
type gsUpload struct {
	*blob.Writer
	drop context.CancelFunc
}

func (o *gsObjects) create(ctx context.Context, name string) (sink, error) {
	ctx, drop := context.WithCancel(ctx)
	w, err := o.bucket.NewWriter(ctx, o.prefix+name, &blob.WriterOptions{ContentType: contentType(name)})
	if err != nil {
		drop()
		return nil, told(err)
	}
	return &gsUpload{w, drop}, nil
}

func (u *gsUpload) commit() error {
	defer u.drop()
	return told(u.Close())
}

func (u *gsUpload) abort() error {
	u.drop()
	if err := u.Close(); !errors.Is(err, context.Canceled) {
		return told(err)
	}
	return nil
}

func (o *gsObjects) remove(ctx context.Context, name string) error {
	err := told(o.bucket.Delete(ctx, o.prefix+name))
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

func (o *gsObjects) sub(name string) backend { return &gsObjects{o.bucket, o.prefix + name + "/"} }

func (o *gsObjects) close() error { return o.bucket.Close() }
