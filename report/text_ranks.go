package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vramscope/vramscope/internal/units"
)

// How much of many ranks and dumps the terminal shows.
const (
	textGroups = 12
	textDumps  = 12
	textTrends = 3
	textInputs = 24
)

// ranks is the table of a job's processes.
func (t *text) ranks(doc *Document) {
	r := doc.Ranks
	if r == nil {
		return
	}
	t.head("%s", r.title())
	width, capacity := 24, " %12s"
	if !r.Sure { // names of files need room
		width, capacity = 40, "%.0s"
	}
	format := fmt.Sprintf("  %%-%ds %%6s %%14s %%14s%s  %%s", width, capacity)
	if len(r.Rows) > 0 {
		t.line(format, r.columns(), "device", "peak allocated", "peak reserved", "capacity", "verdict")
	}
	for k := range r.Groups {
		if k == textGroups && len(r.Groups) > textGroups+1 {
			rest := 0
			for _, g := range r.Groups[k:] {
				rest += len(g.Rows)
			}
			t.line("  and %s, less full", units.Plural(rest, "more row"))
			break
		}
		g := &r.Groups[k]
		row := &r.Rows[g.Shown]
		t.line(format, fit(r.label(doc, g), width), r.deviceOf(g), units.Bytes(row.PeakAllocated), units.Bytes(row.PeakReserved),
			orUnknown(row.Capacity), row.Verdict)
	}
	for _, s := range r.sentences() {
		t.wrap("  ", Printable(s))
	}
}

// title says how many processes there are and how their ranks are known.
func (r *Ranks) title() string {
	if !r.Sure {
		for i := range r.Rows {
			if r.Rows[i].Rank != nil {
				return units.Plural(r.Count, "recording") + " that are not the ranks of one job"
			}
		}
		return units.Plural(r.Count, "recording") + ", each of a process by itself: neither names nor contents tell ranks"
	}
	s := units.Plural(r.Count, "rank") + " of one job, told " + r.Told
	if r.World != nil {
		s += fmt.Sprintf(", of %d", *r.World)
	}
	return s
}

func (r *Ranks) columns() string {
	if r.Sure {
		return "ranks"
	}
	return "recording"
}

// label names the ranks of a group.
func (r *Ranks) label(doc *Document, g *Like) string {
	var numbers []int
	for _, i := range g.Rows {
		if n := r.Rows[i].Rank; n != nil {
			numbers = append(numbers, *n)
		}
	}
	if r.Sure && len(numbers) == len(g.Rows) {
		return Spans(numbers)
	}
	return Printable(ShortFile(doc.Inputs[r.Rows[g.Shown].Input].Path))
}

// deviceOf is the device of all rows of a group, "each" when it differs.
func (r *Ranks) deviceOf(g *Like) string {
	device := r.Rows[g.Rows[0]].Device
	for _, i := range g.Rows {
		if r.Rows[i].Device != device {
			return "own"
		}
	}
	return fmt.Sprint(device)
}

// fit cuts a text in its middle.
func fit(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	tail := width / 3
	return string(runes[:width-tail-1]) + "…" + string(runes[len(runes)-tail:])
}

func orUnknown(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return units.Bytes(*n)
}

// sentences are what the table shows, in words.
func (r *Ranks) sentences() []string {
	out := slices.Clone(r.Notes)
	if len(r.Missing) > 0 {
		out = append(out, fmt.Sprintf("no recording of %s %s", noun(len(r.Missing), "rank"), fit(Spans(r.Missing), 60)))
	}
	if f := r.FirstOOM; f != nil && f.Failed > 1 {
		next := "the next one at the same microsecond"
		if f.NextUS > 0 {
			next = "the next one " + (time.Duration(f.NextUS) * time.Microsecond).String() + " later"
		}
		out = append(out, fmt.Sprintf("%s ran out of memory first of %d, %s", r.name(f.Row), f.Failed, next))
	}
	if m := r.Imbalance; m != nil && m.Bytes > 0 {
		s := fmt.Sprintf("%s holds %s more at its peak than %s, which is in the middle", r.name(m.Highest), units.Bytes(m.Bytes),
			r.name(m.Usual))
		var parts []string
		for _, c := range m.Categories {
			if 10*max(c.More, -c.More) >= m.Bytes && len(parts) < 4 {
				parts = append(parts, strings.ReplaceAll(c.Category, "_", " ")+" "+Signed(c.More))
			}
		}
		if len(parts) > 0 {
			s += ": " + strings.Join(parts, ", ")
		}
		if len(m.Sites) > 0 {
			s += fmt.Sprintf("; %s at %s", Signed(m.Sites[0].More), m.Sites[0].Site.Short())
		}
		out = append(out, s)
	}
	if m := r.Imbalance; m != nil {
		for _, x := range m.Elsewhere {
			out = append(out, fmt.Sprintf("%s %s also hold %s on device %d, which is rank %d's", noun(len(x.Ranks), "rank"),
				Spans(x.Ranks), units.Bytes(x.Bytes), x.Device, x.Owner))
		}
	}
	return out
}

