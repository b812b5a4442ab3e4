package monitor

import (
	"bytes"
	"slices"
)

// xmlState is where in the XML of `nvidia-smi -q -x` the parser is. The
// document is read tag by tag and never as a tree: it may be one of thousands
// in a loop, cut at the end, or in the middle of a log.
type xmlState struct {
	inside  bool
	prefix  int // before the document's own indentation: a log's time or rank
	foreign int // lines since the last of the document's
	listed
	path []string // open elements
}

// xmlDepth bounds the nesting; nvidia-smi's own is 6.
const xmlDepth = 32

// line reads the tags of a line; false when it has none of nvidia-smi's.
func (x *xmlState) line(all *gathered, line []byte) bool {
	if i := bytes.Index(line, []byte("<nvidia_smi_log")); i >= 0 {
		x.prefix = len(bytes.TrimRight(line[:i], " \t"))
		line = line[i:]
	} else if !x.inside {
		return bytes.Contains(line, []byte("<!DOCTYPE nvidia_smi_log"))
	} else if !x.owns(line) {
		if x.foreign++; x.foreign > foreignLines {
			x.flush(all)
			*x = xmlState{}
		}
		return false
	}
	x.foreign = 0
	for _, rest, more := bytes.Cut(line, []byte("<")); more; {
		var tag, text []byte
		if tag, text, more = bytes.Cut(rest, []byte(">")); !more {
			break
		}
		text, rest, more = bytes.Cut(text, []byte("<"))
		// An element begins or ends here, unless it is a declaration or one without a content.
		if len(tag) > 0 && tag[0] != '?' && tag[0] != '!' && tag[len(tag)-1] != '/' {
			x.tag(all, tag, bytes.TrimSpace(text))
		}
	}
	return true
}

// owns tells a line that begins with a tag, and the last one of a text of several
// lines. A bracket further back is a progress bar's or a traceback's.
func (x *xmlState) owns(line []byte) bool {
	open := bytes.IndexByte(line, '<')
	if open < 0 {
		return false
	}
	if len(bytes.TrimRight(line[:open], " \t")) == x.prefix {
		return true
	}
	n := len(x.path)
	return n > 0 && bytes.HasPrefix(line[open:], []byte("</"+x.path[n-1]+">"))
}

func (x *xmlState) tag(all *gathered, tag, text []byte) {
	if tag[0] == '/' {
		x.end(all, string(tag[1:]))
		return
	}
	name, attributes, _ := bytes.Cut(tag, []byte(" "))
	element := string(name)
	switch {
	case element == "nvidia_smi_log":
		x.flush(all)
		*x = xmlState{inside: true, prefix: x.prefix}
		return
	case !x.inside:
		return
	case element == "gpu" && bytes.Contains(attributes, []byte("id=")):
		x.card(all, attributes)
		return
	}
	if len(x.path) < xmlDepth {
		x.path = append(x.path, element)
	}
	if len(text) > 0 {
		x.element(element, text)
	}
}

func (x *xmlState) card(all *gathered, attributes []byte) {
	_, id, _ := bytes.Cut(attributes, []byte("id="))
	x.begin(all, XML, bytes.Trim(id, "\"' "))
	x.path = x.path[:0]
}

// element takes the text of an element; path's last entry is the element itself. MIG devices have figures of the same
// names, but deeper.
func (x *xmlState) element(name string, text []byte) {
	if x.gpu == nil && name == "timestamp" {
		x.clock, _ = parseStamp(text)
	}
	section := ""
	if n := len(x.path); n > 1 {
		if section = x.path[n-2]; n > 2 && section != "process_info" {
			return
		}
	}
	x.value(section, name, text)
}

func (x *xmlState) end(all *gathered, element string) {
	switch element {
	case "gpu":
		x.flush(all)
	case "nvidia_smi_log":
		x.flush(all)
		x.inside = false
	case "process_info":
		x.process(Unknown)
	}
	for i, name := range slices.Backward(x.path) {
		if name == element {
			x.path = x.path[:i]
			return
		}
	}
}
