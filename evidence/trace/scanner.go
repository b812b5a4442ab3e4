package trace

import (
	"fmt"
	"io"
	"math"
	"strconv"
)

// scanner walks through JSON without building it. It is lenient where the
// profiler is careless (raw control characters and backslashes in strings,
// NaN), and strict about where a value ends.
type scanner struct {
	r      io.Reader
	buf    []byte
	pos    int // of the next byte in buf
	end    int // of the data in buf
	keep   int // first byte that must survive a refill, -1: none
	offset int64
	err    error
}

const (
	bufferSize = 256 << 10
	maxValue   = 8 << 20 // of a value that is looked at; longer ones are skipped
	maxKey     = 4096
	maxDepth   = 512
)

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, bufferSize), keep: -1}
}

// fill reads more; it moves what is kept to the front and grows for it.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	from := s.pos
	if s.keep >= 0 {
		from = s.keep
	}
	if from > 0 {
		copy(s.buf, s.buf[from:s.end])
		s.offset += int64(from)
		s.pos, s.end = s.pos-from, s.end-from
		if s.keep >= 0 {
			s.keep = 0
		}
	}
	if s.end == len(s.buf) {
		grown := make([]byte, 2*len(s.buf))
		copy(grown, s.buf[:s.end])
		s.buf = grown
	}
	for tries := 0; tries < 100; tries++ {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		if err != nil {
			s.err = err
		}
		if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// next skips white space and shows the next byte.
func (s *scanner) next() (byte, bool) {
	for {
		for ; s.pos < s.end; s.pos++ {
			switch c := s.buf[s.pos]; c {
			case ' ', '\n', '\r', '\t', ':', 0xef, 0xbb, 0xbf:
			default:
				return c, true
			}
		}
		if !s.fill() {
			return 0, false
		}
	}
}

func (s *scanner) skip() { s.pos++ }

func (s *scanner) at() int64 { return s.offset + int64(s.pos) }

func (s *scanner) fail(cause string, kind error) error {
	return fmt.Errorf("kineto: offset %d: %s: %w", s.at(), cause, kind)
}

// cut is the error for a file that ends too early or cannot be read further.
func (s *scanner) cut(inside string) error {
	err := s.err
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return s.fail("the file ends inside "+inside, err)
}

func (s *scanner) key() (string, error) {
	if s.buf[s.pos] != '"' {
		return "", s.fail(fmt.Sprintf("%q where a key should be", s.buf[s.pos]), ErrNotTrace)
	}
	text, err := s.value()
	if err != nil {
		return "", err
	}
	if len(text) > maxKey {
		return "", s.fail("a key of more than 4 KiB", ErrNotTrace)
	}
	return unquote(text), nil
}

// value reads a whole value and hands back its text, valid until the next
// read; nil when it is too long to be of interest.
func (s *scanner) value() ([]byte, error) {
	s.keep = s.pos
	err := s.skipValue()
	if s.keep < 0 {
		return nil, err
	}
	text := s.buf[s.keep:s.pos]
	s.keep = -1
	return text, err
}

// class sorts bytes for skipNested, which sees every byte of the file.
var class = func() (t [256]uint8) {
	t['"'], t['{'], t['['], t['}'], t[']'], t[','] = 1, 2, 2, 3, 3, 4
	return t
}()

// skipValue passes over one value of any kind.
func (s *scanner) skipValue() error {
	c, ok := s.next()
	switch {
	case !ok:
		return s.cut("a value")
	case c == '"':
		s.skip()
		return s.skipString()
	case class[c] == 2:
		return s.skipNested()
	}
	return s.skipScalar()
}

// skipNested passes over an object or a list.
// It is the hot loop of traces.
func (s *scanner) skipNested() error {
	for depth := 0; ; {
		buf := s.buf[:s.end]
		for i := s.pos; i < len(buf); i++ {
			switch class[buf[i]] {
			case 1:
				s.pos = i + 1
				if err := s.skipString(); err != nil {
					return err
				}
				buf = s.buf[:s.end]
				i = s.pos - 1
			case 2:
				if depth++; depth > maxDepth {
					s.pos = i
					return s.fail("nested too deeply", ErrNotTrace)
				}
			case 3:
				if depth--; depth == 0 {
					s.pos = i + 1
					return nil
				}
			}
		}
		s.pos = s.end
		s.forget()
		if !s.fill() {
			return s.cut("a value")
		}
	}
}

// skipScalar passes over a number or word; there must be one, or callers would read
// the same byte again and again.
func (s *scanner) skipScalar() error {
	for started := false; ; started = true {
		if s.forget(); s.pos == s.end && !s.fill() {
			return nil // started, as the caller saw its first byte
		}
		if c := s.buf[s.pos]; c <= ' ' || class[c] != 0 {
			if !started {
				return s.fail(fmt.Sprintf("%q where a value should be", c), ErrNotTrace)
			}
			return nil
		}
		s.pos++
	}
}

// forget gives up keeping a value that has become too long.
func (s *scanner) forget() {
	if s.keep >= 0 && s.pos-s.keep > maxValue {
		s.keep = -1
	}
}

// skipString passes over the rest of a string, after its opening quote.
func (s *scanner) skipString() error {
	for {
		buf := s.buf[:s.end]
		for i := s.pos; i < len(buf); i++ {
			if buf[i] == '"' {
				s.pos = i + 1
				return nil
			}
			if buf[i] == '\\' {
				i++
				if i >= len(buf) {
					s.pos = i - 1
					goto refill
				}
			}
		}
		s.pos = s.end
	refill:
		s.forget()
		if rest := s.end - s.pos; !s.fill() {
			if rest > 0 {
				s.pos = s.end
			}
			return s.cut("a string")
		}
	}
}

// each calls take with the first byte of every item up to the closing bracket.
func (s *scanner) each(closing byte, inside string, take func(c byte) error) error {
	for {
		c, ok := s.next()
		switch {
		case !ok:
			return s.cut(inside)
		case c == closing:
			s.skip()
			return nil
		case c == ',':
			s.skip()
		default:
			if err := take(c); err != nil {
				return err
			}
		}
	}
}

// eachField calls f with every key and value of an object's text, as far as it is whole.
func eachField(text []byte, f func(key, value []byte)) {
	s := scanner{buf: text, end: len(text), keep: -1, err: io.EOF}
	if c, _ := s.next(); c != '{' {
		return
	}
	s.skip()
	_ = s.each('}', "an object", func(c byte) error {
		key, err := s.value()
		if err != nil || c != '"' {
			return ErrNotTrace
		}
		if _, ok := s.next(); !ok {
			return ErrNotTrace
		}
		value, err := s.value()
		if err == nil {
			f(key[1:len(key)-1], value)
		}
		return err
	})
}

// parseInt reads an integer, also as a string or with a fraction.
func parseInt(text []byte) (int64, bool) {
	if n := len(text); n >= 2 && text[0] == '"' {
		text = text[1 : n-1]
	}
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return v, true
	}
	f, ok := parseFloat(text)
	return int64(f), ok && math.Abs(f) <= 1<<62
}

func parseFloat(text []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// unquote drops the quotes and resolves escapes as far as names need it.
func unquote(text []byte) string {
	if len(text) > maxName {
		text = text[:maxName]
	}
	if v, err := strconv.Unquote(string(text)); err == nil {
		return v
	}
	if len(text) > 0 && text[0] == '"' {
		text = text[1:]
	}
	if n := len(text); n > 0 && text[n-1] == '"' {
		text = text[:n-1]
	}
	return string(text)
}
