package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/diagnose/ranks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
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

// ofSmallerGPUs are the sources whose requests failed on GPUs smaller than what a recording reserved: they are another
// run's, unless the driver goes on in the host's memory. It gives the largest such GPU of each.
func ofSmallerGPUs(ev *evidence.Evidence, reserved int64) map[int]int64 {
	if ev == nil {
		return nil
	}
	sizes, unsure := map[int]int64{}, map[int]bool{}
	for _, m := range ev.OOMMessages {
		held := evidence.Or(m.AllocatedBytes, 0) + evidence.Or(m.ReservedUnallocatedBytes, 0)
		if size := evidence.Or(m.CapacityBytes, reserved); size >= reserved || held > size { // a part of it sleeps
			unsure[m.Source] = true
		} else {
			sizes[m.Source] = max(sizes[m.Source], *m.CapacityBytes)
		}
	}
	maps.DeleteFunc(sizes, func(source int, _ int64) bool { return unsure[source] || logs.MaySpill(ev) })
	return sizes
}

// disown takes out of the evidence what can't be of any device's run, and says so of the input.
func (j *job) disown(doc *report.Document) {
	if len(doc.Devices) == 0 || j.evidence == nil || j.windows {
		return
	}
	least := slices.MinFunc(doc.Devices, func(a, b report.Device) int {
		return cmp.Compare(a.Peaks.Reserved.Bytes, b.Peaks.Reserved.Bytes)
	}).Peaks.Reserved.Bytes
	foreign := map[int]bool{}
	for source, size := range ofSmallerGPUs(j.evidence, least) {
		foreign[source] = true
		s := &j.sources[source]
		s.Notes = append(s.Notes[:len(s.Notes):len(s.Notes)], fmt.Sprintf("of another run: its GPU of %s is smaller than the %s "+
			"that the recording shows reserved", units.Size(size), units.Size(least)))
	}
	if len(foreign) > 0 {
		j.evidence = without(j.evidence, foreign)
		doc.Evidence = j.evidence
	}
}
