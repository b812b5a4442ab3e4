package batch

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
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
	if d := doc.Fullest(); d != nil && status == report.StatusFine {
		return madeOf(d) // the peak has a column of its own
	}
	text := doc.Verdict.Text
	if _, rest, ok := strings.Cut(text, "No failure recorded: "); ok { // which the badge says
		text = rest
	}
	return firstWords(text)
}

// madeOf are the largest categories of a device's peak.
func madeOf(d *report.Device) string {
	m, names := &d.AtPeak, slices.Clone(report.Categories)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(m.Categories[b], m.Categories[a]) })
	var parts []string
	for _, name := range names[:min(len(names), 3)] {
		if 20*m.Categories[name] >= m.AllocatedBytes && m.Categories[name] > 0 && name != words.Unknown.String() {
			parts = append(parts, report.CategoryWords(name)+" "+units.Percent(m.Categories[name], m.AllocatedBytes))
		}
	}
	return strings.Join(parts, ", ")
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
			return text(cmp.Or(o.Cause(), o.Why()), o.Phase, &o.RequestedBytes)
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
	list := strings.Fields(text)
	if len(list) <= mostWords {
		return strings.Join(list, " ")
	}
	return strings.TrimRight(strings.Join(list[:mostWords], " "), ",;:(") + "…"
}

// Bounds of what a run tells to be compared by: how many facts, and bytes of a text.
const (
	mostFacts   = 24
	longestFact = 60
)

// factsOf are what runs may be compared by: what a tracker or the recording tells of
// the setting, the user's notes, and the numbers among the command's flags.
func factsOf(doc *report.Document) (facts []report.Fact) {
	add := func(name string, value float64) {
		if len(facts) < mostFacts && !math.IsNaN(value) && !math.IsInf(value, 0) {
			facts = append(facts, report.Fact{Name: name, Value: value})
		}
	}
	say := func(name string, text *string) {
		if text != nil && *text != "" && len(*text) <= longestFact && len(facts) < mostFacts {
			facts = append(facts, report.Fact{Name: name, Text: *text})
		}
	}
	var batch, sequence, gpus, tokens *int64
	if p := doc.Evidence.Settings(); p != nil { // of a tracker
		batch, sequence, gpus, tokens = p.BatchSize, p.SequenceLength, p.GPUs, p.TokensPerStep
		say("model", p.Model)
		say("precision", p.Precision)
		say("optimizer", p.Optimizer)
		say("GPU", p.GPU)
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
		value, err := strconv.ParseFloat(strings.TrimSpace(n.Value), 64)
		if err != nil {
			value = math.NaN() // which isn't added
			say(n.Key, &n.Value)
		}
		add(n.Key, value)
	}
	flagsOf(doc.Environment.Command, add)
	return facts
}

// flagsOf are the numbers among the flags of a command: --batch-size 8, --lr=1e-4.
func flagsOf(command *string, add func(name string, value float64)) {
	if command == nil {
		return
	}
	list := strings.Fields(*command)
	for i, word := range list {
		name, value, joined := strings.Cut(word, "=")
		if !strings.HasPrefix(name, "--") || len(name) > longestFlag {
			continue
		}
		if !joined && i+1 < len(list) {
			value = list[i+1]
		}
		if x, err := strconv.ParseFloat(value, 64); err == nil {
			add(name, x)
		}
	}
}

// longestFlag is how long the name of a flag may be that runs are compared by, in bytes.
const longestFlag = 40
