package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/source"
)

// Python settings are read as text: calls with their keywords, names that stand for constants, and functions that return
// settings. Nothing is evaluated; what isn't a constant, a list or a call is left out.

var errPython = errors.New("no Python")

// pyValue is a constant, a list or a call; anything else is none of them.
type pyValue struct {
	text     string
	constant bool
	list     []pyValue
	call     *pyCall
}

type pyCall struct {
	name  string // with its dots
	maybe bool   // it stands in a branch
	plain []pyValue
	names []string
	by    map[string]pyValue // keywords
}

// pySet is an assignment to a name, which may have dots.
type pySet struct {
	name  string
	value pyValue
	usual bool // of an argument, where a caller gives none
}

// pyFunction is what one, or the program outside of all, has in the order of the text.
type pyFunction struct {
	name string
	sets []pySet
	back *pyCall // what it returns
}

// python reads a program.
type python struct {
	statements []source.Statement
	words      []source.Word // of the statement that is read
	constants  map[string]pyValue
	changed    map[string]bool // names that are given something twice, or whose contents are changed
	functions  []*pyFunction
	calls      []*pyCall
	maybe      bool // the statement stands in a branch
	deleted    map[string]bool
	classes    *pyClasses
}

// conditions are heads of branches. What asks whether a file is run as a program is none.
var conditions = map[string]bool{"if": true, "elif": true, "else": true, "except": true, "case": true}

func parsePython(text []byte) (*python, error) {
	all, ok := source.Program(string(text))
	if !ok || len(all) == 0 {
		return nil, errPython
	}
	p := &python{statements: all, constants: map[string]pyValue{}, functions: []*pyFunction{{}}, changed: changedNames(all)}
	p.classes = p.classesOf()
	branches := make([]bool, len(all))
	for i := range all {
		s := &all[i]
		branches[i] = s.Parent >= 0 && branches[s.Parent] ||
			conditions[s.Word] && !(len(s.Words) > 1 && s.Words[1].Text == "__name__")
		p.words, p.maybe = s.Words, branches[i]
		p.statement(s)
		p.classes.field(p, s)
	}
	return p, nil
}

func (p *python) statement(s *source.Statement) {
	f, n := p.functions[len(p.functions)-1], len(p.words)
	def := s.Word == "def" && s.Parent < 0 && len(s.Bound) > 0
	if def || s.Parent < 0 && f.name != "" {
		f = &pyFunction{}
		p.functions = append(p.functions, f)
	}
	switch {
	case def:
		f.name = s.Bound[0]
		bracket := slices.IndexFunc(p.words, func(w source.Word) bool { return w.Mate > 0 })
		if all := p.parts(bracket+1, n); len(all) > 0 && all[len(all)-1].key != "" { // those before are given by place
			p.assign(all[len(all)-1].key, p.value(all[len(all)-1]))
			f.sets[0].usual = true
		}
	case p.words[0].Text == "return":
		if v := p.value(part{from: 1, to: n}); v.call != nil {
			f.back = v.call
		}
	case s.Value > 0 && p.words[s.Value-1].Text == "=":
		p.gives(s.Value)
	default:
		p.scan(part{to: n})
		if s.Value > 0 {
			name, _ := p.chain(part{to: n})
			delete(p.constants, name)
		}
		for _, name := range s.Bound {
			delete(p.constants, name)
		}
	}
}

// part is some of a statement's words: an expression, and the keyword before it.
type part struct {
	key             string
	from, to, depth int
}

// parts are those between commas, up to a closing bracket.
func (p *python) parts(from, to int) (all []part) {
	x := part{from: from}
	for i := from; i <= to; i++ {
		var w source.Word
		if i < to {
			w = p.words[i]
		}
		switch sign := w.Kind == 'o'; {
		case i == to, sign && strings.Contains(",)]}", w.Text):
			if x.to = i; x.from < i {
				all = append(all, x)
			}
			if x = (part{from: i + 1}); w.Text != "," {
				return all
			}
		case w.Mate > i:
			i = w.Mate
		case w.Kind == 'n' && w.Text == "lambda":
			i = p.lambda(i, to) - 1
		case sign && w.Text == "=" && i == x.from+1 && p.words[x.from].Kind == 'n':
			x.key, x.from = p.words[x.from].Text, i+1
		}
	}
	return all
}

