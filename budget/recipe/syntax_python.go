package recipe

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vramscope/vramscope/internal/pattern"
)

// Python settings are read as text: calls with their keywords, names that stand for constants, and functions that return
// settings. Nothing is evaluated; what isn't a constant, a list or a call is left out.

// pyToken is a word, a number, a string or one character.
type pyToken struct {
	kind   rune // 'n' a name, '0' a number, '"' a string, '$' one that is worked out, else the character itself
	text   string
	begins bool // a line, outside all brackets
	first  bool // such a line without a space before it
	column int  // of such a line
}

var errPython = errors.New("no Python")

// pyTokens are a program's, bounded by its length.
func pyTokens(text string) (all []pyToken, err error) {
	first, begins, depth := true, true, 0
	for i := 0; i < len(text); {
		switch c, n := utf8.DecodeRuneInString(text[i:]); {
		case c == '\n':
			first, begins = true, depth == 0
			i++
		case c == '#':
			i += span(text[i:], func(r rune) bool { return r != '\n' })
		case c == '\\': // the line goes on in the next one
			i += n + span(text[i+n:], unicode.IsSpace)
		case unicode.IsSpace(c):
			i += n
			first = false
		default:
			t, n, ok := pyWord(text[i:], c, n)
			if !ok {
				return nil, errPython
			}
			depth = max(depth+nests(t.kind), 0)
			if t.kind != 0 {
				t.text, t.begins, t.first = t.text[:min(len(t.text), maxText)], begins, begins && first
				if begins { // a file may be one line: looking back from each token would take its length squared
					t.column = i - 1 - strings.LastIndexByte(text[:i], '\n')
				}
				all = append(all, t)
			}
			i += n
			first, begins = false, false
		}
	}
	return all, nil
}

// pyWord is the token that begins with a character of so many bytes, and its length.
func pyWord(text string, c rune, bytes int) (t pyToken, n int, ok bool) {
	switch prefix := span(text, func(r rune) bool { return strings.ContainsRune("rRbBuUfFtT", r) }); {
	case prefix <= 2 && prefix < len(text) && strings.IndexByte(`"'`, text[prefix]) >= 0:
		s, end, ok := pyString(text[prefix:])
		t = pyToken{kind: '"', text: s}
		if strings.ContainsAny(text[:prefix], "fFtT") && strings.Contains(s, "{") {
			t.kind = '$'
		}
		return t, prefix + end, ok
	case unicode.IsLetter(c) || c == '_':
		n = span(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' })
		return pyToken{kind: 'n', text: text[:n]}, n, true
	case unicode.IsDigit(c):
		n = span(text, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsLetter(r) || r == '.' || r == '_' })
		n += exponent(text[:n], text[n:])
		return pyToken{kind: '0', text: text[:n]}, n, true
	}
	return pyToken{kind: c, text: string(c)}, bytes, true
}

// span is how many bytes in front fit.
func span(s string, fits func(rune) bool) int {
	if i := strings.IndexFunc(s, func(r rune) bool { return !fits(r) }); i >= 0 {
		return i
	}
	return len(s)
}

// exponent is how much of what comes after a number belongs to it, as in 1e-4.
func exponent(number, rest string) int {
	if l := number[len(number)-1]; (l != 'e' && l != 'E') || rest == "" || rest[0] != '-' && rest[0] != '+' {
		return 0
	}
	return 1 + span(rest[1:], unicode.IsDigit)
}

// pyString is the string that a text begins with, and where it ends.
func pyString(text string) (s string, end int, ok bool) {
	mark := text[:1]
	if strings.HasPrefix(text, mark+mark+mark) {
		mark += mark[:1] + mark[:1]
	}
	for i := len(mark); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], mark):
			return text[len(mark):i], i + len(mark), true
		case text[i] == '\n' && len(mark) == 1:
			return "", 0, false
		}
	}
	return "", 0, false
}

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
}

