package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/internal/units"
)

// manyPools are more private pools than are told one by one: programs make a CUDA
// graph for every shape.
const manyPools = 12

// poolKinds are the kinds of private pools in words.
var poolKinds = map[string]string{"cuda_graph": "a CUDA graph's", "mem_pool": "shared by graphs, or a MemPool"}

// LargestPools are the private pools worth a line each, in their order, and what to
// say of the others, "" where there are none.
func LargestPools(pools []PoolSummary) (shown []PoolSummary, rest string) {
	if len(pools) <= manyPools {
		return pools, ""
	}
	at := make([]int, len(pools))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(pools[b].Bytes, pools[a].Bytes) })
	var bytes, used int64
	for _, i := range at[manyPools:] {
		bytes, used = bytes+pools[i].Bytes, used+pools[i].Used
	}
	slices.Sort(at[:manyPools])
	for _, i := range at[:manyPools] {
		shown = append(shown, pools[i])
	}
	return shown, fmt.Sprintf("%s more: %s, %s in use", units.Plural(len(pools)-manyPools, "smaller pool"), units.Bytes(bytes),
		units.Bytes(used))
}
