package recipe

import (
	"fmt"
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
	beside []string // and one of these, likewise
	rows   []row
	always []Flag // what the framework does unless a field says otherwise
	settle func(f *fields, r *Recipe)

	computes bool // a type is what is computed in, whatever weights are kept in
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
	for i := range formats() {
		x := &formats()[i]
		missing := func(name string) bool { return !f.has(name) }
		one := func(names []string) bool { return len(names) == 0 || slices.ContainsFunc(names, f.has) }
		if !slices.ContainsFunc(x.all, missing) && one(x.any) && one(x.beside) && !(f.plain && x.name == "TRL arguments") {
			return x
		}
	}
	return nil
}

// read goes through a file's fields in their order.
func (x *format) read(f *fields) *Recipe {
	r := &Recipe{Format: x.name, computes: x.computes, autocasts: x.autocasts(f)}
	set := map[string]bool{}
	for _, name := range f.names {
		flags, ok := x.meaningOf(name, f)
		if !ok {
			r.Ignored = append(r.Ignored, name)
			if x.open(name, f.values[name]) {
				r.Open = append(r.Open, name+" "+f.values[name])
				r.openFields++
			}
			continue
		}
		flags = r.model(flags)
		for _, g := range flags {
			set[g.Name] = true
		}
		r.Fields = append(r.Fields, Field{Name: name, Value: f.values[name], Flags: flags})
	}
	x.undecided(f, r)
	for _, g := range x.always {
		if !set[g.Name] {
			r.unasked(g)
		}
	}
	r.putOn(f)
	if x.settle != nil {
		x.settle(f, r)
	}
	switch name := strings.ToLower(r.Model); { // a type is what is computed in then
	case packed().MatchString(name):
		r.implied(Flag{"precision", "int4"})
	case eightBits().MatchString(name) && valueOf(r.Flags(), "inference") != "": // trainings take them unpacked
		r.implied(Flag{"precision", "int8"})
	}
	return r
}

// autocasts says whether Accelerate has mixed precision on, as fields say or TRL's arguments do unasked.
func (x *format) autocasts(f *fields) bool {
	if !f.has("bf16") && !f.has("fp16") && slices.Contains(x.always, Flag{"framework", "trl"}) {
		return true
	}
	return f.yes("bf16") || f.yes("fp16") || strings.HasSuffix(f.values["mixed_precision"], "16")
}

// undecided names what only the running program knows.
func (x *format) undecided(f *fields, r *Recipe) {
	for _, name := range f.workedOut {
		if f.values[name] == "" && x.open(name, "worked out") && !slices.Contains(r.Ignored, name) {
			r.Ignored, r.Open = append(r.Ignored, name), append(r.Open, name+", which the program works out")
			r.openFields++
		}
	}
	for _, name := range f.perhaps {
		if x.open(name, f.values[name]) {
			r.Open = append(r.Open, fmt.Sprintf("%s %s (%s)", name, f.values[name], f.doubts[name]))
		}
	}
}

// packed tells by a model's name that its weights have four bits.
var packed = pattern.Of(`(^|[-_.])(4bit|awq|gptq|int4|nf4|nvfp4|mxfp4|w4a16)`)

// eightBits tells that they have eight.
var eightBits = pattern.Of(`(^|[-_.])(fp8|int8|w8a8|8bit)`)

// open says whether a peak may depend on a field that isn't understood: one that has a
// meaning but not with this value, or one that is called like what takes memory.
func (x *format) open(name, v string) bool {
	if isNo(v) || v == "-1" {
		return false
	}
	for i := range x.rows {
		if x.rows[i].field == name {
			return true
		}
	}
	if v == "1" {
		return false
	}
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	return takesMemory().MatchString(name) && !takesNone().MatchString(name)
}

