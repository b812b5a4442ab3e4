package recipe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/source"
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

// Lines, as written has them.
var (
	asProgram = pattern.Of(`^if __name__=="\w+"$`)
	freezesIt = pattern.Of(`^(\w+)\.(freeze_\w+)\(\)$`)
	setsIt    = pattern.Of(`^([\w.]+)\.requires_grad(?:(_)\((?:requires_grad=)?(True|False|)\)|=(True|False))$`)
	loops     = pattern.Of(`^for (?:(\w+),)?(\w+) in (\w+)\.(?:([\w.]+)\.)?(named_)?parameters\(\)$`)
	lets      = pattern.Of(`^if (not )?"([^",\\]+)" (not )?in (\w+)$`)
	letsBegin = pattern.Of(`^if (not )?(\w+)\.startswith\("([^",\\]+)"\)$`)

	ofClass  = pattern.Of(`^(\w+\.)*\w*(Model|For[A-Z]\w*)\.(from_pretrained|from_config)\(\)$`)
	ofCopy   = pattern.Of(`^((copy\.)?deepcopy|(trl\.)?create_reference_model)\(\)$`)
	ofItself = pattern.Of(`^((\w+\.)?get_peft_model|(\w+\.)?prepare_model_for_kbit_training)\(\)$`)
	moves    = pattern.Of(`(\.(to|cuda|eval|train|half|bfloat16|float)\(\))+$`)
)

// written are a statement's words from one on as they are written, whole or without what stands in brackets.
func written(s *source.Statement, from int, whole bool) string {
	var b strings.Builder
	for i := from; i < len(s.Words); i++ {
		w := s.Words[i]
		if i > from && w.Kind != 'o' && s.Words[i-1].Kind != 'o' {
			b.WriteByte(' ')
		}
		if w.Kind == 's' || w.Kind == 'f' {
			w.Text = strings.TrimPrefix(string(w.Kind), "s") + strconv.Quote(w.Text)
		}
		b.WriteString(w.Text)
		if w.Mate > i && !whole {
			i = w.Mate - 1
		}
	}
	return b.String()
}

// mentions says whether a statement may change what is trained. One that reads it doesn't.
func mentions(s *source.Statement) bool {
	before := ""
	for i, w := range s.Words {
		switch {
		case w.Text == "requires_grad_", w.Text == "requires_grad" && (i < s.Value || before != "."),
			freezers().MatchString(w.Text) && i+1 < len(s.Words) && s.Words[i+1].Text == "(":
			return true
		}
		before = w.Text
	}
	return false
}

// freezers are called like what changes which weights are trained.
var freezers = pattern.Of(`^(un)?freeze(_|$)`)

// top says whether a statement stands outside of all functions and branches.
func (p *python) top(s *source.Statement) bool {
	return s.Parent < 0 || p.top(&p.statements[s.Parent]) && asProgram().MatchString(written(&p.statements[s.Parent], 0, true))
}

// replaces says whether a statement may put another module into a model.
func replaces(s *source.Statement, root string) bool {
	if s.Value == 0 || s.Value == len(s.Words) || s.Words[0].Text != root || s.Words[1].Text == "=" || s.Words[1].Text == "," {
		return false
	}
	value := s.Words[s.Value]
	return !strings.HasSuffix(s.Words[2].Text, "config") && value.Kind == 'n' && !pyWords().MatchString(value.Text)
}

// Names stand for models by what they are given.
const (
	otherwise = iota // anything else
	aModel           // a class's from_pretrained or from_config
	aCopy            // of a model
	itself           // the same model again
)

// stands tells what a name is given by a statement's value, which may be moved behind.
func stands(name string, s *source.Statement) int {
	text := written(s, s.Value, false)
	made := moves().ReplaceAllString(text, "")
	switch {
	case ofClass().MatchString(made) && !strings.Contains(made, "Peft") && !strings.Contains(made, "ValueHead"):
		return aModel
	case ofCopy().MatchString(made):
		return aCopy
	case made == name && text != name,
		ofItself().MatchString(made) && strings.HasPrefix(written(s, s.Value, true), strings.TrimSuffix(made, ")")+name):
		return itself
	}
	return otherwise
}

// roots are a program's names of models: the one that is trained, and others beside it.
type roots struct {
	trained string
	others  map[string]bool
}

// models finds them. A name that is given something else anywhere, in a loop or as an argument too, is none of them.
func (p *python) models() (r roots) {
	as := map[string][]int{}
	for i := range p.statements {
		s := &p.statements[i]
		for _, name := range s.Bound {
			what := otherwise
			if alone := s.Value == 2 || s.Value == 4 && s.Words[1].Text == ","; alone && p.top(s) && name == s.Words[0].Text {
				what = stands(name, s)
			}
			if what != itself {
				as[name] = append(as[name], what)
			}
		}
	}
	r.others = map[string]bool{}
	trained := p.trainers()
	for name, made := range as {
		switch {
		case len(made) != 1 || made[0] == otherwise:
		case name != trained:
			r.others[name] = true
		case made[0] == aModel:
			r.trained = name
		}
	}
	r.apart(p.statements)
	return r
}

// apart takes those others for unknown that stand beside the model in a statement which isn't a trainer's: it may be made of
// them.
func (r *roots) apart(all []source.Statement) {
	for i := range all {
		s := &all[i]
		has := func(like func(w source.Word) bool) bool { return slices.ContainsFunc(s.Words, like) }
		if !has(func(w source.Word) bool { return w.Text == r.trained && w.Kind == 'n' }) ||
			has(func(w source.Word) bool { return strings.HasSuffix(w.Text, "Trainer") && w.Kind == 'n' }) {
			continue
		}
		for _, w := range s.Words {
			if s.Value != 2 || w.Text != s.Words[0].Text {
				delete(r.others, w.Text)
			}
		}
	}
	if r.trained == "" {
		r.others = nil
	}
}

