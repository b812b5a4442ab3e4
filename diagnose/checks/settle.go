package checks

import (
	"cmp"
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// settle works out what the drafts' fixes save: by replay where it knows the
// change and the recording isn't too long, else from the lives of what would be
// gone. Both count peak allocated memory, a request that failed as met.
func settle(p *facts.Pass, drafts []Draft) []report.Finding {
	settleByReplay(p, drafts)
	settleByLives(p, drafts)
	out := make([]report.Finding, 0, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		if d.Setting != "" {
			settleSetting(p, d)
		}
		if d.SavesBytes == nil && d.Change != "" && p.T.Device.Events.Len() > facts.MaxReplayed {
			d.Evidence = append(d.Evidence, fmt.Sprintf("too long to replay here: vramscope whatif --change %s says what a "+
				"change saves", d.Change))
		}
		if d.SavesBytes != nil && facts.Share(*d.SavesBytes, p.T.Peaks.Allocated.Bytes) < d.Worth || d.SavesBytes == nil &&
			d.Worth > 1 {
			continue // what takes the room then is something else, or may be
		}
		d.weigh(p)
		out = append(out, d.Finding)
	}
	return out
}

// weigh names the change, and drops one that neither saves a hundredth of the peak nor
// stops a growth.
func (d *Draft) weigh(p *facts.Pass) {
	grows := d.Leak != nil && (d.Leak.Kind == classify.GrowingList || d.Leak.Kind == classify.RetainedGraph)
	if d.SavesBytes != nil && !grows && 100**d.SavesBytes < p.T.Peaks.Allocated.Bytes {
		d.Fix, d.Code, d.FixID = nil, "", nil
	}
	if d.Fix != nil && d.FixID == nil {
		d.FixID = new(cmp.Or(d.Change, d.Setting, d.ID))
	}
	if capacity := p.Dev.CapacityBytes; capacity != nil && d.FixID != nil && d.Fits == nil && d.PeakAfter != nil &&
		len(p.Dev.OOMs) == 0 {
		d.Fits = new(*d.PeakAfter <= *capacity)
	}
}

// falls notes what becomes of a peak.
func (d *Draft) falls(before, after int64, basis string) {
	d.PeakBefore, d.PeakAfter, d.Basis = &before, &after, &basis
}

func (d *Draft) saves(how, basis string, before, bytes int64) {
	if d.Most > 0 {
		bytes = min(bytes, d.Most)
	}
	d.SavesBytes = new(max(0, bytes))
	d.falls(before, before-*d.SavesBytes, basis)
	switch from, to := units.Bytes(before), units.Bytes(before-*d.SavesBytes); {
	case from != to:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory falls from %s to %s", how, from, to))
	case bytes > 0:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory hardly falls: nearly as much is in use at "+
			"another moment", how))
	default:
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s peak allocated memory stays as it is: as much is in use at another "+
			"moment", how))
	}
}

func settleByReplay(p *facts.Pass, drafts []Draft) {
	var names []string
	var of []int
	for i := range drafts {
		if drafts[i].Change != "" {
			names = append(names, drafts[i].Change)
			of = append(of, i)
		}
	}
	if len(names) == 0 {
		return
	}
	before := p.WholeNeed()
	for i, s := range p.Changed(names) {
		if s.Impossible == "" {
			d := &drafts[of[i]]
			d.saves("replayed with "+s.Change+",", "replay", before, s.Allocated)
			if reserved := p.Dev.Peaks.Reserved.Bytes; s.Reserved > 0 && s.Reserved < reserved {
				d.ReservedPeak = report.Fall{Before: reserved, After: reserved - s.Reserved}
			}
		}
	}
}

// settleByLives takes out of the curve what is still unsettled.
func settleByLives(p *facts.Pass, drafts []Draft) {
	before := p.WholeNeed()
	for i := range drafts {
		if d := &drafts[i]; d.SavesBytes == nil && len(d.Spells) > 0 {
			d.saves(d.Without, "lives", before, before-p.PeakWithout(d.Spells))
		}
	}
}

// settleSetting says what another setting would make of reserved memory.
func settleSetting(p *facts.Pass, d *Draft) {
	doc := facts.OtherSettings.Of(p)
	if doc == nil {
		return
	}
	for i := range doc.Scenarios[1:] {
		o := &doc.Scenarios[i+1]
		if o.Settings != d.Setting || o.OOM || len(o.Changes) > 0 {
			continue
		}
		before := o.PeakReservedBytes + o.SavesBytes
		d.falls(before, o.PeakReservedBytes, "replay")
		d.Reserved = true
		if d.SavesBytes = new(max(0, o.SavesBytes)); o.SavesBytes > 0 {
			d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with %s, peak reserved memory falls from %s to %s", d.Setting,
				units.Bytes(before), units.Bytes(o.PeakReservedBytes)))
		} else {
			d.Evidence = append(d.Evidence, fmt.Sprintf("replayed with %s, peak reserved memory doesn't fall: %s instead of %s",
				d.Setting, units.Bytes(o.PeakReservedBytes), units.Bytes(before)))
		}
		return
	}
}
