package store

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// Pool opens files by their full names, with one connection to each bucket. The
// parameters of a bucket's URL, the last ones given, hold for all names in it that have
// none, such as listed ones. The zero Pool is ready; several goroutines may use it.
type Pool struct {
	mu      sync.Mutex
	buckets map[string]*Place // whole buckets, by scheme and name
	opened  map[string]string // with what parameters
	all     []*Place
}

// Place is a place as Open gives it, on the pool's connection. It is closed
// with the pool.
func (p *Pool) Place(ctx context.Context, name string) (*Place, error) {
	scheme, rest, ok := split(name)
	if !ok || scheme == "file" {
		return Open(ctx, name)
	}
	rest, query, given := strings.Cut(rest, "?")
	bucket, prefix, _ := strings.Cut(rest, "/")
	p.mu.Lock()
	defer p.mu.Unlock()
	key := scheme + "://" + bucket
	url := key
	if given {
		url += "?" + query
	}
	whole := p.buckets[key]
	if whole == nil || given && p.opened[key] != url {
		var err error
		if whole, err = Open(ctx, url); err != nil {
			return nil, err
		}
		if p.buckets == nil {
			p.buckets, p.opened = map[string]*Place{}, map[string]string{}
		}
		p.buckets[key], p.opened[key] = whole, url
		p.all = append(p.all, whole)
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		return whole.Sub(prefix), nil
	}
	return &Place{whole.backend, whole.base}, nil
}

// of is the place that a file is in, and its name there.
func (p *Pool) of(ctx context.Context, name string) (place *Place, file string, err error) {
	above, file := Split(name)
	place, err = p.Place(ctx, above)
	return place, file, err
}

// Stat is a file by its full name, as messages and reports show it and as Read
// takes it.
func (p *Pool) Stat(ctx context.Context, name string) (File, error) {
	place, file, err := p.of(ctx, name)
	if err != nil {
		return File{}, err
	}
	f, err := place.Stat(ctx, file)
	f.Name = place.URL(f.Name)
	return f, err
}

// Read opens a file by its full name.
func (p *Pool) Read(ctx context.Context, name string) (*Reader, error) {
	place, file, err := p.of(ctx, name)
	if err != nil {
		return nil, err
	}
	return place.Read(ctx, file)
}

// Write makes a file as Place.Write does.
func (p *Pool) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	place, file, err := p.of(ctx, name)
	if err != nil {
		return err
	}
	return place.Write(ctx, file, write)
}

// Close lets go of all connections.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed error
	for _, b := range p.all {
		failed = errors.Join(failed, b.Close())
	}
	p.buckets, p.opened, p.all = nil, nil, nil
	return failed
}