// trainers is the name of the model that all of a program's trainers are given, "" where that isn't one.
func (p *python) trainers() (name string) {
	for _, c := range p.calls {
		v, ok := c.by["model"]
		if !ok && len(c.plain) > 0 {
			v = c.plain[0]
		}
		switch {
		case !strings.HasSuffix(c.name, "Trainer"), strings.HasSuffix(v.text, "Trainer"): // a class of its own
		case v.text == "" || v.constant || name != "" && name != v.text:
			return ""
		default:
			name = v.text
		}
	}
	return name
}

// freezes are the lines that say what is trained; not known where one isn't understood.
func (p *python) freezes() (all []freezing, known bool) {
	if !slices.ContainsFunc(p.statements, func(s source.Statement) bool { return mentions(&s) }) {
		return nil, true
	}
	r := p.models()
	for i := 0; i < len(p.statements); i++ {
		s := &p.statements[i]
		root, says, n := p.understood(i)
		switch {
		case replaces(s, r.trained):
			return nil, false
		case n > 0 && root == r.trained && root != "":
			all = append(all, says...)
		case n > 0 && r.others[root]:
		case n > 0 || mentions(s):
			return nil, false
		}
		i += max(n-1, 0)
	}
	return all, true
}

// understood is what a line says of the weights of a model, and how many lines say so: 0 where that isn't understood.
func (p *python) understood(i int) (root string, says []freezing, n int) {
	s := &p.statements[i]
	if !p.top(s) {
		return "", nil, 0
	}
	text := written(s, 0, true)
	own, set, loop := freezesIt().FindStringSubmatch(text), setsIt().FindStringSubmatch(text), loops().FindStringSubmatch(text)
	switch {
	case own != nil && ownFreezers[own[2]] != "":
		return own[1], []freezing{{ownFreezers[own[2]], true}}, 1
	case set != nil:
		root, module, _ := strings.Cut(set[1], ".")
		weight := strings.HasSuffix(module, ".weight") || strings.HasSuffix(module, ".bias")
		names := ofModule(module)
		if weight {
			names = regexp.QuoteMeta(module) + "$"
		}
		if weight || set[2] != "" {
			return root, []freezing{{names, set[3]+set[4] == "False"}}, 1
		}
	case loop != nil && (loop[1] == "") == (loop[5] == ""):
		return p.overWeights(i, loop[3], loop[4], loop[1], loop[2])
	}
	return "", nil, 0
}

// overWeights reads a loop over a module's parameters that does nothing but set whether they are trained, all or by their names.
func (p *python) overWeights(i int, root, module, name, weight string) (of string, says []freezing, n int) {
	end := p.end(i)
	otherwise := end < len(p.statements) && p.statements[end].Word == "else" && p.statements[end].Parent == p.statements[i].Parent
	says = body(p.statements[i+1:end], name, weight)
	if otherwise || len(says) == 0 || module != "" && says[len(says)-1].names != "" {
		return "", nil, 0
	}
	if module != "" {
		says[0].names = ofModule(module)
	}
	return root, says, end - i
}

// ofModule is an expression for a module's weights.
func ofModule(module string) string {
	if module == "" {
		return ""
	}
	return regexp.QuoteMeta(module) + `\.`
}

// body reads what a loop over weights does with each, nothing where it does anything else than set whether it is trained.
func body(lines []source.Statement, name, weight string) []freezing {
	sets := func(i int) (frozen, ok bool) {
		set := setsIt().FindStringSubmatch(written(&lines[i], 0, true))
		return set != nil && set[3]+set[4] == "False", set != nil && set[1] == weight
	}
	switch len(lines) {
	case 1:
		if frozen, ok := sets(0); ok {
			return []freezing{{"", frozen}}
		}
	case 2, 4:
		frozen, ok := sets(1)
		names, not := condition(&lines[0], name)
		switch {
		case !ok || names == "":
		case len(lines) == 4:
			other, ok := sets(3)
			if ok && other != frozen && lines[2].Word == "else" && lines[2].Parent == lines[0].Parent {
				return []freezing{{"", frozen == not}, {names, frozen != not}}
			}
		case not:
			return []freezing{{"!" + names, frozen}}
		default:
			return []freezing{{names, frozen}}
		}
	}
	return nil
}

// condition is an expression for the names that one lets through, or keeps: if "head" in name, if not name.startswith("head").
func condition(s *source.Statement, name string) (names string, not bool) {
	text := written(s, 0, true)
	if x := lets().FindStringSubmatch(text); x != nil && x[4] == name && (x[1] == "" || x[3] == "") {
		return ".*" + regexp.QuoteMeta(x[2]), x[1]+x[3] != ""
	}
	if x := letsBegin().FindStringSubmatch(text); x != nil && x[2] == name {
		return regexp.QuoteMeta(x[3]), x[1] != ""
	}
	return "", false
}

// frozen makes fields of what a program says of its weights.
func (p *python) frozen(f *fields) {
	all, known := p.freezes()
	w := weightsSaid{open: !known}
	for _, x := range all {
		w.says(x)
	}
	some := len(w.frozen)+len(w.trained) > 0
	if w.open || len(w.frozen)+len(w.trained) > maxDepth || some && f.has("use_peft") || w.all && !some && !f.has("use_peft") {
		f.workedOut = append(f.workedOut, "frozen_weights_by_lines")
		return
	}
	if len(w.frozen) > 0 {
		f.add("frozen_weights", strings.Join(w.frozen, ","))
	}
	if len(w.trained) > 0 {
		f.add("trained_weights", strings.Join(w.trained, ","))
	}
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
