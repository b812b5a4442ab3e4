package batch

import (
	"crypto/sha256"
	"encoding/binary"
)

// Shard is the part of the runs with this index of so many parts. Which part a
// run belongs to depends on its place alone, so that a run which comes or goes
// moves no other.
func Shard(runs []Run, index, count int) []Run {
	if count <= 1 {
		return runs
	}
	var mine []Run
	for _, r := range runs {
		sum := sha256.Sum256([]byte(r.Place))
		if binary.BigEndian.Uint64(sum[:])%uint64(count) == uint64(index) {
			mine = append(mine, r)
		}
	}
	return mine
}
