// Package traceback follows the stack traces of a log, and tells whose line and
// what kind of work a failure is of.
//
//	var t traceback.Traces
//	t.Line(line, true)
//	t.Tell(&message, nil)
package traceback

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Traces follows the stack traces of a log, one per writer: the ranks of
// a distributed run print theirs into each other.
type Traces struct {
	writers map[string]*traceback
	last    *traceback
	Open    bool // some trace may still be going on
	quiet   int  // lines since the last frame of any writer
	lastKey []byte
	marks   [][]byte // what stood before the head of a trace, and tells its writer
}

type traceback struct {
	file     string // innermost frame of the user's own code
	line     int
	function string
	// own is the same without a PyTorch built where its source lies.
	own     string
	ownLine int
	// phase is what the libraries' frames say was going on, scene what else they show.
	phase string
	scene evidence.Scene
	// code is what the source line of the innermost frame shows, which comes next.
	code       evidence.Doing
	codeIsNext bool
	inUsers    bool // that frame is the user's
	age        int  // lines of this writer since the last frame or code line
	// pending is an old IPython frame whose line number comes with the arrow.
	pending string
}

const (
	maxWriters = 4096
	// traceAge is how many lines that are neither frame nor code may stand
	// between a frame and the message: the exception's own head, wrapped.
	traceAge = 6
	// traceQuiet is how many lines without any frame end all traces.
	traceQuiet = 500
)

// Line notes frames:
//
//	File "/home/me/train.py", line 12, in step        Python
//	File ~/train.py:12, in step(x)                    IPython
//	Cell In[5], line 3                                IPython
//	/home/me/train.py in step(x)  …  ---> 12 code     IPython before 8
//	/home/me/train.py:12: in step                     pytest
//	│ /home/me/train.py:12 in step                    rich
func (t *Traces) Line(line []byte, mayBeFrame bool) (isFrame bool) {
	if len(line) > 4096 {
		line = line[:4096]
	}
	if mayBeFrame && t.begins(line) {
		return false
	}
	if t.quiet++; t.quiet > traceQuiet {
		*t = Traces{}
	}
	if mayBeFrame && t.frame(line) {
		return true
	}
	if !t.Open {
		return false
	}
	w := t.writer(line)
	if w.pending != "" {
		if n, ok := arrow(line); ok {
			if isUser(w.pending) {
				w.see(w.pending, n, "")
			}
			w.pending, w.age = "", 0
			w.source(line)
			return true
		}
	}
	text := line[t.marked(line):]
	if IsOtherError(text) {
		*w = traceback{age: traceAge}
	}
	if isCode(text) {
		w.source(text)
	} else {
		if w.age++; w.age > traceAge {
			*w = traceback{age: w.age}
		}
	}
	return false
}