// lambda is where the value of a function without a name begins.
func (p *python) lambda(from, to int) int {
	for from++; from < to && p.words[from-1].Text != ":"; from++ {
	}
	return from
}

// chain is the name with dots that an expression begins with, and where it ends.
func (p *python) chain(x part) (name string, end int) {
	for end = x.from; end < x.to && p.words[end].Kind == 'n' && len(name) < maxText; end += 2 {
		if name += p.words[end].Text; end+1 == x.to || p.words[end+1].Text != "." {
			return name, end + 1
		}
		name += "."
	}
	return strings.TrimSuffix(name, "."), max(end-1, x.from)
}

// gives takes an assignment whose value begins there: of one value to names, or of as many as there are names.
func (p *python) gives(at int) {
	var values []pyValue
	for _, x := range p.parts(at, len(p.words)) {
		x.from = max(x.from, at)
		values = append(values, p.value(x))
	}
	from := 0
	for i := range at {
		if p.words[i].Mate > i || p.words[i].Text != "=" || p.words[i].Kind != 'o' {
			continue
		}
		targets := p.parts(from, i)
		for k, x := range targets {
			name, end := p.chain(x)
			switch delete(p.constants, name); {
			case end < x.to || name == "":
				p.scan(x)
			case len(targets) == len(values) && p.words[len(p.words)-1].Text != ",":
				p.assign(name, values[k])
			case len(targets) == 1:
				p.assign(name, pyValue{})
			}
		}
		from = i + 1
	}
}

func (p *python) assign(name string, v pyValue) {
	f := p.functions[len(p.functions)-1]
	f.sets = append(f.sets, pySet{name: name, value: v})
	dict := v.call.isDict() && !p.changed[name] && !strings.Contains(name, ".")
	if delete(p.constants, name); (v.constant || dict) && !p.maybe {
		p.constants[name] = v
	}
}

// scan takes the calls of what is nobody's value.
func (p *python) scan(x part) {
	for x.from < x.to {
		name, end := p.chain(x)
		if x.from = max(end, x.from+1); name != "" && x.from < x.to && p.words[x.from].Text == "(" && p.words[x.from].Mate > 0 {
			p.call(name, x.from, 0)
			x.from = p.words[x.from].Mate + 1
		}
	}
}

// value is a constant, what a name stands for, a list or a call. Of more than that the call counts that it begins with.
func (p *python) value(x part) (v pyValue) {
	if x.depth++; x.depth > maxDepth || x.from >= x.to {
		return v
	}
	w, end := p.words[x.from], x.from+1
	switch {
	case w.Kind == 's' || w.Kind == '0' || w.Text == "-":
		v, end = p.constant(x)
	case w.Mate > x.from && w.Text == "{":
		v.call, end = p.dict(x.from, x.depth), w.Mate+1
	case w.Mate > x.from:
		for _, y := range p.parts(x.from+1, w.Mate) {
			y.depth = x.depth
			v.list = append(v.list, p.value(y))
		}
		end = w.Mate + 1
	case w.Text == "lambda":
		x.from = p.lambda(x.from, x.to)
		return pyValue{call: p.value(x).call}
	case w.Kind == 'n':
		v, end = p.named(x)
	}
	if end < x.to {
		v = pyValue{call: v.call}
		if v.call.isDict() {
			v.call = nil
		}
	}
	return v
}

// constant is a number with its sign, or strings side by side.
func (p *python) constant(x part) (v pyValue, end int) {
	end = x.from
	if p.words[end].Text == "-" {
		v.text, end = "-", end+1
	}
	for ; end < x.to && (p.words[end].Kind == 's' || p.words[end].Kind == '0'); end++ {
		text := p.words[end].Text
		if p.words[end].Kind == '0' {
			text = strings.ReplaceAll(text, "_", "")
		}
		v.text += text[:min(len(text), maxText-len(v.text))]
		v.constant = true
	}
	return v, end
}

// named is a constant, what a name stands for, or a call.
func (p *python) named(x part) (v pyValue, end int) {
	name, end := p.chain(x)
	if end < x.to && p.words[end].Text == "(" && p.words[end].Mate > end {
		return pyValue{call: p.call(name, end, x.depth)}, p.words[end].Mate + 1
	}
	if v, ok := p.constants[name]; ok {
		return p.element(v, end, x.to)
	}
	if v, ok := p.classes.value(name); ok {
		return v, end
	}
	return pyValue{text: name, constant: pyWords().MatchString(name)}, end
}

