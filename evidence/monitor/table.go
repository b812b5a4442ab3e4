package monitor

import (
	"slices"

	"github.com/vramscope/vramscope/evidence"
)

// tableReading is what one table shows of a GPU.
type tableReading struct {
	unit *unit
	used int64
}

// table follows nvidia-smi's table from row to row; false where a row says nothing at its place.
func (c *carried) table(all *gathered, f *found) bool {
	has := func(group string) bool { return f.text(group) != nil }
	switch {
	case has("tool"):
		c.begin(all, f)
	case has("list"):
		if c.listing, c.processes = true, 0; all.clock.Known() { // of lists that follow one another without the GPUs' rows
			c.clock, all.clock = all.clock, evidence.Stamp{}
		}
	case has("none"):
		c.processes++
		c.unlisted()
	case has("rule"):
		if c.listing && c.processes == 0 { // old drivers print an empty list where newer ones say that they found no process
			c.unlisted()
		}
		if c.listing {
			c.listing, c.listed = false, c.listed[:0]
		}
	case has("pid"):
		c.processes++
		return c.listing || has("head")
	case has("bus"):
		c.pending = true
	case has("gi"):
		c.instance(all, f)
	default:
		return c.pending
	}
	return true
}

// begin takes the head of a table.
func (c *carried) begin(all *gathered, f *found) {
	if c.tool = Table; string(f.text("tool")) == "HL" {
		c.tool = HLSMI
	}
	all.driver, all.cuda = string(f.text("driver")), string(f.text("cuda"))
	c.pending, c.listing, c.listed, c.clock, all.clock = false, false, c.listed[:0], all.clock, evidence.Stamp{}
}

// instance takes one of MIG; a further compute instance of the same memory shows none.
func (c *carried) instance(all *gathered, f *found) {
	gpu, ok := f.number("gpu")
	gi, isInstance := atoi(string(f.text("gi")))
	if used, total := f.bytes("used"), f.bytes("total"); ok && isInstance && used != Unknown && total > 0 {
		all.byIndex(c.form(f), gpu).instance(gi, used, total)
		c.alone(all, f)
	}
}

// alone counts a row of a table whose rows of GPUs were left out.
func (c *carried) alone(all *gathered, f *found) {
	if len(c.listed) == 0 {
		all.rows[c.form(f)]++
	}
}

// unlisted counts readings beside which no process was listed.
func (c *carried) unlisted() {
	for _, r := range c.listed {
		r.unit.gpu.UnlistedBytes = max(r.unit.gpu.UnlistedBytes, r.used)
		r.unit.unlisted++
		r.unit.mostUnlisted = max(r.unit.mostUnlisted, r.unit.unlisted)
	}
	c.listed = c.listed[:0]
}

// maxInstances is more than any GPU can be divided into.
const maxInstances = 64

func (u *unit) instance(gi int, used, total int64) {
	list := u.gpu.Instances
	i, found := slices.BinarySearchFunc(list, gi, func(a evidence.Instance, gi int) int { return a.GI - gi })
	if !found {
		if len(list) >= maxInstances {
			return
		}
		list = slices.Insert(list, i, evidence.Instance{GI: gi, TotalBytes: Unknown, PeakUsedBytes: Unknown})
	}
	list[i].TotalBytes, list[i].PeakUsedBytes = max(list[i].TotalBytes, total), max(list[i].PeakUsedBytes, used)
	u.gpu.Instances = list
}
