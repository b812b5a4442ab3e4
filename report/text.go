package report

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/internal/units"
)

// Style is how the terminal wants its text.
type Style struct {
	Width int  // columns; 0: 100
	Color bool // ANSI colours
	Quiet bool // the verdict alone
}

// textSites is how many call sites the terminal shows.
const textSites = 12

// text writes lines and remembers the first error.
type text struct {
	w     io.Writer
	style Style
	err   error
}

// Text writes a document for a terminal.
func Text(w io.Writer, doc *Document, style Style) error {
	if style.Width <= 0 {
		style.Width = 100
	}
	style.Width = max(style.Width, 40)
	t := &text{w: w, style: style}
	t.verdict(doc)
	if style.Quiet {
		return t.err
	}
	t.ranks(doc)
	t.trends(doc)
	for _, i := range doc.shown() {
		t.device(doc, i)
	}
	t.findings("Findings in logs, nvidia-smi and traces", doc.Findings)
	t.evidence(doc)
	t.trials(doc.Trials)
	t.comparison(doc.Comparison)
	if doc.Host != nil {
		t.head("Pinned host memory")
		t.line("  %s reserved, %s in use, %s at its peak; %s", units.Bytes(doc.Host.Bytes), units.Bytes(doc.Host.Used),
			units.Bytes(doc.Host.PeakBytes), units.Plural(doc.Host.Events, "event"))
	}
	t.inputs(doc)
	return t.err
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

// wrap writes text broken at spaces, later lines indented like the first's text.
func (t *text) wrap(prefix, s string) { t.wrapPainted("", prefix, s) }

// wrapPainted does so with each line in a severity's colour.
func (t *text) wrapPainted(severity Severity, prefix, s string) {
	indent := strings.Repeat(" ", columns(prefix))
	room := max(t.style.Width-len(indent), 20)
	runes := []rune(s)
	for len(runes) > room {
		cut := room
		for cut > 0 && runes[cut] != ' ' {
			cut--
		}
		if cut == 0 {
			cut = room
		}
		t.line("%s%s", prefix, t.paint(severity, string(runes[:cut])))
		for runes = runes[cut:]; len(runes) > 0 && runes[0] == ' '; runes = runes[1:] {
		}
		prefix = indent
	}
	t.line("%s%s", prefix, t.paint(severity, string(runes)))
}

var ansi = map[Severity]string{Critical: "\x1b[1;31m", Warning: "\x1b[1;33m", Info: "\x1b[1m"}

func (t *text) paint(s Severity, text string) string {
	if !t.style.Color || s == "" {
		return text
	}
	return ansi[s] + text + "\x1b[0m"
}

// columns is the room that text takes on a terminal, where colours take none.
func columns(s string) int {
	n := utf8.RuneCountInString(s)
	for {
		_, after, ok := strings.Cut(s, "\x1b[")
		if !ok {
			return n
		}
		code, rest, _ := strings.Cut(after, "m")
		n -= len("\x1b[m") + len(code)
		s = rest
	}
}

func (t *text) head(format string, args ...any) {
	t.line("")
	t.line("%s", t.paint(Info, fmt.Sprintf(format, args...)))
}

func (t *text) verdict(doc *Document) {
	if doc.Title != "" {
		t.line("%s", t.paint(Info, Printable(doc.Title)))
	}
	for _, n := range doc.Notes {
		t.line("%s: %s", Printable(n.Key), Printable(n.Value))
	}
	t.wrapPainted(doc.Verdict.Severity, "", Printable(doc.Verdict.Text))
	if doc.Verdict.Fix != nil {
		t.wrap("  First change   ", Printable(*doc.Verdict.Fix)+saves(doc.Verdict.SavesBytes))
	}
}

func (t *text) device(doc *Document, index int) {
	d := &doc.Devices[index]
	t.head("%s", doc.deviceTitle(index))
	t.wrap("  recorded         ", t.recorded(doc, d))
	if d.History != "none" {
		reports := "what torch.cuda.max_memory_allocated() reports"
		if d.Before() {
			reports = "in what was recorded; max_memory_allocated() may be more"
		}
		t.peak("peak allocated", d.Peaks.Allocated, reports, d)
		t.peak("peak requested", d.Peaks.Requested, "what the program asked for; pytorch.org/memory_viz draws it", d)
		t.peak("peak active", d.Peaks.Active, "with blocks whose free is pending", d)
		t.peak("peak reserved", d.Peaks.Reserved, "held from the driver", d)
	}
	if d.CapacityBytes != nil || d.CapacityDisproved != nil {
		t.line("  %-16s %12s   %s", "capacity", bytesOr(d.CapacityBytes), d.capacityNote(map[string]string{"flag": "as given",
			"oom_entry": "reserved + left on the device when the request failed", "message": "from the error message",
			"nvidia_smi": "from nvidia-smi"}))
	}
	t.plot(d)
	for i := range d.OOMs {
		if i == 3 {
			t.line("  and %s", units.Plural(len(d.OOMs)-3, "more failed request"))
			break
		}
		t.oom(&d.OOMs[i])
	}
	t.held(d)
	t.segments(d)
	t.findings("Findings", d.Findings)
}

func (t *text) recorded(doc *Document, d *Device) string {
	in := doc.Inputs[d.Input]
	parts := []string{}
	if in.Era != nil {
		parts = append(parts, "PyTorch "+*in.Era+" style")
	}
	parts = append(parts, units.Plural(d.Events, "event"), units.Plural(d.Allocations, "allocation"),
		map[string]string{"all": "C++ and Python stacks", "python": "Python stacks only", "none": "no stacks"}[d.Stacks])
	history := map[string]string{"complete": "history complete", "late": "recording began late",
		"overflowed": "oldest events lost", "none": "no history"}[d.History]
	return strings.Join(append(parts, history), ", ") + ": " + d.HistoryReason
}

func (t *text) peak(name string, p Peak, what string, d *Device) {
	at := "before the first event"
	if p.Event != nil {
		at = "event " + units.Count(*p.Event)
	}
	if t.style.Width < 80 {
		what = ""
	}
	t.line("  %-16s %12s   %-14s  %s", name, units.Bytes(p.Bytes), at, what)
}

func (t *text) oom(o *OOM) {
	t.head("Request failed at event %s (%s)", units.Count(o.Event), strings.ReplaceAll(o.Verdict, "_", " "))
	t.line("  %-16s %12s", "asked for", units.Bytes(o.RequestedBytes))
	t.line("  %-16s %12s", "allocated", units.Bytes(o.AllocatedBytes))
	t.line("  %-16s %12s", "reserved", units.Bytes(o.ReservedBytes))
	free := units.Bytes(o.ReservedBytes - o.AllocatedBytes)
	if o.LargestFreeBlock != nil {
		t.line("  %-16s %12s   largest free block %s", "free in cache", free, units.Bytes(*o.LargestFreeBlock))
	} else {
		t.line("  %-16s %12s", "free in cache", free)
	}
	if o.DeviceFreeBytes != nil {
		t.line("  %-16s %12s", "left on device", units.Bytes(*o.DeviceFreeBytes))
	}
	if o.Phase != nil {
		t.line("  %-16s %s", "during", *o.Phase)
	}
	if o.Site != nil {
		t.wrap("  asked by         ", siteText(o.Site))
	}
	for i, p := range o.PinnedBy {
		if i == 5 {
			break
		}
		where := "no stack"
		if p.Function != nil {
			where = Printable(*p.Function)
			if p.File != nil {
				where = place(Place{*p.Function, *p.File, p.Line})
			}
		}
		t.wrap(fmt.Sprintf("  pinned by        %12s   ", units.Bytes(p.Bytes)), where)
	}
}

// held is the table of what was alive at the peak, by call site.
func (t *text) held(d *Device) {
	sites, m, when := d.Sites, d.AtPeak, "At the peak of allocated memory"
	if d.History == "none" {
		sites, m, when = d.SitesAtEnd, d.AtEnd, "At the dump"
	}
	if len(sites) == 0 {
		return
	}
	at := ""
	if m.Event != nil {
		at = " (event " + units.Count(*m.Event) + ")"
	}
	t.head("%s%s: %s in %s; %s reserved, %s", when, at, units.Bytes(m.AllocatedBytes), units.Plural(m.Blocks, "block"),
		units.Bytes(m.ReservedBytes), m.free())
	t.categories(m)
	t.beside(&m)
	t.line("  held by")
	var rest int64
	blocks := 0
	for i := range sites {
		s := &sites[i]
		if i >= textSites {
			rest += s.Bytes
			blocks += s.Blocks
			continue
		}
		category := ""
		if s.Category != nil {
			category = fmt.Sprintf("%-15s ", strings.ReplaceAll(*s.Category, "_", " "))
		}
		t.wrap(fmt.Sprintf("  %12s %7s %7s   %s", units.Bytes(s.Bytes), units.Percent(s.Bytes, m.AllocatedBytes),
			units.Count(s.Blocks)+"x", category), siteText(s))
	}
	if blocks > 0 {
		t.line("  %12s %7s %7s   %s", units.Bytes(rest), units.Percent(rest, m.AllocatedBytes), units.Count(blocks)+"x", "in "+
			units.Plural(len(sites)-textSites, "other call site"))
	}
}

// categories lists what the memory was for.
func (t *text) categories(m Moment) {
	names := slices.Clone(Categories)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(m.Categories[b], m.Categories[a]) })
	for _, name := range names {
		if bytes := m.Categories[name]; bytes > 0 {
			t.line("  %12s %7s %s  %s", units.Bytes(bytes), units.Percent(bytes, m.AllocatedBytes), bar(bytes, m.AllocatedBytes,
				20), strings.ReplaceAll(name, "_", " "))
		}
	}
}

