package report

import (
	"slices"
	"strconv"
	"strings"
)

// Ranks are the processes of one job beside each other.
type Ranks struct {
	Count   int    `json:"count"`   // processes
	Told    string `json:"told_by"` // how the ranks are known, in words
	Sure    bool   `json:"ranks"`   // false: the processes' ranks are not known
	Missing []int  `json:"missing"` // ranks of which there is no recording
	World   *int   `json:"world"`   // the job's size, where a name says it
	Rows    []Rank `json:"rows"`    // one per process and device, in the order of Devices
	Groups  []Like `json:"alike"`   // rows that are alike, the fullest group first
	// Imbalance is what the fullest rank holds more than is usual; nil: next to
	// nothing, or the ranks are not known.
	Imbalance *Imbalance `json:"imbalance"`
	FirstOOM  *FirstOOM  `json:"first_oom"` // of those with a time
	Notes     []string   `json:"notes"`
	Shown     []int      `json:"shown"` // indices into Devices: those that are worth to be shown in full, the worst first
}

// Rank is one device of one process.
type Rank struct {
	Rank          *int   `json:"rank"`
	RankFrom      string `json:"rank_from"` // name, local_rank, metadata, device, concurrency; "" without a rank
	Input         int    `json:"input"`
	Index         int    `json:"index"` // into Devices
	Device        int    `json:"device"`
	PeakAllocated int64  `json:"peak_allocated_bytes"`
	PeakReserved  int64  `json:"peak_reserved_bytes"`
	AtEnd         int64  `json:"end_allocated_bytes"`
	Capacity      *int64 `json:"capacity_bytes"`
	Dumps         int    `json:"dumps"` // recordings of this process, the shown one included
	Verdict       string `json:"verdict"`
	Failed        bool   `json:"-"` // ran out of memory
	OOMTime       *int64 `json:"first_oom_time_us"`
	Group         int    `json:"alike"` // index into Groups
}

// Like is a set of rows that are alike: peaks and categories differ by less
// than a hundredth.
type Like struct {
	Rows  []int `json:"rows"`  // indices into Rows
	Shown int   `json:"shown"` // the row that stands for them
}

// Imbalance says how far the fullest rank is from the usual one.
type Imbalance struct {
	Highest    int              `json:"highest"` // index into Rows
	Usual      int              `json:"usual"`   // of the rank with the median peak
	Bytes      int64            `json:"bytes"`   // allocated peak of the highest less that of the usual
	Categories []CategoryExcess `json:"categories"`
	Sites      []SiteExcess     `json:"sites"`
	Elsewhere  []Elsewhere      `json:"elsewhere"` // ranks that hold memory on another rank's GPU
}

// CategoryExcess is a category in which two ranks or dumps differ, both at
// their allocated peak or both at their end.
type CategoryExcess struct {
	Category string `json:"category"`
	More     int64  `json:"more_bytes"`
	Than     int64  `json:"than_bytes"`
}

// SiteExcess is a call site that holds more in one of two.
type SiteExcess struct {
	Site Site  `json:"site"` // in the one that holds more
	More int64 `json:"more_bytes"`
}

// Elsewhere is memory of some ranks on a GPU that is another's.
type Elsewhere struct {
	Device int   `json:"device"`
	Owner  int   `json:"owner"` // rank
	Ranks  []int `json:"ranks"`
	Bytes  int64 `json:"bytes"` // reserved at most, all of them together
}

// FirstOOM is the rank that ran out of memory before the others.
type FirstOOM struct {
	Row    int   `json:"row"`
	TimeUS int64 `json:"time_us"`
	Failed int   `json:"ranks_failed"`
	NextUS int64 `json:"next_after_us"` // until the next one failed; 0: no other did
}

// Trend is what several dumps of one process say together.
type Trend struct {
	Index  int    `json:"index"` // into Devices: those of the latest dump, or of the latest that failed
	Device int    `json:"device"`
	Rank   *int   `json:"rank"`
	Told   string `json:"told_by"` // why they are taken for one process's, in this order
	Dumps  []Dump `json:"dumps"`   // oldest first
	// Grows is by how much memory at the end grows from one dump to the next, in
	// the middle; nil: it doesn't, or that can't be said.
	Grows      *int64           `json:"grows_bytes"`
	Categories []CategoryExcess `json:"categories"` // of the latest comparable dump, beyond the first's
	Sites      []SiteExcess     `json:"sites"`
	Text       string           `json:"text"`
}

// Dump is one of them.
type Dump struct {
	Input         int              `json:"input"`
	Events        int              `json:"events"`
	Shared        *int             `json:"shared_events"` // that the dump before has, too; nil: can't be told
	LastTime      *int64           `json:"last_time_us"`
	PeakAllocated int64            `json:"peak_allocated_bytes"`
	PeakReserved  int64            `json:"peak_reserved_bytes"`
	AtEnd         int64            `json:"end_allocated_bytes"`
	Reserved      int64            `json:"end_reserved_bytes"`
	Categories    map[string]int64 `json:"end_categories"`
	OOMs          int              `json:"ooms"`
	NewProcess    bool             `json:"new_process"` // its history begins anew
}

// Spans writes numbers as 0-6, 9.
func Spans(numbers []int) string {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var out []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if j < i+2 { // two are no span
			out = append(out, strconv.Itoa(numbers[i]))
			i++
			continue
		}
		out = append(out, strconv.Itoa(numbers[i])+"-"+strconv.Itoa(numbers[j]))
		i = j + 1
	}
	return strings.Join(out, ", ")
}
