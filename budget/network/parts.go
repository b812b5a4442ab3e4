package network

import (
	"cmp"
	"reflect"
	"strings"

	"github.com/vramscope/vramscope/budget/families"
)

// parts are what has weights, and how large these are.
type parts struct {
	to    []any    // pointers to what has the fields; the first that has one counts
	role  Role     // of layers and weights, empty: as their fields have it
	norm  normKind // of norms
	sizes sizes
}

// sizes by their names in words; others are numbers of what has the fields, or the configuration's.
type sizes map[string]int64

// usual are layers by what most families have them for: the field, features in and out, and the role.
var usual = map[string]struct {
	field, sizes string
	role         Role
}{"q": {"q", "h>Heads*Width", RoleAttention}, "k": {"k", "h>KV*Width", RoleAttention},
	"v": {"v", "h>KV*Width", RoleAttention}, "qkv": {"q", "h>(Heads+2*KV)*Width", RoleAttention},
	"o": {"o", "Heads*Width>h", RoleAttention}, "gate": {"gate", "h>inner", RoleMLP}, "up": {"up", "h>inner", RoleMLP},
	"gateUp": {"up", "h>2*inner", RoleMLP}, "down": {"down", "inner>h", RoleMLP}, "class": {role: RolePosition},
	"Position": {role: RolePosition}, "-": {role: RolePosition}, "weight": {role: RoleEmbedding}, "bias": {role: RoleEmbedding},
	"sinks": {role: RoleAttention}}

// make makes what words name, in their order, each as FIELD=TENSOR:SIZES. A field is a layer (IN>OUT), a norm (of one size, h
// unless it says so) or a weight, and "-" a layer or weight, "-n" a norm that nothing asks for; "attnScale" is a weight for each
// channel of what attention gives. Behind a name + says that it has a bias, ?FLAG that a field of the configuration says so, and
// @FLAG that one says whether it is there at all. A layer with ^ is gpt2's.
func (b *builder) make(p parts, list string) {
	for word := range strings.FieldsSeq(list) {
		word, when, some := strings.Cut(word, "@")
		if some && !b.flag(when) {
			continue
		}
		word, dims, _ := strings.Cut(word, ":")
		field, name, _ := strings.Cut(word, "=")
		name, flag, _ := strings.Cut(name, "?")
		name, bias := strings.CutSuffix(name, "+")
		p.one(b, field, name, dims, bias || b.flag(flag))
	}
}

// one makes what a word names.
func (p parts) one(b *builder, field, name, dims string, bias bool) {
	u, to := usual[field], p.field(field)
	if !to.IsValid() {
		to = p.field(u.field)
	}
	dims, role := cmp.Or(dims, u.sizes), cmp.Or(p.role, u.role)
	part, scaled := strings.CutSuffix(field, "Scale")
	in, out, layered := strings.Cut(dims, ">")
	bare, turned := strings.CutSuffix(name, "^")
	var x any
	switch {
	case scaled && !to.IsValid():
		to = p.field(part + "Out")
		x = &norm{kind: layerScaleKind, size: p.sizes["h"], weight: b.param(name, RoleNorm, p.sizes["h"])}
	case turned:
		rows, columns := p.size(b, in), p.size(b, out) // gpt2's Conv1D, whose weight is stored transposed
		x = &Linear{layer: layer{In: rows, Out: columns, Weight: b.param(bare+".weight", role, rows, columns),
			Bias: b.param(bare+".bias", role, columns)}}
	case layered:
		x = b.linear(name, role, p.size(b, in), p.size(b, out), bias)
	case field == "-n" || to.IsValid() && to.Type() == reflect.TypeFor[*norm]():
		x = b.norm(name, p.norm, p.size(b, cmp.Or(dims, "h")), bias)
	default:
		var shape []int64
		for s := range strings.SplitSeq(dims, ",") {
			shape = append(shape, p.size(b, s))
		}
		x = b.param(name, role, shape...)
	}
	if to.IsValid() {
		put(to, x)
	}
}

// put sets a field of this package, though nobody else sees it.
func put(to reflect.Value, x any) {
	reflect.NewAt(to.Type(), to.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(x))
}

// turnOn makes true what is named, FIELD or FIELD@FLAG with commas between.
func (p parts) turnOn(b *builder, list string) {
	for word := range strings.SplitSeq(list, ",") {
		if field, when, some := strings.Cut(word, "@"); word != "" && (!some || b.flag(when)) {
			put(p.field(field), true)
		}
	}
}

// field is the one of that name.
func (p parts) field(name string) (f reflect.Value) {
	for _, t := range p.to {
		if f = reflect.ValueOf(t).Elem().FieldByName(name); f.IsValid() {
			break
		}
	}
	return f
}

// size works a size out.
func (p parts) size(b *builder, s string) int64 {
	return families.Value(s, func(name string) int64 {
		if n, ok := p.sizes[name]; ok {
			return n
		}
		if f := p.field(name); f.IsValid() && f.CanInt() {
			return f.Int()
		}
		return b.c.Int(name)
	})
}

// fill makes parts of a block, of a stream of h elements and inner ones within the feed-forward; at is the attention that is
// meant, nil: the block's own.
func (b *builder) fill(bl *Block, at *Attention, h, inner int64, list string) {
	p := parts{to: []any{bl}, sizes: sizes{"h": h, "inner": inner}}
	if at == nil {
		at = bl.Attention
	}
	if at != nil {
		p.to = append(p.to, at)
	}
	if f, ok := bl.FF.(*mlp); ok {
		p.to = append(p.to, f)
	}
	b.make(p, list)
}
