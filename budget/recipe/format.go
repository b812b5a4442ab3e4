package recipe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// format is a framework's file: how it is recognised, and what its fields mean.
type format struct {
	name   string
	all    []string // fields that it has
	any    []string // and of which it has one, if there are any here
	rows   []row
	always []Flag // what the framework does unless a field says otherwise
	settle func(f *fields, r *Recipe)
}

// row says what a field means.
type row struct {
	field string
	means meaning
}

// meaning makes flags of a field's value, beside the other fields; false: it says nothing.
type meaning func(v string, f *fields) ([]Flag, bool)

// Names of flags that aren't the budget's: the model, and fields of its configuration.
const (
	modelFlag = "model"
	shapeFlag = "shape."
)

// formatOf tells whose fields these are: the first format that they fit.
func formatOf(f *fields) *format {
	for i := range formats {
		x := &formats[i]
		missing := func(name string) bool { return !f.has(name) }
		if slices.ContainsFunc(x.all, missing) || len(x.any) > 0 && !slices.ContainsFunc(x.any, f.has) {
			continue
		}
		return x
	}
	return nil
}

// read goes through a file's fields in their order.
func (x *format) read(f *fields) *Recipe {
	r := &Recipe{Format: x.name}
	set := map[string]bool{}
	for _, name := range f.names {
		flags, ok := x.meaningOf(name, f)
		if !ok {
			r.Ignored = append(r.Ignored, name)
			continue
		}
		flags = r.model(flags)
		for _, g := range flags {
			set[g.Name] = true
		}
		r.Fields = append(r.Fields, Field{Name: name, Value: f.values[name], Flags: flags})
	}
	for _, g := range x.always {
		if !set[g.Name] {
			r.Fields = append(r.Fields, Field{Flags: []Flag{g}})
		}
	}
	if x.settle != nil {
		x.settle(f, r)
	}
	if packed().MatchString(strings.ToLower(r.Model)) && !set["precision"] {
		r.implied(Flag{"precision", "int4"})
	}
	return r
}

// packed tells by a model's name that its weights have four bits.
var packed = pattern.Of(`(^|[-_])(4bit|awq|gptq|int4|nf4)`)

func (x *format) meaningOf(name string, f *fields) ([]Flag, bool) {
	for i := range x.rows {
		if x.rows[i].field == name {
			return x.rows[i].means(f.values[name], f)
		}
	}
	return nil, false
}

// model takes what describes the model out of the flags.
func (r *Recipe) model(flags []Flag) (rest []Flag) {
	for _, g := range flags {
		switch {
		case g.Name == "": // what settle works with
		case g.Name == modelFlag:
			r.Model = g.Value
		case strings.HasPrefix(g.Name, shapeFlag):
			if r.Shape == nil {
				r.Shape = map[string]any{}
			}
			var v any = g.Value
			if n, err := strconv.ParseFloat(g.Value, 64); err == nil {
				v = n
			} else if b, err := strconv.ParseBool(g.Value); err == nil {
				v = b
			}
			r.Shape[strings.TrimPrefix(g.Name, shapeFlag)] = v
		default:
			rest = append(rest, g)
		}
	}
	return rest
}

// Flags are all flags that the file means, the last of a name counting.
func (r *Recipe) Flags() []Flag {
	var all []Flag
	for _, f := range r.Fields {
		for _, g := range f.Flags {
			all = slices.DeleteFunc(all, func(h Flag) bool { return h.Name == g.Name })
			all = append(all, g)
		}
	}
	return all
}

// number is a whole number above zero.
func number(flag string) meaning {
	return func(v string, _ *fields) ([]Flag, bool) {
		n, err := strconv.ParseFloat(strings.ReplaceAll(v, "_", ""), 64)
		if err != nil || n < 1 || n > 1<<40 || n != float64(int64(n)) {
			return nil, false
		}
		return []Flag{{flag, strconv.FormatInt(int64(n), 10)}}, true
	}
}

// atLeastNone is a whole number, of which zero is one.
func atLeastNone(flag string) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if v == "0" || v == "0.0" {
			return []Flag{{flag, "0"}}, true
		}
		return number(flag)(v, f)
	}
}

// share is a number from 0 to 1.
func share(flag string) meaning {
	return func(v string, _ *fields) ([]Flag, bool) {
		n, err := strconv.ParseFloat(v, 64)
		return []Flag{{flag, v}}, err == nil && n >= 0 && n < 1
	}
}

// word is a value as it stands there.
func word(flag string) meaning {
	return func(v string, _ *fields) ([]Flag, bool) { return []Flag{{flag, v}}, isSet(v) }
}

// when sets flags where a field says yes. What says no is what there would be without it.
func when(flags ...Flag) meaning {
	return func(v string, _ *fields) ([]Flag, bool) {
		if isYes(v) {
			return flags, true
		}
		return nil, v != ""
	}
}

// unless sets flags where a field says no.
func unless(flags ...Flag) meaning {
	return func(v string, _ *fields) ([]Flag, bool) {
		if isYes(v) || isSet(v) || v == "" || strings.EqualFold(v, "null") {
			return nil, isYes(v)
		}
		return flags, true
	}
}

