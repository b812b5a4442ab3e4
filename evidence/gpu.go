package evidence

import (
	"cmp"
	"slices"
	"time"
)

// GPU is one device over the time that one input covers.
type GPU struct {
	GPU           int       `json:"gpu"` // as printed; else the position in the listing
	Name          *string   `json:"name"`
	Source        int       `json:"source"`
	Samples       int       `json:"samples"` // memory readings; other readings where none shows memory
	TotalBytes    *int64    `json:"total_bytes"`
	PeakUsedBytes *int64    `json:"peak_used_bytes"`
	FirstTime     *Stamp    `json:"first_time"`
	LastTime      *Stamp    `json:"last_time"`
	Processes     []Process `json:"processes"` // by pid

	Tool         string `json:"-"` // that printed the readings, "" for nvidia-smi
	Driver, CUDA string `json:"-"` // versions, "" where the monitor doesn't print them
	BusID, UUID  string `json:"-"`
	Series       Series `json:"-"`
	// UnlistedBytes is the most that was in use while the table listed no process at all; 0: never.
	UnlistedBytes int64      `json:"-"`
	Instances     []Instance `json:"-"` // that MIG divided it into, by number
	// Unshown tells that its memory was asked for and not shown ([N/A]), as where it is the host's.
	Unshown bool `json:"-"`
	// Partition is how AMD's card is divided (CPX), each part of which shows the
	// memory that they share; "" where it isn't.
	Partition string `json:"-"`
}

// joinTracked leaves out the GPUs of a tracker's file that has no readings of them, where
// another of the same tracker's has: names and sizes go to those.
func joinTracked(list []GPU) []GPU {
	read := func(g *GPU) bool { return g.Samples > 0 || len(g.Processes) > 0 }
	joined := map[int]bool{}
	for i := range list {
		from := &list[i]
		if from.Tool == "" || read(from) {
			continue
		}
		for k := range list {
			if to := &list[k]; to.Tool == from.Tool && to.GPU == from.GPU && read(to) && to.Source != from.Source {
				to.Name, to.TotalBytes = either(to.Name, from.Name), either(to.TotalBytes, from.TotalBytes)
				joined[i] = true
			}
		}
	}
	kept := list[:0]
	for i := range list {
		if !joined[i] {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// Monitor is what printed the readings, as people call it.
func (g *GPU) Monitor() string { return cmp.Or(g.Tool, "nvidia-smi") }

// Process is one process on a GPU.
type Process struct {
	PID           int     `json:"pid"`
	Name          *string `json:"name"`
	PeakUsedBytes *int64  `json:"peak_used_bytes"` // null on Windows and wherever nvidia-smi prints N/A
	Instance      int     `json:"-"`               // of MIG, on which it runs; -1: not said
	// First and Last are the turns of the monitor at which it was listed; Last is 0 where they aren't known.
	First, Last int `json:"-"`
}

// Beside tells processes that were listed at the same time, or may have been.
func (p *Process) Beside(q *Process) bool {
	return p.Last == 0 || q.Last == 0 || p.First <= q.Last && q.First <= p.Last
}

// InTurn are a GPU's processes in the order in which they came, where there are
// several and each came when the one before was gone; nil for any others.
func (g *GPU) InTurn() []Process {
	list := slices.Clone(g.Processes)
	slices.SortStableFunc(list, func(a, b Process) int { return a.First - b.First })
	for i := 1; i < len(list); i++ {
		if list[i].Beside(&list[i-1]) {
			return nil
		}
	}
	if len(list) < 2 {
		return nil
	}
	return list
}

// Instance is a part of a GPU that MIG made, with memory of its own.
type Instance struct {
	GI                        int   // as nvidia-smi numbers it
	TotalBytes, PeakUsedBytes int64 // negative when not shown
}

// Stamp is a moment as a log wrote it: with a time zone, or in the unnamed
// local time of the machine. The zero Stamp is unknown.
type Stamp struct {
	nanos int64 // since 1970, of the local clock where zone is unknown
	kind  stampKind
}

type stampKind uint8

const (
	noStamp stampKind = iota
	localStamp
	utcStamp
)

// LocalStamp is a time on a clock whose zone isn't known, in nanoseconds since 1970.
func LocalStamp(nanos int64) Stamp { return Stamp{nanos, localStamp} }

// ZonedStamp is an instant, in nanoseconds since 1970 in UTC.
func ZonedStamp(nanos int64) Stamp { return Stamp{nanos, utcStamp} }

// Known reports whether the log gave a time at all.
func (s Stamp) Known() bool { return s.kind != noStamp }

// Zoned reports whether the time names an instant rather than a wall clock.
func (s Stamp) Zoned() bool { return s.kind == utcStamp }

// Nanoseconds since 1970-01-01 00:00 on the clock the log used.
func (s Stamp) Nanoseconds() int64 { return s.nanos }

// Before tells which of two times of the same clock comes first.
func (s Stamp) Before(t Stamp) bool { return s.nanos < t.nanos }

// String is RFC 3339, without zone where the log gives none, "" when unknown.
func (s Stamp) String() string {
	if s.kind == noStamp {
		return ""
	}
	layout := "2006-01-02T15:04:05"
	switch {
	case s.nanos%1e9 == 0:
	case s.nanos%1e6 == 0:
		layout += ".000"
	case s.nanos%1e3 == 0:
		layout += ".000000"
	default:
		layout += ".000000000"
	}
	if s.kind == utcStamp {
		layout += "Z"
	}
	return time.Unix(0, s.nanos).UTC().Format(layout)
}

// MarshalText writes what String says.
func (s Stamp) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Stamp) UnmarshalText(text []byte) error {
	layout, kind := "2006-01-02T15:04:05", localStamp
	if n := len(text); n > 0 && text[n-1] == 'Z' {
		layout, kind = time.RFC3339, utcStamp
	}
	t, err := time.Parse(layout, string(text))
	if err == nil {
		*s = Stamp{t.UnixNano(), kind}
	}
	return err
}
