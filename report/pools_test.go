package report

import (
	"testing"

	"github.com/vramscope/vramscope/internal/units"
)

func TestLargestPools(t *testing.T) {
	var pools []PoolSummary
	for i := range 300 {
		pools = append(pools, PoolSummary{Bytes: int64(i%100+1) << 20, Used: 1 << 19, Segments: 2})
	}
	if shown := LargestPools(pools[:manyPools]); len(shown) != manyPools {
		t.Errorf("%d of a few", len(shown))
	}
	shown := LargestPools(pools)
	rest := shown[manyPools]
	if len(shown) != manyPools+1 || shown[0].Bytes != 100<<20 || shown[manyPools-1].Bytes != 97<<20 || rest.Pool != "288 smaller pools" || rest.Segments != 576 || units.Bytes(rest.Bytes) != "13.64 GiB" || units.Bytes(rest.Used) != "144.00 MiB" {
		t.Errorf("%d of many, the first of %s, and %v", len(shown), units.Bytes(shown[0].Bytes), rest)
	}
}
