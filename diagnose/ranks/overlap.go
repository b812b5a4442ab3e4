package ranks

import (
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// trail is a stretch of events by which one recording is found in another: the
// times of a process's events differ from those of any other's.
type trail []footprint

type footprint struct {
	time    int64 // microseconds since the Unix epoch
	address uint64
	size    int64
	action  snapshot.Action
}

// How a trail is compared. A dump works out times anew, within a microsecond
// or so; processes that do the same at the same time drift by more than that
// from one event to the next.
const (
	trailEvents = 64
	trailLeast  = 8
	trailApart  = 2    // microseconds between what should be one time difference
	trailWithin = 2000 // microseconds between what should be one time
)

// held is a block in use.
type held struct {
	address uint64
	bytes   int64
}

// heldBlocks is how many blocks, the largest, are remembered of an instant.
const heldBlocks = 256

// Trace remembers by what a device's recording is found in others.
func (r *Recording) Trace(t *timeline.Timeline, x *Device) {
	events := &t.Device.Events
	n := events.Len()
	if events.TimeUS != nil && n > 0 {
		x.head, x.tail = trailOf(events, 0, min(n, trailEvents)), trailOf(events, max(0, n-trailEvents), n)
		if d := &x.Dev; d.FirstTime != nil && (r.first == 0 || *d.FirstTime < r.first) {
			r.first = *d.FirstTime
		}
		if d := &x.Dev; d.LastTime != nil {
			r.last = max(r.last, *d.LastTime)
		}
		for _, o := range t.OOMs {
			x.firstFailed = cmp.Or(x.firstFailed, max(0, events.TimeOf(o.Event)))
		}
	}
	last := n - 1
	for i := range t.Born {
		id := timeline.AllocationID(i)
		if t.AliveAt(id, last) {
			x.alive = append(x.alive, held{t.Address(id), t.Allocated[i]})
		}
		if i < t.Older() {
			x.older = append(x.older, held{t.Address(id), t.Allocated[i]})
		}
	}
	x.alive, x.older = largestHeld(x.alive), largestHeld(x.older)
}

func largestHeld(all []held) []held {
	slices.SortFunc(all, func(a, b held) int { return cmp.Or(-cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.address, b.address)) })
	return slices.Clone(all[:min(len(all), heldBlocks)])
}

func trailOf(e *snapshot.Events, from, to int) trail {
	t := make(trail, 0, to-from)
	for i := from; i < to; i++ {
		t = append(t, footprint{e.TimeOf(i), e.Address[i], e.Size[i], e.Action[i]})
	}
	return t
}

// overlap is how two recordings lie in each other.
type overlap struct {
	same   bool // of one process
	short  bool // too short to tell
	shared int  // events that both have, on their first common device
}

// meet compares a recording with those before it that lie in the same time.
func (j *Job) meet(r *Recording, s *snapshot.Snapshot) {
	k := len(j.Recorded)
	for i, other := range j.Recorded {
		if r.first == 0 || other.first == 0 || other.last < r.first || r.last < other.first || knownApart(r.Name, other.Name) {
			continue
		}
		least := trailLeast
		if r.Name.PID != 0 && r.Name.PID == other.Name.PID && r.Name.Stem == other.Name.Stem {
			least = 1
		}
		j.compare(i, k, s, least)
	}
}

// compare looks for the i-th recording in the k-th, by the first device that both have.
func (j *Job) compare(i, k int, s *snapshot.Snapshot, least int) {
	for _, x := range j.Recorded[i].Devices {
		d := s.Device(x.Dev.Device)
		if d == nil || d.Events.TimeUS == nil {
			continue
		}
		if min(len(x.tail), d.Events.Len()) < least {
			j.overlaps[[2]int{i, k}] = overlap{short: true}
			continue
		}
		if at := find(&d.Events, x.tail, true, least); at >= 0 {
			j.overlaps[[2]int{i, k}] = overlap{same: true, shared: at + 1}
		} else if at := find(&d.Events, x.head, false, least); at >= 0 {
			j.overlaps[[2]int{k, i}] = overlap{same: true, shared: d.Events.Len() - at}
		} else {
			j.overlaps[[2]int{i, k}] = overlap{}
		}
		return
	}
}

func knownApart(a, b filename.Name) bool {
	x, y := Sure(a), Sure(b)
	return x >= 0 && y >= 0 && x != y
}

// find gives the place of a trail's last event (fromEnd) or first one among
// other events; -1: it isn't there.
func find(e *snapshot.Events, t trail, fromEnd bool, least int) int {
	at := 0
	if fromEnd {
		at = len(t) - 1
	}
	n := e.Len()
	for i := sort.Search(n, func(i int) bool { return e.TimeUS[i] >= t[at].time-trailWithin }); i < n &&
		e.TimeUS[i] <= t[at].time+trailWithin; i++ {
		if matches(e, i, t, fromEnd, least) {
			return i
		}
	}
	return -1
}

// matches compares a trail with the events that lead up to i, or from there on.
func matches(e *snapshot.Events, i int, t trail, fromEnd bool, least int) bool {
	step, at := 1, 0
	if fromEnd {
		step, at = -1, len(t)-1
	}
	compared := 0
	for k := 0; k < len(t) && i+step*k >= 0 && i+step*k < e.Len(); k++ {
		f, place := t[at+step*k], i+step*k
		gap := (e.TimeUS[place] - e.TimeUS[i]) - (f.time - t[at].time)
		if e.Address[place] != f.address || e.Size[place] != f.size || e.Action[place] != f.action ||
			max(gap, -gap) > trailApart {
			return false
		}
		compared++
	}
	return compared >= least
}

// survives reports whether what was in use at the end of one recording is what a
// later one found when it began.
func survives(a, b *Recording) bool {
	for _, x := range a.Devices {
		for _, y := range b.Devices {
			if x.Dev.Device == y.Dev.Device && sharedHeld(x.alive, y.older) {
				return true
			}
		}
	}
	return false
}

func sharedHeld(before, after []held) bool {
	known := map[held]bool{}
	var a, b, both int64
	for _, h := range before {
		known[h] = true
		a += h.bytes
	}
	n := 0
	for _, h := range after {
		b += h.bytes
		if known[h] {
			both += h.bytes
			n++
		}
	}
	return n >= 4 && 2*both >= min(a, b)
}

// rankSaid finds a rank in annotations and metadata.
var rankSaid = regexp.MustCompile(`(?i)(?:^|[^a-z0-9_]|global_)rank["']?[ _:=#]{0,3}([0-9]{1,6})(?:$|[^0-9a-z.])`)

// Said is the rank that a program writes into its recording's annotations
// and metadata, if it is always the same one; else -1.
func Said(s *snapshot.Snapshot) int {
	said := filename.Unknown
	agree := true
	hear := func(text string) {
		if !strings.Contains(strings.ToLower(text), "rank") || strings.Contains(strings.ToLower(text), "lora") {
			return
		}
		for _, m := range rankSaid.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(m[1])
			agree = agree && (said == filename.Unknown || said == n)
			said = n
		}
	}
	heard := map[snapshot.StringID]bool{}
	once := func(id snapshot.StringID) {
		if id != 0 && !heard[id] {
			heard[id] = true
			hear(s.String(id))
		}
	}
	for _, a := range s.Annotations {
		once(a.Name)
	}
	for i := range s.Devices {
		var last snapshot.StringID
		for _, id := range s.Devices[i].Events.Metadata {
			if id != last {
				once(id)
				last = id
			}
		}
	}
	if !agree {
		return filename.Unknown
	}
	return said
}
