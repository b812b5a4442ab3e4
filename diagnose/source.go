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

	facts        *recordingFacts // once decoded
	labelsFailed string          // why they, or the holders, couldn't be read
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
	if s.facts == nil {
		s.facts = factsOf(recording)
	}
	return recording, nil
}

func (s *Source) name() filename.Name {
	if s.Name != nil {
		return *s.Name
	}
	return filename.Parse(s.Path)
}

// recordingFacts are what a report says of a snapshot's file.
type recordingFacts struct {
	era      string
	cut      int64
	events   int // of all devices
	damage   []string
	settings []report.KeyValue
	unknown  []report.Unknown
	host     *report.HostMemory
}

func factsOf(s *snapshot.Snapshot) *recordingFacts {
	f := &recordingFacts{era: s.Era, cut: s.Cut, damage: s.Damage}
	for _, x := range s.Settings {
		f.settings = append(f.settings, report.KeyValue{Key: x.Key, Value: x.Value})
	}
	for _, u := range s.Unknown {
		f.unknown = append(f.unknown, report.Unknown{Where: u.Where, Key: u.Key, Count: u.Count, Example: u.Example})
	}
	for i := range s.Devices {
		f.events += s.Devices[i].Events.Len()
	}
	if s.Host != nil {
		f.host = facts.HostOf(s, s.Host)
	}
	return f
}

// input is what the report says of the file.
func (s *Source) input() report.Input {
	in := report.Input{Path: s.Path, Kind: s.Kind, Contains: s.Contains, Damage: []string{}, Settings: []report.KeyValue{},
		Unknown: []report.Unknown{}, Notes: []string{}}
	if s.Failed != "" {
		in.Damage = append(in.Damage, s.Failed)
	}
	if s.Cut != "" {
		in.Partial = true
		in.Damage = append(in.Damage, s.Cut)
	}
	if s.labelsFailed != "" {
		in.Damage = append(in.Damage, s.labelsFailed)
	}
	in.Notes = append(in.Notes, s.Notes...)
	if s.Digest != nil {
		in.SHA256, in.Bytes = s.Digest()
	}
	if s.Contains == nil {
		in.Contains = []string{s.Kind}
	}
	if f := s.facts; f != nil {
		in.Era = &f.era
		if f.cut >= 0 {
			in.Partial = true
			in.Damage = append(in.Damage, facts.CutOff(f.cut, f.events))
		}
		in.Damage = append(in.Damage, f.damage...)
		in.Settings = append(in.Settings, f.settings...)
		in.Unknown = append(in.Unknown, f.unknown...)
	}
	return in
}