// choice is one of some words, whatever their case.
func choice(flag string, words map[string]string) meaning {
	return func(v string, _ *fields) ([]Flag, bool) {
		w, ok := words[strings.ToLower(v)]
		if !ok {
			return nil, false
		}
		return []Flag{{flag, w}}, true
	}
}

// found is the first of some expressions that a value fits.
func found(rows ...[]string) meaning {
	type one struct {
		re    func() *regexp.Regexp
		flags []Flag
	}
	var all []one
	for _, r := range rows {
		x := one{re: pattern.Of(r[0])}
		for i := 1; i+1 < len(r); i += 2 {
			x.flags = append(x.flags, Flag{r[i], r[i+1]})
		}
		all = append(all, x)
	}
	return func(v string, _ *fields) ([]Flag, bool) {
		for _, x := range all {
			if x.re().MatchString(strings.ToLower(v)) {
				return x.flags, true
			}
		}
		return nil, false
	}
}

// both joins what two meanings make of a field.
func both(a, b meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		x, ok := a(v, f)
		y, also := b(v, f)
		return append(slices.Clone(x), y...), ok || also
	}
}

// only is a meaning that a field has beside some others.
func only(if_ func(f *fields) bool, m meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if !if_(f) {
			return nil, false
		}
		return m(v, f)
	}
}

// optimizer reads the names that PyTorch, Transformers, bitsandbytes and DeepSpeed have.
var optimizer = found(
	[]string{`paged.*adamw?_?8|paged.*adamw8`, "optimizer", "adamw-8bit"},
	[]string{`adamw?_?(bnb_?)?8(bit)?|adamw_bnb|adamw_torch_8bit|adamw?8bit`, "optimizer", "adamw-8bit"},
	[]string{`lion.*8|paged_lion_8`, "optimizer", "lion-8bit"},
	[]string{`adamw?_torch_fused|adamw_fused|fusedadam`, "optimizer", "adamw-fused"},
	[]string{`adamw_apex_fused|adamw_hf|adamw_torch$|^adamw?$|optim\.adamw?$|cpuadam`, "optimizer", "adamw"},
	[]string{`pagedadamw32|paged_adamw(_32bit)?$`, "optimizer", "adamw"},
	[]string{`adafactor`, "optimizer", "adafactor-hf"},
	[]string{`lion`, "optimizer", "lion"}, []string{`apollo_adamw`, "optimizer", "apollo"},
	[]string{`galore`, "optimizer", "galore"}, []string{`muon`, "optimizer", "muon-adamw"},
	[]string{`adagrad`, "optimizer", "adagrad"}, []string{`rmsprop`, "optimizer", "rmsprop"}, []string{`lamb`, "optimizer",
		"lamb"},
	[]string{`sgd`, "optimizer", "sgd"})

// attention reads what implementations are called.
var attention = found([]string{`flash|^fa2?$|^fa3$`, "attention", "flash"}, []string{`sdpa|fused|auto|efficient`, "attention",
	"sdpa"},
	[]string{`eager|disabled|unfused|local`, "attention", "eager"})

// offloaded reads the device of what DeepSpeed moves away.
func offloaded(what string) meaning {
	return found([]string{`^(cpu|nvme)$`, "offload", what}, []string{`^none$`})
}

// moduleList are names of layers, with commas; one expression for all is passed over.
func moduleList(v string, _ *fields) ([]Flag, bool) {
	switch l := strings.ToLower(v); {
	case l == "all" || l == "all-linear" || strings.HasPrefix(l, "all,"):
		return []Flag{{"lora-targets", "all"}}, true
	case !isSet(v) || strings.ContainsAny(v, `*()|\[ `):
		return nil, false
	}
	return []Flag{{"lora-targets", v}}, true
}

// stageInName reads ZeRO's stage from the name of a DeepSpeed configuration.
var stageInName = found([]string{`(zero|z|stage)_?-?3.*offload`, "zero", "3", "offload", "params"},
	[]string{`(zero|z|stage)_?-?2.*offload`, "zero", "2", "offload", "optimizer"}, []string{`(zero|z|stage)_?-?3`, "zero", "3"},
	[]string{`(zero|z|stage)_?-?2`, "zero", "2"}, []string{`(zero|z|stage)_?-?1`, "zero", "1"}, []string{`(zero|z|stage)_?-?0`})

// resharded says whether FSDP2 lets go of a block between its passes; with FSDP1's words, too.
var resharded = found([]string{`^(false|no|shard_grad_op|hybrid_shard_zero2)$`, "keep-gathered", "true"}, []string{`.`})

// shardings are FSDP's strategies, as Transformers and Accelerate name them.
var shardings = found([]string{`hybrid.*zero_?2|^5$`, "fsdp", "hybrid", "keep-gathered", "true"},
	[]string{`hybrid|^4$`, "fsdp", "hybrid"},
	[]string{`full_shard.*offload|offload.*full_shard`, "fsdp", "full", "offload", "params"},
	[]string{`full|^1$`, "fsdp", "full"},
	[]string{`shard_grad_op|^2$`, "fsdp", "full", "keep-gathered", "true"}, []string{`no_shard|^3$`})
