package batch

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// brief is a verdict in the few words that a line of the page has room for.
func brief(doc *report.Document, status report.Status, p *point) string {
	switch status {
	case report.StatusOOM:
		if text := briefFailure(doc); text != "" {
			return text
		}
	case report.StatusLeak:
		text := units.Size(p.leak) + " a step: " + report.CategoryWords(p.kind)
		if p.where != "" {
			text += ", " + p.where
		}
		return text
	}
	text := doc.Verdict.Text
	if _, rest, ok := strings.Cut(text, "No failure recorded: "); ok { // which the badge says
		text = rest
	}
	return firstWords(text)
}

// briefFailure tells of the last failed request.
func briefFailure(doc *report.Document) string {
	text := func(verdict string, phase *string, requested *int64) string {
		out := report.CategoryWords(verdict)
		if phase != nil && *phase != "" {
			out += " in " + report.CategoryWords(*phase)
		}
		if requested != nil {
			out += ", " + units.Size(*requested) + " asked for"
		}
		return out
	}
	for i := range doc.Devices {
		if n := len(doc.Devices[i].OOMs); n > 0 {
			o := &doc.Devices[i].OOMs[n-1]
			return text(o.Why(), o.Phase, &o.RequestedBytes)
		}
	}
	if told := doc.OnlyLogged(); len(told) > 0 {
		m := &told[len(told)-1]
		return text(groupOf(m).Verdict, m.Phase, m.RequestedBytes)
	}
	return ""
}

// mostWords are those of a line.
const mostWords = 12

func firstWords(text string) string {
	words := strings.Fields(text)
	if len(words) <= mostWords {
		return strings.Join(words, " ")
	}
	return strings.TrimRight(strings.Join(words[:mostWords], " "), ",;:(") + "…"
}

// mostFacts bounds the numbers of a run.
const mostFacts = 16

// factsOf are the numbers by which runs may be compared: what a tracker or the
// recording tells of its setting, and the notes that are numbers.
func factsOf(doc *report.Document) (facts []report.Fact) {
	add := func(name string, value float64) {
		if len(facts) < mostFacts && !math.IsNaN(value) && !math.IsInf(value, 0) {
			facts = append(facts, report.Fact{Name: name, Value: value})
		}
	}
	var batch, sequence, gpus, tokens *int64
	if p := doc.Evidence.Settings(); p != nil { // of a tracker
		batch, sequence, gpus, tokens = p.BatchSize, p.SequenceLength, p.GPUs, p.TokensPerStep
	}
	if b := doc.BudgetFigures(); b != nil { // read from the recording
		batch, sequence = cmp.Or(batch, &b.Setting.Batch), cmp.Or(sequence, &b.Setting.Sequence)
	}
	for i, n := range []*int64{batch, sequence, gpus, tokens} {
		if n != nil && *n > 0 {
			add([]string{"batch size", "sequence length", "GPUs", "tokens per step"}[i], float64(*n))
		}
	}
	for _, n := range doc.Notes {
		if value, err := strconv.ParseFloat(strings.TrimSpace(n.Value), 64); err == nil {
			add(n.Key, value)
		}
	}
	return facts
}