// pyFunction is what one, or the program outside of all, has in the order of the text.
type pyFunction struct {
	name  string
	sets  []pySet
	calls []*pyCall
	back  *pyCall // what it returns
}

// python reads a program.
type python struct {
	tokens    []pyToken
	at        int
	constants map[string]pyValue
	changed   map[string]bool // names that are given something twice, or whose contents are changed
	functions []*pyFunction
	branches  []int // columns of the conditions that a line stands under
}

// branch keeps the conditions that the line which begins here stands under. What asks whether a file is run as a program is none.
func (p *python) branch(t pyToken) {
	if !t.begins {
		return
	}
	for len(p.branches) > 0 && p.branches[len(p.branches)-1] >= t.column {
		p.branches = p.branches[:len(p.branches)-1]
	}
	if t.kind == 'n' && conditions[t.text] && p.peek(1).text != "__name__" {
		p.branches = append(p.branches, t.column)
	}
}

var conditions = map[string]bool{"if": true, "elif": true, "else": true, "except": true, "case": true}

func (p *python) peek(ahead int) pyToken {
	if p.at+ahead < len(p.tokens) {
		return p.tokens[p.at+ahead]
	}
	return pyToken{}
}

func parsePython(text []byte) (*python, error) {
	ts, err := pyTokens(string(text))
	if err != nil || len(ts) == 0 {
		return nil, errPython
	}
	p := &python{tokens: ts, constants: map[string]pyValue{}, functions: []*pyFunction{{}}, changed: changedNames(pyLines(ts))}
	for p.at < len(p.tokens) {
		p.statement()
	}
	return p, nil
}

// statement takes one, or a token that begins none.
func (p *python) statement() {
	t := p.peek(0)
	if p.branch(t); t.first && p.function(t) {
		return
	}
	f := p.functions[len(p.functions)-1]
	switch {
	case t.text == "return" && t.kind == 'n':
		p.at++
		if v := p.value(0, f); v.call != nil {
			f.back = v.call
		}
	case t.kind != 'n':
		p.at++
	default:
		p.beginsWith(p.chain(), t, f)
	}
}

// beginsWith takes a statement that begins with a name: a call, or one that gives names values.
func (p *python) beginsWith(name string, t pyToken, f *pyFunction) {
	switch next := p.peek(0); {
	case next.kind == '(':
		f.calls = append(f.calls, p.arguments(name, 0, f))
	case next.kind == ',' && t.begins:
		p.several(name, f)
	case next.kind == '=' && p.peek(1).kind != '=':
		p.at++
		p.assign(name, p.value(0, f), f)
	case p.changes():
		delete(p.constants, name)
	}
}

// function begins one, or what stands behind one: what a function is made of stands behind spaces.
func (p *python) function(t pyToken) (begun bool) {
	if t.text == "def" && p.peek(1).kind == 'n' {
		p.functions = append(p.functions, &pyFunction{name: p.peek(1).text})
		p.at += 2
		return true
	}
	if p.functions[len(p.functions)-1].name != "" && t.kind == 'n' {
		p.functions = append(p.functions, &pyFunction{})
	}
	return false
}

// several assigns as many values as names: a, b = 1, 2.
func (p *python) several(name string, f *pyFunction) {
	names := []string{name}
	for p.peek(0).kind == ',' && p.peek(1).kind == 'n' && len(names) < maxDepth {
		p.at++
		names = append(names, p.chain())
	}
	if p.peek(0).kind != '=' || p.peek(1).kind == '=' {
		return
	}
	var values []pyValue
	for next := true; next && len(values) < maxDepth; next = p.peek(0).kind == ',' && !p.peek(0).begins {
		p.at++
		values = append(values, p.value(0, f))
	}
	for i, name := range names {
		delete(p.constants, name)
		if len(values) == len(names) {
			p.assign(name, values[i], f)
		}
	}
}

