package diagnose

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/ranks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// job is the work on one run: its recordings are decoded one at a time, looked
// at and let go; what is remembered of each is small.
type job struct {
	sources  []Source
	evidence *evidence.Evidence
	options  Options
	ranks    ranks.Job
	windows  bool         // some recording is of Windows, whose driver goes on in the host's memory
	only     *examination // the fullest or failing device, kept when there is just one recording
}

// sitesInShort is how many call sites are remembered of each of many recordings.
const sitesInShort = 24

// largeRecording is the size, in events, from which memory is handed back
// before the next recording is decoded.
const largeRecording = 4 << 20

// examineAll looks at every recording once.
func (j *job) examineAll() error {
	var recordings []int
	for i := range j.sources {
		if j.sources[i].isRecording() {
			recordings = append(recordings, i)
		}
	}
	var failed error
	read := 0
	for _, i := range recordings {
		s, err := j.sources[i].decode()
		if err != nil {
			if failed == nil {
				failed = err
			}
			if len(recordings) == 1 || snapshot.IsPassing(err) || !j.sources[i].Optional && !j.inFamily(i, recordings) {
				return err
			}
			j.sources[i].Failed, _, _ = strings.Cut(err.Error(), "\n") // less what it advises
			j.sources[i].Unread = errors.Is(err, snapshot.ErrUnread)
			continue
		}
		read++
		j.remember(i, s, len(recordings))
	}
	if read == 0 && failed != nil {
		return failed
	}
	return nil
}

// inFamily reports whether a recording's name makes it one of several ranks or
// dumps: the others can be judged without it.
func (j *job) inFamily(i int, recordings []int) bool {
	n := j.sources[i].name()
	for _, k := range recordings {
		if other := j.sources[k].name(); k != i && other.Shape == n.Shape && (n.Rank != other.Rank || n.Local != other.Local ||
			filename.Compare(n, other) != 0) {
			return true
		}
	}
	return false
}

// untouched reports whether a process only saw a device: a dump leaves its own event on each.
func untouched(d *snapshot.Device) bool {
	return len(d.Segments) == 0 && d.Events.Len() == 1 && d.Events.Action[0] == snapshot.SnapshotTaken
}

// remember examines the devices of one recording.
func (j *job) remember(source int, s *snapshot.Snapshot, recordings int) {
	r := &ranks.Recording{Source: source, Path: j.sources[source].Path, Name: j.sources[source].name(),
		Said: j.saidRank(source, s), Complete: len(s.Devices) > 0}
	view := frames.New(s)
	o := j.options
	o.Pictures = o.Pictures && recordings == 1
	events := 0
	for i := range s.Devices {
		d := &s.Devices[i]
		events += d.Events.Len()
		if o.Device != nil && *o.Device != d.Ordinal || o.Device == nil && len(s.Devices) > 1 && untouched(d) {
			continue
		}
		e := j.examination(source, s, d, view, o)
		x := &ranks.Device{Dev: e.device()}
		x.Dev.Input = source
		if recordings == 1 {
			j.keep(e, &x.Dev)
		} else {
			r.Trace(e.T, x)
			shorten(&x.Dev, recordings)
		}
		r.Devices = append(r.Devices, x)
		r.Complete = r.Complete && e.T.History == timeline.Complete
	}
	j.ranks.Add(r, s)
	if events > largeRecording && recordings > 1 {
		runtime.GC() // the next one would come on top
	}
}

// saidRank is the rank that a recording's content names.
func (j *job) saidRank(source int, s *snapshot.Snapshot) int {
	if said := j.sources[source].Said; said != nil {
		return *said
	}
	return ranks.Said(s)
}

func (j *job) examination(source int, s *snapshot.Snapshot, d *snapshot.Device, view *frames.View, o Options) *examination {
	e := &examination{source: j.sources[source], evidence: j.evidenceOf(source), options: o}
	if e.source.Made != nil {
		t, classes := e.source.Made(d)
		e.Pass = facts.New(t, classes, view, nil)
		e.Variables = j.holders(source, t)
	} else {
		var t *timeline.Timeline
		var evidence *classify.Evidence
		together.Do(
			func() { t = timeline.Begin(s, d) },
			func() { evidence = classify.Gather(s, d) })
		together.Do(
			t.Finish,
			func() { evidence.Follow(t) })
		names := j.names(source, t)
		names.Evidence, names.Holders = evidence, j.holders(source, t)
		e.Pass = facts.New(t, nil, view, nil)
		e.Variables = names.Holders
		together.Do(
			func() { e.Classes = classify.New(t, names) },
			func() { facts.Replay.Of(e.Pass) }) // most checks of fixes ask for it
	}
	e.Given = o.Capacity
	if onWindows(s) {
		j.windows = true
	} else if others := ofSmallerGPUs(e.evidence, e.T.Peaks.Reserved.Bytes); len(others) > 0 {
		foreign := map[int]bool{}
		for source := range others {
			foreign[source] = true
		}
		e.evidence = without(e.evidence, foreign)
	}
	return e
}

// keep holds on to the device that matters most: one that failed, else the fullest.
func (j *job) keep(e *examination, dev *report.Device) {
	if j.only == nil || j.only.failed() == e.failed() && dev.Peaks.Allocated.Bytes > j.only.T.Peaks.Allocated.Bytes ||
		e.failed() && !j.only.failed() {
		j.only = e
	}
}

func (e *examination) failed() bool { return len(e.T.OOMs) > 0 }

// shorten lets go of what only a full report of the device shows.
func shorten(d *report.Device, recordings int) {
	if recordings <= ranks.Few {
		return
	}
	d.Summary = true
	d.Curve = report.Curve{}
	d.Sites, d.SitesAtEnd, d.SitesAtFailure = cutSites(d.Sites), cutSites(d.SitesAtEnd), cutSites(d.SitesAtFailure)
	d.Steps = []report.Step{}
}

func cutSites(sites []report.Site) []report.Site {
	return append([]report.Site{}, sites[:min(len(sites), sitesInShort)]...)
}

// again examines devices of one recording once more, in full.
func (j *job) again(source int, want map[int]bool, visit func(*examination, *report.Device)) error {
	s, err := j.sources[source].decode()
	if err != nil {
		return fmt.Errorf("%w (when it was read for the second time)", err)
	}
	view := frames.New(s)
	for i := range s.Devices {
		if d := &s.Devices[i]; want[d.Ordinal] {
			e := j.examination(source, s, d, view, j.options)
			dev := e.device()
			dev.Input = source
			visit(e, &dev)
		}
	}
	return nil
}
