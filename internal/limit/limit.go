// Package limit bounds what decoders of others are given: how long a text is, and how deep
// its brackets, indents and dotted keys lie in one another, before anything is decoded.
//
//	d := json.NewDecoder(limit.Reader(limit.Labels, file))
//
// Decoders take time and memory by a power of the depth, or call themselves for each level.
package limit

import (
	"bytes"
	"fmt"
	"io"

	"github.com/vramscope/vramscope/internal/units"
)

// Kind is what a decoder reads.
type Kind uint8

// The kinds of texts that are decoded.
const (
	TOML Kind = iota
	YAML
	Shell    // a script
	Recipe   // in JSON
	Config   // a model's config.json
	Header   // of a .safetensors file, or the index of several
	Labels   // and holders
	History  // one value of a Trainer's state
	Summary  // figures at a run's end
	Metadata // where W&B's run took place
	Launched // what `vramscope run` noted
	Setting  // a value in a tracker's record
	Reading  // what a monitor printed of all GPUs at one time
)

// limits have the bytes and the depth at which real files are far from their bounds.
var limits = [...]struct {
	bytes int64
	depth int
	form  func() depth
}{
	TOML:     {64 << 10, 16, func() depth { return &tomlDepth{} }}, // keys take time by depth times number
	YAML:     {512 << 10, 64, func() depth { return &yamlDepth{} }},
	Shell:    {128 << 10, 100, func() depth { return &shellDepth{} }}, // as long as the kernel lets a program's arguments be
	Recipe:   {1 << 20, 64, ofJSON},
	Config:   {4 << 20, 64, ofJSON},
	Header:   {128 << 20, 16, ofJSON},
	Labels:   {256 << 20, 16, ofJSON},
	History:  {16 << 20, 64, ofJSON},
	Summary:  {16 << 20, 64, ofJSON},
	Metadata: {4 << 20, 64, ofJSON},
	Launched: {64 << 20, 64, ofJSON},
	Setting:  {4 << 20, 64, ofJSON},
	Reading:  {4 << 20, 64, ofJSON},
}

func ofJSON() depth { return &jsonDepth{} }

// depth follows a text byte by byte, and says how deep it is there.
type depth interface{ after(c byte) int }

// Bounded is a stream that ends in an error where it is too long or too deep.
type Bounded struct {
	in    io.Reader
	kind  Kind
	depth depth
	read  int64 // since the last Next
	err   error
}

// Reader bounds a stream.
func Reader(k Kind, r io.Reader) *Bounded { return &Bounded{in: r, kind: k, depth: limits[k].form()} }

// Next says that another value of a stream of them begins: it may have as many bytes again.
func (b *Bounded) Next() { b.read = 0 }

// Read hands on what is within the bounds.
func (b *Bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	most := &limits[b.kind]
	n, err := b.in.Read(p[:min(int64(len(p)), most.bytes-b.read+1)])
	for i, c := range p[:n] {
		switch b.read++; {
		case b.read > most.bytes:
			b.err = fmt.Errorf("more than %s", units.Size(most.bytes))
		case b.depth.after(c) > most.depth:
			b.err = fmt.Errorf("deeper than %d levels", most.depth)
		default:
			continue
		}
		return i, b.err
	}
	return n, err
}

// Err is why the stream ended before its end, nil where it didn't.
func (b *Bounded) Err() error { return b.err }

// Check says whether a text is within the bounds.
func Check(k Kind, text []byte) error {
	n, err := io.Copy(io.Discard, Reader(k, bytes.NewReader(text)))
	if err != nil {
		return fmt.Errorf("offset %d: %w", n, err)
	}
	return nil
}

// jsonDepth counts the brackets outside of strings.
type jsonDepth struct {
	open            int
	inside, escaped bool
}

func (j *jsonDepth) after(c byte) int {
	switch {
	case j.inside:
		j.inside = j.escaped || c != '"'
		j.escaped = !j.escaped && c == '\\'
	case c == '"':
		j.inside = true
	case c == '[' || c == '{':
		j.open++
	case c == ']' || c == '}':
		j.open = max(j.open-1, 0)
	}
	return j.open
}

// shellDepth counts brackets, quoted ones too, as real ones close there, and the blocks of words that stand where a command may.
type shellDepth struct {
	open    int
	word    string // so far
	inside  bool   // of a command, whose other words begin no block
	comment bool
}

func (s *shellDepth) after(c byte) int {
	if s.comment && c != '\n' {
		return s.open
	}
	switch c {
	case ' ', '\t', '\r':
		s.end(true)
	case '\n', ';', '&', '|', '(', ')', '{', '}':
		s.end(false)
		s.comment = false
	case '#':
		s.comment = s.word == ""
	default:
		if s.word += string(c); len(s.word) > len("select") { // none of the words
			s.word = "command"
		}
	}
	switch c {
	case '(', '[', '{':
		s.open++
	case ')', ']', '}':
		s.open = max(s.open-1, 0)
	}
	return s.open
}

