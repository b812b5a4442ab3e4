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
	var doc struct {
		Schema string
		Device int
		Labels []struct {
			Address  *uint64
			Event    *int64
			Category string
			Name     string
		}
	}
	if err := d.Decode(&doc); err != nil {
		if limited.N == 0 {
			return nil, fmt.Errorf("labels: more than %d MiB", maxBytes>>20)
		}
		return nil, fmt.Errorf("labels: offset %d: %w", d.InputOffset(), err)
	}
	switch {
	case doc.Schema != Schema:
		return nil, fmt.Errorf("labels: schema is %.40q, want %q", doc.Schema, Schema)
	case doc.Device < 0:
		return nil, fmt.Errorf("labels: device %d", doc.Device)
	case len(doc.Labels) > maxLabels:
		return nil, fmt.Errorf("labels: %d labels, at most %d are read", len(doc.Labels), maxLabels)
	}
	f := &File{Device: doc.Device, Labels: make([]Label, 0, len(doc.Labels))}
	for i, l := range doc.Labels {
		switch {
		case l.Address == nil:
			return nil, fmt.Errorf("labels: label %d has no address", i)
		case l.Event != nil && *l.Event < 0:
			return nil, fmt.Errorf("labels: label %d has event %d, a number of allocations", i, *l.Event)
		case len(l.Name) > maxName:
			return nil, fmt.Errorf("labels: the name of label %d has %d bytes, at most %d are read", i, len(l.Name), maxName)
		}
		label := Label{Address: *l.Address, Allocations: -1, Category: l.Category, Name: l.Name}
		if l.Event != nil {
			label.Allocations = *l.Event
		}
		f.Labels = append(f.Labels, label)
	}
	return f, nil
}
