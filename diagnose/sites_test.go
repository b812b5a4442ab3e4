package diagnose

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// TestManySites gives every allocation a line of its own: a report lists the
// largest and sums up the rest, and still holds every byte.
func TestManySites(t *testing.T) {
	const n = facts.MaxSites + 5000
	trace := []recorder.Event{{Action: "segment_alloc", Address: 1 << 30, Size: n << 20, Stream: 0, TimeUS: 1}}
	var sum int64
	for i := range n {
		frame := &recorder.Frame{File: "/w/train.py", Name: "f", Line: i + 1}
		size := 512 * (1 + i%100)
		sum += int64(size)
		trace = append(trace, recorder.Event{Action: "alloc", Address: 1<<30 + i<<20, Size: size, Stream: 0, TimeUS: i + 2,
			Stack: &recorder.Stack{Frames: []*recorder.Frame{frame}}})
	}
	recording := recorder.Recording{Traces: [][]recorder.Event{trace}}
	s, err := snapshot.Decode(bytes.NewReader(recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})),
		snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run([]Source{{Path: "many.pickle", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{Pictures: true})
	if err != nil {
		t.Fatal(err)
	}
	d := &doc.Devices[0]
	for name, sites := range map[string][]report.Site{"peak": d.Sites, "end": d.SitesAtEnd} {
		var bytes int64
		var blocks, others int
		smallest := int64(100 * 512)
		for i := range sites {
			x := &sites[i]
			bytes, blocks = bytes+x.Bytes, blocks+x.Blocks
			if x.Function == facts.OtherSites {
				others += x.Blocks
			} else {
				smallest = min(smallest, x.Bytes)
			}
		}
		if bytes != sum || blocks != n || others != n-facts.MaxSites {
			t.Errorf("%s: %d bytes in %d blocks, %d of other sites; want %d, %d, %d", name, bytes, blocks, others, sum, n,
				n-facts.MaxSites)
		}
		if smallest < 512*30 {
			t.Errorf("%s: a site of %d bytes is listed before larger ones", name, smallest)
		}
	}
	if n := len(d.Pictures.Sites); n != facts.MaxSites+1 {
		t.Errorf("the pictures have %d sites", n)
	}
}
