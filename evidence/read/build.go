package read

import (
	"sort"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/monitor"
	"github.com/vramscope/vramscope/evidence/runlog"
)

// together is what a text holds: its kinds, the main one first, and all of it as
// of one source.
func together(gpus *monitor.Report, log *runlog.Report, source int) ([]string, *evidence.Evidence) {
	ev := evidence.New()
	ev.GPUs = append(ev.GPUs, gpus.GPUs...)
	ev.OOMMessages = append(ev.OOMMessages, log.OOMs...)
	ev.MemorySummaries = append(ev.MemorySummaries, log.Summaries...)
	for i := range ev.GPUs {
		ev.GPUs[i].Source = source
	}
	for i := range ev.OOMMessages {
		ev.OOMMessages[i].Source = source
	}
	for i := range ev.MemorySummaries {
		ev.MemorySummaries[i].Source = source
	}
	log.Source, log.Steps.Source = source, source
	if log.Steps.Count > 0 {
		ev.Steps = append(ev.Steps, log.Steps)
	}
	ev.Logs = append(ev.Logs, log.Log)
	if log.Settings != nil {
		log.Settings.Source = source
		ev.Parameters = append(ev.Parameters, *log.Settings)
	}
	return kindsOf(gpus, log), ev
}

// kindsOf lists what a text holds, the main kind first: a log that reports
// training is a training log whatever else it holds.
func kindsOf(smi *monitor.Report, log *runlog.Report) []string {
	var kinds []string
	if log.IsTrainingLog() {
		kinds = append(kinds, evidence.KindTrainingLog)
	}
	if len(log.OOMs) > 0 {
		kinds = append(kinds, evidence.KindOOMMessage)
	}
	if len(log.Summaries) > 0 {
		kinds = append(kinds, evidence.KindMemorySummary)
	}
	forms := smi.Forms()
	// Of several forms the one with by far the most rows is the main one:
	// a monitor that prints one table first and then CSV for a week.
	sort.SliceStable(forms, func(i, j int) bool {
		return smi.Rows[forms[i]] > manyTimes*smi.Rows[forms[j]]
	})
	for _, f := range forms {
		kinds = append(kinds, f.String())
	}
	return kinds
}

const manyTimes = 20
