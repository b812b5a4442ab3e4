package report

import (
	"cmp"
	"slices"
)

// manyPools are more private pools than are told one by one: programs make a CUDA
// graph for every shape.
const manyPools = 12

// RestOfPools are the pools besides.
type RestOfPools struct {
	Pools       int
	Bytes, Used int64
}

// LargestPools are the private pools worth a line each, in their order, and the
// others together, nil where there are none.
func LargestPools(pools []PoolSummary) (shown []PoolSummary, rest *RestOfPools) {
	if len(pools) <= manyPools {
		return pools, nil
	}
	at := make([]int, len(pools))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(pools[b].Bytes, pools[a].Bytes) })
	rest = &RestOfPools{Pools: len(pools) - manyPools}
	for _, i := range at[manyPools:] {
		rest.Bytes, rest.Used = rest.Bytes+pools[i].Bytes, rest.Used+pools[i].Used
	}
	slices.Sort(at[:manyPools])
	for _, i := range at[:manyPools] {
		shown = append(shown, pools[i])
	}
	return shown, rest
}
