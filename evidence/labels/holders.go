package labels

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// HoldersSchema is that of the file that says which variables hold memory.
const HoldersSchema = "vramscope.holders/1"

// Limits on what a file of holders may contain.
const (
	maxHolders   = 1 << 20
	maxAddresses = 8 << 20 // of all holders together
)

// Holder is a variable of the program, and what it keeps alive.
type Holder struct {
	Path        string // main.trainer.losses
	Device      int
	Allocations int64    // as a label's
	Tensors     []uint64 // addresses of what it refers to
	Graph       []uint64 // of what the autograd graphs behind those saved, and nothing else holds
	Shown       []int64  // bytes that tensors show of each of those addresses; none where they show all
	Bound       int64    // elements that its container may hold at most; 0: nobody knows of a bound
	Elements    int64    // that it holds, where it has one
	Cycle       bool     // no variable: objects that refer to each other, and nothing else to them
}

// ReadHolders reads a file of holders.
func ReadHolders(r io.Reader) ([]Holder, error) {
	var h holders
	if err := decode("holders", r, h.read); err != nil {
		return nil, err
	}
	return h.found, nil
}

type holders struct {
	found     []Holder
	addresses int
}

func (h *holders) read(d *json.Decoder) error {
	schema, device := "", 0
	err := object(d, map[string]func() error{
		"schema": func() error { return d.Decode(&schema) },
		"device": func() error { return d.Decode(&device) },
		"holders": func() error {
			return list(d, "holders", maxHolders, func(i int) error { return h.one(d, i) })
		},
	})
	switch {
	case err != nil:
		return err
	case schema != HoldersSchema:
		return problemf("schema is %.40q, want %q", schema, HoldersSchema)
	case device < 0:
		return problemf("device %d", device)
	}
	for i := range h.found {
		if h.found[i].Device < 0 {
			h.found[i].Device = device
		}
	}
	return nil
}

// one reads the i-th holder, address by address.
func (h *holders) one(d *json.Decoder, i int) error {
	x := Holder{Device: -1, Allocations: -1}
	addresses := func(into *[]uint64) func() error {
		return func() error {
			return list(d, "addresses", maxAddresses, func(int) error {
				if h.addresses++; h.addresses > maxAddresses {
					return problemf("more than %d addresses", maxAddresses)
				}
				var a uint64
				err := d.Decode(&a)
				*into = append(*into, a)
				return err
			})
		}
	}
	t, err := d.Token()
	if err == nil && t != json.Delim('{') {
		err = errors.New("a holder is no object")
	}
	if err == nil {
		err = fields(d, map[string]func() error{
			"path":    func() error { return d.Decode(&x.Path) },
			"device":  func() error { return d.Decode(&x.Device) },
			"event":   func() error { return optional(d, &x.Allocations) },
			"tensors": addresses(&x.Tensors),
			"graph":   addresses(&x.Graph),
			"shown": func() error {
				return list(d, "shown", maxAddresses, func(int) error {
					var bytes int64
					err := d.Decode(&bytes)
					x.Shown = append(x.Shown, bytes)
					return err
				})
			},
			"cycle":    func() error { return d.Decode(&x.Cycle) },
			"bound":    func() error { return d.Decode(&x.Bound) },
			"elements": func() error { return d.Decode(&x.Elements) },
		})
	}
	switch {
	case err != nil:
		return err
	case len(x.Path) > maxName:
		return problemf("the path of holder %d has %d bytes, at most %d are read", i, len(x.Path), maxName)
	case x.Allocations < -1:
		return problemf("holder %d has event %d, a number of allocations", i, x.Allocations)
	case len(x.Shown) > 0 && len(x.Shown) != len(x.Tensors):
		return problemf("holder %d shows bytes of %d tensors, and has %d", i, len(x.Shown), len(x.Tensors))
	case slices.ContainsFunc(x.Shown, func(bytes int64) bool { return bytes < 0 }):
		return problemf("holder %d shows a negative number of bytes", i)
	}
	if x.Bound < 0 || x.Elements < 0 || x.Elements > x.Bound {
		return problemf("holder %d has %d elements, and at most %d", i, x.Elements, x.Bound)
	}
	h.found = append(h.found, x)
	return nil
}

// optional decodes a number that may be null.
func optional(d *json.Decoder, n *int64) error {
	var v *int64
	err := d.Decode(&v)
	if v != nil {
		*n = *v
	}
	return err
}
