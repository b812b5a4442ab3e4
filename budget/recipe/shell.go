package recipe

import (
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/vramscope/vramscope/internal/limit"
)

// readArguments reads a command, or a shell script that holds one: words that begin with
// dashes are fields, variables are what the script itself sets them to. Nothing is run.
func readArguments(f *fields, text []byte) {
	a := arguments{fields: f, vars: map[string]string{}}
	a.script(string(text), 0)
	if n := a.vars["NPROC_PER_NODE"]; n != "" && !a.has("nproc-per-node") { // ms-swift takes it from there
		a.add("nproc-per-node", n)
	}
}

// arguments are those of a script's commands, so far.
type arguments struct {
	*fields
	vars map[string]string
	name string // the option that waits for its value
	many string // the option that takes more words
	long int    // how much text its words have been, together
}

// maxSkips is how often a script is read on behind what couldn't be read of it.
const maxSkips = 50

// script reads the commands of a text. What the shell would refuse is passed over with its line.
func (a *arguments) script(text string, depth int) {
	a.fail(limit.Check(limit.Shell, []byte(text)))
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for skips := 0; skips < maxSkips && a.err == nil; skips++ {
		end, whole := 0, true
		for stmt, err := range parser.StmtsSeq(strings.NewReader(text)) {
			if err != nil || !whole { // the parser may say more behind an error, and can't be left there
				whole = false
				continue
			}
			a.commands(stmt, depth)
			end = int(stmt.End().Offset())
		}
		if whole {
			break
		}
		text = strings.TrimLeft(text[min(end, len(text)):], " \t\r\n;")
		_, text, _ = strings.Cut(text, "\n")
	}
}

// commands takes what runs within a statement in, in its order.
func (a *arguments) commands(stmt *syntax.Stmt, depth int) {
	syntax.Walk(stmt, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.Redirect:
			if x.Hdoc != nil && depth == 0 && a.err == nil { // a command that is run by its name later
				a.script(a.text(x.Hdoc), 1)
			}
			return false
		case *syntax.CallExpr:
			for _, set := range x.Assigns {
				a.set(set, depth)
			}
			for _, w := range x.Args {
				a.word(w)
			}
			a.value("true")
			a.many = ""
			return false
		case *syntax.DeclClause: // export, local, readonly
			for _, set := range x.Args {
				a.set(set, depth)
			}
			return false
		}
		return a.err == nil
	})
}

// set notes a variable. One may hold arguments: they are read where it is set.
func (a *arguments) set(set *syntax.Assign, depth int) {
	switch {
	case set.Array != nil:
		for _, x := range set.Array.Elems {
			if x.Value != nil {
				a.word(x.Value)
			}
		}
		a.value("true")
		a.many = ""
	case set.Name != nil && set.Value != nil:
		value := a.text(set.Value)
		a.vars[set.Name.Value] = value
		if depth == 0 && strings.Contains(value, "--") && a.err == nil {
			a.script(value, 1)
		}
	}
}

// word takes one of a command in.
func (a *arguments) word(w *syntax.Word) {
	word := a.text(w)
	switch {
	case a.err != nil:
	case !strings.HasPrefix(word, "-") || isNumber(word):
		switch {
		case a.name != "":
			a.value(word)
		case a.many != "":
			a.add(a.many, a.values[a.many]+","+word)
		case len(a.names) < maxFields:
			if strings.HasSuffix(word, ".py") && !trains(a.program) { // one that evaluates may follow
				a.program = path.Base(word)
			}
			a.command(word)
		}
	default:
		a.value("true")
		option, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if o, v, both := strings.Cut(option, " "); both { // "--name value" in quotes
			option, value, given = o, strings.Trim(v, `'" `), true
		}
		if !strings.Contains(option, ".") { // dotted names are those of a file's fields
			option = strings.ReplaceAll(option, "_", "-")
		}
		if a.name = below("", option); given {
			a.value(value)
		}
	}
}

// value gives the option that waits one, if one does. Of some all words up to the next option are values.
func (a *arguments) value(v string) {
	if a.name == "" || a.err != nil {
		a.name = ""
		return
	}
	if a.many = ""; manyWords[strings.ReplaceAll(a.name, "-", "_")] {
		a.many = a.name
	}
	a.add(a.name, v)
	a.name = ""
}

// manyWords are options with a list of words.
var manyWords = map[string]bool{"target_modules": true, "lora_target_modules": true, "modules_to_save": true,
	"lora_modules_to_save": true, "freeze_parameters": true, "trainable_parameters": true}

// text is a word without its quotes, with what is known of the variables in it; what isn't
// stays as it stands there.
func (a *arguments) text(w *syntax.Word) string {
	var out strings.Builder
	a.expand(&out, w.Parts)
	if a.long += out.Len(); a.long > maxBytes {
		a.fail(errMany)
	}
	s := out.String()
	return s[:min(len(s), maxText)]
}

func (a *arguments) expand(out *strings.Builder, parts []syntax.WordPart) {
	config := expand.Config{NoUnset: true, Env: expand.FuncEnviron(func(name string) string { return a.vars[name] })}
	for _, part := range parts {
		if out.Len() >= maxText {
			return
		}
		switch x := part.(type) {
		case *syntax.DblQuoted:
			a.expand(out, x.Parts)
			continue
		case *syntax.ArithmExp:
			if !a.known(x) {
				continue
			}
		}
		// Behind empty quotes a tilde is nobody's home.
		text, err := expand.Literal(&config, &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{}, part}})
		if err != nil {
			var raw strings.Builder
			_ = syntax.NewPrinter().Print(&raw, part)
			text = raw.String()
		}
		out.WriteString(text)
	}
}

// known reports whether all variables of an expression are.
func (a *arguments) known(x *syntax.ArithmExp) bool {
	all := true
	syntax.Walk(x, func(n syntax.Node) bool {
		if name, ok := n.(*syntax.Lit); ok && syntax.ValidName(name.Value) {
			_, err := strconv.ParseInt(a.vars[name.Value], 10, 32)
			all = all && err == nil
		}
		return all
	})
	return all
}
