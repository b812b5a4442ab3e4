package replay

import (
	"math"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// The allocator's constants (c10/cuda/CUDACachingAllocator.cpp), in bytes.
const (
	minBlock    = 512      // every block is a multiple of it
	smallSize   = 1 << 20  // rounded requests up to it come from the small pool
	smallBuffer = 2 << 20  // a segment, or a page, of the small pool
	minLarge    = 10 << 20 // from here on a request gets a segment of its own size
	roundLarge  = 2 << 20  // to which such a segment is rounded
	maxTail     = 1 << 20  // a remainder up to it stays with the block in the large pool
	mib         = 1 << 20
)

// unlimited is more memory than any device has, with room to count beyond it.
const unlimited = int64(1) << 60

// Settings are those options of PYTORCH_CUDA_ALLOC_CONF that decide where
// blocks lie.
type Settings struct {
	Expandable          bool
	MaxSplit            int64     // bytes; blocks from here on are never split. 0: off
	MaxNonSplitRounding int64     // bytes that an unsplittable block may exceed a request by
	LargeSegment        int64     // bytes of a segment for requests below 10 MiB
	GCThreshold         float64   // share of the allowed memory; 0: off
	Fraction            float64   // of the device that the process may use; 0: all
	Divisions           [16]int64 // roundup_power2_divisions by power of two from 1 MiB on

	text string // as given
}

// Defaults are PyTorch's settings when nothing is set.
func Defaults() Settings {
	return Settings{MaxNonSplitRounding: 20 * mib, LargeSegment: 20 * mib}
}

// String is the settings as PYTORCH_CUDA_ALLOC_CONF, "" for the defaults.
func (s Settings) String() string {
	if s.text != "" {
		return s.text
	}
	var parts []string
	add := func(key, value string) { parts = append(parts, key+":"+value) }
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	d := Defaults()
	if s.Expandable {
		add("expandable_segments", "True")
	}
	if s.MaxSplit > 0 {
		add("max_split_size_mb", strconv.FormatInt(s.MaxSplit/mib, 10))
	}
	if s.LargeSegment != d.LargeSegment {
		add("large_segment_size_mb", strconv.FormatInt(s.LargeSegment/mib, 10))
	}
	if s.MaxNonSplitRounding != s.LargeSegment {
		add("max_non_split_rounding_mb", strconv.FormatInt(s.MaxNonSplitRounding/mib, 10))
	}
	if s.GCThreshold > 0 {
		add("garbage_collection_threshold", number(s.GCThreshold))
	}
	if s.Fraction > 0 {
		add("per_process_memory_fraction", number(s.Fraction))
	}
	if s.Divisions != d.Divisions {
		add("roundup_power2_divisions", s.divisionsText())
	}
	return strings.Join(parts, ",")
}

func (s *Settings) divisionsText() string {
	same := true
	var list []string
	for i, d := range s.Divisions {
		same = same && d == s.Divisions[0]
		if d != 0 { // which no list can say
			list = append(list, strconv.Itoa(1<<i)+":"+strconv.FormatInt(d, 10))
		}
	}
	if same {
		return strconv.FormatInt(s.Divisions[0], 10)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// fromSnapshot are the settings that a recording was made under, as far as the
// file tells; notes name what it doesn't.
func fromSnapshot(s *snapshot.Snapshot) (Settings, []string) {
	set := Defaults()
	var notes []string
	if len(s.Settings) == 0 {
		notes = append(notes, "the file doesn't hold the allocator's settings: the defaults are assumed")
	}
	// What has no entry of its own can only be read from the text.
	if text := s.Settings.Get("PYTORCH_CUDA_ALLOC_CONF"); text != "" {
		if c, _, err := ParseConf(text); err == nil {
			set = c
		} else {
			notes = append(notes, "the recorded PYTORCH_CUDA_ALLOC_CONF can't be read: "+err.Error())
		}
	}
	if v := s.Settings.Get("expandable_segments"); v != "" {
		set.Expandable = v == "True"
	}
	if n, err := strconv.ParseInt(s.Settings.Get("max_split_size"), 10, 64); err == nil {
		set.MaxSplit = max(0, n)
	}
	if f, err := strconv.ParseFloat(s.Settings.Get("garbage_collection_threshold"), 64); err == nil && f >= 0 && f < 1 {
		set.GCThreshold = f
	}
	for i := range set.Divisions {
		if n, err := strconv.ParseInt(s.Settings.Get("roundup_power2_divisions."+strconv.Itoa(1<<i)), 10, 32); err == nil &&
			validDivisions(n) {
			set.Divisions[i] = n
		}
	}
	if set.text != "" {
		if c, _, err := ParseConf(set.text); err != nil || !same(c, set) {
			set.text = "" // set again by the program after the start
		}
	}
	return set, notes
}

// same tells whether two settings act alike.
func same(a, b Settings) bool {
	a.text, b.text = "", ""
	return a == b
}

// shapes are the settings that decide how blocks are cut: a layout made under
// others can't have come about.
func (s Settings) shapes() Settings {
	s.text, s.GCThreshold, s.Fraction = "", 0, 0
	return s
}

// maxRequest is more than any program asks for at once.
const maxRequest = int64(1) << 50

// round is the block size that a request of n bytes needs.
func (s *Settings) round(n int64) int64 { return timeline.BlockSize(n, &s.Divisions) }

// segmentFor is what the driver is asked for when a request of the rounded
// size r finds no free block.
func (s *Settings) segmentFor(r int64) int64 {
	switch {
	case r <= smallSize:
		return smallBuffer
	case r < minLarge:
		return s.LargeSegment
	}
	return (r + roundLarge - 1) / roundLarge * roundLarge
}

// needs is how much the driver must have left for certain: expandable segments
// grow by whole pages.
func (s *Settings) needs(r int64) int64 {
	if !s.Expandable {
		return s.segmentFor(r)
	}
	page := s.page(r <= smallSize)
	return (r + page - 1) / page * page
}

// Needs is how much the driver must have left, in bytes, for a request that finds
// no room in a recorded process's cache.
func Needs(t *timeline.Timeline, request int64) int64 {
	set, _ := fromSnapshot(t.Snapshot)
	for i := range t.Device.Segments {
		set.Expandable = set.Expandable || t.Device.Segments[i].Expandable
	}
	return set.needs(set.round(request))
}

// page is what expandable segments are mapped in.
func (s *Settings) page(small bool) int64 {
	if small {
		return smallBuffer
	}
	return s.LargeSegment
}

// splits tells whether what a rounded request leaves of a free block becomes a
// block of its own.
func (s *Settings) splits(small bool, r, rest int64) bool {
	if small || s.Expandable {
		return rest >= minBlock
	}
	return r < s.maxSplit() && rest > maxTail
}

func (s *Settings) maxSplit() int64 {
	if s.MaxSplit == 0 {
		return math.MaxInt64
	}
	return s.MaxSplit
}
