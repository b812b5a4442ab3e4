package logs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// failureFinding words what messages of one cause and line tell.
func (w *witness) failureFinding(g *failures) report.Finding {
	grew := w.grewBefore(g)
	f := report.Finding{ID: "oom_" + g.Cause, Severity: report.Critical, Confidence: g.Confidence, Fix: new(g.Change()),
		Title:    g.title() + cmp.Or(grew, g.Why),
		Evidence: []string{w.at(g.source, g.Line) + ": " + cmp.Or(g.Text(), "no figures")},
		Causes:   g.causes(grew != "")}
	if g.Cause == report.WorkspaceFull {
		f.ID = g.Cause
	}
	if id := g.ChangeID(); id != "" {
		f.FixID = &id
	}
	if g.Saves > 0 {
		f.SavesBytes = &g.Saves
	}
	if g.Unsure || g.wentOn {
		f.Severity = report.Warning
	}
	if grew != "" {
		f.Fix, f.FixID = advice.Text("log.grew"), nil
	}
	if log := w.doc.Evidence.Log(g.source); log != nil && g.By == log.Engine.Name && log.Engine.CacheKnown &&
		log.Engine.Cache <= 0 {
		f.Fix = new(makeRoom(&log.Engine))
	}
	w.onGPU(g, &f)
	w.maybeOwn(g, &f)
	g.repeats(&f, w.poolOwner(g))
	return f
}

// causes are what the message's figures show, the same words as a recording's; a shortage alone doesn't say of what.
func (g *failures) causes(grew bool) []report.Cause {
	c := report.Cause{Cause: report.Unclear, Bytes: max(0, g.Saves)}
	switch {
	case grew:
		c.Cause = report.LeakCause
	case g.Absurd():
		c.Cause, c.Bytes = report.TooLarge, max(0, g.Requested)
	case g.Cause == report.TrueShortage && g.Asleep() > 0:
		c.Cause, c.Bytes = report.Sleeping, g.Asleep()
	case g.Cause == report.TrueShortage && g.Pools > g.Capacity/10 && g.Capacity > 0:
		c.Cause, c.Bytes = report.PrivatePool, g.Pools
	case g.Cause == report.Fragmentation:
		c.Cause, c.Bytes = report.Pieces, max(0, g.Cached)
	case g.Cause == report.DriverRefused:
		c.Cause = report.DriverLimit
	case g.Cause == report.OtherProcess, g.Cause == report.MemoryFraction:
		c.Cause = g.Cause
	}
	return []report.Cause{c}
}

// title says where and when it failed, up to why.
func (g *failures) title() string {
	what, phase, after, wentOn, asked, at, why := "Out of memory", "", "", "", "", "", ""
	switch {
	case g.Cause == report.WorkspaceFull:
		what = "Out of workspace"
	case g.Unsure:
		what = "Perhaps out of memory"
	}
	if g.PhaseName != "" {
		phase = " in " + report.PhaseText[g.PhaseName]
	}
	if g.AfterStep >= 0 {
		after = fmt.Sprintf(", after step %d", g.AfterStep)
	}
	if g.wentOn {
		wentOn = "; the run went on"
	}
	if g.Requested >= 0 {
		asked = fmt.Sprintf(": %s asked for", units.Bytes(g.Requested))
	} else if g.Beyond {
		asked = ": more than 1 EB asked for"
	}
	switch {
	case g.OwnFile != "" && g.FileName != "":
		at = " at " + placeOf(g.OwnFile, g.OwnLine)
	case g.FileName != "":
		at = " at " + placeOf(g.FileName, evidence.Or(g.UserLine, 0))
	}
	switch {
	case g.Confidence < 0.7 && causeText[g.Cause] != "":
		why = "probably " + causeText[g.Cause] + ": "
	case g.Cause == report.Fragmentation, g.Cause == report.MemoryFraction:
		why = causeText[g.Cause] + ": "
	}
	return what + phase + g.who() + after + wentOn + asked + at + "; " + why
}

func placeOf(file string, line int) string {
	if line > 0 {
		return fmt.Sprintf("%s:%d", report.ShortFile(file), line)
	}
	return report.ShortFile(file)
}

// who says which ranks or GPUs failed.
func (g *failures) who() string {
	switch {
	case len(g.ranks) > 1 && g.first >= 0:
		return fmt.Sprintf(" on %s, rank %d first", units.Plural(len(g.ranks), "rank"), g.first)
	case len(g.ranks) > 1:
		return " on " + units.Plural(len(g.ranks), "rank")
	case len(g.ranks) == 1 && g.GPU != nil:
		return fmt.Sprintf(" on rank %d, GPU %d", g.ranks[0], *g.GPU)
	case len(g.ranks) == 1:
		return fmt.Sprintf(" on rank %d", g.ranks[0])
	case len(g.gpus) > 1:
		return " on " + units.Plural(len(g.gpus), "GPU")
	case g.GPU != nil:
		return fmt.Sprintf(" on GPU %d", *g.GPU)
	}
	return ""
}

