package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
)

// files opens what was named, wherever it lies.
type files struct {
	ctx context.Context
	*store.Pool
	own        bool // the pool is closed in the end
	undigested bool
}

func (o *Options) files() files {
	f := files{o.Context, o.Stores, false, o.Undigested}
	if f.ctx == nil {
		f.ctx = context.Background()
	}
	if f.Pool == nil {
		f.Pool, f.own = &store.Pool{}, true
	}
	return f
}

func (f files) close() {
	if f.own {
		f.Pool.Close()
	}
}

// input opens one of a run's files.
func (f files) input(name string) (*snapshot.Input, error) {
	in, err := f.open(name)
	if err == nil {
		in.Undigested = f.undigested
	}
	return in, err
}

func (f files) open(name string) (*snapshot.Input, error) {
	if local, ok := store.Path(name); ok {
		return snapshot.OpenInput(local)
	}
	r, err := f.Read(f.ctx, name)
	if err != nil {
		return nil, inputError(err)
	}
	return snapshot.FarInput(store.Show(name), r)
}

// inputError is a store's error as one of an input's.
func inputError(err error) error {
	e := &snapshot.Error{Offset: -1, Cause: err.Error(), Err: err}
	if far, ok := err.(*store.Error); ok {
		e.File, e.Cause, e.Advice = far.URL, far.Cause, far.Advice
	}
	return e
}

// text opens a file of which only the text matters, compressed or not.
func (f files) text(name string) (io.ReadCloser, error) {
	in, err := f.open(name)
	if err != nil {
		return nil, err
	}
	return textOf(in)
}

// text is the content of an input, which is closed with it.
type text struct {
	io.ReadCloser
	in *snapshot.Input
}

func textOf(in *snapshot.Input) (io.ReadCloser, error) {
	in.Undigested = true
	r, _, err := in.Content()
	if err != nil {
		in.Close()
		return nil, err
	}
	return text{r, in}, nil
}

func (t text) Close() error { return errors.Join(t.ReadCloser.Close(), t.in.Close()) }

// exists reports whether a file is there.
func (f files) exists(name string) bool {
	if local, ok := store.Path(name); ok {
		_, err := os.Stat(local)
		return err == nil
	}
	_, err := f.Stat(f.ctx, name)
	return err == nil
}

// below is the files of a prefix that could be a run's, none when the name is
// that of a single object.
func (f files) below(name string) ([]string, error) {
	place, err := f.Place(f.ctx, name)
	if err != nil {
		return nil, inputError(err)
	}
	var found []string
	for file, err := range place.List(f.ctx) {
		if err != nil {
			return nil, inputError(err)
		}
		if sniff.Other(file.Name) {
			continue
		}
		if found = append(found, place.URL(file.Name)); len(found) > maxFiles {
			return nil, fmt.Errorf("%s: more than %d files", store.Show(name), maxFiles)
		}
	}
	return found, nil
}
