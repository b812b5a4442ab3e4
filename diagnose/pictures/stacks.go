package pictures

import (
	"strings"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// Bounds of what a page holds of stacks.
const (
	maxNodes     = 150_000
	maxFrameText = 300 // bytes of a function's or a file's name
)

// stackTable numbers the stacks that pictures show, in the order of their
// first use, and keeps their frames as one tree: stacks share their outer parts.
type stackTable struct {
	look  *facts.Pass
	out   *report.Pictures
	place []uint32            // by snapshot.StackID, plus one
	used  []snapshot.StackID  // by index
	sites map[frames.Site]int // index into out.Sites
}

func newStackTable(look *facts.Pass, out *report.Pictures) stackTable {
	s := stackTable{look: look, out: out, place: make([]uint32, look.T.Snapshot.NumStacks()), sites: map[frames.Site]int{}}
	s.index(0)
	return s
}

// index is the number of a stack.
func (s *stackTable) index(id snapshot.StackID) uint32 {
	if s.place[id] == 0 {
		s.used = append(s.used, id)
		s.place[id] = uint32(len(s.used))
		s.out.Stacks = append(s.out.Stacks, report.Stack{Site: s.site(id)})
	}
	return s.place[id] - 1
}

// bare is the number of a stack that need not have a call site: of a free.
func (s *stackTable) bare(id snapshot.StackID) uint32 {
	if s.place[id] == 0 {
		s.used = append(s.used, id)
		s.place[id] = uint32(len(s.used))
		s.out.Stacks = append(s.out.Stacks, report.Stack{Site: -1})
	}
	return s.place[id] - 1
}

// site is the number of a stack's call site, -1 when nothing was recorded.
func (s *stackTable) site(id snapshot.StackID) int {
	if id == 0 {
		return -1
	}
	site := s.look.View.Site(id)
	n, ok := s.sites[site]
	if !ok && len(s.sites) >= facts.MaxSites {
		site = frames.Site{Line: frames.Line{Function: facts.OtherSites}}
		n, ok = s.sites[site]
	}
	if !ok {
		n = len(s.out.Sites)
		s.sites[site] = n
		place := facts.SiteOf(facts.SiteKey{Site: site, Known: true})
		place.Category = nil // a line may make things of several categories
		s.out.Sites = append(s.out.Sites, place)
	}
	return n
}

// finish adds the frames of all stacks.
func (s *stackTable) finish() {
	type edge struct {
		parent int
		frame  snapshot.FrameID
	}
	nodes := map[edge]int{}
	frames := map[snapshot.FrameID]int{}
	s.out.Nodes = []report.StackNode{{Frame: -1, Parent: -1}}
	for i, id := range s.used {
		list := s.look.T.Snapshot.Stack(id)
		node := 0
		for k := len(list) - 1; k >= 0; k-- {
			next, ok := nodes[edge{node, list[k]}]
			if !ok {
				if len(s.out.Nodes) == maxNodes {
					node = -1 // no room
					break
				}
				next = len(s.out.Nodes)
				nodes[edge{node, list[k]}] = next
				s.out.Nodes = append(s.out.Nodes, report.StackNode{Frame: s.frame(frames, list[k]), Parent: node})
			}
			node = next
		}
		s.out.Stacks[i].Node = node
	}
}

func (s *stackTable) frame(known map[snapshot.FrameID]int, id snapshot.FrameID) int {
	n, ok := known[id]
	if !ok {
		n = len(s.out.Frames)
		known[id] = n
		line, owner := s.look.View.Line(id), s.look.View.Owner(id)
		fx := s.look.View.FX(id)
		s.out.Frames = append(s.out.Frames, report.Frame{Function: shorten(line.Function), File: shorten(line.File),
			Line: line.Line, Fold: owner >= frames.Compiled,
			Silent: owner == frames.Internal && frames.Silent(line.Function), Code: shorten(strings.TrimSpace(fx.Trace)),
			FX: shorten(strings.TrimSpace(fx.Op + " " + fx.Name))})
	}
	return n
}

// shorten cuts names that C++ templates have made longer than anyone reads.
func shorten(name string) string { return cut.Bytes(name, maxFrameText) }
