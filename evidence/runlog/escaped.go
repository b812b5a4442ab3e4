package runlog

import (
	"bytes"
	"encoding/json"
	"strings"
)

// docker is how each line begins that Docker's json-file driver keeps.
var docker = []byte(`{"log":"`)

// kept takes the text of such a line; false when it is none.
func (p *Parser) kept(number int, line []byte) bool {
	if !bytes.HasPrefix(line, docker) {
		return false
	}
	var entry struct {
		Log string
	}
	if json.Unmarshal(line, &entry) != nil {
		return false
	}
	for _, text := range bytes.FieldsFunc([]byte(entry.Log), func(r rune) bool { return r == '\r' || r == '\n' }) {
		p.Line(number, text)
	}
	return true
}

// isEscaped tells a line that holds several: a string of JSON, or a trace that
// Python printed as a string. A backslash and an n alone may be a path's.
func isEscaped(line []byte) bool {
	return bytes.Contains(line, []byte(`\n`)) &&
		(line[0] == '{' || bytes.Contains(line, []byte(`(most recent call last):\n`)))
}

// escaped takes such a line. Torchrun's error files tell the message first and
// the trace that it ends after it.
func (p *Parser) escaped(number int, line []byte) {
	p.inString = true
	defer func() { p.inString = false }()
	trace := bytes.Index(line, []byte("Traceback ("))
	message := bytes.Index(line, outOfMemory)
	if message >= 0 && message < trace {
		p.unescape(number, line[trace:])
		line = line[:trace]
	}
	p.unescape(number, line)
}

var unescaped = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "", `\"`, `"`, `\'`, "'", `\\`, `\`, `\/`, "/")

func (p *Parser) unescape(number int, line []byte) {
	for text := range strings.SplitSeq(unescaped.Replace(string(line)), "\n") {
		p.Line(number, []byte(text))
	}
}
