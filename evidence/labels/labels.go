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

	"github.com/vramscope/vramscope/internal/limit"
)

// Schema is the only one there is.
const Schema = "vramscope.labels/1"

// Limits on what a file may contain.
const (
	maxLabels = 4 << 20
	maxName   = 1 << 12 // bytes
)

// File is the labels of a process, as a rule of its one device.
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
	Device      int // the file's, where the label has none of its own
}

// Read reads a labels file.
func Read(r io.Reader) (f *File, err error) {
	err = decode("labels", r, func(d *json.Decoder) error {
		f, err = read(d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// decode reads a file of a kind; errors name it, and the place in it where it is no JSON.
func decode(kind string, r io.Reader, read func(*json.Decoder) error) error {
	limited := limit.Reader(limit.Labels, r)
	d := json.NewDecoder(limited)
	err := read(d)
	var own *problem
	switch {
	case err == nil:
		return nil
	case limited.Err() != nil:
		return fmt.Errorf("%s: %w", kind, limited.Err())
	case errors.As(err, &own):
		return fmt.Errorf("%s: %w", kind, err)
	}
	return fmt.Errorf("%s: offset %d: %w", kind, d.InputOffset(), err)
}

// problem is what is wrong with a file that is JSON.
type problem struct{ text string }

func (p *problem) Error() string { return p.text }

func problemf(format string, args ...any) error { return &problem{fmt.Sprintf(format, args...)} }

// read takes the labels one by one, as a small file may hold very many.
func read(d *json.Decoder) (*File, error) {
	f := &File{Labels: []Label{}}
	schema := ""
	err := object(d, map[string]func() error{
		"schema": func() error { return d.Decode(&schema) },
		"device": func() error { return d.Decode(&f.Device) },
		"labels": func() error {
			return list(d, "labels", maxLabels, func(i int) error {
				label, err := one(d, i)
				f.Labels = append(f.Labels, label)
				return err
			})
		},
	})
	switch {
	case err != nil:
		return nil, err
	case schema != Schema:
		return nil, problemf("schema is %.40q, want %q", schema, Schema)
	case f.Device < 0:
		return nil, problemf("device %d", f.Device)
	}
	for i := range f.Labels {
		if f.Labels[i].Device < 0 {
			f.Labels[i].Device = f.Device
		}
	}
	return f, nil
}

// object reads the one object that a file is.
func object(d *json.Decoder, known map[string]func() error) error {
	if t, err := d.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return errors.New("no object")
	}
	return fields(d, known)
}

// fields reads an object from behind its brace; those of other names are passed over.
func fields(d *json.Decoder, known map[string]func() error) error {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if read := known[name]; read != nil {
			err = read()
		} else {
			err = skip(d)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// list reads a list element by element; null is an empty one.
func list(d *json.Decoder, what string, most int, one func(i int) error) error {
	t, err := d.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return errors.New(what + " are no list")
	}
	for i := 0; d.More(); i++ {
		if i >= most {
			return problemf("more than %d %s", most, what)
		}
		if err := one(i); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
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

// one reads the i-th label.
func one(d *json.Decoder, i int) (Label, error) {
	var l struct {
		Address  *uint64
		Device   *int
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
	case l.Device != nil && *l.Device < 0:
		return Label{}, problemf("label %d has device %d", i, *l.Device)
	case l.Event != nil && *l.Event < 0:
		return Label{}, problemf("label %d has event %d, a number of allocations", i, *l.Event)
	case len(l.Name) > maxName:
		return Label{}, problemf("the name of label %d has %d bytes, at most %d are read", i, len(l.Name), maxName)
	}
	label := Label{Address: *l.Address, Allocations: -1, Category: l.Category, Name: l.Name, Device: -1}
	if l.Device != nil {
		label.Device = *l.Device
	}
	if l.Event != nil {
		label.Allocations = *l.Event
	}
	return label, nil
}
