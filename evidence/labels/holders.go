package labels

import (
	"bytes"
	"encoding/json"
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
	Allocations int64    `json:"-"` // as a label's
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

// written is a holder as the file has it.
type written struct {
	Holder
	Event *int64
}

// one reads the i-th holder.
func (h *holders) one(d *json.Decoder, i int) error {
	x, text := written{Holder: Holder{Device: -1}}, json.RawMessage{}
	if err := d.Decode(&text); err != nil {
		return err
	}
	if h.addresses += bytes.Count(text, []byte{','}); h.addresses > maxAddresses { // before they take memory
		return problemf("more than %d addresses", maxAddresses)
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	x.Allocations = -1
	if x.Event != nil {
		x.Allocations = *x.Event
	}
	switch {
	case len(x.Path) > maxName:
		return problemf("the path of holder %d has %d bytes, at most %d are read", i, len(x.Path), maxName)
	case x.Allocations < -1:
		return problemf("holder %d has event %d, a number of allocations", i, x.Allocations)
	case len(x.Shown) > 0 && len(x.Shown) != len(x.Tensors):
		return problemf("holder %d shows bytes of %d tensors, and has %d", i, len(x.Shown), len(x.Tensors))
	case slices.ContainsFunc(x.Shown, func(shown int64) bool { return shown < 0 }):
		return problemf("holder %d shows a negative number of bytes", i)
	case x.Bound < 0 || x.Elements < 0 || x.Elements > x.Bound:
		return problemf("holder %d has %d elements, and at most %d", i, x.Elements, x.Bound)
	}
	h.found = append(h.found, x.Holder)
	return nil
}
