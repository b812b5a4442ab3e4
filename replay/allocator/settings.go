package allocator

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

// Unlimited is more memory than any device has, with room to count beyond it.
const Unlimited = int64(1) << 60

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

// Recorded are the settings that a recording was made under, as far as the
// file tells; notes name what it doesn't.
func Recorded(s *snapshot.Snapshot) (Settings, []string) {
	set := Defaults()
	var notes []string
	if len(s.Settings) == 0 {
		notes = append(notes, "the file doesn't hold the Allocator's settings: the defaults are assumed")
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
		if c, _, err := ParseConf(set.text); err != nil || !c.Same(set) {
			set.text = "" // set again by the program after the start
		}
	}
	return set, notes
}

// Same reports whether two settings act alike.
func (s Settings) Same(other Settings) bool {
	s.text, other.text = "", ""
	return s == other
}

// CutAlike reports whether blocks are cut in the same way: else a layout made under
// one of two settings can't have come about under the other.
func (s Settings) CutAlike(other Settings) bool {
	s.GCThreshold, s.Fraction, other.GCThreshold, other.Fraction = 0, 0, 0, 0
	return s.Same(other)
}

// SharesSegment reports whether a request of n bytes is served from a segment of
// LargeSegment bytes, which others share.
func (s *Settings) SharesSegment(n int64) bool {
	r := s.Round(n)
	return r > smallSize && r < minLarge
}

// SetLargeSegment corrects the size of those segments by what was seen.
func (s *Settings) SetLargeSegment(bytes int64) {
	if bytes <= minLarge || bytes == s.LargeSegment {
		return
	}
	if s.MaxNonSplitRounding == s.LargeSegment {
		s.MaxNonSplitRounding = bytes
	}
	s.LargeSegment, s.text = bytes, ""
}

// Round is the block size that a request of n bytes needs.
func (s *Settings) Round(n int64) int64 { return timeline.BlockSize(n, &s.Divisions) }

// SegmentFor is what the driver is asked for when a request of the rounded
// size r finds no free block.
func (s *Settings) SegmentFor(r int64) int64 {
	switch {
	case r <= smallSize:
		return smallBuffer
	case r < minLarge:
		return s.LargeSegment
	}
	return roundUp(r, roundLarge)
}

// RoomIn reports whether a segment of so many bytes, all of it free, has room for a
// request: small and large ones share none.
func RoomIn(segment, request int64) bool {
	return (segment == smallBuffer) == (request <= smallSize) && request <= segment
}

func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }

// Needs is how much the driver must have left for certain: expandable segments
// grow by whole pages.
func (s *Settings) Needs(r int64) int64 {
	if !s.Expandable {
		return s.SegmentFor(r)
	}
	return roundUp(r, s.page(r <= smallSize))
}

// NeededFor is what Needs tells of a request, not rounded yet, of a recorded process.
func NeededFor(t *timeline.Timeline, request int64) int64 {
	set, _ := Recorded(t.Snapshot)
	set.Expandable = set.Expandable || t.Expandable()
	return set.Needs(set.Round(request))
}

// page is what expandable segments are mapped in.
func (s *Settings) page(small bool) int64 {
	if small {
		return smallBuffer
	}
	return s.LargeSegment
}

// splits reports whether what a rounded request leaves of a free block becomes a
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

// AllowedOf is what a memory fraction of a device comes to, in bytes.
func AllowedOf(fraction float64, total int64) int64 {
	return int64(math.Round(fraction * float64(total)))
}
