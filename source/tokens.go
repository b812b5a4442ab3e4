package source

import "strings"

// token is a word, a number, a string or an operator of a program.
type token struct {
	text          string
	kind          byte // n: name, s: string, 0: number, o: operator
	line, endLine int
	column        int // of the first token of a line: its indentation
	depth         int // brackets that it stands in
	mate          int // of a bracket: how far on the other one is, before it where it is negative; 0: nowhere
	first         bool
	from, to      int // bytes of the text
}

// operators of more than one character, longest first.
var operators = []string{"**=", "//=", ">>=", "<<=", "...", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "->", ":=",
	"==", "!=", "<=", ">=", "**", "//", "<<", ">>"}

// scanner reads a program's characters.
type scanner struct {
	text   string
	at     int
	line   int
	depth  int
	tokens []token
}

func tokensOf(text string) []token {
	s := &scanner{text: text, line: 1}
	fresh, column := true, 0 // at a line's beginning
	for s.at < len(s.text) && len(s.tokens) < maxTokens {
		c := s.text[s.at]
		switch {
		case c == '\n':
			s.at, s.line, fresh, column = s.at+1, s.line+1, true, 0
		case c == '\t':
			s.at, column = s.at+1, column/8*8+8
		case c == ' ' || c == '\r' || c == '\f':
			s.at, column = s.at+1, column+1
		case c == '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		case c == '\\' && s.continues():
		default:
			before, depth := s.line, s.depth
			s.read()
			last := &s.tokens[len(s.tokens)-1]
			last.first, last.column, last.line, last.endLine = fresh && depth == 0, column, before, s.line
			fresh = false
		}
	}
	return s.tokens
}

// continues goes on to the next line where this one ends with a backslash.
func (s *scanner) continues() bool {
	rest := strings.TrimPrefix(s.text[s.at+1:], "\r")
	if !strings.HasPrefix(rest, "\n") {
		return false
	}
	s.at, s.line = len(s.text)-len(rest)+1, s.line+1
	return true
}

// read reads one token.
func (s *scanner) read() {
	begin := s.at
	c := s.text[s.at]
	switch {
	case isName(c):
		for s.at < len(s.text) && (isName(s.text[s.at]) || isDigit(s.text[s.at])) {
			s.at++
		}
		if word := strings.ToLower(s.text[begin:s.at]); len(word) <= 2 && strings.Trim(word, "rbuft") == "" && s.quoted() {
			s.string()
			s.add(begin, 's')
			return
		}
		s.add(begin, 'n')
	case isDigit(c):
		s.number()
		s.add(begin, '0')
	case s.quoted():
		s.string()
		s.add(begin, 's')
	default:
		s.operator()
		s.add(begin, 'o')
	}
}

func (s *scanner) number() {
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		exponent := (c == '-' || c == '+') && strings.Contains("eE", s.text[s.at-1:s.at]) && s.at+1 < len(s.text)
		if !exponent && !isName(c) && !isDigit(c) && c != '.' {
			return
		}
	}
}

func (s *scanner) operator() {
	for _, o := range operators {
		if strings.HasPrefix(s.text[s.at:], o) {
			s.at += len(o)
			return
		}
	}
	s.at++
}

// add adds what was read, with the brackets that it stands in.
func (s *scanner) add(begin int, kind byte) {
	text := s.text[begin:s.at]
	depth := s.depth
	if kind == 'o' {
		switch text {
		case "(", "[", "{":
			s.depth++
		case ")", "]", "}":
			s.depth = max(0, s.depth-1)
			depth = s.depth
		}
	}
	s.tokens = append(s.tokens, token{text: text, kind: kind, depth: depth, from: begin, to: s.at})
}

func (s *scanner) quoted() bool {
	return s.at < len(s.text) && (s.text[s.at] == '"' || s.text[s.at] == '\'')
}

// string goes over a string, which may be one of several lines.
func (s *scanner) string() {
	quote := s.text[s.at : s.at+1]
	if three := strings.Repeat(quote, 3); strings.HasPrefix(s.text[s.at:], three) {
		quote = three
	}
	for s.at += len(quote); s.at < len(s.text); s.at++ {
		switch {
		case strings.HasPrefix(s.text[s.at:], quote):
			s.at += len(quote)
			return
		case s.text[s.at] == '\\' && s.at+1 < len(s.text):
			s.at++
			if s.text[s.at] == '\n' {
				s.line++
			}
		case s.text[s.at] == '\n' && len(quote) == 1:
			return // it was never closed
		case s.text[s.at] == '\n':
			s.line++
		}
	}
}

func isName(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// logicalLines are the tokens of each statement's line, with brackets paired.
func logicalLines(tokens []token) (lines [][]token) {
	from := 0
	end := func(to int) {
		if to > from {
			line := tokens[from:to]
			pair(line)
			lines = append(lines, line)
		}
		from = to
	}
	for i := range tokens {
		if tokens[i].first {
			end(i)
		}
	}
	end(len(tokens))
	return lines
}

// mate is the place of the other bracket, -1 where it isn't among some tokens.
func mate(toks []token, i int) int {
	if i < 0 || i >= len(toks) {
		return -1
	}
	at := i + toks[i].mate
	if toks[i].mate == 0 || at < 0 || at >= len(toks) {
		return -1
	}
	return at
}

func pair(line []token) {
	var open []int
	for i := range line {
		if line[i].kind != 'o' {
			continue
		}
		switch line[i].text {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			if n := len(open); n > 0 {
				line[i].mate, line[open[n-1]].mate = open[n-1]-i, i-open[n-1]
				open = open[:n-1]
			}
		}
	}
}
