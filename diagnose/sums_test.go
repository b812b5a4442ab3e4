package diagnose_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
)

// TestNumbersAddUp: in every answer about a recording that ships, parts come to their whole, and no two figures of one thing
// differ.
func TestNumbersAddUp(t *testing.T) {
	told, grow := 0, 0
	for file, doc := range answers(t, "recordings/*/snapshot_*.gz", "unseen/*/snapshot_*.gz", "scenarios/*.gz", "runs/oom/*") {
		told++
		say := func(what string, got ...any) { t.Errorf("%s: %s: %v", file, what, got) }
		for i := range doc.Devices {
			momentsAddUp(&doc.Devices[i], say)
			changesAddUp(&doc.Devices[i], say)
		}
		if n, each, all := growthTold(doc.Verdict.Text); n > 0 {
			grow++
			if off := float64(n)*each/all - 1; off < -0.15 || off > 0.15 {
				say("what steps leave isn't what they left", doc.Verdict.Text)
			}
		}
	}
	if told < 100 || grow < 4 {
		t.Errorf("only %d recordings, %d of them with growth", told, grow)
	}
}

// momentsAddUp: categories come to what was allocated, call sites to no more than their category, leaks to no more than all.
func momentsAddUp(d *report.Device, say func(string, ...any)) {
	moments := []report.Moment{d.AtPeak, d.AtEnd}
	if d.AtFailure != nil {
		moments = append(moments, *d.AtFailure)
	}
	var most int64
	for _, m := range moments {
		var sum int64
		for _, bytes := range m.Categories {
			sum += bytes
		}
		if most = max(most, m.AllocatedBytes); sum != m.AllocatedBytes {
			say("categories against allocated", sum, m.AllocatedBytes)
		}
	}
	of := map[string]int64{}
	for _, s := range d.Sites {
		c := *s.Category
		if of[c] += s.Bytes; s.Leaked > s.Bytes || of[c] > d.AtPeak.Categories[c] {
			say("call sites against category", c, of[c], d.AtPeak.Categories[c])
		}
	}
	for _, l := range d.Leaks {
		if (l.Kind == "growing_list" || l.Kind == "retained_graph") && l.TotalBytes > most {
			say("a leak against all", l.TotalBytes, most)
		}
	}
	more := 0 // leaks that speak for others of their container
	for _, f := range d.Findings {
		if f.Leak != nil && f.ID == "growing_list" && f.SavesBytes != nil && *f.SavesBytes*10 > f.Leak.TotalBytes*11 {
			more++
		}
	}
	if more > 1 {
		say("leaks that claim the same bytes", more)
	}
	for _, o := range d.OOMs {
		var sum int64
		for _, bytes := range o.InUse {
			sum += bytes
		}
		if o.InUse != nil && sum != o.AllocatedBytes {
			say("in use against allocated", sum, o.AllocatedBytes)
		}
	}
}

// changesAddUp: changes start from one peak, leave no more than it, and what fits is no more than there is.
func changesAddUp(d *report.Device, say func(string, ...any)) {
	var before *int64
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.PeakBefore == nil || c.PeakAfter == nil || c.Reserved {
			continue
		}
		if *c.PeakAfter < 0 || *c.PeakAfter > *c.PeakBefore {
			say("after against before", *c.FixID, *c.PeakAfter, *c.PeakBefore)
		}
		if c.Fits != nil && *c.Fits && d.CapacityBytes != nil && *c.PeakAfter > *d.CapacityBytes {
			say("fits, though larger than the GPU", *c.FixID, *c.PeakAfter, *d.CapacityBytes)
		}
		if o := d.OOMs; len(o) > 0 && c.Answer == words.Meets && o[0].DeviceFreeBytes != nil &&
			*c.PeakAfter > o[len(o)-1].ReservedBytes+*o[len(o)-1].DeviceFreeBytes {
			say("meets the request, though larger than there is", *c.FixID, *c.PeakAfter)
		}
		if *c.FixID == report.KeptException { // it is of the second attempt
			continue
		}
		if before == nil {
			before = c.PeakBefore
		}
		if *c.PeakBefore != *before {
			say("two peaks to start from", *c.FixID, *c.PeakBefore, *before)
		}
	}
}

var growth = regexp.MustCompile(`(?:leaves|keeps|kept,) (?:about )?(\S+ \S+) (?:behind|of every step|each).*?: ` +
	`(\S+ \S+) of \S+ \S+ in use(?: after (\d+) step|, (\S+ \S+) of it from the (\d+) step)`)

// growthTold is what a verdict says of growth: in so many steps, by each of them, and by all.
func growthTold(text string) (steps int, each, all float64) {
	m := growth.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, 0
	}
	count, sum := m[3], m[2]
	if m[5] != "" {
		count, sum = m[5], m[4]
	}
	steps, _ = strconv.Atoi(count)
	one, _ := units.Parse(m[1])
	total, _ := units.Parse(sum)
	return steps, float64(one), float64(total)
}
