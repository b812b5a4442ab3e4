package schedule

import (
	"testing"

	"github.com/vramscope/vramscope/budget/settings"
)

// TestMoves: whatever goes backward went forward before, as often, and no rank of a later stage holds more at once.
func TestMoves(t *testing.T) {
	for _, how := range []string{"1f1b", "gpipe", "interleaved", "zbv"} {
		s := settings.Setting{PP: 4, MicroBatches: 8, Schedule: how}
		var before int64
		for rank := range s.PP {
			ms := Moves(s, rank)
			ahead := map[[2]int64]int{}
			for _, m := range ms {
				k := [2]int64{m.Chunk, m.Micro}
				if m.Back {
					ahead[k]--
				} else {
					ahead[k]++
				}
				if ahead[k] < 0 {
					t.Errorf("%s, rank %d: %v goes backward first", how, rank, k)
				}
			}
			for k, n := range ahead {
				if n != 0 {
					t.Errorf("%s, rank %d: %d of %v are left", how, rank, n, k)
				}
			}
			most := InFlight(ms)
			if how == "1f1b" && most != s.PP-rank || how == "gpipe" && most != MicroBatches(s) || rank > 0 && most > before {
				t.Errorf("%s, rank %d: %d at once, before it %d", how, rank, most, before)
			}
			before = most
		}
	}
}
