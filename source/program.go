package source

import "strings"

// Word is a token of a program.
type Word struct {
	Kind byte   // n: a name, 0: a number, s: a string, f: one with values in it, o: an operator
	Text string // of a string what stands in quotes
	Mate int    // of a bracket: where the other one stands in the statement, -1: nowhere
}

// Statement is one, or the head of several.
type Statement struct {
	Parent int    // the head of the block that it stands in, -1: none
	Word   string // that a head begins with: def, for, …; "" for a simple statement
	Words  []Word
	Value  int      // where the value begins that something is given, 0: nowhere
	Bound  []string // names that are given something
}

// Program is the statements of a text; false where it is too long for one.
func Program(text string) (all []Statement, ok bool) {
	tokens := tokensOf(text)
	f, open := &File{}, []opened(nil)
	for _, line := range logicalLines(tokens) {
		open = f.add(line, open)
	}
	for _, s := range f.stmts {
		out, until := Statement{Parent: s.parent, Word: s.head}, 0
		for i, t := range s.tokens {
			out.Words = append(out.Words, Word{t.kind, t.text, mate(s.tokens, i)})
			if t.kind == 's' {
				out.Words[i].Kind, out.Words[i].Text = quoted(t.text)
			}
		}
		switch word := s.tokens[0].text; {
		case s.head == "for":
			for until < len(s.tokens) && s.tokens[until].text != "in" {
				until++
			}
		case word == "from", word == "import":
			until = len(s.tokens)
		case s.head == "":
			if a := assigned(s.tokens); a.operator != "" {
				until = len(s.tokens) - len(a.value)
				out.Value = until
			}
		}
		out.Bound = bound(out.Words, until)
		all = append(all, out)
	}
	return all, len(tokens) < maxTokens
}

// quoted is what a string has in its quotes.
func quoted(text string) (kind byte, inside string) {
	inside = strings.TrimLeft(text, "rRbBuUfFtT")
	prefix, quote := text[:len(text)-len(inside)], inside[:1]
	if len(inside) >= 6 && strings.HasPrefix(inside, quote+quote+quote) {
		quote += quote + quote
	}
	inside = strings.TrimSuffix(inside[len(quote):], quote)
	if strings.ContainsAny(prefix, "fFtT") && strings.Contains(inside, "{") {
		return 'f', inside
	}
	return 's', inside
}

// bound are names among the first words of a statement, and others that a word or a sign gives something.
func bound(words []Word, until int) (names []string) {
	near := func(i int) string {
		if i < 0 || i >= len(words) {
			return ""
		}
		return words[i].Text
	}
	for i, w := range words {
		before, after := near(i-1), near(i+1)
		if w.Kind == 'n' && (i < until && before != "." && after != "." || before == "as" || before == "def" ||
			before == "class" || after == ":=") {
			names = append(names, w.Text)
		}
	}
	return names
}
