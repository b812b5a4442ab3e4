package snapshot

import (
	"slices"
	"strconv"
	"strings"
)

// readTracebacks turns stacks of plain text, which forward_frames are, into stacks of
// frames. Their texts are those of Python's traceback.format_stack, outermost first,
// each with its line of code: torch takes them from the anomaly metadata of the node
// of the autograd graph (torch/csrc/autograd/python_anomaly_mode.cpp).
func (t *tables) readTracebacks() error {
	s := t.out
	texts := false
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File != 0 || f.Line != 0 {
			continue
		}
		file, line, function, ok := TracebackLine(s.Strings[f.Function])
		if !ok {
			continue
		}
		texts = true
		to := Frame{Line: line, FX: fromTraceback}
		var err error
		if to.Function, err = t.intern([]byte(function)); err != nil {
			return err
		}
		if to.File, err = t.intern([]byte(file)); err != nil {
			return err
		}
		*f = to
	}
	if !texts {
		return nil
	}
	for id := StackID(1); int(id) < s.stacks.len(); id++ {
		if frames := s.stacks.frames(id); s.Frames[frames[0]].FX == fromTraceback {
			slices.Reverse(frames)
		}
	}
	for i := range s.Frames {
		if s.Frames[i].FX == fromTraceback {
			s.Frames[i].FX = 0
		}
	}
	return nil
}

// fromTraceback marks a frame that was text, while the others are read.
const fromTraceback = ^FXID(0)

// TracebackLine reads an entry of a traceback, such as
//
//	File "train.py", line 12, in step
//	  loss.backward()
func TracebackLine(text string) (file string, line int32, function string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimLeft(text, " "), `File "`)
	if !ok {
		return "", 0, "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	at := strings.LastIndex(text, `", line `)
	if at < 0 {
		return "", 0, "", false
	}
	digits, function, _ := strings.Cut(text[at+len(`", line `):], ", in ")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 {
		return "", 0, "", false
	}
	return text[:at], int32(n), function, true
}
