package report

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// comparison is the budget beside what was measured.
func (m *markdownWriter) comparison(c *Comparison) {
	if c == nil {
		return
	}
	m.line("\n### Against the budget of %s (device %d, requested bytes)\n", Prose(c.Model), c.Device)
	m.line("| | Budget | Measured | Difference | |\n|---|---:|---:|---:|---|")
	for _, x := range append([]Compared{c.Peak}, append(c.Phases, c.Categories...)...) {
		measured, difference, reason := "?", "", ""
		if x.Measured != nil {
			measured, difference = units.Bytes(*x.Measured), Signed(*x.Measured-x.Budget)
		}
		if x.Reason != nil {
			reason = Prose(*x.Reason)
		}
		m.row(words(x.Name), units.Bytes(x.Budget), measured, difference, reason)
	}
}

// trials are what other settings would have done.
func (m *markdownWriter) trials(x *Trials) {
	if x == nil {
		return
	}
	m.line("\n### The same requests under other settings (device %d, replayed)\n", x.Device)
	m.line("%s\n", Prose(x.Verdict))
	m.line("| | Peak reserved | Peak allocated | |\n|---|---:|---:|---|")
	for _, r := range x.Rows {
		least := ""
		if r.AtLeast {
			least = "≥ "
		}
		m.row(code(r.Name), least+units.Bytes(r.PeakReserved), least+units.Bytes(r.PeakAllocated), Prose(r.Outcome))
	}
}

// messages are the errors that logs hold, which stand alone where no snapshot
// has the failed request.
func (m *markdownWriter) messages(doc *Document) {
	if doc.Evidence == nil || len(doc.Evidence.OOMMessages) == 0 {
		return
	}
	all := doc.Evidence.OOMMessages
	m.line("\n### Out-of-memory errors in the logs\n")
	m.line("| Log | Line | GPU | Asked for | Capacity | Left on device | Allocated | At " +
		"|\n|---|---:|---:|---:|---:|---:|---:|---|")
	for i, x := range all {
		if i == ticketOOMs {
			m.line("\nand %s", units.Plural(len(all)-i, "more"))
			break
		}
		gpu, at := "?", ""
		if x.GPU != nil {
			gpu = fmt.Sprint(*x.GPU)
		}
		if x.UserFile != nil {
			at = code(shortPlace(*x.UserFile, x.UserLine))
		}
		m.row(code(ShortFile(doc.Inputs[x.Source].Path)), units.Count(x.Line), gpu, bytesOr(x.RequestedBytes),
			bytesOr(x.CapacityBytes),
			bytesOr(x.DeviceFreeBytes), bytesOr(x.AllocatedBytes), at)
	}
}

// made is how to make this report again.
func (m *markdownWriter) made(doc *Document) {
	m.line("\n### How to reproduce\n")
	if len(doc.Command) > 0 {
		words := make([]string, len(doc.Command))
		for i, w := range doc.Command {
			words[i] = shellWord(w)
		}
		m.fenced("sh", strings.Join(words, " "))
	}
	m.inputs(doc.Inputs)
	m.line("\n<sub>%s</sub>", Prose(doc.Tool))
}

func (m *markdownWriter) inputs(inputs []Input) {
	if len(inputs) == 0 {
		return
	}
	m.line("| Input | Kind | Size | SHA-256 |\n|---|---|---:|---|")
	for i, in := range inputs {
		if i == ticketInputs {
			m.line("\nand %s", units.Plural(len(inputs)-i, "more input"))
			break
		}
		kind := words(in.Kind)
		if n := len(in.Damage); n > 0 {
			kind += ", damaged"
		}
		m.row(code(in.Path), kind, units.Bytes(in.Bytes), code(in.SHA256))
	}
}

// fenced writes a block of code that its text can't end.
func (m *markdownWriter) fenced(language, text string) {
	fence := strings.Repeat("`", max(3, longestRun(text)+1))
	m.line("%s%s\n%s\n%s\n", fence, language, text, fence)
}

// shellWord quotes a word for a shell where it needs that.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(Printable(s), "'", `'\''`) + "'"
}
