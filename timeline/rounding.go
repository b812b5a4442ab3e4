package timeline

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/vramscope/vramscope/snapshot"
)

// The allocator's constants (c10/cuda/CUDACachingAllocator.cpp), in bytes.
const (
	minBlock    = 512     // every block is a multiple of it
	smallSize   = 1 << 20 // rounded requests up to it come from the small pool
	smallBuffer = 2 << 20 // a segment of the small pool
	maxTail     = 1 << 20 // a remainder up to it stays with the block in the large pool
)

// rounding is what the settings say about block sizes.
type rounding struct {
	divisions  [16]int64 // roundup_power2_divisions by power of two from 1 MiB on
	maxSplit   int64     // larger blocks are never split
	expandable bool      // remainders are always split off
}

func newRounding(settings snapshot.Settings) rounding {
	r := rounding{maxSplit: math.MaxInt64, expandable: settings.Get("expandable_segments") == "True"}
	for i := range r.divisions {
		n, _ := strconv.ParseInt(settings.Get("roundup_power2_divisions."+strconv.Itoa(1<<i)), 10, 32)
		r.divisions[i] = n
	}
	if n, err := strconv.ParseInt(settings.Get("max_split_size"), 10, 64); err == nil && n > 0 {
		r.maxSplit = n
	}
	return r
}

// round is the block size that a request of n bytes needs.
func (r *rounding) round(n int64) int64 { return BlockSize(n, &r.divisions) }

// BlockSize is the size of the block that PyTorch's allocator takes for a
// request of n bytes, before what it doesn't split off. Divisions are
// roundup_power2_divisions by power of two from 1 MiB on; 0 and 1 are none.
func BlockSize(n int64, divisions *[16]int64) int64 {
	if n < minBlock {
		return minBlock
	}
	index := min(max(bits.Len64(uint64(n))-1-20, 0), 15)
	if d := divisions[index]; d > 1 && n > minBlock*d {
		return powerOfTwoDivision(n, d)
	}
	return (n + minBlock - 1) / minBlock * minBlock
}

// powerOfTwoDivision rounds n up to one of d steps between powers of two.
func powerOfTwoDivision(n, d int64) int64 {
	if n&(n-1) == 0 || n <= 4 {
		return n
	}
	floor := int64(1) << (bits.Len64(uint64(n)) - 1)
	step := floor >> (bits.Len64(uint64(d)) - 1)
	if step == 0 {
		return floor * 2
	}
	return (n + step - 1) &^ (step - 1)
}

// splits reports whether what a rounded request leaves of a free block becomes a
// block of its own.
func (r *rounding) splits(size, rest int64) bool {
	if size <= smallSize || r.expandable {
		return rest >= minBlock
	}
	return size < r.maxSplit && rest > maxTail
}
