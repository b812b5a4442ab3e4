// Package ending tells how a process ended, by what it, its shell, the system or a
// service wrote of that.
//
//	var e ending.Reader
//	f := e.Line(7, 0, line)
//	fmt.Println(f.How, f.Host.By)
//	fmt.Println(e.Ended(steps).How)
package ending

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/evidence/traceback"
	"github.com/vramscope/vramscope/internal/cut"
)

// Reader follows what one log says of how its process ended. The zero value is ready.
type Reader struct {
	// Sibling tells that the line is of a record of a rank that its launcher stopped after another had failed.
	Sibling bool
	most    int // of an exception's text that is kept, 0: maxText
	ends    []end
	listed  int // rows of lists of containers
}

type end struct {
	evidence.Ending
	writer []byte
	steps  int // that had been told before
	wraps  bool
	coded  bool // by its code or a signal alone
	listed bool // of some container in a list
}

const (
	maxLine = 2048 // of a line that tells of an end
	maxEnds = 64   // that are kept
	maxText = 160
)

// Found is what a line tells of an end; the zero value: nothing.
type Found struct {
	How   evidence.How
	Host  evidence.HostFailure // of the host's memory, or of a process that was killed, without its place
	Alone bool                 // it tells by itself: a word of a shell's, or a code, makes no log of a text
	// Listed tells that it is of some container in a list: only Reader.Listed knows in the end whether it is of the run.
	Listed bool
}

// Line takes a line that may tell of an end.
func (r *Reader) Line(number, steps int, line []byte) (f Found) {
	if len(line) > maxLine {
		return f
	}
	for i := range Marks {
		if f, e := Marks[i].found(number, line); f.How != "" && !(r.Sibling && e.coded && f.How != evidence.Failed) {
			e.steps = steps
			r.add(e)
			return f
		}
	}
	return Found{}
}

// found is what a mark makes of a line, nothing where the line isn't like it.
func (m *Mark) found(number int, line []byte) (f Found, e end) {
	at, groups := m.In(line)
	if at < 0 {
		return f, e
	}
	e.Ending = evidence.Ending{How: m.How, Text: Quoted(line, maxText), Line: number}
	if groups != nil {
		if m.How == evidence.Failed || m.How == evidence.Stopped {
			e.Text = Quoted(groups[0], maxText)
			e.coded = m.How == evidence.Stopped && m.By == ""
		}
		e.listed = m.Words == containerWords
		if code := bytes.Join(groups[1:], nil); e.listed || len(code) > 0 && m.Words == exitWords {
			n, _ := strconv.ParseInt(string(code), 10, 32)
			e.Ending, e.coded = OfCode(n), true
			e.Line = number
		}
	}
	host := evidence.HostFailure{Line: number, By: m.By}
	if m.Is&Sized != 0 {
		if host.RequestedBytes = figures.Find(figures.Compact(line, maxLine), figures.Asked...); host.RequestedBytes == nil {
			return f, e
		}
	}
	if e.How == evidence.HostMemory {
		host.HeldBytes = evidence.Or(figures.Find(figures.Compact(line[at:], maxLine), "anon-rss:%", "memoryused=%", "VmRSS%"), 0)
	}
	return Found{How: e.How, Host: host, Alone: m.alone(&e, line), Listed: e.listed}, e
}

// alone reports whether a line with the mark tells by itself that it is of a program's end.
func (m *Mark) alone(e *end, line []byte) bool {
	return (m.Words != killedWords || bytes.ContainsAny(line, "0123456789")) &&
		e.How != evidence.EndedWell && m.By != "" && (!e.coded || e.How == evidence.Killed)
}

// exitWords are of the mark whose form has a code.
const exitWords = "xit|*** ["

// killedWords are what shells print of a program that signal 9 ended, in their users' languages (glibc, strsignal).
const killedWords = "Killed| killed|Getötet|Processus arrêté|Terminado (killed)|Ucciso|Убито|已杀死|強制終了"

// containerWords are of the mark of containers in a list, which ended with a code or run still.
const containerWords = "Exited (|Up "

// OfCode is what the code means that a process ended with: shells give 128 and the signal
// that ended it, launchers the signal, negative.
func OfCode(code int64) evidence.Ending {
	e := evidence.Ending{How: evidence.Failed, Text: "exit code " + strconv.FormatInt(code, 10)}
	signal := -code
	if code > 128 {
		signal = code - 128
	}
	switch {
	case code == 0:
		e.How = evidence.EndedWell
	case signal == 9:
		e.How = evidence.Killed
	case signal == 15 || signal == 2:
		e.How = evidence.Stopped
	}
	if name := signals[signal]; name != "" {
		e.Text += " (" + name + ")"
	}
	return e
}

