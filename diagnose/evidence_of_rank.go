package diagnose

import (
	"slices"

	"github.com/vramscope/vramscope/diagnose/ranks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/filename"
)

// evidenceOf is the evidence that concerns a recording: all but what another
// rank left behind, as far as names tell.
func (j *job) evidenceOf(source int) *evidence.Evidence {
	n := j.sources[source].name()
	rank := max(ranks.Sure(n), n.Local)
	if rank < 0 || j.evidence == nil {
		return j.evidence
	}
	machine := 0 // ranks on one, as far as the local ranks of logs and traces tell
	for i := range j.sources {
		if s := &j.sources[i]; !s.isRecording() {
			machine = max(machine, s.name().Local+1)
		}
	}
	ev := ofRank(j.evidence, ranks.Sure(n))
	foreign := map[int]bool{}
	for i := range j.sources {
		if s := &j.sources[i]; !s.isRecording() && ofOther(s.name(), n, rank, machine) {
			foreign[i] = true
		}
	}
	if len(foreign) == 0 {
		return ev
	}
	return without(ev, foreign)
}

// ofRank is evidence less the messages that a log of several ranks marks as
// another one's.
func ofRank(ev *evidence.Evidence, rank int) *evidence.Evidence {
	if rank < 0 {
		return ev
	}
	own := *ev
	own.OOMMessages = less(ev.OOMMessages, func(x evidence.OOMMessage) bool { return x.Rank != nil && *x.Rank != rank })
	return &own
}

// ofOther reports whether a file is by its name another rank's than a recording's;
// machine is the number of ranks on one.
func ofOther(file, recording filename.Name, rank, machine int) bool {
	switch r := ranks.Sure(file); {
	case r >= 0 && ranks.Sure(recording) >= 0:
		return r != rank
	case file.Local >= 0 && recording.Local >= 0:
		return file.Local != recording.Local
	case file.Local >= 0 && machine > 0:
		return file.Local != rank%machine
	}
	return false
}

// without is evidence less that of some sources.
func without(ev *evidence.Evidence, foreign map[int]bool) *evidence.Evidence {
	return &evidence.Evidence{
		GPUs:            less(ev.GPUs, func(x evidence.GPU) bool { return foreign[x.Source] }),
		OOMMessages:     less(ev.OOMMessages, func(x evidence.OOMMessage) bool { return foreign[x.Source] }),
		MemorySummaries: less(ev.MemorySummaries, func(x evidence.MemorySummary) bool { return foreign[x.Source] }),
		Steps:           less(ev.Steps, func(x *evidence.Steps) bool { return foreign[x.Source] }),
		Traces:          less(ev.Traces, func(x evidence.Trace) bool { return foreign[x.Source] }),
		Logs:            less(ev.Logs, func(x evidence.Log) bool { return foreign[x.Source] }),
		Parameters:      ev.Parameters,
		Timelines:       less(ev.Timelines, func(x evidence.Timeline) bool { return foreign[x.Source] }),
	}
}

func less[T any](all []T, drop func(T) bool) []T { return slices.DeleteFunc(slices.Clone(all), drop) }
