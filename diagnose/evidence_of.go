package diagnose

import (
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/filename"
)

// evidenceOf is the evidence that concerns a recording: all but what another
// rank left behind, as far as names tell.
func (j *job) evidenceOf(source int) *evidence.Evidence {
	rank := sureRank(j.sources[source].name())
	if rank < 0 || j.evidence == nil {
		return j.evidence
	}
	foreign := map[int]bool{}
	for i := range j.sources {
		if other := sureRank(j.sources[i].name()); other >= 0 && other != rank && !j.sources[i].isRecording() {
			foreign[i] = true
		}
	}
	if len(foreign) == 0 {
		return j.evidence
	}
	return without(j.evidence, foreign)
}

// without is evidence less that of some sources.
func without(ev *evidence.Evidence, foreign map[int]bool) *evidence.Evidence {
	return &evidence.Evidence{
		GPUs:            less(ev.GPUs, func(x evidence.GPU) bool { return foreign[x.Source] }),
		OOMMessages:     less(ev.OOMMessages, func(x evidence.OOMMessage) bool { return foreign[x.Source] }),
		MemorySummaries: less(ev.MemorySummaries, func(x evidence.MemorySummary) bool { return foreign[x.Source] }),
		Steps:           less(ev.Steps, func(x evidence.Steps) bool { return foreign[x.Source] }),
		Traces:          less(ev.Traces, func(x evidence.Trace) bool { return foreign[x.Source] }),
		Details:         less(ev.Details, func(x evidence.Detail) bool { return foreign[x.Source] }),
	}
}

func less[T any](all []T, drop func(T) bool) []T { return slices.DeleteFunc(slices.Clone(all), drop) }

// sureRank is the rank that a name says without doubt, else Unknown.
func sureRank(n filename.Name) int {
	if n.Doubtful {
		return filename.Unknown
	}
	return n.Rank
}
