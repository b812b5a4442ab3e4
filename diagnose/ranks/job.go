// Package ranks tells which recordings are of one process and of which rank, puts
// the ranks of a job beside each other, and says what the dumps of one process
// show over time.
//
// It knows of a recording its file's name, what it takes to find it again in
// another one, and what the report says of its devices. It must not decode
// recordings, know evidence, or judge what is wrong with a device.
package ranks

import (
	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// Job is a job's recordings beside each other.
type Job struct {
	OneDevice bool               // only one device of each recording was looked at
	Recorded  []*Recording       // in the order in which they were added
	overlaps  map[[2]int]overlap // by earlier and later index into Recorded
}

// Add takes one more recording, whose devices were traced, while it is decoded.
func (j *Job) Add(r *Recording, s *snapshot.Snapshot) {
	if j.overlaps == nil {
		j.overlaps = map[[2]int]overlap{}
	}
	j.meet(r, s)
	j.Recorded = append(j.Recorded, r)
}

// Recording is what is remembered of one recording.
type Recording struct {
	Source      int // index among the inputs
	Path        string
	Name        filename.Name
	Devices     []*Device
	Said        int   // the rank that its content names, filename.Unknown
	first, last int64 // times of its events, microseconds since the Unix epoch; 0: none
	Complete    bool  // it begins with its process
}

// Device is what is remembered of one device of a recording.
type Device struct {
	Dev        report.Device
	head, tail trail
	alive      []held // at the end
	older      []held // before the first event
	// firstFailed is the time of its first failed request, 0: none or unknown.
	firstFailed int64
}

// Few is up to how many recordings are remembered in full; more are in short.
const Few = 8

// Sure is the rank that a name says without doubt, else Unknown.
func Sure(n filename.Name) int {
	if n.Doubtful {
		return filename.Unknown
	}
	return n.Rank
}
