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
	word := func() string { at++; return p.peek(at - 1).text }
	each := word()
	name := ""
	if p.peek(at).kind == ',' {
		at++
		name, each = each, word()
	}
	if word() != "in" {
		return
	}
	var chain []string
	for chain = append(chain, word()); p.peek(at).kind == '.' && len(chain) < maxDepth; {
		at++
		chain = append(chain, word())
	}
	last := chain[len(chain)-1]
	if last != "parameters" && last != "named_parameters" || word() != "(" || word() != ")" || word() != ":" {
		return
	}
	x := freezing{names: ofModule(strings.Join(chain[:len(chain)-1], "."))}
	body := at
	for !(p.peek(at).text == each && p.peek(at+1).kind == '.' && p.peek(at+2).text == "requires_grad") {
		if at++; at > body+maxDepth || p.peek(at).text == "for" || p.peek(at).kind == 0 {
			return
		}
	}
	value, next := p.peek(at+4), p.peek(at+5)
	x.frozen = value.text == "False"
	x.open = len(p.branches) > 0 || p.peek(at+3).kind != '=' || !x.frozen && value.text != "True" ||
		next.kind != 0 && !next.begins
	if at > body && !x.open {
		x.open = !x.under(p.tokens[p.at+body:p.at+at], name)
	}
	p.freezes = append(p.freezes, x)
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
	var frozen, trained []string
	all, open := false, false
	for _, x := range p.freezes {
		others := strings.HasPrefix(x.names, "!")
		switch {
		case x.open:
			open = true
		case others && !x.frozen:
			all, trained = true, append(trained, x.names[1:])
		case others:
			open = true
		case x.names == "" && x.frozen:
			all, frozen, trained = true, nil, nil
		case x.names == "":
			all, frozen, trained = false, nil, nil
		case all && !x.frozen:
			trained = append(trained, x.names)
		case !all && x.frozen:
			frozen = append(frozen, x.names)
		default:
			open = true
		}
	}
	if all && len(trained) == 0 || len(frozen)+len(trained) > maxDepth {
		open = open || !fs.has("use_peft")
		frozen, trained = nil, nil
	}
	for name, names := range []([]string){frozen, trained} {
		if len(names) > 0 {
			if err := fs.add([]string{"frozen_weights", "trained_weights"}[name], strings.Join(names, ",")); err != nil {
				return err
			}
		}
	}
	if open {
		fs.workedOut = append(fs.workedOut, "frozen_weights_by_lines")
	}
	return nil
}
