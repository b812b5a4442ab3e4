package kvcache

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// findPool finds the keys and values that a server makes room for before it
// serves: a row of equal blocks, one or two for each layer, the last that is made
// before its passes and not small beside what its layers hold. Weights of
// different layers come with others between them.
//
// complexity: each condition excludes something else that setup leaves in rows.
func findPool(a *rules.Facts) bool {
	const (
		fewest = 8
		large  = 1 << 20 // bytes
		part   = 16      // of a layer's largest weight: adapters are far less
	)
	var row []timeline.AllocationID
	of := map[int64]int{} // what stays of setup, by size
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len() && a.Phase[id] == meaning.Setup; id++ {
		n := a.Timeline.Requested(id)
		if n <= phases.Scalar || !a.Outlives(id) {
			continue
		}
		of[n]++
		if len(row) > 0 && n != a.Timeline.Requested(row[0]) {
			row = row[:0]
		}
		row = append(row, id)
	}
	if len(row) < fewest || a.Timeline.Requested(row[0]) < large || of[a.Timeline.Requested(row[0])] > len(row) {
		return false
	}
	size := a.Timeline.Requested(row[0])
	layers := false
	for n, count := range of {
		if n == size || count*2 < fewest {
			continue
		}
		if n > size*part {
			return false
		}
		layers = layers || count == len(row) || count*2 == len(row) || count == len(row)*2
	}
	if !layers {
		return false
	}
	for _, id := range row {
		if a.Recorded.Allocs && a.Birth(id).Marks&(frames.Weight|frames.InModule|frames.Input) != 0 {
			return false
		}
	}
	for _, id := range row {
		a.Kept[id] = true
	}
	return true
}