// assign gives a name its value; one of several values, as in a, b = 1, 2, isn't known to be its own.
func (p *python) assign(name string, v pyValue, f *pyFunction) {
	f.sets = append(f.sets, pySet{name, v})
	dict := v.call.isDict() && !p.changed[name] && !strings.Contains(name, ".")
	if p.constants[name] = v; !v.constant && !dict || p.peek(0).kind == ',' || len(p.branches) > 0 {
		delete(p.constants, name)
	}
}

// changes tells += and //= and their kin.
func (p *python) changes() bool {
	last := 0
	if p.peek(1).kind == p.peek(0).kind {
		last = 1
	}
	return strings.ContainsRune("+-*/%", p.peek(0).kind) && p.peek(last+1).kind == '='
}

// chain is a name with dots.
func (p *python) chain() string {
	name := p.peek(0).text
	p.at++
	for p.peek(0).kind == '.' && p.peek(1).kind == 'n' && len(name) < maxText {
		name += "." + p.peek(1).text
		p.at += 2
	}
	return name
}

// closing are what ends what each begins.
var closing = map[rune]rune{'(': ')', '[': ']', '{': '}'}

// value takes one, up to a comma or what closes around it.
func (p *python) value(depth int, f *pyFunction) (v pyValue) {
	if depth > maxDepth {
		p.skip()
		return v
	}
	start := p.at
	switch t := p.peek(0); {
	case t.kind == '"':
		for v.constant = true; p.peek(0).kind == '"'; p.at++ {
			v.text += p.peek(0).text[:min(len(p.peek(0).text), maxText-len(v.text))]
		}
	case t.kind == '0', t.kind == '-' && p.peek(1).kind == '0':
		v.text, v.constant = p.number(), true
	case t.kind == '[' || t.kind == '(':
		v.list = p.list(closing[t.kind], depth, f)
	case t.kind == '{':
		v.call = p.dict(depth, f)
	case t.kind == 'n':
		v = p.named(depth, f)
	}
	if p.ends() && p.at > start {
		return v
	}
	if p.skip(); v.call.isDict() { // part of something larger
		return pyValue{}
	}
	return pyValue{call: v.call}
}

// number has its sign.
func (p *python) number() (text string) {
	if p.peek(0).kind == '-' {
		text = "-"
		p.at++
	}
	text += strings.ReplaceAll(p.peek(0).text, "_", "")
	p.at++
	return text
}

// list is what stands up to what closes it.
func (p *python) list(end rune, depth int, f *pyFunction) (all []pyValue) {
	p.at++
	for p.at < len(p.tokens) && p.peek(0).kind != end {
		all = append(all, p.value(depth+1, f))
		if p.peek(0).kind == ',' {
			p.at++
		} else if p.peek(0).kind != end {
			break
		}
	}
	p.at++
	return all
}

// lambda is what a function without a name calls.
func (p *python) lambda(depth int, f *pyFunction) pyValue {
	for ; p.peek(0).kind == 'n' || p.peek(0).kind == ','; p.at++ { // its arguments
	}
	p.at++
	return pyValue{call: p.value(depth+1, f).call}
}

// dict is a literal one, taken for a call of the function that makes one: its keys are words.
func (p *python) dict(depth int, f *pyFunction) *pyCall {
	c := &pyCall{name: "dict", by: map[string]pyValue{}, maybe: len(p.branches) > 0}
	p.at++
	for p.at < len(p.tokens) && p.peek(0).kind != '}' {
		key := p.peek(0)
		if p.peek(1).kind != ':' {
			p.skip()
		} else {
			p.at += 2
			v := p.value(depth+1, f)
			if _, ok := c.by[key.text]; key.kind == '"' && !ok {
				c.names = append(c.names, key.text)
			}
			if key.kind == '"' {
				c.by[key.text] = v
			}
		}
		if p.peek(0).kind != ',' {
			break
		}
		p.at++
	}
	p.leave('}')
	return c
}

// leave goes behind a closing bracket, over what wasn't understood.
func (p *python) leave(end rune) {
	for p.at < len(p.tokens) && p.peek(0).kind != end {
		p.at++
	}
	p.at++
}

