package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
)

// labels reports whether a log's lines carry the number of the task that printed
// them, as `srun --label` puts it in front: "0: ", " 3: ". Such a number is no
// step's. Nor is that of a container, as in "trainer-1  | ".
type labels struct {
	containers  bool
	container   []byte // the last one's label
	again       int    // lines whose container was that of the line before
	on          bool
	last        int    // the number before
	text        []byte // what it stood before
	run, echoes int    // lines in a row with one number; with another number before the same text, in all
	silent      bool   // one of them tells nothing of a step
	seen        [1024]bool
	most, kinds int // the largest number, and how many there are
}

// What a step prints is shorter than this, in lines; steps don't print the same;
// and their numbers, as a rule, don't begin at 0 without a gap.
const (
	labelledLines  = 8
	labelledEchoes = 4
)

// note looks at a line, of which metric tells that it may be a step's.
func (l *labels) note(line []byte, metric bool) {
	if l.on || l.containers {
		return
	}
	if end := containerLabel(line); end > 0 {
		if bytes.Equal(line[:end], l.container) {
			l.again++
		}
		l.container = append(l.container[:0], line[:end]...)
		l.containers = l.again >= labelledEchoes
		return
	}
	n, end := label(line)
	if end == 0 {
		l.run = 0
		return
	}
	switch {
	case l.run > 0 && n == l.last:
	case l.run > 0 && bytes.Equal(l.text, line[end:]):
		l.echoes++
		l.run = 0
	default:
		l.run, l.silent = 0, false
	}
	l.last, l.text = n, append(l.text[:0], line[end:]...)
	l.run++
	l.silent = l.silent || !metric
	if !l.seen[n] {
		l.seen[n] = true
		l.kinds++
		l.most = max(l.most, n)
	}
	l.on = l.silent && l.kinds == l.most+1 && (l.run >= labelledLines || l.echoes >= labelledEchoes)
}

// strip is the line without its label.
func (l *labels) strip(line []byte) []byte {
	end := 0
	switch {
	case l.on:
		_, end = label(line)
	case l.containers:
		end = containerLabel(line)
	}
	return line[end:]
}

var ofContainer = pattern.Of(`^[\w.-]{0,60}[\w.][-_]\d{1,60} +\| `)

// containerLabel is where the text begins that docker compose put the name of a
// container before, which ends in a number, blanks and a bar; 0 without one.
func containerLabel(line []byte) int {
	if bytes.IndexByte(line[:min(len(line), 128)], '|') < 0 {
		return 0
	}
	return len(ofContainer().Find(line))
}

// label is the number that a line begins with, and where the text after its colon
// and blank begins; 0 without one.
func label(line []byte) (n, end int) {
	text := bytes.TrimLeft(line, " ")
	head := text[:min(len(text), len("1023: "))]
	v, rest, ok := figures.Integer(head)
	if !ok || v >= 1024 || !bytes.HasPrefix(rest, []byte(": ")) {
		return 0, 0
	}
	return int(v), len(line) - len(text) + len(head) - len(rest) + len(": ")
}
