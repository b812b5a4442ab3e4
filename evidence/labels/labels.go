// Package labels reads the file beside a snapshot in which a program says what
// its memory holds.
//
//	f, err := labels.Read(r)
//	for _, l := range f.Labels {
//		fmt.Println(l.Address, l.Category, l.Name)
//	}
package labels

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Schema is the only one there is.
const Schema = "vramscope.labels/1"

// Limits on what a file may contain.
const (
	maxBytes  = 256 << 20
	maxLabels = 4 << 20
	maxName   = 1 << 12 // bytes
)

// File is the labels of one device.
type File struct {
	Device int
	Labels []Label
}

// Label says what an allocation is.
type Label struct {
	Address uint64
	// Allocations is how many the device had made when the label was written,
	// to tell apart those that had the same address; -1: alive at the dump.
	Allocations int64
	Category    string // a word of the report schema, "" when not given
	Name        string
}

// Read reads a labels file.
func Read(r io.Reader) (*File, error) {
	limited := &io.LimitedReader{R: r, N: maxBytes + 1}
	d := json.NewDecoder(limited)
	f, err := read(d)
	var own *problem
	switch {
	case err == nil:
		return f, nil
	case limited.N == 0:
		return nil, fmt.Errorf("labels: more than %d MiB", maxBytes>>20)
	case errors.As(err, &own):
		return nil, fmt.Errorf("labels: %w", err)
	}
	return nil, fmt.Errorf("labels: offset %d: %w", d.InputOffset(), err)
}

// problem is what is wrong with a file that is JSON.
type problem struct{ text string }

func (p *problem) Error() string { return p.text }

func problemf(format string, args ...any) error { return &problem{fmt.Sprintf(format, args...)} }

// read takes the labels one by one, as a small file may hold very many.
func read(d *json.Decoder) (*File, error) {
	f := &File{Labels: []Label{}}
	schema := ""
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errors.New("no object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch key {
		case "schema":
			err = d.Decode(&schema)
		case "device":
			err = d.Decode(&f.Device)
		case "labels":
			err = f.list(d)
		default:
			err = skip(d)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	switch {
	case schema != Schema:
		return nil, problemf("schema is %.40q, want %q", schema, Schema)
	case f.Device < 0:
		return nil, problemf("device %d", f.Device)
	}
	return f, nil
}

// skip passes over a value.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func (f *File) list(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return errors.New("labels are no list")
	}
	for d.More() {
		if len(f.Labels) >= maxLabels {
			return problemf("more than %d labels", maxLabels)
		}
		label, err := one(d, len(f.Labels))
		if err != nil {
			return err
		}
		f.Labels = append(f.Labels, label)
	}
	_, err = d.Token()
	return err
}

// one reads the i-th label.
func one(d *json.Decoder, i int) (Label, error) {
	var l struct {
		Address  *uint64
		Event    *int64
		Category string
		Name     string
	}
	if err := d.Decode(&l); err != nil {
		return Label{}, err
	}
	switch {
	case l.Address == nil:
		return Label{}, problemf("label %d has no address", i)
	case l.Event != nil && *l.Event < 0:
		return Label{}, problemf("label %d has event %d, a number of allocations", i, *l.Event)
	case len(l.Name) > maxName:
		return Label{}, problemf("the name of label %d has %d bytes, at most %d are read", i, len(l.Name), maxName)
	}
	label := Label{Address: *l.Address, Allocations: -1, Category: l.Category, Name: l.Name}
	if l.Event != nil {
		label.Allocations = *l.Event
	}
	return label, nil
}