func (c *pyCall) isDict() bool { return c != nil && c.name == "dict" }

// named is a constant, what a name stands for, or a call.
func (p *python) named(depth int, f *pyFunction) pyValue {
	name := p.chain()
	if name == "lambda" {
		return p.lambda(depth, f)
	}
	if p.peek(0).kind == '(' {
		c := p.arguments(name, depth, f)
		f.calls = append(f.calls, c)
		return pyValue{call: c}
	}
	if v, ok := p.constants[name]; ok {
		return v
	}
	return pyValue{text: name, constant: pyWords().MatchString(name)}
}

// pyWords are names that are constants themselves.
var pyWords = pattern.Of(`^(True|False|None|torch\.(b?float16|float32|half))$`)

// ends says whether a value is over.
func (p *python) ends() bool {
	switch t := p.peek(0); t.kind {
	case 0, ',', ';', ')', ']', '}':
		return true
	default:
		return t.begins
	}
}

// nests is how much deeper brackets are behind a token.
func nests(kind rune) int {
	switch kind {
	case '(', '[', '{':
		return 1
	case ')', ']', '}':
		return -1
	}
	return 0
}

// skip goes to where a value that isn't understood is over.
func (p *python) skip() {
	for depth := 0; p.at < len(p.tokens) && (depth > 0 || !p.peek(0).begins); p.at++ {
		kind := p.peek(0).kind
		if depth += nests(kind); depth < 0 || depth == 0 && (kind == ',' || kind == ';') {
			return
		}
	}
}

// arguments are a call's.
func (p *python) arguments(name string, depth int, f *pyFunction) *pyCall {
	c := &pyCall{name: name, by: map[string]pyValue{}, maybe: len(p.branches) > 0}
	p.at++
	for p.at < len(p.tokens) && p.peek(0).kind != ')' {
		if p.peek(0).kind == 'n' && p.peek(1).kind == '=' && p.peek(2).kind != '=' {
			key := p.peek(0).text
			p.at += 2
			if c.by[key] = p.value(depth+1, f); !slices.Contains(c.names, key) {
				c.names = append(c.names, key)
			}
		} else {
			c.plain = append(c.plain, p.value(depth+1, f))
		}
		if p.peek(0).kind != ',' {
			break
		}
		p.at++
	}
	p.leave(')')
	return c
}

// readPython makes fields of settings or of a script. Of a file with several settings one is chosen by its function's name.
func readPython(function string) reader {
	return func(text []byte) (*fields, error) {
		p, err := parsePython(text)
		if err != nil {
			return nil, err
		}
		fs := &fields{}
		if titan := p.settings(); len(titan) > 0 {
			return fs, p.titan(fs, titan, function)
		}
		return fs, p.script(fs)
	}
}

// settings are the functions that return torchtitan's.
func (p *python) settings() (all []*pyFunction) {
	known := map[string]bool{}
	for _, f := range p.functions {
		based := len(f.sets) > 0 && f.sets[0].value.call != nil && known[f.sets[0].value.call.name]
		if f.name != "" && (based || f.titan()) {
			known[f.name] = true
			all = append(all, f)
		}
	}
	return all
}

