package settings

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/optimizers"
)
import _ "embed"

// Field is one of a setting's: a flag, or a key of --set where few need it.
type Field struct {
	Name   string
	Start  any // where nobody says anything
	Help   string
	Seldom bool

	at          int      // its place in a setting
	words       []string // that it takes; nil: any
	least, most float64  // where it is a number; both 0: any
	told        string   // where a budget's document has the field
}

// At is the place of the field in a setting: a pointer to a string, a bool, an int, an int64 or a float64.
func (f *Field) At(s *Setting) any { return f.value(s).Addr().Interface() }

func (f *Field) value(s *Setting) reflect.Value { return reflect.ValueOf(s).Elem().Field(f.at) }

// More than any run has, of tokens and the like and of ranks.
const (
	anyCount    = 1 << 40
	mostRanks   = 1 << 20
	mostPrompts = 1 << 24 // tokens that an engine takes at once
)

//go:embed fields.txt
var fieldsText string

// Fields are all, in the order in which a plan's command line has them.
var Fields = readFields(fieldsText)

// readFields reads fields.txt, whose faults any test finds.
func readFields(text string) (all []Field) {
	setting := reflect.TypeFor[Setting]()
	lists := map[string][]string{"{optimizers}": optimizers.Names(), "{frameworks}": Frameworks()}
	for line := range strings.Lines(text) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if len(c) < 6 {
			continue
		}
		at, _ := setting.FieldByName(c[1])
		f := Field{Name: c[0], Help: c[5], at: at.Index[0]}
		f.told, _, f.Seldom = strings.Cut(c[4], " seldom")
		start := reflect.New(at.Type)
		if c[2] != "-" {
			_, _ = fmt.Sscan(c[2], start.Interface())
		}
		f.Start = start.Elem().Interface()
		if least, most, ok := strings.Cut(c[3], ".."); ok {
			f.least, f.most = bound(least), bound(most)
		} else if c[3] != "-" {
			f.words = strings.Split(c[3], ",")
		}
		if list := lists[c[3]]; list != nil {
			f.words, f.Help = list, strings.Replace(f.Help, c[3], strings.Join(list, " "), 1)
		}
		all = append(all, f)
	}
	return all
}

