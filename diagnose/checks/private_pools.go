package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var privatePools = Check{
	ID: "private_pools", Group: allocator, Severity: "info",
	Doc: "CUDA graphs or MemPools hold memory at the end. The evidence says for each pool what takes most of it, and who made " +
		"it.",
	Saves: "peak reserved memory, by replay with one pool for all graphs.",
	Needs: []facts.Need{facts.Replay}, Run: findPrivatePools,
}

func findPrivatePools(p *facts.Pass) []Draft {
	if len(p.Dev.Pools) == 0 {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 1}}
	var bytes, used int64
	graphs := false
	for _, p := range p.Dev.Pools {
		bytes, used = bytes+p.Bytes, used+p.Used
		graphs = graphs || p.Kind == "cuda_graph"
	}
	d.Title = fmt.Sprintf("%s lie in private pools (CUDA graphs, MemPools), %s of it free for nobody else", units.Bytes(bytes),
		units.Bytes(bytes-used))
	holders := poolHolders(p)
	for _, p := range report.LargestPools(p.Dev.Pools) {
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s: %s in %s, %s in use%s", strings.TrimSpace(poolWords[p.Kind]+" "+p.Pool),
			units.Bytes(p.Bytes), units.Plural(p.Segments, "segment"), units.Bytes(p.Used), holders[p.Pool]))
	}
	if graphs && bytes-used >= 64<<20 && facts.Share(bytes-used, bytes) >= 10 {
		if program := facts.Replay.Of(p); program != nil {
			if saves, peak := program.OnePoolSaves(), p.Dev.Peaks.Reserved.Bytes; saves > 0 && saves < peak {
				d.SavesBytes, d.Reserved = &saves, true
				d.falls(peak, peak-saves, "replay")
				d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with one pool for all graphs, peak reserved "+
					"memory falls from "+
					"%s to %s", units.Bytes(peak), units.Bytes(peak-saves)))
			}
		}
		d.advise("private_pools")
	}
	return []Draft{d}
}

// poolWords name the kinds of pools.
var poolWords = map[string]string{"cuda_graph": "a CUDA graph's own pool", "mem_pool": "a pool that graphs share or a MemPool"}

// poolHolders says of each pool what takes most of it at the end.
func poolHolders(p *facts.Pass) map[string]string {
	type holder struct {
		stack    snapshot.StackID
		category classify.Category
	}
	at := map[uint64]timeline.AllocationID{}
	for i := range p.T.Len() {
		if p.T.FreeRequested[i] == timeline.Never {
			at[p.T.Address(timeline.AllocationID(i))] = timeline.AllocationID(i)
		}
	}
	sums := map[uint32]map[holder]*facts.Tally{}
	for _, g := range p.T.Device.Segments {
		if g.Pool == 0 {
			continue
		}
		if sums[g.Pool] == nil {
			sums[g.Pool] = map[holder]*facts.Tally{}
		}
		for _, b := range g.Blocks {
			if b.State != snapshot.ActiveAllocated {
				continue
			}
			h := holder{stack: b.Stack}
			if id, ok := at[b.Address]; ok {
				h = holder{p.T.Stack(id), p.Classes.Category[id]}
			}
			if sums[g.Pool][h] == nil {
				sums[g.Pool][h] = &facts.Tally{}
			}
			sums[g.Pool][h].Add(b.Size)
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
			return cmp.Or(cmp.Compare(holders[b].Bytes, holders[a].Bytes), cmp.Compare(a.stack, b.stack), cmp.Compare(a.category,
				b.category))
		})
		top := all[0]
		text := fmt.Sprintf("; most of it %s (%s)", top.category, units.Bytes(holders[top].Bytes))
		if top.stack != 0 {
			s := facts.SiteOf(facts.SiteKey{Site: p.View.Site(top.stack), Known: true, Category: top.category})
			text += " from " + facts.UserLine(&s)
		}
		id := p.T.Snapshot.Pools[pool]
		out[fmt.Sprintf("(%d, %d)", id[0], id[1])] = text
	}
	return out
}
