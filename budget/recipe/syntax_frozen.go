package recipe

import (
	"regexp"
	"strings"
)

// freezing is a line of a program that says whether some weights are trained.
type freezing struct {
	names  string // an expression that they begin with, "" for all
	frozen bool
	open   bool // it isn't understood, or stands in a branch
}

// ownFreezers are methods of Transformers' models, and the weights that each leaves as they are.
var ownFreezers = map[string]string{"freeze_encoder": `(model\.)?encoder\.`, "freeze_feature_encoder": `.*feature_extractor\.`,
	"freeze_feature_extractor": `.*feature_extractor\.`}

// ofModule is an expression for a module's weights: of those of a program's model, which has a name of its own.
func ofModule(chain string) string {
	_, module, _ := strings.Cut(strings.TrimPrefix(chain, "self."), ".")
	if module == "" {
		return ""
	}
	return regexp.QuoteMeta(module) + `\.`
}

// freezeCall notes model.encoder.requires_grad_(False), and a model's own method for it.
func (p *python) freezeCall(c *pyCall) {
	module, method := "", c.name
	if i := strings.LastIndexByte(c.name, '.'); i > 0 {
		module, method = c.name[:i], c.name[i+1:]
	}
	x := freezing{open: c.maybe}
	switch names, own := ownFreezers[method]; {
	case method == "requires_grad_" && module != "":
		x.frozen = len(c.plain) > 0 && c.plain[0].text == "False"
		x.names = ofModule(module)
	case own && module != "":
		x.names, x.frozen = names, true
	case method == "freeze_base_model":
		x.open = true
	default:
		return
	}
	p.freezes = append(p.freezes, x)
}

// loop notes what one over a module's parameters sets of them, and says nothing of others: for q in model.encoder.parameters():
// q.requires_grad = False. It reads ahead.
func (p *python) loop() {
	at := 1
	each, name := p.peek(1).text, ""
	if p.peek(2).kind == ',' {
		at, name, each = 3, each, p.peek(3).text
	}
	module, at := p.parametersOf(at + 1)
	if at == 0 {
		return
	}
	body := at
	for !(p.peek(at).text == each && p.peek(at+1).kind == '.' && p.peek(at+2).text == "requires_grad") {
		if at++; at > body+maxDepth || p.peek(at).text == "for" || p.peek(at).kind == 0 {
			return
		}
	}
	x := freezing{names: ofModule(module), frozen: p.peek(at+4).text == "False"}
	x.open = len(p.branches) > 0 || !p.sets(at+3) || at > body && !x.under(p.tokens[p.at+body:p.at+at], name)
	p.freezes = append(p.freezes, x)
}

// parametersOf is the module of in model.encoder.parameters():, and where what comes behind it begins; 0 where something else
// stands there.
func (p *python) parametersOf(at int) (module string, end int) {
	if p.peek(at).text != "in" {
		return "", 0
	}
	chain := []string{p.peek(at + 1).text}
	for at += 2; p.peek(at).kind == '.' && len(chain) < maxDepth; at += 2 {
		chain = append(chain, p.peek(at+1).text)
	}
	last := len(chain) - 1
	if chain[last] != "parameters" && chain[last] != "named_parameters" {
		return "", 0
	}
	for i, mark := range []rune("():") {
		if p.peek(at+i).kind != mark {
			return "", 0
		}
	}
	return strings.Join(chain[:last], "."), at + 3
}

// sets says whether True or False is given here, and nothing more.
func (p *python) sets(at int) bool {
	value, next := p.peek(at+1).text, p.peek(at+2)
	return p.peek(at).kind == '=' && (value == "False" || value == "True") && (next.kind == 0 || next.begins)
}

// under takes a condition on a weight's name into account: if "head" in name, if not name.startswith("head"). It says whether
// that is understood.
func (x *freezing) under(condition []pyToken, name string) bool {
	var words []string
	text := ""
	for _, t := range condition {
		if words = append(words, t.text); t.kind == '"' {
			text, words[len(words)-1] = t.text, `"`
		}
	}
	var how string
	switch said := strings.Join(words, " "); said {
	case `if " in ` + name + ` :`:
		how = "has"
	case `if " not in ` + name + ` :`:
		how = "has not"
	case `if ` + name + ` . startswith ( " ) :`:
		how = "begins"
	case `if not ` + name + ` . startswith ( " ) :`:
		how = "begins not"
	}
	if how == "" || text == "" || x.names != "" || strings.Contains(text, ",") {
		return false
	}
	x.names = regexp.QuoteMeta(text)
	if strings.HasPrefix(how, "has") {
		x.names = ".*" + x.names
	}
	if strings.HasSuffix(how, "not") { // all others: what is left is trained alone
		x.frozen = !x.frozen
		x.names = "!" + x.names
	}
	return true
}

// frozen makes fields of what a program says of its weights.
func (p *python) frozen(fs *fields) error {
	var w weightsSaid
	for _, x := range p.freezes {
		w.says(x)
	}
	if w.all && len(w.trained) == 0 || len(w.frozen)+len(w.trained) > maxDepth {
		w.open = w.open || !fs.has("use_peft")
		w.frozen, w.trained = nil, nil
	}
	if len(w.frozen) > 0 {
		if err := fs.add("frozen_weights", strings.Join(w.frozen, ",")); err != nil {
			return err
		}
	}
	if len(w.trained) > 0 {
		if err := fs.add("trained_weights", strings.Join(w.trained, ",")); err != nil {
			return err
		}
	}
	if w.open {
		fs.workedOut = append(fs.workedOut, "frozen_weights_by_lines")
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
	case x.open || others && x.frozen:
		w.open = true
	case others:
		w.all, w.trained = true, append(w.trained, x.names[1:])
	case x.names == "":
		w.all, w.frozen, w.trained = x.frozen, nil, nil
	case w.all && !x.frozen:
		w.trained = append(w.trained, x.names)
	case !w.all && x.frozen:
		w.frozen = append(w.frozen, x.names)
	default:
		w.open = true
	}
}
