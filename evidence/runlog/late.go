package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/traceback"
)

// tell gives a message what its traceback shows; without one, what stands before
// it on its line, and on the line above, does.
func (p *Parser) tell(m *evidence.OOMMessage, prefix []byte) {
	p.traces.Tell(m, prefix)
	if n := p.await - 1; n >= 0 && n < len(p.report.OOMs) && m.UserFile != nil {
		p.without(&p.report.OOMs[n]) // the traceback is of this one
	}
	if m.UserFile == nil && m.Phase == nil && m.Scene == (evidence.Scene{}) {
		if p.beforeNumber == m.Line-1 {
			m.Scene.Doing = traceback.DoingOf(p.before, false)
		}
		traceback.AddFrame(&m.Scene, prefix)
		for _, s := range serverMarks {
			if m.Scene.Server == "" && bytes.Contains(prefix, []byte(s.text)) {
				m.Scene.Server = s.name
			}
		}
		p.await, p.awaitLine, p.awaited = 1+len(p.report.OOMs), m.Line, m.Scene
		p.awaitKey = append(p.awaitKey[:0], traceback.Writer(prefix)...)
		p.innermostFirst = bytes.Contains(p.before, []byte("Exception has occurred"))
	}
}

// without takes a traceback back that turned out to be of something else.
func (p *Parser) without(m *evidence.OOMMessage) {
	m.UserFile, m.UserLine, m.UserFunction, m.Phase = nil, nil, nil, nil
	m.OwnFile, m.OwnLine, m.Scene = "", 0, p.awaited
	p.await = 0
}

// awaitLines is how far below a message its traceback may stand, where it isn't
// above: ComfyUI's, VS Code's, and that of programs which print the message first.
const awaitLines = 12

// late gives a message the traceback that stands below it.
func (p *Parser) late(number int, line []byte, isFrame bool) {
	n := p.await - 1
	if n < 0 || n >= len(p.report.OOMs) || number == p.awaitLine {
		return
	}
	m := &p.report.OOMs[n]
	switch {
	case !bytes.Equal(traceback.Writer(line), p.awaitKey):
		return
	case number > p.awaitLine+awaitLines:
		p.await = 0
		return
	case traceback.IsOtherError(line):
		p.without(m)
		return
	case !isFrame:
		return
	}
	if m.UserFile != nil && p.innermostFirst {
		return
	}
	p.awaitLine = number
	scene := m.Scene
	p.traces.Tell(m, line)
	if m.Scene == (evidence.Scene{}) {
		m.Scene = scene
	}
}