var signals = map[int64]string{2: "interrupted", 6: "aborted", 7: "bus error", 9: "SIGKILL", 11: "segmentation fault",
	15: "SIGTERM"}

// wrappers are exceptions by which launchers and engines pass on that another process
// had failed.
var wrappers = []string{"ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException",
	"RayTaskError", "ActorDiedError", "Engine core initialization failed", "EngineDeadError", "WorkerCrashedError"}

// Raised takes the exception that a trace ends in, and the user's line in it.
func (r *Reader) Raised(number, steps int, exception, writer []byte, file string, at int) {
	text := Quoted(exception, cmp.Or(r.most, maxText))
	how := evidence.Failed
	if strings.HasPrefix(text, "KeyboardInterrupt") || strings.HasPrefix(text, "SystemExit: 0") {
		how = evidence.Stopped
	}
	e := end{Ending: evidence.Ending{How: how, Text: text, Line: number, UserFile: file, UserLine: at},
		writer: bytes.Clone(writer), steps: steps,
		wraps: slices.ContainsFunc(wrappers, func(w string) bool { return bytes.Contains(exception, []byte(w)) })}
	if n := len(r.ends) - 1; n >= 0 {
		last := &r.ends[n]
		switch follows := last.steps == steps && last.How == evidence.Failed && last.writer != nil; {
		case follows && !last.wraps && (e.wraps || !bytes.Equal(last.writer, e.writer)):
			return // of what failed first
		case follows:
			r.ends = r.ends[:n]
		}
	}
	if e.writer == nil {
		e.writer = []byte{}
	}
	r.add(e)
}

// Exception is the one that the traces in a program's output end in, "" without any or where only launchers say
// that a process of theirs failed; most is how much of its text is kept.
func Exception(output []byte, most int) string {
	r := Reader{most: most}
	var traces traceback.Traces
	for line := range bytes.Lines(output) {
		line = bytes.TrimRight(line, "\r\n")
		if exception := traceback.Exception(line); traces.Open && exception != nil {
			r.Raised(0, 0, exception, traceback.Writer(line), "", 0)
		}
		traces.Line(line, true)
	}
	if n := len(r.ends); n > 0 && !r.ends[n-1].wraps {
		return r.ends[n-1].Text
	}
	return ""
}

func (r *Reader) add(e end) {
	if e.listed {
		r.listed++
		if e.How == evidence.EndedWell {
			return // others' containers do, too
		}
	}
	if e.How == evidence.EndedWell {
		r.ends = r.ends[:0]
	}
	if len(r.ends) == maxEnds {
		r.ends = slices.Delete(r.ends, 1, 2)
	}
	r.ends = append(r.ends, e)
}

// telling is how much each way says of the end, where a log has several: a launcher's
// code says less than the exception, and that less than the system's word on memory.
var telling = []evidence.How{evidence.EndedWell, evidence.Stopped, evidence.Failed, evidence.Killed, evidence.HostMemory}

// Ended is how the process ended, of which so many steps were told in all: what steps
// follow was no end.
func (r *Reader) Ended(steps int) evidence.Ending { return r.ended(steps).Ending }

// Listed is what a list of one container tells of the end where nothing else does.
func (r *Reader) Listed(steps int) (f Found) {
	if e := r.ended(steps); e.listed {
		f = Found{How: e.How, Host: evidence.HostFailure{Line: e.Line, By: evidence.BySignal}, Alone: e.How == evidence.Killed}
	}
	return f
}

func (r *Reader) ended(steps int) (found end) {
	weight := -1
	for i := range r.ends {
		e := &r.ends[i]
		if e.steps < steps || e.listed && r.listed > 1 {
			continue
		}
		w := 2 * slices.Index(telling, e.How)
		if e.writer != nil || (e.How == evidence.Failed || e.How == evidence.Stopped) && !e.coded {
			w++
		}
		if e.listed {
			w = 0
		}
		if w > weight {
			weight, found = w, *e
		}
	}
	return found
}

// Quoted is a line as a report shows it: without what isn't text, and short.
func Quoted(line []byte, most int) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, string(line[:min(len(line), 4*most)]))
	return cut.Letters(strings.Join(strings.Fields(text), " "), most)
}