var (
	takesMemory = pattern.Of(`quantiz|galore|lomo|cut_cross|(fused|chunked)_|pack|plugin|activation_(cpu_)?off|` +
		`partition_activ|frozen|all_gather|async_t|_bits?$|[48]bit|offload|shard|parallel|` +
		`recompute|checkpointing$|badam|lisa_n|adam|fp8|float8|fp4|dtype|precision|compile|freez|trainable|num_generations|` +
		`batch_size|model_(init_)?kwargs$|` +
		`(seq|model|max|context)_?len|oft_|_r(ank)?$|adapter$|ema_|teacher|ref_model|reward_model|draft|speculative|` +
		`vision_tower|num_images|image_size|(first|last)_pipeline`)
	takesNone = pattern.Of(`^train_batch_size$|_method$|_backend$|_scale|filter|limit_all_gathers|parallel_plan|custom_sharded|` +
		`policy|eval|kernel|(^|_)(load|sav)|state_dict|ckpt|checkpoint(er)?[._]|tokenizer|dataset|` +
		`data(loader)?_(path|dir|files?|cache|impl|workers|pin|prefetch|drop|num|config)|beta|epsilon|eps$|wandb|` +
		`profil|find_unused|logit|downcast|export|processes|workers|rampup|initial|seed|lr|learning`)
)

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
		n := whole(v)
		if n == 0 {
			return nil, false
		}
		return []Flag{{flag, strconv.FormatInt(n, 10)}}, true
	}
}

// whole is a whole number above zero, in the ways in which files write one; else 0.
func whole(v string) int64 {
	unit := thousands[v[max(len(v)-1, 0):]]
	if unit > 0 { // vLLM's: 32K
		v = v[:len(v)-1]
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v, "_", ""), 64)
	if n *= max(unit, 1); err != nil || !(n >= 1 && n <= 1<<40) || n != float64(int64(n)) {
		return 0
	}
	return int64(n)
}

var thousands = map[string]float64{"k": 1000, "K": 1 << 10, "m": 1e6, "M": 1 << 20}

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
		return nil, v != "" && isNo(v)
	}
}

// anyValue takes note of a field that others' meanings look at.
func anyValue(v string, _ *fields) ([]Flag, bool) { return nil, v != "" }

// unless sets flags where a field says no.
func unless(flags ...Flag) meaning {
	return func(v string, _ *fields) ([]Flag, bool) {
		if isYes(v) || isSet(v) || v == "" || strings.EqualFold(v, "null") {
			return nil, isYes(v)
		}
		return flags, true
	}
}

// optimizerArguments are those of an optimizer that another field names: an SGD with momentum has state.
func optimizerArguments(v string, f *fields) ([]Flag, bool) {
	said := f.values["optim"] + f.values["optimizer"]
	switch momentum, has := strings.CutPrefix(strings.ReplaceAll(v, " ", ""), "momentum="); {
	case has && said == "sgd":
		if momentum, _, _ = strings.Cut(momentum, ","); isNo(momentum) || momentum == "0.0" {
			return nil, true
		}
		return []Flag{{"optimizer", "momentum"}}, true
	case said == "sgd":
		return nil, false
	}
	return nil, !stateful().MatchString(v)
}

// stateful tells arguments that an optimizer's state may depend on.
var stateful = pattern.Of(`dtype|rank|kahan|momentum|amsgrad|proj`)

// moduleList are names of layers, with commas; one expression for all is passed over.
func moduleList(v string, _ *fields) ([]Flag, bool) {
	switch l := strings.ToLower(v); {
	case l == "all" || l == "all-linear" || strings.HasPrefix(l, "all,"):
		return []Flag{{"lora-targets", "all"}}, true
	case !isSet(v):
		return nil, false
	case strings.ContainsAny(v, `*()|\[ `):
		return layersLike(v)
	}
	return []Flag{{"lora-targets", v}}, true
}

// layersLike are the usual layers that an expression fits, as PEFT reads it: over a whole name.
func layersLike(v string) ([]Flag, bool) {
	re, err := regexp.Compile("^(?:" + v + ")$")
	if err != nil { // a star may stand for any text, as in *_proj
		if re, err = regexp.Compile("^" + strings.ReplaceAll(regexp.QuoteMeta(v), `\*`, `.*`) + "$"); err != nil {
			return nil, false
		}
	}
	var names []string
	for _, layer := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
		"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
		if slices.ContainsFunc([]string{"", "language_model.", "text_model."}, func(at string) bool {
			return re.MatchString("model." + at + "layers.0." + layer)
		}) {
			names = append(names, layer[strings.IndexByte(layer, '.')+1:])
		}
	}
	return []Flag{{"lora-targets", strings.Join(names, ",")}}, len(names) > 0
}