// frame takes a frame's line.
func (t *Traces) frame(line []byte) bool {
	file, number, ok := frame(line)
	if !ok {
		return false
	}
	t.Open, t.quiet = true, 0
	w := t.writer(line)
	w.age = 0
	w.below(bytes.ReplaceAll(line, []byte(`\`), []byte("/")))
	w.code, w.codeIsNext, w.inUsers = "", true, isUser(file)
	if w.pending = ""; number == 0 {
		w.pending = file
	} else if w.inUsers {
		w.see(file, number, functionOf(line))
	}
	return true
}

// begins takes the head of a trace.
func (t *Traces) begins(line []byte) bool {
	i := bytes.Index(line, []byte("Traceback (most recent call last)"))
	if i < 0 {
		return false
	}
	if t.mark(line[:i]) {
		*t.writer(nil) = traceback{} // a logger puts its name before the first line alone
	}
	*t.writer(line) = traceback{}
	t.Open, t.quiet = true, 0
	return true
}

// below notes what one more frame shows.
func (t *traceback) below(frame []byte) {
	if t.code == evidence.Attention || t.code == evidence.UnfusedAttention {
		t.scene.Doing = evidence.Attention // of one's own: what it calls has a frame
	}
	t.phase = phaseAfter(t.phase, frame)
	AddFrame(&t.scene, frame)
}

// source takes the line of source below a frame: the first there is, or the one
// that an arrow marks among others.
func (t *traceback) source(line []byte) {
	text := bytes.TrimLeft(line, " \t│")
	_, points := arrow(text)
	if _, _, numbered := figures.Integer(text); numbered || !points && !bytes.HasPrefix(text, []byte("❱")) && !t.codeIsNext ||
		len(text) == 0 {
		return
	}
	t.code, t.codeIsNext = DoingOf(text, t.inUsers), false
}

// IsOtherError tells the line that ends the trace of an exception which says
// what it is, and that it isn't memory: "ValueError: bad".
func IsOtherError(line []byte) bool {
	// what NCCL lacked follows
	return raises(line) && !bytes.Contains(line, []byte("emory")) && !bytes.Contains(line, []byte("xhausted")) &&
		!bytes.Contains(line, []byte("NCCL error in")) && !bytes.HasPrefix(line, []byte("nccl"))
}

// exceptions are what their names end in.
var exceptions = []string{"Error", "Exception", "KeyboardInterrupt", "StopIteration", "Expired", "Unsupported", "CompilerFailed"}

// raises tells an exception's name at the beginning of a line, with what it says or alone.
func raises(line []byte) bool {
	end := 0
	for end < len(line) && (figures.IsWordByte(line[end]) || line[end] == '.') {
		end++
	}
	name := line[:end]
	if !slices.ContainsFunc(exceptions, func(e string) bool { return bytes.HasSuffix(name, []byte(e)) }) {
		return false
	}
	said, ok := bytes.CutPrefix(line[end:], []byte(":"))
	return len(line) == end || ok && len(bytes.TrimSpace(said)) > 0
}

// Exception is the end of a trace, "ValueError: bad", behind what a launcher or a logger
// put in front; nil: the line is none.
func Exception(line []byte) []byte {
	line = bytes.TrimRight(line[:min(len(line), 2048)], " \t\r")
	if raises(line) {
		return line
	}
	for at := 1; at+1 < min(len(line), 160); at++ {
		if c := line[at]; c == ' ' && bytes.IndexByte([]byte("]:)|E"), line[at-1]) >= 0 || c == ':' && line[at-1] == ']' {
			if text := bytes.TrimLeft(line[at:], ": "); raises(text) {
				return text
			}
		}
	}
	return nil
}

// see takes a frame that is not of an installed package.
func (t *traceback) see(file string, line int, function string) {
	t.file, t.line, t.function = file, line, function
	if !strings.Contains(strings.ReplaceAll(file, `\`, "/"), "/pytorch/torch/") {
		t.own, t.ownLine = file, line
	}
}

// Tell gives a message the innermost user frame of the trace that it ends, and
// the phase that its frames tell of.
func (t *Traces) Tell(m *evidence.OOMMessage, prefix []byte) {
	if len(t.writers) == 0 {
		return
	}
	w := t.writer(prefix)
	if w.age > traceAge {
		return
	}
	// The trace is kept for a few lines: some runners print the message twice.
	m.UserFunction, m.UserFile, m.Phase = evidence.Text(w.function), evidence.Text(w.file), evidence.Text(w.phase)
	if m.OwnFile, m.OwnLine = w.own, w.ownLine; m.UserFile != nil && w.line > 0 {
		m.UserLine = new(w.line)
	}
	if m.Scene = w.scene; w.code != "" {
		m.Scene.Doing = w.code
	}
}

// writer tells who printed a line, by the marks that launchers put in front:
// [rank3]:, 12: (srun -l), (Worker pid=77), and whatever stood before the head
// of a trace: [default0]:, trainer-0 |, [1,0]<stderr>:, node-a:.
func (t *Traces) writer(line []byte) *traceback {
	key := Writer(line)
	if key == nil {
		if end := t.marked(line); end > 0 {
			key = bytes.TrimSpace(line[afterTime(line):end])
		}
	}
	if t.last != nil && bytes.Equal(key, t.lastKey) {
		return t.last
	}
	if t.writers == nil {
		t.writers = map[string]*traceback{}
	}
	w := t.writers[string(key)]
	if w == nil {
		w = &traceback{}
		if len(t.writers) < maxWriters {
			t.writers[string(key)] = w
		}
	}
	t.last, t.lastKey = w, append(t.lastKey[:0], key...)
	return w
}

// maxMarks bounds the marks that are looked for on every line of a trace.
const maxMarks = 64

// mark notes what stands before the head of a trace as its writer's; false
// where that is nothing that later lines would have, too.
func (t *Traces) mark(before []byte) bool {
	mark := bytes.TrimRight(before[afterTime(before):], " \t")
	if len(mark) == 0 || len(mark) > 100 || !bytes.ContainsRune([]byte("]:|)>"), rune(mark[len(mark)-1])) ||
		!bytes.ContainsFunc(mark, func(r rune) bool { return r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' }) ||
		figures.MayBeTimed(mark) || Writer(before) != nil {
		return false
	}
	for _, known := range t.marks {
		if bytes.Equal(known, mark) {
			return true
		}
	}
	if len(t.marks) < maxMarks {
		t.marks = append(t.marks, bytes.Clone(mark))
	}
	return true
}

// marked is where the mark ends that a line begins with, 0 without one.
func (t *Traces) marked(line []byte) int {
	if len(t.marks) == 0 {
		return 0
	}
	from, end := afterTime(line), 0
	for _, mark := range t.marks {
		if bytes.HasPrefix(line[from:], mark) {
			end = max(end, from+len(mark))
		}
	}
	return end
}

// afterTime is the length of the times and dates that a line begins with:
// 2024-05-01T12:00:00.1Z, [2024-05-01 12:00:00,123].
func afterTime(line []byte) int {
	at := 0
	for {
		end, digits, between := at, 0, 0
		for end < len(line) && line[end] != ' ' {
			switch c := line[end]; {
			case c >= '0' && c <= '9':
				digits++
			case c == '-' || c == ':':
				between++
			case bytes.IndexByte([]byte("/.,+TZ[]"), c) >= 0:
			default:
				return at
			}
			end++
		}
		if end == len(line) || digits < 4 || between < 2 {
			return at
		}
		at = end + 1
	}
}

var (
	ofRank = pattern.Of(`[\[( ]([Rr]ank[ -]*\d+)`)
	// the same process number may be another machine's: pid=300, ip=10.0.0.2
	ofProcess = pattern.Of(`[\[( ](?:(pid=\d+[^)]*)\)|(pid=\d+))`)
)

// Writer is the mark of who printed a line, nil without one.
func Writer(line []byte) []byte {
	line = line[:min(len(line), 120)]
	if bytes.Contains(line, []byte("ank")) {
		if m := ofRank().FindSubmatch(line); m != nil {
			return m[1]
		}
	}
	if bytes.Contains(line, []byte("pid=")) {
		if m := ofProcess().FindSubmatch(line); m != nil {
			return bytes.Join(m[1:], nil)
		}
	}
	n, rest, ok := figures.Integer(line)
	if ok && n < 1<<20 && len(rest) > 1 && rest[0] == ':' && rest[1] == ' ' {
		return line[:len(line)-len(rest)]
	}
	return nil
}

// RankOf is the rank whose line this is, -1 where no mark tells. What torchrun
// puts in front otherwise, [default3]:, counts within one machine alone.
func RankOf(line []byte) int {
	key := bytes.ToLower(Writer(line))
	if digits, ok := bytes.CutPrefix(key, []byte("rank")); ok {
		if n, _, ok := figures.Integer(bytes.TrimLeft(digits, " -")); ok && n < 1<<20 {
			return int(n)
		}
	}
	return -1
}

// frames are the forms of a frame's line but for Python's own, each with its file and, where it doesn't come later, the line's
// number.
var frames = []func() *regexp.Regexp{
	pattern.Of(`^File (.+?):(\d{1,8})(?:, in |$)`), // IPython
	// "Cell In[5], line 3" and "Input In [5], in <cell line: 3>()"
	pattern.Of(`^((?:Cell In|Input In )[^\]]{0,40}\]).*?line[ :]*(\d+)`),
	// rich, and pytest
	pattern.Of(`^((?:[/~<.]|.:\\).*?|[^ ()'"]*?\.py):([1-9]\d{0,7}) in `),
	pattern.Of(`^((?:[/~<.]|.:\\|[^ ()'"]*?\.py:).*?\.py|[^ ()'"]*?\.py):([1-9]\d{0,7}):`),
	// "/home/me/train.py in step(x)" and "<ipython-input-3-ab> in <module>", whose line number follows at an arrow
	pattern.Of(`^((?:[/~<.]|.:\\).*?(?:\.py|>|\.ipynb.*?))() in `),
}

// frame reads one frame line; number 0 means that it comes later.
func frame(line []byte) (file string, number int, ok bool) {
	if _, rest, python := bytes.Cut(line, []byte(`File "`)); python {
		file, rest, _ := bytes.Cut(rest, []byte(`", line `))
		n, _, ok := figures.Integer(rest)
		return string(bytes.Trim(file, `"`)), int(n), ok // a cell of a CSV doubles quotes
	}
	text := bytes.TrimPrefix(bytes.TrimLeft(line, " \t"), []byte("E ")) // pytest's
	text = bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(text, " "), []byte("│")), " ")
	if !mayBegin(text) {
		return "", 0, false
	}
	for _, form := range frames {
		if m := form().FindSubmatch(text); m != nil {
			n, _, _ := figures.Integer(m[2])
			return string(m[1]), int(n), true
		}
	}
	return "", 0, false
}

// mayBegin tells what such a form can begin with: a path, a cell, or a first word with a program's name.
func mayBegin(text []byte) bool {
	switch {
	case len(text) == 0:
		return false
	case strings.IndexByte("/~<.FCI", text[0]) >= 0, bytes.Contains(text[:min(len(text), 8)], []byte(`:\`)):
		return true
	}
	if end := bytes.IndexAny(text, " ()'\""); end >= 0 {
		text = text[:end]
	}
	return bytes.Contains(text, []byte(".py"))
}

// functionOf is the function that a frame names behind its file.
func functionOf(line []byte) string {
	i := bytes.LastIndex(line, []byte(" in "))
	if i < 0 {
		return ""
	}
	name := line[i+len(" in "):]
	end := 0
	for end < len(name) && end < 200 && (figures.IsWordByte(name[end]) || bytes.IndexByte([]byte("<>."), name[end]) >= 0) {
		end++
	}
	return string(name[:end])
}

// arrow reads "---> 12     code".
func arrow(line []byte) (int, bool) {
	if bytes.IndexByte(line, '>') < 0 {
		return 0, false
	}
	m := arrowOf().FindSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, _, ok := figures.Integer(m[1])
	return int(n), ok && n > 0
}

var arrowOf = pattern.Of(`^[ \tE]*--+> +(\d+)`)

// isCode tells the lines between frames: source text, indented or numbered,
// and the carets below it.
func isCode(line []byte) bool {
	if mark, text, ok := bytes.Cut(line, []byte("]")); ok && len(mark) < 64 && len(text) > 1 &&
		(text[0] == ':' || text[0] == ' ') {
		return isCode(bytes.TrimPrefix(text, []byte(":")))
	}
	return len(line) == 0 || bytes.IndexByte([]byte(" \t>"), line[0]) >= 0 ||
		bytes.IndexByte([]byte("E-0123456789\xe2"), line[0]) >= 0 && code().Match(line)
}

// code is such a line, perhaps behind a container's time stamp.
var code = pattern.Of(`^(?:\d{4}-.{5}T[^ ]{0,28}   |E |\d{1,18}:  |│|---|-->)`)

// installed are packages, Python's own library (also on Windows: …/Python310/lib/…) and frozen modules.
var installed = pattern.Of(`(?:site|dist)-packages/|/vramscope(?:_hook|/_hook)/|^<frozen|^<__array_function|` +
	`/(?:lib|lib64|Lib)/python\d+(?:\.\d+)?/|(?i:^.:.*(?:python|conda).*/lib/)`)

// isUser tells the user's own files.
func isUser(file string) bool { return !installed().MatchString(strings.ReplaceAll(file, `\`, "/")) }
