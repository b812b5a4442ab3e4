package snapshot_test

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/snapshot"
)

// dump is all that a snapshot says, as text: ids are spelled out, so that two
// readers that number strings and stacks differently can be compared.
func dump(s *snapshot.Snapshot) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("era %s, traces %v, bare %v, categories %q", s.Era, s.HasTraces, s.BareSegments, s.CategoryNames)
	for _, x := range s.Settings {
		p("setting %q = %q", x.Key, x.Value)
	}
	for _, a := range s.Annotations {
		p("annotation %v %q device %d at %d", a.Start, s.String(a.Name), a.Device, a.TimeUS)
	}
	for _, u := range s.Unknown {
		p("unknown %+v", u)
	}
	for i := range s.Devices {
		dumpDevice(p, s, &s.Devices[i])
	}
	if s.Host != nil {
		dumpDevice(p, s, s.Host)
	}
	return b.String()
}

func dumpDevice(p func(string, ...any), s *snapshot.Snapshot, d *snapshot.Device) {
	p("device %d, max %d, overflowed %d, out of memory %v", d.Ordinal, d.TraceMax, d.Overflowed, d.OOMs)
	stacks := map[snapshot.StackID]string{}
	stack := func(id snapshot.StackID) string { // spelled out where it comes first
		name, ok := stacks[id]
		if !ok {
			name = fmt.Sprintf("stack %d", len(stacks))
			stacks[id] = name
			p("%s is", name)
			for _, f := range s.Stack(id) {
				x := s.Frames[f]
				p("  %q %q:%d %q", s.String(x.Function), s.String(x.File), x.Line, fxText(s, x.FX))
			}
		}
		return name
	}
	for i := range d.Segments {
		g := &d.Segments[i]
		p("segment %#x %d (%d %d %d) stream %#x pool %v small %v expandable %v %s | %s", g.Address, g.TotalSize, g.Allocated, g.Active, g.Requested,
			s.Streams[g.Stream], s.Pools[g.Pool], g.Small, g.Expandable, stack(g.Stack), stack(g.ForwardStack))
		for _, x := range g.Blocks {
			p("  block %#x %d %d %s %s | %s", x.Address, x.Size, x.Requested, x.State, stack(x.Stack), stack(x.ForwardStack))
			for _, h := range s.Histories[x.FirstHistory : x.FirstHistory+x.History] {
				p("    use %#x %d %s", h.Address, h.RealSize, stack(h.Stack))
			}
		}
	}
	e := &d.Events
	for i := range e.Len() {
		p("%d %s %#x %d at %d stream %#x pool %v compile %q metadata %q %q category %d %s | %s", i, s.ActionName(e.Action[i]), e.Address[i], e.Size[i], e.TimeOf(i),
			s.Streams[e.StreamOf(i)], s.Pools[e.PoolOf(i)], s.String(e.CompileContextOf(i)), s.String(e.MetadataOf(i)),
			s.String(optional(e.Internal, i)), optional(e.Category, i), stack(e.StackOf(i)), stack(optional(e.ForwardStack, i)))
	}
}

func optional[T any](column []T, i int) (zero T) {
	if column == nil {
		return zero
	}
	return column[i]
}

// firstDifference is the first line in which two texts differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d:\n%.600s\n%.600s", i+1, x[i], y[i])
		}
	}
	if len(x) == len(y) {
		return ""
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// fxText is what torch.fx says of a frame.
func fxText(s *snapshot.Snapshot, id snapshot.FXID) string {
	f := s.FX[id]
	return strings.Join([]string{s.String(f.Op), s.String(f.Name), s.String(f.Target), s.String(f.Info), s.String(f.Trace)}, "|")
}