// end ends a word; within says that it may be followed by others of its command.
func (s *shellDepth) end(within bool) {
	word, first := s.word, !s.inside
	if s.word = ""; first {
		switch word {
		case "if", "while", "until", "for", "case", "select":
			s.open++
		case "fi", "done", "esac":
			s.open = max(s.open-1, 0)
		}
	}
	switch word {
	case "", "if", "while", "until", "then", "do", "else", "elif", "!", "time":
	default:
		s.inside = true
	}
	s.inside = s.inside && within
}

// yamlDepth counts indents, dashes and brackets, those in texts too: real ones close there.
type yamlDepth struct {
	columns []int // of what the line lies in
	column  int
	inside  bool // behind the line's indent
	dash    bool // the last byte may begin an entry
	open    int
}

func (y *yamlDepth) after(c byte) int {
	switch c {
	case '\n':
		*y = yamlDepth{columns: y.columns, open: y.open}
		return len(y.columns) + y.open
	case '[', '{':
		y.open++
	case ']', '}':
		y.open = max(y.open-1, 0)
	}
	switch {
	case y.inside:
	case c == ' ' || c == '\t':
		if y.dash {
			y.entry(y.column - 1)
		}
		y.dash = false
	case (c == '-' || c == '?') && !y.dash:
		y.dash = true
	case c != '\r':
		y.inside = true
		y.entry(y.column)
	}
	y.column++
	return len(y.columns) + y.open
}

// entry begins at a column: what lies there or behind it has ended.
func (y *yamlDepth) entry(column int) {
	for len(y.columns) > 0 && y.columns[len(y.columns)-1] >= column {
		y.columns = y.columns[:len(y.columns)-1]
	}
	y.columns = append(y.columns, column)
}

// tomlDepth counts the parts of dotted keys, those of the table above and of the brackets around them.
type tomlDepth struct {
	table  int   // parts of the table's name
	around []int // how deep each open bracket lies
	dots   int   // of the key or of the table's name
	header bool
	begun  bool // something stands in the line

	comment bool
	quote   byte // of the text that was begun, 0 without one
	run     int  // quotes in a row
	long    bool // three of them began it
	ended   bool // and three ended it; two more may belong to it
	escaped bool
}

func (t *tomlDepth) after(c byte) int {
	if t.quote == 0 || !t.text(c) {
		t.plain(c)
	}
	return t.below() + t.dots + 1
}

// below is how deep that lies which a key is in.
func (t *tomlDepth) below() int {
	if n := len(t.around); n > 0 {
		return t.around[n-1]
	}
	if t.header {
		return 0
	}
	return t.table
}

// text takes a byte of a text in quotes, false where the text had ended before it.
func (t *tomlDepth) text(c byte) bool {
	same := c == t.quote && !t.escaped
	switch {
	case t.ended:
		if t.run++; same && t.run <= 5 {
			return true
		}
		t.quote = 0
		return false
	case t.escaped:
		t.escaped, t.run = false, 0
		return true
	case !t.long:
		return t.short(c, same)
	}
	if t.run++; !same {
		t.run, t.escaped = 0, c == '\\' && t.quote == '"'
	}
	t.ended = t.run == 3
	return true
}

// short takes a byte of a text that one quote began, or that a third one may make a long one.
func (t *tomlDepth) short(c byte, same bool) bool {
	switch {
	case t.run == 2: // it was empty, or c is the third
		if t.long, t.run = same, 0; !same {
			t.quote = 0
		}
		return same
	case t.run == 1 && same:
		t.run = 2
		return true
	}
	t.run, t.escaped = 0, c == '\\' && t.quote == '"'
	if same || c == '\n' {
		t.quote = 0
	}
	return c != '\n'
}

// plain takes a byte outside of texts.
func (t *tomlDepth) plain(c byte) {
	switch c {
	case '\n':
		t.comment, t.header = false, false
		if len(t.around) == 0 {
			t.dots, t.begun = 0, false
		}
	case ' ', '\t', '\r':
	default:
		if !t.comment {
			t.mark(c)
			t.begun = true
		}
	}
}

// mark takes one that isn't white.
func (t *tomlDepth) mark(c byte) {
	switch c {
	case '#':
		t.comment = true
	case '"', '\'':
		t.quote, t.run, t.long, t.ended, t.escaped = c, 1, false, false, false
	case '.':
		t.dots++
	case ',':
		t.dots = 0
	case '[', '{':
		t.opens(c)
	case ']', '}':
		if t.header && c == ']' {
			t.table, t.header = t.dots+1, false
		} else if !t.header {
			t.around = t.around[:max(len(t.around)-1, 0)]
		}
		t.dots = 0
	}
}

// opens takes a bracket: of a table's name at the beginning of a line, else around what follows.
func (t *tomlDepth) opens(c byte) {
	switch {
	case c == '[' && !t.begun && len(t.around) == 0:
		t.header, t.dots = true, 0
	case !t.header:
		t.around = append(t.around, t.below()+t.dots+1)
		t.dots = 0
	}
}
