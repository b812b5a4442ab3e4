package checks

import (
	"fmt"
	"path"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// LeakAdvice is what usually helps against a leak, as far as is told of it by then.
func LeakAdvice(l *classify.Leak, told *report.Leak) advice.Advice {
	if told.Awaited {
		return advice.Find(AwaitedBy(told))
	}
	by, holders := told.Stored(), told.Holders
	id := leakID(l, holders)
	if id == "leak."+classify.GrowingList && (told.Part || len(holders) > 0 && holders[0].IsPart()) {
		id += ".part"
	}
	where, near, momentum := "", "", ""
	if l.File != "" {
		where = fmt.Sprintf("%s:%d", fileName(l.File), l.Line)
		if from := l.CalledFrom; from.File != "" {
			where += fmt.Sprintf(", called from %s:%d", fileName(from.File), from.Line)
		}
		where = " (" + where + ")"
	}
	if l.Near.File != "" {
		near = fmt.Sprintf(" Look for zero_grad near %s:%d, where the optimizer runs.", fileName(l.Near.File), l.Near.Line)
	}
	if l.Optimizer == "sgd" {
		momentum = ", momentum=0.9" // the state; without it the 8-bit one isn't to be had
	}
	stored, line, keep, in, holder := "stored.unknown", "", "beyond the step", "", ""
	if len(holders) > 0 {
		stored, holder = "stored.held", holders[0].Path
		keep = "in " + holder
		in = " " + keep
	}
	stores := where
	if by != nil && by.Line != nil {
		stored, line = "stored.line", fmt.Sprintf("%s:%d", fileName(by.File), *by.Line)
		where = " (stored at " + line + ")"
	}
	part := ""
	if len(holders) > 0 && holders[0].IsPart() {
		part = fmt.Sprintf(", %s of %s", units.Bytes(*holders[0].ShownBytes), units.Bytes(holders[0].Bytes))
	}
	return advice.Find(id, "times", units.Times(l.Again), "where", where, "near", near, "optimizer", EightBit(l),
		"momentum", momentum, "keep", keep, "holder", holder, "part", part,
		"stored", *advice.Text(stored, "where", stores, "holder", holder, "line", line, "in", in))
}

// leakID is the advice's id.
func leakID(l *classify.Leak, holders []report.Holder) string {
	id := "leak." + l.Kind
	switch {
	case l.Kind == classify.GrowingList && l.Again > 0:
		id += ".again"
	case l.Kind == classify.GrowingList && l.Joined:
		id += ".joined"
	case (l.Kind == classify.GrowingList || l.Kind == classify.RetainedGraph) && len(holders) > 0 && holders[0].Cycle:
		id = "leak.cycle"
	case l.Kind == classify.RetainedGraph:
		id += ofGraph(l, holders)
	case l.Kind == classify.StaleOutputs && l.ForwardOnly:
		id += ".forward"
	case (l.Kind == classify.VaryingShapes || l.Kind == classify.FragmentationCreep) && l.Expandable:
		id += ".expandable"
	}
	return id
}

// ofGraph is the ending of the advice's id about a graph.
func ofGraph(l *classify.Leak, holders []report.Holder) string {
	switch {
	case l.Untrained:
		return ".untrained"
	case l.OfBackward:
		return ".create_graph"
	case len(holders) > 0 && holders[0].Tensors <= 1:
		return ".sum"
	}
	return ""
}

// eightBit are bitsandbytes' optimizers that take the place of torch's, by the
// file of torch/optim.
var eightBit = map[string]string{"sgd": "SGD8bit", "rmsprop": "RMSprop8bit", "adagrad": "Adagrad8bit"}

// EightBit is bitsandbytes' optimizer with the smallest change to the training: the
// same one in 8 bits, else AdamW.
func EightBit(l *classify.Leak) string {
	if name := eightBit[l.Optimizer]; name != "" {
		return name
	}
	return "AdamW8bit"
}

// fileName is a file's name without its folder, also one of Windows.
func fileName(file string) string { return path.Base(strings.ReplaceAll(file, `\`, "/")) }