// titan are fields of a function's settings, beside the name of the function, which is the model's.
func (p *python) titan(fs *fields, all []*pyFunction, name string) error {
	i := slices.IndexFunc(all, func(f *pyFunction) bool { return f.name == name })
	if name == "" && len(all) == 1 {
		i = 0
	}
	if i < 0 {
		var names []string
		for _, f := range all {
			names = append(names, f.name)
		}
		return fmt.Errorf("name one behind the file, as in FILE.py::%s (there are: %s)", Clipped(names[0]), someOf(names))
	}
	f := all[i]
	if err := errors.Join(fs.add("module", "settings"), fs.add("config", f.name)); err != nil {
		return err
	}
	if base := titanBase(all, f); base != nil {
		if err := fs.titanCall("", base, 0); err != nil {
			return err
		}
	}
	for _, s := range f.sets {
		if _, rest, ok := strings.Cut(s.name, "."); ok {
			if err := fs.titanValue(rest, s.value, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// titanBase are the settings that a function returns, or those that it changes: of the function that it calls first, and so on.
func titanBase(all []*pyFunction, f *pyFunction) *pyCall {
	for range all {
		if f.titan() {
			return f.back
		}
		if len(f.sets) == 0 || f.sets[0].value.call == nil {
			return nil
		}
		base := f.sets[0].value.call.name
		at := slices.IndexFunc(all, func(g *pyFunction) bool { return g.name == base })
		if at < 0 {
			return nil
		}
		f = all[at]
	}
	return nil
}

// titan says whether a function returns settings that stand there.
func (f *pyFunction) titan() bool {
	return f.back != nil && strings.HasSuffix(f.back.name, "Trainer.Config")
}

// titanCall is a class of settings, whose keywords are fields.
func (f *fields) titanCall(at string, c *pyCall, depth int) error {
	switch {
	case strings.HasPrefix(c.name, "OptimizersInBackward"):
		if err := f.add("optimizer.early_step_in_backward", "true"); err != nil {
			return err
		}
	case strings.HasPrefix(c.name, "Float8"):
		at = "float8."
		if err := f.add("model.converters", "float8"); err != nil {
			return err
		}
	case kept().MatchString(c.name):
		if err := f.add("activation_checkpoint.mode", strings.ToLower(strings.SplitN(c.name, "AC", 2)[0])); err != nil {
			return err
		}
	case strings.HasPrefix(c.name, "MX"):
		if err := f.add("model.converters", "mx"); err != nil {
			return err
		}
	}
	for _, k := range c.names {
		if err := f.titanValue(at+k, c.by[k], depth+1); err != nil {
			return err
		}
	}
	return nil
}

// kept are classes of what backward keeps.
var kept = pattern.Of(`^(Full|Selective|MemoryBudget)AC(\.|$)`)

func (f *fields) titanValue(name string, v pyValue, depth int) error {
	switch {
	case depth > maxDepth:
		return errDeep
	case v.call != nil:
		return f.titanCall(name+".", v.call, depth)
	case v.constant && v.text != "None":
		return f.add(name, v.text)
	}
	for _, x := range v.list {
		if x.call != nil {
			if err := f.titanCall(name+".", x.call, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// scriptCalls are classes and functions of training scripts; a field of theirs is called as on a command line.
var scriptCalls = []struct {
	named  func() *regexp.Regexp
	says   []string
	fields map[string]string
}{
	{pattern.Of(`^Fast\w*Model\.from_pretrained$`), []string{"unsloth", "true"}, map[string]string{
		"model_name": "model_name_or_path", "max_seq_length": "max_seq_length", "load_in_4bit": "load_in_4bit",
		"load_in_8bit": "load_in_8bit", "dtype": "dtype", "full_finetuning": "full_finetuning"}},
	{pattern.Of(`^(AutoModel\w*|[A-Z]\w*(For[A-Z]\w*|LMHeadModel))\.from_pretrained$`), nil, map[string]string{
		"pretrained_model_name_or_path": "model_name_or_path",
		"torch_dtype":                   "torch_dtype", "dtype": "dtype", "attn_implementation": "attn_implementation",
		"load_in_4bit": "load_in_4bit", "load_in_8bit": "load_in_8bit"}},
	{pattern.Of(`^(Fast\w*Model\.get_peft_model|LoraConfig|peft\.LoraConfig)$`), []string{"use_peft", "true"}, map[string]string{
		"r": "lora_r", "target_modules": "lora_target_modules", "lora_dropout": "lora_dropout", "use_dora": "use_dora",
		"use_rslora": "use_rslora", "modules_to_save": "lora_modules_to_save",
		"use_gradient_checkpointing": "gradient_checkpointing"}},
	{pattern.Of(`(^|\.)BitsAndBytesConfig$`), nil, map[string]string{"load_in_4bit": "load_in_4bit",
		"load_in_8bit": "load_in_8bit", "bnb_4bit_use_double_quant": "use_bnb_nested_quant"}},
	{pattern.Of(`(^|\.)SFTTrainer$`), nil, map[string]string{"max_seq_length": "max_seq_length", "packing": "packing"}},
	{pattern.Of(`(^|\.)(SFT|DPO|GRPO|KTO|ORPO|CPO|Reward)Config$`), nil, nil},
	{pattern.Of(`(^|\.)\w*TrainingArguments$`), nil, nil},
}

// script are a training script's fields.
func (p *python) script(fs *fields) error {
	plain, trl := false, false
	var all []*pyCall
	for _, f := range p.functions {
		for _, c := range f.calls {
			plain, trl = plain || strings.HasSuffix(c.name, "TrainingArguments"), trl || ofTRL().MatchString(c.name)
			all = append(all, c)
			if err := fs.scriptCall(c); err != nil {
				return err
			}
		}
	}
	fs.plain = plain && !trl
	if err := p.frozen(fs); err != nil {
		return err
	}
	return fs.cut(all)
}

var ofTRL = pattern.Of(`(^|\.)(SFT|DPO|GRPO|KTO|ORPO|CPO|Reward)(Config|Trainer)$|^Fast\w*Model\.`)

func (f *fields) scriptCall(c *pyCall) error {
	for i := range scriptCalls {
		x := &scriptCalls[i]
		if !x.named().MatchString(c.name) {
			continue
		}
		if x.says != nil {
			if err := f.add(x.says[0], x.says[1]); err != nil {
				return err
			}
		}
		if m := trainerOf().FindStringSubmatch(c.name); m != nil {
			if err := f.add("trl", strings.ToLower(m[1])); err != nil {
				return err
			}
		}
		if err := f.headed(c); err != nil {
			return err
		}
		if strings.HasSuffix(c.name, ".from_pretrained") && len(c.plain) > 0 && c.plain[0].constant {
			if err := f.add("model_name_or_path", c.plain[0].text); err != nil {
				return err
			}
		}
		return f.keywords(c, x.fields)
	}
	return nil
}

// cut takes the length that tokenizers cut to, where no configuration has one: the longest, of inputs and of labels, which an
// encoder-decoder has apart. Others are named.
func (f *fields) cut(calls []*pyCall) error {
	if f.has("max_length") || f.has("max_seq_length") {
		return nil
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
			if err := f.keywords(c, map[string]string{"max_length": as}); err != nil {
				return err
			}
		}
	}
	return nil
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

// loading are keywords that hold others, with which a trainer loads its model, and loadedBy those of them that tell of memory.
var (
	loading  = map[string]bool{"model_init_kwargs": true, "model_kwargs": true}
	loadedBy = map[string]string{"torch_dtype": "torch_dtype", "dtype": "dtype", "attn_implementation": "attn_implementation",
		"load_in_4bit": "load_in_4bit", "load_in_8bit": "load_in_8bit"}
)

var trainerOf = pattern.Of(`(SFT|DPO|GRPO|KTO|ORPO|CPO|Reward)Config$`)

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

// keywords are a call's, all where no names are given.
func (f *fields) keywords(c *pyCall, names map[string]string) error {
	for _, k := range c.names {
		v, name := c.by[k], k
		if names != nil {
			name = names[k]
		}
		text := v.joined()
		if name == "" || text == "None" || v.constant && text == "" {
			continue
		}
		if v.call.isDict() && loading[name] {
			if err := f.keywords(v.call, loadedBy); err != nil {
				return err
			}
			continue
		}
		if !v.constant && len(v.list) == 0 {
			if f.workedOut = append(f.workedOut, name); len(f.workedOut) > maxFields {
				return errMany
			}
			continue
		}
		if c.maybe {
			f.perhaps = append(f.perhaps, name)
		}
		if err := f.add(name, text); err != nil {
			return err
		}
	}
	return nil
}
