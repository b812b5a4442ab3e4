package recipe

import (
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// What a program trains of its model is told only where each line that may change it is understood: such a line stands outside
// of functions and branches, and begins with the name of the model that the trainer is given. Anything else is left open.

// freezing is a line of a program that says whether some weights are trained.
type freezing struct {
	names  string // an expression that they begin with, "" for all; behind "!" all others
	frozen bool
}

// ownFreezers are methods of Transformers' models, and the weights that each leaves as they are.
var ownFreezers = map[string]string{"freeze_encoder": `(model\.)?encoder\.`, "freeze_feature_encoder": `.*feature_extractor\.`,
	"freeze_feature_extractor": `.*feature_extractor\.`}

// pyLine is a statement, or the head of several.
type pyLine struct {
	tokens []pyToken
	column int
	parent int  // the head that it stands under, -1 for none
	top    bool // it stands outside of all functions and branches
}

// compound are words that heads begin with.
var compound = map[string]bool{"if": true, "elif": true, "else": true, "for": true, "while": true, "with": true, "try": true,
	"except": true, "finally": true, "def": true, "class": true, "async": true}

// pyLines are a program's statements.
func pyLines(tokens []pyToken) (lines []pyLine) {
	var heads []int
	for len(tokens) > 0 {
		end := 1 + slices.IndexFunc(tokens[1:], func(t pyToken) bool { return t.begins })
		if end == 0 {
			end = len(tokens)
		}
		column := tokens[0].column
		for len(heads) > 0 && lines[heads[len(heads)-1]].column >= column {
			heads = heads[:len(heads)-1]
		}
		heads = append(heads, len(lines))
		parts, headed := pyParts(tokens[:end])
		for i, part := range parts {
			at := pyLine{tokens: part, column: column, parent: -1}
			if i > 0 && headed {
				at.parent = heads[len(heads)-1]
			} else if len(heads) > 1 {
				at.parent = heads[len(heads)-2]
			}
			at.top = at.parent < 0 || lines[at.parent].top && lines[at.parent].said(`if __name__ == " :`)
			lines = append(lines, at)
		}
		tokens = tokens[end:]
	}
	return lines
}

// pyParts are the statements of a line, the first of which may be the head of the others.
func pyParts(line []pyToken) (parts [][]pyToken, headed bool) {
	depth, start := 0, 0
	for i, t := range line {
		depth += nests(t.kind)
		head := t.kind == ':' && !headed && start == 0 && compound[line[0].text]
		if depth == 0 && (head || t.kind == ';') && i+1 < len(line) {
			end := i
			if head {
				end++
			}
			parts, start, headed = append(parts, line[start:end]), i+1, headed || head
		}
	}
	return append(parts, line[start:]), headed
}

// words are a statement's with spaces, a mark for each string.
func (l *pyLine) words() string {
	var words []string
	for _, t := range l.tokens {
		if t.kind == '"' {
			t.text = `"`
		}
		words = append(words, t.text)
	}
	return strings.ReplaceAll(strings.Join(words, " "), "= =", "==")
}

// said says whether a short statement has these words.
func (l *pyLine) said(words string) bool { return len(l.tokens) < 16 && l.words() == words }

// mentions says whether a statement may change what is trained. One that reads it doesn't.
func (l *pyLine) mentions() bool {
	for i, t := range l.tokens {
		before, after := l.before(i), l.before(i+2)
		switch {
		case t.text == "requires_grad" && t.kind == 'n' && before.kind == '.':
			if l.given(i + 1) {
				return true
			}
		case t.text == "requires_grad" || t.text == "requires_grad_":
			return true
		case t.kind == 'n' && after.kind == '(' && freezers().MatchString(t.text):
			return true
		}
	}
	return false
}

// freezers are called like what changes which weights are trained.
var freezers = pattern.Of(`^(un)?freeze(_|$)`)

// given says whether what ends here gets a value.
func (l *pyLine) given(from int) bool {
	depth := 0
	for i := from; i < len(l.tokens) && depth >= 0; i++ {
		kind := l.tokens[i].kind
		if depth += nests(kind); kind == '=' && depth == 0 && l.gives(i) {
			return true
		}
	}
	return false
}

// bound are the names that a statement gives a value, and where the value begins, 0 where it gives none.
func (l *pyLine) bound() (names []string, at int) {
	at, names = l.value(), l.within()
	until := at
	switch l.tokens[0].text {
	case "for", "async":
		until = 1 + slices.IndexFunc(l.tokens, func(t pyToken) bool { return t.text == "in" })
	case "from", "import":
		until = len(l.tokens) + 1
	}
	for i := 0; i < until-1; i++ {
		if t := l.tokens[i]; t.kind == 'n' && l.before(i).kind != '.' && l.before(i+2).kind != '.' {
			names = append(names, t.text)
		}
	}
	return names, at
}

// value is where the one begins that a statement gives its names.
func (l *pyLine) value() (at int) {
	depth := 0
	for i, t := range l.tokens {
		depth += nests(t.kind)
		if t.kind == '=' && depth == 0 && l.gives(i) && !compound[l.tokens[0].text] {
			at = i + 1
		}
	}
	return at
}

// gives tells a mark that gives a value from one that compares.
func (l *pyLine) gives(i int) bool {
	return i > 0 && l.before(i+2).kind != '=' && !strings.ContainsRune("=!<>", l.before(i).kind)
}

// within are names that get a value elsewhere than in front.
func (l *pyLine) within() (names []string) {
	for i, t := range l.tokens {
		switch l.before(i).text {
		case "as", "def", "class":
			names = append(names, t.text)
		case ":":
			if t.kind == '=' && i > 1 {
				names = append(names, l.tokens[i-2].text)
			}
		}
	}
	return names
}

// changers are methods that change what a dictionary holds.
var changers = map[string]bool{"update": true, "pop": true, "popitem": true, "setdefault": true, "clear": true}

// changedNames are those that are given something more than once, have another name, or whose contents are changed.
func changedNames(lines []pyLine) map[string]bool {
	changed, given := map[string]bool{}, map[string]bool{}
	for i := range lines {
		l := &lines[i]
		names, at := l.bound()
		for _, name := range names {
			changed[name] = changed[name] || given[name]
			given[name] = true
		}
		if at > 0 && at == len(l.tokens)-1 {
			changed[l.tokens[at].text] = true
		}
		for j, t := range l.tokens {
			deleted := l.tokens[0].text == "del"
			switch next := l.before(j + 2); {
			case t.kind != 'n':
			case next.kind == '[' && (at > j || deleted), next.kind == '|' && at > j,
				next.kind == '.' && changers[l.before(j+3).text]:
				changed[t.text] = true
			}
		}
	}
	return changed
}

// before is the token before one, or nothing.
func (l *pyLine) before(i int) pyToken {
	if i < 1 || i > len(l.tokens) {
		return pyToken{}
	}
	return l.tokens[i-1]
}

// replaces says whether a statement may put another module into a model.
func (l *pyLine) replaces(root string) bool {
	_, at := l.bound()
	if at == 0 || at >= len(l.tokens) || l.tokens[0].text != root || l.tokens[1].kind == '=' || l.tokens[1].kind == ',' {
		return false
	}
	value := l.tokens[at]
	return !strings.HasSuffix(l.before(3).text, "config") && value.kind == 'n' && !pyWords().MatchString(value.text)
}

// Names stand for models by what they are given.
const (
	otherwise = iota // anything else
	aModel           // a class's from_pretrained or from_config
	aCopy            // of a model
	itself           // the same model again
)

var (
	ofClass  = pattern.Of(`^(\w+ \. )*\w*(Model|For[A-Z]\w*) \. (from_pretrained|from_config) \($`)
	ofCopy   = pattern.Of(`^((copy \. )?deepcopy|(trl \. )?create_reference_model) \($`)
	ofItself = pattern.Of(`^((\w+ \. )?get_peft_model|(\w+ \. )?prepare_model_for_kbit_training) \($`)
	moved    = map[string]bool{"to": true, "cuda": true, "eval": true, "train": true, "half": true, "bfloat16": true,
		"float": true}
)

// stands tells what a name is given by a value.
func stands(name string, value []pyToken) int {
	end := slices.IndexFunc(value, func(t pyToken) bool { return t.kind == '(' }) + 1
	if end == 0 || end > maxDepth || !onlyMoves(value[end-1:]) {
		return otherwise
	}
	call := pyLine{tokens: value[:end]}
	text, first := call.words(), ""
	if end < len(value) {
		first = value[end].text
	}
	switch {
	case ofClass().MatchString(text) && !strings.Contains(text, "Peft") && !strings.Contains(text, "ValueHead"):
		return aModel
	case ofCopy().MatchString(text):
		return aCopy
	case ofItself().MatchString(text) && first == name, value[0].text == name && end == 4 && moved[value[2].text]:
		return itself
	}
	return otherwise
}

// onlyMoves says whether behind the arguments of a call nothing stands but calls that move the model.
func onlyMoves(rest []pyToken) bool {
	depth := 0
	for i := 0; i < len(rest); i++ {
		in := nests(rest[i].kind)
		if depth += in; in != 0 || depth > 0 {
			continue
		}
		if rest[i].kind != '.' || i+2 >= len(rest) || !moved[rest[i+1].text] || rest[i+2].kind != '(' {
			return false
		}
		i++
	}
	return depth == 0
}

// roots are a program's names of models: the one that is trained, and others beside it.
type roots struct {
	trained string
	others  map[string]bool
}

// given is what each name is given anywhere.
func given(lines []pyLine) map[string][]int {
	as := map[string][]int{}
	for i := range lines {
		l := &lines[i]
		names, at := l.bound()
		for _, name := range names {
			what := otherwise
			if at > 0 && l.top && name == l.tokens[0].text && (at == 2 || at == 4 && l.tokens[1].kind == ',') {
				what = stands(name, l.tokens[at:])
			}
			as[name] = append(as[name], what)
		}
	}
	return as
}

// models finds them. A name that is given something else anywhere, in a loop or as an argument too, is none of them.
func (p *python) models(lines []pyLine) (r roots) {
	as := given(lines)
	r.others = map[string]bool{}
	trained := p.trainers()
	for name, what := range as {
		made := slices.DeleteFunc(what, func(w int) bool { return w == itself })
		switch {
		case len(made) != 1 || made[0] == otherwise:
		case name != trained:
			r.others[name] = true
		case made[0] == aModel:
			r.trained = name
		}
	}
	r.apart(lines)
	return r
}

// apart takes those others for unknown that stand beside the model in a statement which isn't a trainer's: it may be made of
// them.
func (r *roots) apart(lines []pyLine) {
	for i := range lines {
		l := &lines[i]
		name := l.tokens[0].text
		if _, at := l.bound(); at != 2 {
			name = ""
		}
		has, trainer := false, false
		for _, t := range l.tokens {
			has = has || t.text == r.trained && t.kind == 'n'
			trainer = trainer || strings.HasSuffix(t.text, "Trainer") && t.kind == 'n'
		}
		for _, t := range l.tokens {
			if has && !trainer && t.text != name {
				delete(r.others, t.text)
			}
		}
	}
	if r.trained == "" {
		r.others = nil
	}
}

// trainers is the name of the model that all of a program's trainers are given, "" where that isn't one.
func (p *python) trainers() (name string) {
	for _, f := range p.functions {
		for _, c := range f.calls {
			if !strings.HasSuffix(c.name, "Trainer") {
				continue
			}
			v, ok := c.by["model"]
			if !ok && len(c.plain) > 0 {
				v = c.plain[0]
			}
			switch {
			case strings.HasSuffix(v.text, "Trainer"): // a class of its own
			case v.text == "" || v.constant || name != "" && name != v.text:
				return ""
			default:
				name = v.text
			}
		}
	}
	return name
}

// freezes are the lines that say what is trained; not known where one isn't understood.
func (p *python) freezes() (all []freezing, known bool) {
	lines := pyLines(p.tokens)
	if !slices.ContainsFunc(lines, func(l pyLine) bool { return l.mentions() }) {
		return nil, true
	}
	r := p.models(lines)
	for i := 0; i < len(lines); i++ {
		l := &lines[i]
		root, says, n := understood(lines, i)
		switch {
		case l.replaces(r.trained):
			return nil, false
		case n > 0 && root == r.trained && root != "":
			all = append(all, says...)
		case n > 0 && r.others[root]:
		case n > 0 || l.mentions():
			return nil, false
		}
		i += max(n-1, 0)
	}
	return all, true
}

// understood is what a line says of the weights of a model, and how many lines say so: 0 where that isn't understood.
func understood(lines []pyLine, i int) (root string, says []freezing, n int) {
	l := &lines[i]
	switch {
	case !l.top:
	case l.tokens[0].text == "for":
		end := i + 1
		for end < len(lines) && lines[end].parent >= i {
			end++
		}
		otherwise := end < len(lines) && lines[end].tokens[0].text == "else" && lines[end].parent == l.parent
		if root, says, ok := loop(lines[i:end]); ok && !otherwise {
			return root, says, end - i
		}
	default:
		if root, says, ok := l.freezes(); ok {
			return root, says, 1
		}
	}
	return "", nil, 0
}

// chained takes a chain of names apart: its first, and what stands behind that.
func chained(tokens []pyToken) (root, module string, ok bool) {
	for i, t := range tokens {
		if i > maxDepth || i%2 == 0 && t.kind != 'n' || i%2 == 1 && t.kind != '.' {
			return "", "", false
		}
	}
	if len(tokens)%2 == 0 {
		return "", "", false
	}
	for _, t := range tokens[1:] {
		module += t.text
	}
	return tokens[0].text, strings.TrimPrefix(module, "."), true
}

// ofModule is an expression for a module's weights.
func ofModule(module string) string {
	if module == "" {
		return ""
	}
	return regexp.QuoteMeta(module) + `\.`
}

// freezes reads model.encoder.requires_grad_(False), model.lm_head.weight.requires_grad = True and a model's own method.
func (l *pyLine) freezes() (root string, says []freezing, ok bool) {
	dot := slices.IndexFunc(l.tokens, func(t pyToken) bool { return t.kind == '(' || t.kind == '=' }) - 2
	if dot < 1 || l.tokens[dot].kind != '.' {
		return "", nil, false
	}
	root, module, ok := chained(l.tokens[:dot])
	value, does := setting(l.tokens[dot:])
	weight := strings.HasSuffix(module, ".weight") || strings.HasSuffix(module, ".bias")
	rest := pyLine{tokens: l.tokens[dot:]}
	names, own := ownFreezers[l.tokens[dot+1].text]
	switch {
	case !ok:
	case does && l.tokens[dot+1].text == "requires_grad_" && !weight:
		return root, []freezing{{ofModule(module), !value}}, true
	case does && weight:
		return root, []freezing{{regexp.QuoteMeta(module) + "$", !value}}, true
	case own && module == "" && rest.said(". "+l.tokens[dot+1].text+" ( )"):
		return root, []freezing{{names, true}}, true
	}
	return "", nil, false
}

// setting reads what is said of a weight behind its name, and nothing more.
func setting(tokens []pyToken) (trained, ok bool) {
	rest := pyLine{tokens: tokens}
	for _, x := range []struct {
		words   string
		trained bool
	}{{". requires_grad = False", false}, {". requires_grad = True", true}, {". requires_grad_ ( False )", false},
		{". requires_grad_ ( True )", true}, {". requires_grad_ ( )", true},
		{". requires_grad_ ( requires_grad = False )", false}, {". requires_grad_ ( requires_grad = True )", true}} {
		if rest.said(x.words) {
			return x.trained, true
		}
	}
	return false, false
}

// loop reads one over a module's parameters that does nothing but set whether they are trained, all or by their names.
func loop(lines []pyLine) (root string, says []freezing, ok bool) {
	head := lines[0].tokens
	in := slices.IndexFunc(head, func(t pyToken) bool { return t.text == "in" && t.kind == 'n' })
	tail := len(head) - 5
	if in < 2 || tail <= in+1 {
		return "", nil, false
	}
	root, module, ok := chained(head[in+1 : tail])
	name, weight, call := "", head[in-1].text, pyLine{tokens: head[tail:]}
	switch {
	case !ok:
		return "", nil, false
	case in == 2 && call.said(". parameters ( ) :"):
	case in == 4 && head[2].kind == ',' && call.said(". named_parameters ( ) :"):
		name = head[1].text
	default:
		return "", nil, false
	}
	says, ok = body(lines[1:], name, weight)
	for i := range says {
		switch names := says[i].names; {
		case names == "":
			says[i].names = ofModule(module)
		case module != "":
			return "", nil, false
		}
	}
	return root, says, ok
}

// body reads what a loop over weights does with each.
func body(lines []pyLine, name, weight string) (says []freezing, ok bool) {
	sets := func(i int) (trained, ok bool) {
		if t := lines[i].tokens; t[0].text == weight {
			return setting(t[1:])
		}
		return false, false
	}
	switch len(lines) {
	case 1:
		value, ok := sets(0)
		return []freezing{{"", !value}}, ok
	case 2, 4:
		value, ok := sets(1)
		names, not := lines[0].condition(name)
		if !ok || names == "" {
			return nil, false
		}
		if len(lines) == 2 {
			if not {
				names = "!" + names
			}
			return []freezing{{names, !value}}, true
		}
		other, ok := sets(3)
		if !ok || other == value || !lines[2].said("else :") || lines[2].parent != lines[0].parent {
			return nil, false
		}
		return []freezing{{"", value != not}, {names, value == not}}, true
	}
	return nil, false
}

// condition is an expression for the names that one lets through, or keeps: if "head" in name, if not name.startswith("head").
func (l *pyLine) condition(name string) (names string, not bool) {
	at := slices.IndexFunc(l.tokens, func(t pyToken) bool { return t.kind == '"' })
	if at < 0 || name == "" || l.tokens[at].text == "" || strings.ContainsAny(l.tokens[at].text, `,\`) {
		return "", false
	}
	names = regexp.QuoteMeta(l.tokens[at].text)
	switch {
	case l.said(`if " in ` + name + ` :`):
		return ".*" + names, false
	case l.said(`if " not in ` + name + ` :`), l.said(`if not " in ` + name + ` :`):
		return ".*" + names, true
	case l.said(`if ` + name + ` . startswith ( " ) :`):
		return names, false
	case l.said(`if not ` + name + ` . startswith ( " ) :`):
		return names, true
	}
	return "", false
}

// frozen makes fields of what a program says of its weights.
func (p *python) frozen(fs *fields) error {
	all, known := p.freezes()
	w := weightsSaid{open: !known}
	for _, x := range all {
		w.says(x)
	}
	switch some := len(w.frozen)+len(w.trained) > 0; {
	case w.open || len(w.frozen)+len(w.trained) > maxDepth, some && fs.has("use_peft"), w.all && !some && !fs.has("use_peft"):
		fs.workedOut = append(fs.workedOut, "frozen_weights_by_lines")
		return nil
	}
	if len(w.frozen) > 0 {
		if err := fs.add("frozen_weights", strings.Join(w.frozen, ",")); err != nil {
			return err
		}
	}
	if len(w.trained) > 0 {
		return fs.add("trained_weights", strings.Join(w.trained, ","))
	}
	return nil
}

// weightsSaid is what lines have said so far: which weights are frozen, or of all which are trained.
type weightsSaid struct {
	frozen, trained []string
	all, open       bool
}

func (w *weightsSaid) says(x freezing) {
	others := strings.HasPrefix(x.names, "!")
	switch {
	case others && (!x.frozen || w.all):
		w.open = true
	case others: // what is left is trained alone
		w.all, w.trained = true, append(w.trained, x.names[1:])
	case x.names == "":
		w.all, w.frozen, w.trained = x.frozen, nil, nil
	case w.all && !x.frozen && len(w.frozen) == 0:
		w.trained = append(w.trained, x.names)
	case !w.all && x.frozen:
		w.frozen = append(w.frozen, x.names)
	default:
		w.open = true
	}
}