// onGPU adds what else held the GPU's memory.
func (w *witness) onGPU(g *failures, f *report.Finding) {
	say := func(format string, args ...any) { f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...)) }
	if g.Absurd() {
		if g.Capacity > 0 && g.Requested > 0 {
			say("%.0f times the GPU: no setting helps, the shapes are wrong", float64(g.Requested)/float64(g.Capacity))
		}
	}
	if o, ok := g.Outside(); ok && o.Context > 0 && o.Others >= 0 {
		text := fmt.Sprintf("outside PyTorch's allocator: %s CUDA context and libraries", units.Bytes(o.Context))
		if o.Others > 0 {
			text += fmt.Sprintf(", %s other processes", units.Bytes(o.Others))
		}
		say("%s", text)
	}
	if took := w.ofServer(g); took != "" {
		say("%s", took)
	}
	if list := g.Strangers(); len(list) > 0 {
		say("other processes on the same GPU: %s", oom.Processes(list))
	}
	if names, bytes := w.desktop(g); bytes > 0 {
		say("other programs on that GPU, as nvidia-smi lists them: %s hold %s", names, units.Bytes(bytes))
		if missing := g.Requested - g.Free - max(0, g.Cached); g.Requested > 0 && g.Free >= 0 && bytes >= missing {
			f.Fix = advice.Text("log.desktop", "names", names, "else", *f.Fix)
		}
	}
	if seen := w.seen(g); seen != "" {
		say("%s", seen)
	}
}

// seen is what a monitor said of the GPU in the log that has the message.
func (w *witness) seen(g *failures) string {
	if gpu := w.printed(g); gpu != nil {
		if size := evidence.Or(gpu.TotalBytes, 0); size > 0 && size < g.Capacity/8 {
			return fmt.Sprintf("an APU: %s calls %s its own memory, the carve-out; the GPU's %s are the system's (GTT), "+
				"shared with all programs",
				gpu.Monitor(), units.Bytes(size), units.Bytes(g.Capacity))
		}
		return fmt.Sprintf("%s, printed %s into the same log, saw %s in use on GPU %d", gpu.Monitor(), units.Times(gpu.Samples),
			sawOf(gpu), *g.GPU)
	}
	return ""
}

// desktop are the programs that the monitor in the same log lists on the GPU and
// that no training starts: names, and what they hold.
func (w *witness) desktop(g *failures) (string, int64) {
	var names []string
	sum := int64(0)
	for i := range w.doc.Evidence.GPUs {
		gpu := &w.doc.Evidence.GPUs[i]
		if gpu.Source != g.source || gpu.GPU != evidence.Or(g.GPU, 0) {
			continue
		}
		for _, p := range gpu.Processes {
			name := evidence.Or(p.Name, "")
			if base := report.ShortFile(name); p.PeakUsedBytes != nil && !strings.Contains(name, "python") && name != "" {
				sum += *p.PeakUsedBytes
				if base = base[strings.LastIndexAny(base, `/\`)+1:]; !slices.Contains(names, base) {
					names = append(names, base)
				}
			}
		}
	}
	return strings.Join(names[:min(len(names), 4)], ", "), sum
}

// poolOwner is whose private pools the message counts, as far as the log tells: CUDA graphs have such, and what
// allocates in a pool of its own, as an engine's sleep mode does.
func (w *witness) poolOwner(g *failures) string {
	log := w.doc.Evidence.Log(g.source)
	if log != nil && log.Engine.Graphs > 0 {
		return fmt.Sprintf("%s's CUDA graphs, %s by its account, or its sleep mode", log.Engine.Name,
			units.Bytes(log.Engine.Graphs))
	}
	if _, isEngine := engineSettings[g.Scene.Server]; isEngine {
		return g.Scene.Server + "'s CUDA graphs, or its sleep mode"
	}
	if log != nil {
		for _, s := range log.Servers {
			if _, isEngine := engineSettings[s.Name]; isEngine {
				return "CUDA graphs, perhaps " + s.Name + "'s, or its sleep mode"
			}
		}
	}
	return "CUDA graphs"
}

// repeats adds how often it was told, of which ranks, and who owns the private pools that it counts.
func (g *failures) repeats(f *report.Finding, owner string) {
	say := func(format string, args ...any) { f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...)) }
	if g.Pools > 0 {
		say("%s lie in private pools (%s), which no other code can use", units.Bytes(g.Pools), owner)
	}
	if g.count > 1 {
		where, asked := "this log", ""
		if n := len(g.sources); n > 1 {
			where = units.Plural(n, "log")
		}
		if g.least < g.most {
			asked = fmt.Sprintf(", with %s to %s asked for", units.Bytes(g.least), units.Bytes(g.most))
		}
		say("told %s in %s%s", units.Times(g.count), where, asked)
	}
	if g.wentOn && g.UpToStep >= 0 {
		say("steps follow it in the log, up to step %d", g.UpToStep)
	}
	if g.first >= 0 {
		say("by the launcher's list of failures, rank %d failed before all others", g.first)
	}
	if list := cmp.Or(numbered("ranks", g.ranks), numbered("GPUs", g.gpus)); list != "" {
		say("%s", list)
	}
}

var causeText = map[string]string{report.TrueShortage: "a true shortage", report.Fragmentation: "fragmentation",
	report.OtherProcess:   "someone else on the GPU",
	report.MemoryFraction: "a limit below the GPU's size"}
