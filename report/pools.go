package report

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/internal/units"
)

// manyPools are more private pools than are told one by one: programs make a CUDA
// graph for every shape.
const manyPools = 12

// LargestPools are the private pools worth a line each, the largest first where there are many;
// a last one, of no kind, then stands for all others.
func LargestPools(pools []PoolSummary) []PoolSummary {
	if len(pools) <= manyPools {
		return pools
	}
	pools = slices.Clone(pools)
	slices.SortStableFunc(pools, func(a, b PoolSummary) int { return cmp.Compare(b.Bytes, a.Bytes) })
	rest := PoolSummary{Pool: units.Plural(len(pools)-manyPools, "smaller pool")}
	for _, p := range pools[manyPools:] {
		rest.Segments, rest.Bytes, rest.Used = rest.Segments+p.Segments, rest.Bytes+p.Bytes, rest.Used+p.Used
	}
	return append(pools[:manyPools], rest)
}