// bound is a number, or one of two that have names.
func bound(s string) float64 {
	if n := map[string]float64{"any": anyCount, "ranks": mostRanks}[s]; n > 0 {
		return n
	}
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

// typed says of fields whether a plan's command line has them, where that isn't whether they are as at the start.
var typed = map[string]func(*Setting) bool{
	"precision": always, "batch": always, "seq": func(s *Setting) bool { return s.Resolution == 0 },
	"gpus": func(s *Setting) bool { return s.GPUs > 1 },
	"dora": never, "drop-outputs": never, "decoder-seq": never, "context": never,
	"adapter":        func(s *Setting) bool { return s.Adapts() && s.Adapter != "lora" },
	"lora-targets":   func(s *Setting) bool { return s.Adapts() && s.LoRATargets != "all" },
	"lora-dtype":     func(s *Setting) bool { return s.Adapts() && s.LoRADtype != "fp32" },
	"gradient-dtype": func(s *Setting) bool { return s.GradientDtype != "" && s.FSDP == "" },
	"compile":        func(s *Setting) bool { return s.Compile && !s.CUDAGraphs },
	"float8-recipe":  func(s *Setting) bool { return s.Float8 && s.ByRows() },
	"framework":      (*Setting).namesFramework,
	"host-ahead":     func(s *Setting) bool { return !s.HostAhead && s.FSDPVersion == 1 },
}

func always(*Setting) bool { return true }
func never(*Setting) bool  { return false }

// is the field's value in a setting.
func (f *Field) is(s *Setting) any { return f.value(s).Interface() }

// SetFlag gives a field what its flag says.
func (s *Setting) SetFlag(flag, value string) {
	i := slices.IndexFunc(Fields, func(f Field) bool { return f.Name == flag })
	_, _ = fmt.Sscan(value, Fields[i].At(s))
}

// start gives fields that say nothing what they are then.
func (s *Setting) start() {
	for i := range Fields {
		if v := Fields[i].value(s); v.Kind() != reflect.Bool && v.IsZero() {
			v.Set(reflect.ValueOf(Fields[i].Start))
		}
	}
}

// Said reports whether a setting has the field otherwise than at the start.
func (f *Field) Said(s *Setting) bool {
	switch f.is(s) {
	case f.Start, "", 0, int64(0), 0.0:
		return false
	}
	return true
}

// key is the field's name in a document.
func (f *Field) key() string {
	switch f.Name {
	case "seq":
		return "sequence"
	case "decoder-seq":
		return "decoder_sequence"
	}
	return strings.ReplaceAll(f.Name, "-", "_")
}

// check refuses words and numbers that the field doesn't take.
func (f *Field) check(s *Setting) error {
	var n float64
	switch v := f.is(s).(type) {
	case string:
		if f.words != nil && !slices.Contains(f.words, v) {
			return fmt.Errorf("--%s %q: one of %s", f.Name, network.Short(v), strings.TrimSpace(strings.Join(f.words, " ")))
		}
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case float64:
		n = v
	}
	switch {
	case f.least == 0 && f.most == 0:
	case !(n >= f.least):
		return fmt.Errorf("--%s %v: at least %v", f.Name, f.is(s), f.least)
	case n > f.most:
		return fmt.Errorf("--%s %v: at most %s", f.Name, f.is(s), strconv.FormatFloat(f.most, 'f', -1, 64))
	}
	return nil
}

// tells says whether a document of the setting has the field.
func (s *Setting) tells(f *Field) bool {
	training := !s.Inference
	return map[string]bool{"always": true, "serving": s.Inference, "training": training, "sharded": training && s.FSDP != "",
		"adapters": training && s.Adapts(), "float8": training && s.Float8, "said": training && f.Said(s)}[f.told]
}

// Words are a setting's fields under the names of the flags.
func (s Setting) Words() map[string]any {
	m := map[string]any{"gpu": s.GPU}
	for i := range Fields {
		if f := &Fields[i]; s.tells(f) {
			m[f.key()] = f.is(&s)
		}
	}
	switch {
	case s.Inference:
		if e, ok := s.Served(); ok {
			m["engine"], m["gpu_share"], m["batch_tokens"], m["prefix_share"] = s.Engine, e.Share, e.Tokens, s.Shared
		}
		m["last_logit"] = s.LastLogit
		m["optimizer"], m["checkpointing"], m["loss"], m["zero"] = nil, nil, nil, nil
	case s.FSDP != "":
		m["fsdp_version"] = cmp.Or(s.FSDPVersion, 2)
	}
	if !s.Inference && s.Adapts() {
		m["dora"] = s.Adapter == "dora"
	}
	return m
}

// Flags are a plan's, as the command takes them.
func (s Setting) Flags() string {
	var words []string
	for i := range Fields {
		f := &Fields[i]
		if has := typed[f.Name]; has != nil && !has(&s) || has == nil && !f.Said(&s) {
			continue
		}
		switch v := f.is(&s); v {
		case true:
			words = append(words, "--"+f.Name)
		case false:
			words = append(words, "--"+f.Name+"=false")
		default:
			words = append(words, fmt.Sprintf("--%s %v", f.Name, v))
		}
	}
	return strings.Join(words, " ")
}

//go:embed dialects.txt
var dialects string

// FrameworkFlags tells a plan in the words of the framework that is asked for, "" where none is
// or it has none.
func (s Setting) FrameworkFlags() string {
	of := map[string]string{"shards": fmt.Sprint(s.GPUs / (max(s.TP, 1) * max(s.CP, 1)))}
	for i := range Fields {
		of[Fields[i].Name] = fmt.Sprint(Fields[i].is(&s))
	}
	if s.Offload == "optimizer" {
		of["optimizer"] = "paged " + s.Optimizer
	}
	if s.FSDP != "" && s.Offload == "params" {
		of["fsdp"] += " offload"
	}
	_, rows, _ := strings.Cut(dialects, "\n\n"+ProfileOf(s.Framework).Name+"\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var words []string
	for line := range strings.Lines(rows) {
		c := strings.SplitN(strings.TrimSpace(line), " | ", 3)
		v := of[c[0]]
		if above, numbers := strings.CutPrefix(c[1], ">"); numbers {
			n, _ := strconv.ParseInt(v, 10, 64)
			if least, _ := strconv.ParseInt(above, 10, 64); n > least {
				words = append(words, fmt.Sprintf(c[2], n))
			}
		} else if v == c[1] {
			words = append(words, c[2])
		}
	}
	return strings.Join(words, " ")
}
