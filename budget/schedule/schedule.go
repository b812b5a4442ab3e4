// Package schedule says in which order a pipeline's rank takes its micro-batches forward and backward.
//
//	for _, move := range schedule.Moves(settings.Setting{PP: 4, Schedule: "1f1b"}, 0) {
//		fmt.Println(move.Micro, move.Back)
//	}
//
// It knows neither models nor memory: ranks, chunks and micro-batches are numbers from 0 on.
package schedule

import (
	"cmp"

	"github.com/vramscope/vramscope/budget/settings"
)

// Chunks is how many pieces of the model a rank of a schedule has.
func Chunks(s settings.Setting) int64 {
	switch s.Schedule {
	case "interleaved":
		return cmp.Or(s.StagesPerRank, 2)
	case "zbv":
		return 2
	}
	return 1
}

// Layers says how many layers each of n pieces of a model has: as many in each, and where
// that leaves some over, one more in each of those in the middle, which have neither
// embeddings nor head (torchtitan's generate_split_points, Megatron-LM's advice).
func Layers(layers, n int64) []int64 {
	ls := make([]int64, n)
	over := layers % n
	for i := range ls {
		ls[i] = layers / n
		if i > 0 && over > 0 {
			ls[i]++
			over--
		}
	}
	return ls
}

// Move is one step of a rank's schedule: a micro-batch goes forward or backward through one
// of its chunks.
type Move struct {
	Chunk, Micro int64
	Back         bool
}

// Moves are a rank's, for as many micro-batches as show the most that it ever holds: after
// the first ones go forward, forward and backward take turns.
// Each schedule counts its first forwards in its own way.
func Moves(s settings.Setting, rank int64) []Move {
	m, per := MicroBatches(s), Chunks(s)
	ahead := min(m, s.PP-rank)
	switch s.Schedule {
	case "zbv":
		return zeroBubble(s, rank)
	case "gpipe":
		ahead = m
	case "interleaved": // torch.distributed.pipelining: as many as the ranks behind wait for, twice
		ahead = min(m*per, (per-1)*s.PP+1+2*(s.PP-1-rank))
	}
	total := min(m, ahead+2) * per
	step := func(k int64, back bool) Move { // groups of as many micro-batches as ranks go through a chunk
		g := min(s.PP, m)
		v := Move{Chunk: k / g % per, Micro: k/(g*per)*g + k%g, Back: back}
		if back {
			v.Chunk = per - 1 - v.Chunk
		}
		return v
	}
	if per == 1 {
		step = func(k int64, back bool) Move { return Move{Micro: k, Back: back} }
	} else {
		total = min(m*per, (ahead/(s.PP*per)+2)*s.PP*per)
	}
	var ms []Move
	f, b := int64(0), int64(0)
	for ; f < min(ahead, total); f++ {
		ms = append(ms, step(f, false))
	}
	for ; b < total; b++ {
		ms = append(ms, step(b, true))
		if f < total {
			ms = append(ms, step(f, false))
			f++
		}
	}
	return ms
}

// zeroBubble are a rank's moves under zbv (torch.distributed.pipelining's ScheduleZBVZeroBubble).
func zeroBubble(s settings.Setting, rank int64) (ms []Move) {
	m := min(MicroBatches(s), 2*s.PP+2)
	var n [2][2]int64 // forwards and backwards of each chunk
	step := func(chunk int64, back bool) {
		k := &n[chunk][0]
		if back {
			k = &n[chunk][1]
		}
		if *k < m {
			ms = append(ms, Move{Chunk: chunk, Micro: *k, Back: back})
		}
		*k++
	}
	for range 2*(s.PP-rank) - 1 {
		step(0, false)
	}
	for range rank {
		step(1, false)
		step(0, false)
	}
	for range s.PP - rank {
		step(1, false)
		step(1, true)
	}
	for most := max(2*s.PP-1, m); n[1][0] < n[0][0] || n[0][0] < most; {
		if n[0][0] < most {
			step(0, false)
		}
		step(0, true)
		step(1, false)
		step(1, true)
	}
	for n[0][1] < m || n[1][1] < m {
		step(0, true)
		step(1, true)
	}
	return ms
}

// MicroBatches of a step: as many as there are stages, unless the setting says.
func MicroBatches(s settings.Setting) int64 {
	switch {
	case s.MicroBatches > 0:
		return s.MicroBatches
	case s.Accumulate > 1:
		return s.Accumulate
	}
	return s.PP
}

// InFlight is the most micro-batches that a rank holds at once.
func InFlight(ms []Move) (most int64) {
	var n int64
	for _, v := range ms {
		if v.Back {
			n--
		} else {
			n++
		}
		most = max(most, n)
	}
	return most
}
