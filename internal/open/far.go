package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

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
	sum        func(name string, size int64) string
	passing    *passing
}

// passing keeps the first error about something that could not be got at and may be
// another time: what is judged without it would be wrong, and look right.
type passing struct {
	mu  sync.Mutex
	err error
}

// note keeps such an error, and gives it back.
func (p *passing) note(err error) error {
	if snapshot.IsPassing(err) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = cmp.Or(p.err, err)
	}
	return err
}

func (o *Options) files() files {
	f := files{o.Context, o.Stores, false, o.Undigested, o.Sum, &passing{}}
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
		in.Undigested, in.Sum = f.undigested, f.sum
	}
	return in, f.passing.note(err)
}

// wholly is the error of reading an input, which was open. That it could not be read to where
// somebody wanted may have been taken for its end, or for damage.
func (f files) wholly(in *snapshot.Input, err error) error {
	if why := in.Unread(); why != nil {
		err = f.passing.note(unread(in.Name, why, snapshot.ErrUnread))
	}
	return err
}

func (f files) open(name string) (*snapshot.Input, error) {
	if local, ok := store.Path(name); ok {
		return snapshot.OpenInput(local)
	}
	r, err := f.Read(f.ctx, name)
	if err != nil {
		return nil, inputError(err)
	}
	in, err := snapshot.FarInput(store.Show(name), r)
	if errors.Is(err, snapshot.ErrUnread) {
		return nil, inputError(err)
	}
	return in, err
}

// inputError is a store's error as one of an input's.
func inputError(err error) error { return unread("", err, snapshot.Unread(err)) }

// unread is an error about an input that could not be got at, of some kind.
func unread(name string, err, kind error) error {
	e := &snapshot.Error{File: name, Offset: -1, Cause: err.Error(), Err: kind}
	var far *store.Error
	var disk *fs.PathError
	var known *snapshot.Error
	switch {
	case errors.As(err, &far):
		e.File, e.Cause, e.Advice = far.URL, far.Cause, far.Advice
	case errors.As(err, &disk):
		e.Cause = disk.Err.Error()
	case errors.As(err, &known):
		e.Offset, e.Cause, e.Advice = known.Offset, known.Cause, known.Advice
	}
	return e
}

// text opens a file of which only the text matters, compressed or not.
func (f files) text(name string) (io.ReadCloser, error) {
	in, err := f.open(name)
	if err == nil {
		var t *text
		if t, err = textOf(in); err == nil {
			t.files = &f
			return t, nil
		}
		err = f.wholly(in, err)
	}
	return nil, f.passing.note(err)
}

// text is the content of an input, which is closed with it.
type text struct {
	io.ReadCloser
	in    *snapshot.Input
	files *files // nil: who reads hears of all errors
}

func textOf(in *snapshot.Input) (*text, error) {
	in.Undigested = true
	r, _, err := in.Content()
	if err != nil {
		in.Close()
		return nil, err
	}
	return &text{r, in, nil}, nil
}

func (t *text) Close() error {
	if t.files != nil {
		_ = t.files.wholly(t.in, nil) // is noted
	}
	return errors.Join(t.ReadCloser.Close(), t.in.Close())
}

// exists reports whether a file is there that nobody has named: a pipe would be waited for. That
// a store could not tell is noted.
func (f files) exists(name string) bool {
	if local, ok := store.Path(name); ok {
		st, err := os.Stat(local)
		return err == nil && st.Mode().IsRegular()
	}
	_, err := f.Stat(f.ctx, name)
	return err == nil || f.passing.note(inputError(err)) == nil
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
