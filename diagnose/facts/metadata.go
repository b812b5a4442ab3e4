package facts

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// maxMetadata bounds the texts of a program that a report repeats, maxMetadataText each
// of them, in bytes.
const (
	maxMetadata     = 50
	maxMetadataText = 300
)

// MetadataAt sums up what is allocated right after an event by what the program said of
// it when it was made.
func (p *Pass) MetadataAt(event int) []report.UserMetadata {
	t, e := p.T, &p.T.Device.Events
	list := []report.UserMetadata{}
	if e.Metadata == nil {
		return list
	}
	sums := map[snapshot.StringID]*Tally{}
	for id, born := range t.Born {
		if born == timeline.Never || int(born) > event || e.Metadata[born] == 0 || !t.AliveAt(timeline.AllocationID(id), event) {
			continue
		}
		text := e.Metadata[born]
		if sums[text] == nil {
			sums[text] = &Tally{}
		}
		sums[text].Add(t.Allocated[id])
	}
	for id, sum := range sums {
		list = append(list, report.UserMetadata{Text: cut.Bytes(t.Snapshot.String(id), maxMetadataText), Bytes: sum.Bytes,
			Blocks: sum.Blocks})
	}
	slices.SortFunc(list, func(a, b report.UserMetadata) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Blocks, b.Blocks))
	})
	return list[:min(len(list), maxMetadata)]
}
