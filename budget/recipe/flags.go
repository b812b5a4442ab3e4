package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/settings"
)

// SettingFlags are the budget's flags, which fields of recipes mean, over a setting; --set says those that few need.
func SettingFlags(fl *pflag.FlagSet, s *budget.Setting) {
	for i := range settings.Fields {
		f := &settings.Fields[i]
		switch p := f.At(s).(type) {
		case *string:
			fl.StringVar(p, f.Name, f.Start.(string), f.Help)
		case *bool:
			fl.BoolVar(p, f.Name, f.Start.(bool), f.Help)
		case *int:
			fl.IntVar(p, f.Name, f.Start.(int), f.Help)
		case *int64:
			fl.Int64Var(p, f.Name, f.Start.(int64), f.Help)
		case *float64:
			fl.Float64Var(p, f.Name, f.Start.(float64), f.Help)
		}
		fl.Lookup(f.Name).Hidden = f.Seldom
	}
	fl.Var(pairs{fl}, "set", "what few need, as `KEY=VALUE`: help budget lists the keys (repeatable)")
}

// pairs are those of --set, each of which is a flag of its own.
type pairs struct{ fl *pflag.FlagSet }

func (pairs) String() string { return "" }
func (pairs) Type() string   { return "pair" }

// Set gives a key its value.
func (p pairs) Set(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	key = strings.ReplaceAll(strings.TrimSpace(key), "_", "-")
	if !slices.ContainsFunc(settings.Fields, func(f settings.Field) bool { return f.Name == key }) {
		return fmt.Errorf("%q is no key: they are %s", Clipped(key), strings.Join(seldomKeys(), " "))
	}
	switch flag := p.fl.Lookup(key); {
	case !ok && flag.NoOptDefVal == "":
		return fmt.Errorf("%s has no value: %s=VALUE", key, key)
	case !ok:
		value = flag.NoOptDefVal
	case flag.Changed:
		return fmt.Errorf("%s is given twice", key)
	}
	return p.fl.Set(key, value)
}

func seldomKeys() (keys []string) {
	for _, f := range settings.Fields {
		if f.Seldom {
			keys = append(keys, f.Name)
		}
	}
	slices.Sort(keys)
	return keys
}

// Keys are those of --set, a line each with what it means.
func Keys() string {
	fl := pflag.NewFlagSet("keys", pflag.ContinueOnError)
	SettingFlags(fl, &budget.Setting{})
	var lines []string
	for _, key := range seldomKeys() {
		flag := fl.Lookup(key)
		value, help := pflag.UnquoteUsage(flag)
		if flag.DefValue == "true" {
			value = "false"
		}
		lines = append(lines, fmt.Sprintf("  %-28s %s", strings.TrimSuffix(key+"="+strings.ToUpper(value), "="), help))
	}
	return strings.Join(lines, "\n") + "\n"
}

// Unread ends what is said of a file that another names.
const Unread = ": with --recipe it is read, too"

// namedOnly says which configurations of DeepSpeed and Accelerate a file names that aren't among the others.
func namedOnly(rs []*Recipe) (said []string) {
	for _, other := range []struct{ format, field, end string }{{"DeepSpeed", "deepspeed", ".json"},
		{"accelerate", "config_file", ".yaml"}} {
		if slices.ContainsFunc(rs, func(r *Recipe) bool { return strings.HasPrefix(r.Format, other.format) }) {
			continue
		}
		for _, r := range rs {
			i := slices.IndexFunc(r.Fields, func(x Field) bool {
				return strings.Contains(x.Name, other.field) && strings.HasSuffix(x.Value, other.end)
			})
			if i >= 0 {
				said = append(said, "of "+Clipped(r.Fields[i].Value)+" the name alone is used"+Unread)
			}
		}
	}
	return said
}

// divided takes as many GPUs as a model lies on, where a file's own number can't be divided so.
func divided(s *budget.Setting) []string {
	need := s.TP * s.PP * s.CP
	if need < 1 || s.GPUs%need == 0 {
		return nil
	}
	said := s.GPUs
	s.GPUs = need
	return []string{fmt.Sprintf("the file's %d GPUs cannot be divided by --tp %d x --pp %d x --cp %d: "+
		"counted on %d; give --gpus N", said, s.TP, s.PP, s.CP, need)}
}

// trainersOutputs lets outputs go before backward, as the Trainer does, whose training_step has the
// loss alone, unless the user says otherwise.
func trainersOutputs(fl *pflag.FlagSet, s *budget.Setting) {
	if s.Trainer && !fl.Changed("drop-outputs") {
		s.DropOutputs = true
	}
}

// NoLength is said where nothing tells how long sequences are, if the model takes some.
const NoLength = "how long sequences are no file says: give --seq N"

// Apply sets the flags that recipes of one run mean and the user hasn't set, and gives their
// names, and what the files leave open.
func Apply(fl *pflag.FlagSet, rs []*Recipe, s *budget.Setting) (set, open []string, err error) {
	open = chosen(rs)
	for _, g := range Together(rs) {
		flag := fl.Lookup(g.Name)
		if flag == nil || flag.Changed {
			continue
		}
		if err := flag.Value.Set(g.Value); err != nil {
			return nil, nil, fmt.Errorf("--%s %q: %w", g.Name, g.Value, err)
		}
		flag.Changed = true
		set = append(set, g.Name)
	}
	s.NamesByFile = slices.Contains(set, "frozen") || slices.Contains(set, "trained")
	trainersOutputs(fl, s)
	open = append(open, namedOnly(rs)...)
	if slices.Contains(set, "gpus") {
		open = append(open, divided(s)...)
	}
	if ranks := s.GPUs / max(s.TP*s.PP, 1); ranks < 2 && (slices.Contains(set, "fsdp") || slices.Contains(set,
		"zero") && s.Zero > 0) {
		s.FSDP, s.Zero = "", 0
		if !fl.Changed("gpus") {
			open = append(open, "how many GPUs share the model no file says: counted unsharded; give --gpus N")
		}
	}
	if len(rs) > 0 && !fl.Changed("seq") && !fl.Changed("context") {
		open = append(open, NoLength)
	}
	return set, open, nil
}

// AllLogitsHelp is of --all-logits, the one flag of a setting that says the opposite of its field.
const AllLogitsHelp = "the prefill computes every token's logits, not the last one's only"

// Help is of --recipe.
const Help = "take the setting from a framework's own `FILE`: torchtune, torchtitan, axolotl, LLaMA-Factory, ms-swift, " +
	"litgpt, TRL, PEFT, accelerate, TrainingArguments, DeepSpeed, llm-foundry, NeMo, NeMo AutoModel, Megatron, OpenRLHF, " +
	"verl, vLLM or SGLang " +
	"arguments, or a training script in Python, which is read and not run (repeatable; flags win)"