// bar is a share as a row of block characters.
func bar(part, whole int64, width int) string {
	n := 0
	if whole > 0 && part > 0 {
		n = int(min(part, whole) * int64(8*width) / whole)
	}
	s := strings.Repeat("█", n/8)
	if n%8 > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[n%8-1])
	}
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

// siteText is a call site on one line: what allocated, and the user's line.
func siteText(s *Site) string {
	if s.Function == "" && s.Op == "" {
		switch {
		case s.Older:
			return "(older than the recording)"
		case !s.Known:
			return "(no stack)"
		}
		return "(a stack without names)"
	}
	out := ""
	if s.Function != "" {
		out = place(Place{s.Function, s.File, s.Line})
		if s.CalledFrom != nil {
			out += ", from " + place(*s.CalledFrom)
		}
	}
	if s.Op != "" {
		if out != "" {
			return out + "  [" + Printable(s.Op) + "]"
		}
		return Printable(s.Op)
	}
	return out
}

// place is a line of code with its file's last two folders.
func place(p Place) string {
	out := Printable(p.Function)
	if where := shortPlace(p.File, p.Line); where != "" {
		out += "  " + Printable(where)
	}
	return out
}

// ShortFile is a path's last two elements, which tell files of one name apart.
func ShortFile(file string) string {
	file = strings.ReplaceAll(file, `\`, "/")
	dir, base := path.Split(file)
	if parent := path.Base(dir); parent != "." && parent != "/" {
		return parent + "/" + base
	}
	return base
}

func (t *text) segments(d *Device) {
	s := d.Segments
	if s.Count == 0 {
		return
	}
	t.head("Segments at the end")
	kind := ""
	if s.Expandable > 0 {
		kind = fmt.Sprintf(", %d of them expandable", s.Expandable)
	}
	t.line("  %s%s: %s reserved, %s in use, %s free (largest block %s)", units.Plural(s.Count, "segment"), kind,
		units.Bytes(s.Bytes), units.Bytes(s.Bytes-s.FreeBytes), units.Bytes(s.FreeBytes), units.Bytes(s.LargestFree))
	if s.Empty > 0 {
		t.line("  %12s in %s that nothing uses: torch.cuda.empty_cache() would return it", units.Bytes(s.EmptyBytes),
			units.Plural(s.Empty, "segment"))
	}
	if s.PinnedSegments > 0 {
		t.line("  %12s free in %s that a smaller part in use keeps", units.Bytes(s.PinnedFreeBytes),
			units.Plural(s.PinnedSegments, "segment"))
	}
	pools, rest := LargestPools(d.Pools)
	for _, p := range pools {
		t.line("  %12s in private pool %s (%s), %s in use", units.Bytes(p.Bytes), p.Pool, poolKinds[p.Kind], units.Bytes(p.Used))
	}
	if rest != "" {
		t.line("  %s", rest)
	}
}

func (t *text) findings(head string, list []Finding) {
	if len(list) == 0 {
		return
	}
	t.head("%s", head)
	code := map[string]bool{}
	for _, f := range list {
		mark := map[Severity]string{Critical: "!!", Warning: "! ", Info: "- "}[f.Severity]
		t.wrap("  "+t.paint(f.Severity, mark)+" ", Printable(f.Title))
		for _, e := range f.Evidence {
			t.wrap("       ", Printable(e))
		}
		if f.Fix != nil {
			t.wrap("     > ", Printable(*f.Fix)+saves(f.SavesBytes))
		}
		if f.Code != "" && !code[f.Code] {
			code[f.Code] = true
			for _, l := range strings.Split(strings.TrimRight(f.Code, "\n"), "\n") {
				t.line("       | %s", l)
			}
		}
	}
}

func (t *text) inputs(doc *Document) {
	t.head("Read")
	rest := 0
	for i, in := range doc.Inputs {
		if i >= textInputs && len(in.Damage) == 0 && len(in.Notes) == 0 || i >= 4*textInputs {
			rest++
			continue
		}
		t.line("  %s  (%s, %s)", Printable(in.Path), in.Kind, units.Bytes(in.Bytes))
		for _, u := range in.Unknown {
			t.wrap("    ", Printable(fmt.Sprintf("unknown key %q in %s, %s, e.g. %.60s", u.Key, where(u.Where),
				units.Plural(u.Count, "time"), u.Example)))
		}
		for _, x := range in.Damage {
			t.wrap("    damage: ", Printable(x))
		}
		for _, x := range in.Notes {
			t.wrap("    ", Printable(x))
		}
	}
	if rest > 0 {
		t.line("  and %s", units.Plural(rest, "more file"))
	}
}

func where(s string) string {
	if s == "" {
		return "the top level"
	}
	return s
}

// Categories in the order of every table and chart.
var Categories = []string{"weights", "gradients", "optimizer_state", "activations", "logits", "kv_cache", "inputs",
	"autocast_copies", "communication", "workspace", "temporary", "unknown"}