// dict is a literal one, taken for a call of the function that makes one: its keys are words.
func (p *python) dict(at, depth int) *pyCall {
	c := &pyCall{name: "dict", by: map[string]pyValue{}, maybe: p.maybe}
	for _, x := range p.parts(at+1, p.words[at].Mate) {
		if key := p.words[x.from]; x.from+1 < x.to && p.words[x.from+1].Text == ":" {
			x.from, x.depth = x.from+2, depth
			if v := p.value(x); key.Kind == 's' {
				c.give(key.Text, v)
			}
		}
	}
	return c
}

// call notes one, behind those among its arguments.
func (p *python) call(name string, at, depth int) *pyCall {
	c := &pyCall{name: name, by: map[string]pyValue{}, maybe: p.maybe}
	for _, x := range p.parts(at+1, p.words[at].Mate) {
		x.depth = depth
		if v := p.value(x); x.key != "" {
			c.give(x.key, v)
		} else {
			c.plain = append(c.plain, v)
		}
	}
	p.calls = append(p.calls, c)
	return c
}

func (c *pyCall) give(key string, v pyValue) {
	if _, ok := c.by[key]; !ok {
		c.names = append(c.names, key)
	}
	c.by[key] = v
}

func (c *pyCall) isDict() bool { return c != nil && c.name == "dict" }

// pyWords are names that are constants themselves.
var pyWords = pattern.Of(`^(True|False|None|torch\.(b?float16|float32|half))$`)

// changers are methods that change what a dictionary holds.
var changers = map[string]bool{"update": true, "pop": true, "popitem": true, "setdefault": true, "clear": true}

// changedNames are those that are given something more than once, have another name, or whose contents are changed.
func changedNames(all []source.Statement) map[string]bool {
	changed, given := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		for _, name := range s.Bound {
			changed[name] = changed[name] || given[name]
			given[name] = true
		}
		if s.Value > 0 && s.Value == len(s.Words)-1 {
			changed[s.Words[s.Value].Text] = true
		}
		for i, w := range s.Words[1:] {
			if changers[w.Text] || w.Text == "[" && s.Words[0].Text == "del" {
				changed[s.Words[max(i-1, 0)].Text], changed[s.Words[i].Text] = true, true
			}
		}
	}
	return changed
}

// readPython makes fields of settings or of a script. Of a file with several settings one is chosen by its function's name.
func readPython(function string) reader {
	return func(f *fields, text []byte) {
		p, err := parsePython(text)
		if err != nil {
			f.fail(err)
		} else if titan := p.settings(); len(titan) > 0 {
			f.titan(titan, function)
		} else {
			f.script(p)
		}
	}
}

// settings are the functions that return torchtitan's, or change those of one before.
func (p *python) settings() (all []*pyFunction) {
	known := map[string]*pyCall{}
	for _, x := range p.functions {
		if x.back == nil || !strings.HasSuffix(x.back.name, "Trainer.Config") {
			if x.back = nil; len(x.sets) > 0 && x.sets[0].value.call != nil {
				x.back = known[x.sets[0].value.call.name]
			}
		}
		if x.name != "" && x.back != nil {
			known[x.name] = x.back
			all = append(all, x)
		}
	}
	return all
}

// titan are fields of a function's settings, beside the name of the function, which is the model's.
func (f *fields) titan(all []*pyFunction, name string) {
	var names []string
	for _, x := range all {
		names = append(names, x.name)
	}
	i := slices.Index(names, name)
	if name == "" && len(all) == 1 {
		i = 0
	}
	if i < 0 {
		f.fail(fmt.Errorf("name one behind the file, as in FILE.py::%s (there are: %s)", Clipped(names[0]), someOf(names)))
		return
	}
	f.add("module", "settings")
	f.add("config", names[i])
	f.titanCall("", all[i].back, 0)
	for _, s := range all[i].sets {
		if _, rest, ok := strings.Cut(s.name, "."); ok {
			f.titanValue(rest, s.value, 0)
		}
	}
}

