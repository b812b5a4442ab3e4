package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// privatePools says what CUDA graphs and MemPools hold at the end, and who made
// it: nobody else can use what is free in them.
func (e *examination) privatePools(dev *report.Device, f *facts) []draft {
	if len(dev.Pools) == 0 {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "private_pools", Severity: report.Info, Confidence: 1}}
	var bytes, used int64
	graphs := false
	for _, p := range dev.Pools {
		bytes, used = bytes+p.Bytes, used+p.Used
		graphs = graphs || p.Kind == "cuda_graph"
	}
	d.Title = fmt.Sprintf("%s lie in private pools (CUDA graphs, MemPools), %s of it free for nobody else", units.Bytes(bytes),
		units.Bytes(bytes-used))
	holders := e.poolHolders()
	shown, rest := report.LargestPools(dev.Pools)
	for _, p := range shown {
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s %s: %s in %s, %s in use%s", poolWords[p.Kind], p.Pool,
			units.Bytes(p.Bytes), units.Plural(p.Segments, "segment"), units.Bytes(p.Used), holders[p.Pool]))
	}
	if rest != nil {
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s more: %s, %s in use", units.Plural(rest.Pools, "smaller pool"),
			units.Bytes(rest.Bytes), units.Bytes(rest.Used)))
	}
	if graphs && bytes-used >= 64<<20 && share(bytes-used, bytes) >= 10 {
		d.Fix = ptr("Let graphs that never run at the same time share one pool: torch.cuda.graph(g, pool=first.pool()); and " +
			"capture the largest batch first")
	}
	return []draft{d}
}

// poolWords name the kinds of pools.
var poolWords = map[string]string{"cuda_graph": "a CUDA graph's own pool", "mem_pool": "a pool that graphs share or a MemPool"}

// poolHolders says of each pool what takes most of it at the end.
func (e *examination) poolHolders() map[string]string {
	type holder struct {
		stack    snapshot.StackID
		category classify.Category
	}
	at := map[uint64]timeline.AllocationID{}
	for i := range e.t.Len() {
		if e.t.FreeRequested[i] == timeline.Never {
			at[e.t.Address(timeline.AllocationID(i))] = timeline.AllocationID(i)
		}
	}
	sums := map[uint32]map[holder]*tally{}
	for _, g := range e.t.Device.Segments {
		if g.Pool == 0 {
			continue
		}
		if sums[g.Pool] == nil {
			sums[g.Pool] = map[holder]*tally{}
		}
		for _, b := range g.Blocks {
			if b.State != snapshot.ActiveAllocated {
				continue
			}
			h := holder{stack: b.Stack}
			if id, ok := at[b.Address]; ok {
				h = holder{e.t.Stack(id), e.classes.Category[id]}
			}
			if sums[g.Pool][h] == nil {
				sums[g.Pool][h] = &tally{}
			}
			sums[g.Pool][h].add(b.Size)
		}
	}
	out := map[string]string{}
	for pool, holders := range sums {
		var all []holder
		for h := range holders {
			all = append(all, h)
		}
		if len(all) == 0 {
			continue
		}
		slices.SortFunc(all, func(a, b holder) int {
			return cmp.Or(cmp.Compare(holders[b].bytes, holders[a].bytes), cmp.Compare(a.stack, b.stack), cmp.Compare(a.category,
				b.category))
		})
		top := all[0]
		text := fmt.Sprintf("; most of it %s (%s)", top.category, units.Bytes(holders[top].bytes))
		if top.stack != 0 {
			s := siteOf(siteKey{site: e.view.Site(top.stack), known: true, category: top.category})
			text += " from " + userLine(&s)
		}
		id := e.t.Snapshot.Pools[pool]
		out[fmt.Sprintf("(%d, %d)", id[0], id[1])] = text
	}
	return out
}

// pinnedHost speaks of pinned host memory, which no GPU figure shows.
func (e *examination) pinnedHost(dev *report.Device, f *facts) []draft {
	h := e.t.Snapshot.Host
	if h == nil || e.t.Device != &e.t.Snapshot.Devices[0] {
		return nil
	}
	host := hostOf(e.t.Snapshot, h)
	if host.Bytes < 1<<30 && host.PeakBytes < 1<<30 {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "pinned_host_memory", Severity: report.Info, Confidence: 1}}
	d.Title = fmt.Sprintf("%s of host memory are pinned, %s of them in use", units.Bytes(host.Bytes), units.Bytes(host.Used))
	d.Evidence = []string{fmt.Sprintf("at most %s were in use at once; PyTorch rounds each pinned block up to a power of two "+
		"and keeps it", units.Bytes(host.PeakBytes))}
	d.Fix = ptr("Pinned memory is the host's, not the GPU's, and can't be swapped out: pin only what is copied asynchronously " +
		"(batches, offloaded states), in sizes near a power of two")
	return []draft{d}
}
