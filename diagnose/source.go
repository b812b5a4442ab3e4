package diagnose

import (
	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Source is one input after it was looked at.
type Source struct {
	Path     string
	Kind     string
	Contains []string
	// Snapshot is a recording that was decoded before; of others, Open decodes
	// it, each time anew: what is decoded is let go as soon as it was looked at.
	Snapshot *snapshot.Snapshot
	// Made gives what was made of Snapshot's devices before; nil: nothing was.
	Made func(*snapshot.Device) (*timeline.Timeline, *classify.Classification)
	Open func() (*snapshot.Snapshot, error)
	// Optional marks a recording that the run can do without: when it can't be
	// decoded, that is noted as damage as long as there are others.
	Optional bool
	Failed   string // why the input could not be read, "" when it could
	Unread   bool   // Failed is of where it lies, not of what it holds
	Cut      string // where text that was cut off or is damaged ends, "" when it is whole
	// Name is what the path says, read before it was redacted; nil: read Path.
	Name *filename.Name
	// Said is the rank that ranks.Said found before the recording was redacted; nil:
	// ask the recording.
	Said  *int
	Notes []string // how the input is used, for people
	// Config is a model's configuration. Where Options.Theory is about it, it was
	// found, not given: one that doesn't fit the recording is left out.
	Config *budget.Config
	// Labels are those that lie beside the recording; nil: none.
	Labels func(*timeline.Timeline) ([]classify.Label, error)
	// Holders are the variables of which a file beside the recording says what they hold; nil: none.
	Holders func(*timeline.Timeline) ([]classify.Holder, error)
	// Digest is the SHA-256 and the bytes of the input as given, before
	// decompression. It is asked for last: it may still be being worked out.
	Digest func() (sum string, bytes int64)

	recorded     *report.Input // what the recording says of its file, once decoded
	host         *report.HostMemory
	labelsFailed string // why they, or the holders, couldn't be read
}

// isRecording reports whether there is, or could be, a snapshot.
func (s *Source) isRecording() bool { return s.Snapshot != nil || s.Open != nil && s.Failed == "" }

// decode gives the recording and notes what the report says of the file.
func (s *Source) decode() (*snapshot.Snapshot, error) {
	recording := s.Snapshot
	if recording == nil {
		var err error
		if recording, err = s.Open(); err != nil {
			return nil, err
		}
	}
	if s.recorded == nil {
		s.recorded = inputOf(recording)
		if recording.Host != nil {
			s.host = facts.HostOf(recording, recording.Host)
		}
	}
	return recording, nil
}

func (s *Source) name() filename.Name {
	if s.Name != nil {
		return *s.Name
	}
	return filename.Parse(s.Path)
}

// inputOf is what a report says of a recording's file.
func inputOf(s *snapshot.Snapshot) *report.Input {
	in := &report.Input{Era: &s.Era, Partial: s.Cut >= 0}
	if in.Partial {
		events := 0
		for i := range s.Devices {
			events += s.Devices[i].Events.Len()
		}
		in.Damage = append(in.Damage, facts.CutOff(s.Cut, events))
	}
	in.Damage = append(in.Damage, s.Damage...)
	for _, x := range s.Settings {
		in.Settings = append(in.Settings, report.KeyValue{Key: x.Key, Value: x.Value})
	}
	for _, u := range s.Unknown {
		in.Unknown = append(in.Unknown, report.Unknown{Where: u.Where, Key: u.Key, Count: u.Count, Example: u.Example})
	}
	return in
}

// input is what the report says of the file.
func (s *Source) input() report.Input {
	in := report.Input{Path: s.Path, Kind: s.Kind, Contains: s.Contains, Damage: []string{}, Settings: []report.KeyValue{},
		Unknown: []report.Unknown{}, Notes: append([]string{}, s.Notes...), Partial: s.Cut != ""}
	for _, why := range []string{s.Failed, s.Cut, s.labelsFailed} {
		if why != "" {
			in.Damage = append(in.Damage, why)
		}
	}
	if s.Digest != nil {
		in.SHA256, in.Bytes = s.Digest()
	}
	if s.Contains == nil {
		in.Contains = []string{s.Kind}
	}
	if r := s.recorded; r != nil {
		in.Era, in.Partial, in.Damage = r.Era, in.Partial || r.Partial, append(in.Damage, r.Damage...)
		in.Settings, in.Unknown = append(in.Settings, r.Settings...), append(in.Unknown, r.Unknown...)
	}
	return in
}