// titanClasses are settings' classes that say something by their names.
var titanClasses = []struct{ begin, field, value string }{{"OptimizersInBackward", "optimizer.early_step_in_backward", "true"},
	{"Float8", "model.converters", "float8"}, {"MX", "model.converters", "mx"}, {"FullAC", keptBy, "full"},
	{"SelectiveAC", keptBy, "selective"}, {"MemoryBudgetAC", keptBy, "memorybudget"}}

const keptBy = "activation_checkpoint.mode"

// titanCall is a class of settings, whose keywords are fields.
func (f *fields) titanCall(at string, c *pyCall, depth int) {
	for _, x := range titanClasses {
		if rest, ok := strings.CutPrefix(c.name, x.begin); ok && (x.field != keptBy || rest == "" || rest[0] == '.') {
			if f.add(x.field, x.value); x.value == "float8" {
				at = "float8."
			}
		}
	}
	for _, k := range c.names {
		f.titanValue(at+k, c.by[k], depth+1)
	}
}

func (f *fields) titanValue(name string, v pyValue, depth int) {
	switch {
	case depth > maxDepth:
		f.fail(errDeep)
	case v.call != nil:
		f.titanCall(name+".", v.call, depth)
	case v.constant && v.text != "None":
		f.add(name, v.text)
	}
	for _, x := range v.list {
		if x.call != nil {
			f.titanCall(name+".", x.call, depth)
		}
	}
}

// scriptCalls are classes and functions of training scripts; a field of theirs is called as on a command line, or so.
var scriptCalls = []struct {
	named        func() *regexp.Regexp
	says, fields string
}{
	{pattern.Of(`^Fast\w*Model\.from_pretrained$`), "unsloth", "model_name=model_name_or_path max_seq_length load_in_4bit " +
		"load_in_8bit dtype full_finetuning"},
	{pattern.Of(`^(AutoModel\w*|[A-Z]\w*(For[A-Z]\w*|LMHeadModel))\.from_pretrained$`), "",
		"pretrained_model_name_or_path=model_name_or_path torch_dtype dtype attn_implementation use_cache load_in_4bit " +
			"load_in_8bit"},
	{pattern.Of(`^(Fast\w*Model\.get_peft_model|LoraConfig|peft\.LoraConfig)$`), "use_peft", "r=lora_r " +
		"target_modules=lora_target_modules lora_dropout use_dora use_rslora modules_to_save=lora_modules_to_save " +
		"use_gradient_checkpointing=gradient_checkpointing"},
	{pattern.Of(`(^|\.)BitsAndBytesConfig$`), "", "load_in_4bit load_in_8bit bnb_4bit_use_double_quant=use_bnb_nested_quant"},
	{pattern.Of(`(^|\.)(SFT|DPO|GRPO|KTO|ORPO|CPO|Reward)Trainer$`), "", "model=model_name_or_path max_seq_length packing"},
	{pattern.Of(`(^|\.)prepare_model_for_kbit_training$`), "prepare_kbit", "use_gradient_checkpointing=gradient_checkpointing"},
	{pattern.Of(`(^|\.)gradient_checkpointing_enable$`), "gradient_checkpointing", "gradient_checkpointing_kwargs"},
	{pattern.Of(`(^|\.)(SFT|DPO|GRPO|KTO|ORPO|CPO|Reward)Config$`), "", ""},
	{pattern.Of(`(^|\.)\w*TrainingArguments$`), "", ""},
}

// script are a training script's fields.
func (f *fields) script(p *python) {
	trl, steps := false, false
	for _, c := range p.calls {
		f.plain, trl = f.plain || strings.HasSuffix(c.name, "TrainingArguments"), trl || ofTRL().MatchString(c.name)
		steps = steps || strings.HasSuffix(c.name, ".step") || ofOptimizers().MatchString(c.name)
		f.scriptCall(c)
	}
	own := steps && slices.ContainsFunc(p.statements, callsBackward) && !f.plain && !trl
	f.plain = (f.plain || own) && !trl
	p.frozen(f)
	f.cut(p.calls)
	if own || f.plain || trl {
		f.lengths(p)
	}
	if own {
		f.loop(p, p.withParameters())
	}
}

var (
	ofTRL     = pattern.Of(`(^|\.)(SFT|DPO|GRPO|KTO|ORPO|CPO|Reward)(Config|Trainer)$|^Fast\w*Model\.`)
	trainerOf = pattern.Of(`(SFT|DPO|GRPO|KTO|ORPO|CPO|Reward)Config$`)
)

