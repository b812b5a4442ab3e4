package ranks

import (
	"slices"

	"github.com/vramscope/vramscope/internal/filename"
)

// How a rank came to be known.
const (
	byName        = "name"
	byLocalRank   = "local_rank"  // of the names; one machine
	byMetadata    = "metadata"    // what the program wrote into its recording
	byDevice      = "device"      // each recording holds another device
	byConcurrency = "concurrency" // numbers in the names, of processes that ran at the same time
)

var toldBy = map[string]string{byName: "by the names of the files",
	byLocalRank: "by the local ranks in the names of the files, on one machine",
	byMetadata:  "by what the program wrote into its recordings", byDevice: "by the device that each recording holds",
	byConcurrency: "by the numbers in the names of the files, whose processes ran at the same time"}

// tellRanks finds the rank of each recording. None is given without a word for
// it; where the words don't agree with each other, none is.
func (j *Job) tellRanks() (ranks []int, from []string) {
	t := &teller{j: j, ranks: make([]int, len(j.Recorded)), from: make([]string, len(j.Recorded))}
	for i := range t.ranks {
		t.ranks[i] = filename.Unknown
	}
	for i, r := range j.Recorded {
		if n := Sure(r.Name); n >= 0 {
			t.set(i, n, byName)
		}
	}
	t.perhaps(func(n filename.Name) int {
		if n.Doubtful {
			return n.Rank
		}
		return filename.Unknown
	}, byName)
	t.local()
	for i, r := range j.Recorded {
		if t.ranks[i] < 0 && r.Said >= 0 {
			t.set(i, r.Said, byMetadata)
		}
	}
	t.devices()
	t.concurrent()
	return t.ranks, t.from
}

type teller struct {
	j     *Job
	ranks []int
	from  []string
}

func (t *teller) set(i, rank int, from string) { t.ranks[i], t.from[i] = rank, from }

// families are the recordings without a rank, by something that their names share.
func (t *teller) families(key func(filename.Name) string) [][]int {
	place := map[string]int{}
	var out [][]int
	for i, r := range t.j.Recorded {
		if t.ranks[i] >= 0 {
			continue
		}
		k := key(r.Name)
		n, ok := place[k]
		if !ok {
			n = len(out)
			place[k] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

// perhaps takes numbers that may be ranks for such when they are 0, 1, 2 … in
// names that are alike otherwise.
func (t *teller) perhaps(number func(filename.Name) int, from string) {
	for _, family := range t.families(func(n filename.Name) string { return n.Stem }) {
		numbers := map[int]bool{}
		for _, i := range family {
			numbers[number(t.j.Recorded[i].Name)] = true
		}
		if !FromZero(numbers) {
			continue
		}
		for _, i := range family {
			t.set(i, number(t.j.Recorded[i].Name), from)
		}
	}
}

// FromZero reports whether some numbers, two at least, are 0, 1, 2 ….
func FromZero(numbers map[int]bool) bool {
	for n := range len(numbers) {
		if !numbers[n] {
			return false
		}
	}
	return len(numbers) > 1
}

// local takes local ranks for ranks: on one machine they are; on several,
// whose numbers are known, each machine has as many.
func (t *teller) local() {
	for _, family := range t.families(func(n filename.Name) string { return n.Stem }) {
		nodes := map[int]map[int]bool{}
		for _, i := range family {
			n := t.j.Recorded[i].Name
			if nodes[n.Node] == nil {
				nodes[n.Node] = map[int]bool{}
			}
			nodes[n.Node][n.Local] = true
		}
		size := -1
		even := true
		numbers := map[int]bool{}
		for node, locals := range nodes {
			numbers[node] = true
			even = even && FromZero(locals) && (size < 0 || size == len(locals))
			size = len(locals)
		}
		one := len(nodes) == 1 && (numbers[filename.Unknown] || numbers[0])
		if !even || !one && !FromZero(numbers) {
			continue
		}
		for _, i := range family {
			n := t.j.Recorded[i].Name
			t.set(i, max(n.Node, 0)*size+n.Local, byLocalRank)
		}
	}
}

// devices takes the devices' numbers for ranks when there is one recording of
// each and the recordings belong together.
func (t *teller) devices() {
	for _, family := range t.families(func(n filename.Name) string { return n.Shape }) {
		owner := map[int]int{}
		for _, i := range family {
			if r := t.j.Recorded[i]; len(r.Devices) == 1 && !t.j.OneDevice {
				owner[r.Devices[0].Dev.Device] = i
			}
		}
		if len(owner) != len(family) || len(owner) < 2 || !t.together(family) && !t.numbered(owner) {
			continue
		}
		for device, i := range owner {
			t.set(i, device, byDevice)
		}
	}
}

// numbered reports whether the devices' numbers stand in the names.
func (t *teller) numbered(owner map[int]int) bool {
	for device, i := range owner {
		if !slices.Contains(t.j.Recorded[i].Name.Numbers, int64(device)) {
			return false
		}
	}
	return true
}

// concurrent takes the one number in which names differ for the rank when it
// counts from 0 and the recordings are of processes that ran side by side.
func (t *teller) concurrent() {
	for _, family := range t.families(func(n filename.Name) string { return n.Shape }) {
		numbers := t.j.Recorded[family[0]].Name.Numbers
		vary := -1
		several := false
		for place := range numbers {
			for _, i := range family {
				if t.j.Recorded[i].Name.Numbers[place] != numbers[place] {
					several = several || vary >= 0 && vary != place
					vary = place
					break
				}
			}
		}
		if vary < 0 || several || len(family) < 2 || !t.together(family) {
			continue
		}
		number := map[int]bool{}
		for _, i := range family {
			number[int(t.j.Recorded[i].Name.Numbers[vary])] = true
		}
		if len(number) != len(family) || !FromZero(number) {
			continue
		}
		for _, i := range family {
			t.set(i, int(t.j.Recorded[i].Name.Numbers[vary]), byConcurrency)
		}
	}
}

// together reports whether recordings are of different processes that ran at the
// same time.
func (t *teller) together(family []int) bool {
	var first, last int64
	for k, i := range family {
		r := t.j.Recorded[i]
		if r.first == 0 {
			return false
		}
		if k == 0 {
			first, last = r.first, r.last
		}
		first, last = max(first, r.first), min(last, r.last)
	}
	if first > last {
		return false
	}
	for k, i := range family {
		if slices.ContainsFunc(family[:k], func(other int) bool {
			return t.j.sameProcess(other, i) || t.j.overlaps[[2]int{other, i}].short
		}) {
			return false
		}
	}
	return true
}

// sameProcess reports whether two recordings have events in common.
func (j *Job) sameProcess(a, b int) bool {
	return j.overlaps[[2]int{a, b}].same || j.overlaps[[2]int{b, a}].same
}

// apart reports whether two recordings of the same time have no events in common.
func (j *Job) apart(a, b int) bool {
	one, found := j.overlaps[[2]int{a, b}]
	other, back := j.overlaps[[2]int{b, a}]
	return (found && !one.short || back && !other.short) && !j.sameProcess(a, b)
}