func noun(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func (r *Ranks) name(row int) string {
	if n := r.Rows[row].Rank; n != nil {
		return fmt.Sprintf("rank %d", *n)
	}
	return "one process"
}

// shownTrends are the first trends, at most so many, of devices that are worth
// showing in full.
func (doc *Document) shownTrends(most int) (out []*Trend) {
	for i := range doc.Trend {
		x := &doc.Trend[i]
		if len(out) < most && (doc.Ranks == nil || slices.Contains(doc.Ranks.Shown, x.Index)) {
			out = append(out, x)
		}
	}
	return out
}

// shown are the devices that are worth showing in full, the worst first where
// there are ranks.
func (doc *Document) shown() []int {
	if doc.Ranks != nil {
		return doc.Ranks.Shown
	}
	all := make([]int, len(doc.Devices))
	for i := range all {
		all[i] = i
	}
	return all
}

// deviceTitle names a device, and in a job of several processes whose it is.
func (doc *Document) deviceTitle(index int) string {
	d := &doc.Devices[index]
	title := fmt.Sprintf("Device %d", d.Device)
	switch r := doc.Ranks; {
	case r == nil:
	case d.Rank == nil || !r.Sure:
		title += " in " + Printable(ShortFile(doc.Inputs[d.Input].Path))
	default:
		title += fmt.Sprintf(" of rank %d", *d.Rank)
		for k := range r.Groups {
			if g := &r.Groups[k]; r.Rows[g.Shown].Index == index && len(g.Rows) > 1 {
				title += fmt.Sprintf(", standing for %s %s", "ranks", fit(r.label(doc, g), 40))
			}
		}
	}
	return title
}

// trends are what several dumps of one process show.
func (t *text) trends(doc *Document) {
	shown := doc.shownTrends(textTrends)
	for _, x := range shown {
		t.head("%s", x.title())
		t.line("  %-36s %9s %14s %14s %14s", "dump", "events", "peak allocated", "at the end", "reserved")
		from := max(0, len(x.Dumps)-textDumps)
		if from > 0 {
			t.line("  %s before these", units.Plural(from, "dump"))
		}
		for k := from; k < len(x.Dumps); k++ {
			d := &x.Dumps[k]
			t.line("  %-36s %9s %14s %14s %14s  %s", fit(Printable(ShortFile(doc.Inputs[d.Input].Path)), 36),
				units.Count(d.Events), units.Bytes(d.PeakAllocated), units.Bytes(d.AtEnd), units.Bytes(d.Reserved), d.words())
		}
		t.wrap("  ", Printable(x.Text))
	}
	if rest := len(doc.Trend) - len(shown); rest > 0 && len(shown) > 0 {
		t.line("  and %s of other processes, alike or less full", units.Plural(rest, "trend"))
	}
}

func (x *Trend) title() string {
	whose := fmt.Sprintf("device %d", x.Device)
	if x.Rank != nil {
		whose = fmt.Sprintf("rank %d, device %d", *x.Rank, x.Device)
	}
	return fmt.Sprintf("%s of %s: %s", units.Plural(len(x.Dumps), "dump"), whose, x.Told)
}

// words are what is worth saying of a dump besides its figures.
func (d *Dump) words() string {
	var out []string
	if d.OOMs > 0 {
		out = append(out, "out of memory")
	}
	if d.NewProcess {
		out = append(out, "a new process")
	}
	if d.Shared != nil && *d.Shared > 0 {
		out = append(out, units.Plural(*d.Shared, "event")+" seen before")
	}
	return strings.Join(out, ", ")
}