func (f *fields) scriptCall(c *pyCall) {
	i := 0
	for ; i < len(scriptCalls) && !scriptCalls[i].named().MatchString(c.name); i++ {
	}
	if i == len(scriptCalls) {
		return
	}
	if x := scriptCalls[i].says; x != "" {
		if f.add(x, "true"); c.maybe {
			f.doubt(x, "in a branch")
		}
	}
	if m := trainerOf().FindStringSubmatch(c.name); m != nil {
		f.add("trl", strings.ToLower(m[1]))
	}
	f.headed(c)
	if strings.HasSuffix(c.name, ".from_pretrained") && len(c.plain) > 0 && c.plain[0].constant {
		f.add("model_name_or_path", c.plain[0].text)
	}
	f.keywords(c, named(scriptCalls[i].fields))
}

// cut takes the length that tokenizers cut to, where no configuration has one: the longest, of inputs and of labels, which an
// encoder-decoder has apart. Others are named.
func (f *fields) cut(calls []*pyCall) {
	if f.has("max_length") || f.has("max_seq_length") {
		return
	}
	for _, name := range []string{"max_length", "max_target_length"} {
		cutting := slices.DeleteFunc(slices.Clone(calls), func(c *pyCall) bool { return cutTo(c) != name })
		for i, c := range slices.Backward(cutting) {
			if i > 0 && longer(c, cutting[i-1]) {
				cutting[i], cutting[i-1] = cutting[i-1], c // the longest comes to the front
			}
		}
		for i, c := range cutting {
			as := name
			if i > 0 && c.by["max_length"].text != cutting[0].by["max_length"].text {
				as = "other_" + name
			}
			f.keywords(c, map[string]string{"max_length": as})
		}
	}
}

// cutTo is the name of the length that a call of a tokenizer cuts to, "" where it cuts nothing.
func cutTo(c *pyCall) string {
	mode, cuts := c.by["truncation"]
	_, length := c.by["max_length"]
	_, labels := c.by["text_target"]
	switch {
	case !cuts || !length || isNo(mode.text) || mode.text == "do_not_truncate":
		return ""
	case labels:
		return "max_target_length"
	}
	return "max_length"
}

// longer says whether a call's length is more than another's, or one that only the running program knows.
func longer(a, b *pyCall) bool {
	x, y := a.by["max_length"], b.by["max_length"]
	return y.constant && (!x.constant || whole(x.text) > whole(y.text))
}

// loading are keywords that hold others, with which a trainer loads its model.
var loading = map[string]bool{"model_init_kwargs": true, "model_kwargs": true}

// joined is a value's text, of a list its elements' with commas.
func (v *pyValue) joined() string {
	text := v.text
	for k := range v.list {
		if text += v.list[k].text; k+1 < len(v.list) {
			text += ","
		}
		if len(text) > maxText {
			break
		}
	}
	return text
}

// named are keywords with the fields that they are.
func named(words string) map[string]string {
	as := map[string]string{}
	for word := range strings.FieldsSeq(words) {
		key, name, _ := strings.Cut(word, "=")
		as[key] = cmp.Or(name, key)
	}
	return as
}

// nested are what a keyword's dictionary holds, under the keyword's name; a trainer loads its model with others as they are.
func (f *fields) nested(name string, c *pyCall) {
	below := map[string]string{}
	for _, key := range c.names {
		if below[key] = name + "." + key; loading[name] {
			below[key] = key
		}
	}
	if f.dicts++; f.dicts > maxFields {
		f.fail(errMany)
		return
	}
	f.keywords(c, below)
}

// keywords are a call's, all where no names are given.
func (f *fields) keywords(c *pyCall, names map[string]string) {
	for _, k := range c.names {
		v, name := c.by[k], k
		if len(names) > 0 {
			name = names[k]
		}
		switch text := v.joined(); {
		case name == "" || text == "None" || v.constant && text == "":
		case v.call.isDict():
			f.nested(name, v.call)
		case !v.constant && len(v.list) == 0:
			if f.workedOut = append(f.workedOut, name); len(f.workedOut) > maxFields {
				f.fail(errMany)
				return
			}
		default:
			if f.add(name, text); c.maybe {
				f.doubt(name, "in a branch")
			}
		}
	}
}
