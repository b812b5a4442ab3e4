package replay

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// A recording may say anything: a replay of it ends, with an answer or a
// refusal.
func TestNothingInARecordingBreaksAReplay(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		run := recorder.Simulate(recorder.Program{Seed: seed, Events: 300, Skip: r.IntN(2) * 200, Expandable: seed%3 == 0, Streams: r.IntN(2), Pools: r.IntN(2), Capacity: 1 << 30})
		file := run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
		s, err := snapshot.Decode(bytes.NewReader(file), snapshot.Options{Size: int64(len(file))})
		if err != nil {
			t.Fatal(err)
		}
		d := &s.Devices[0]
		for range 1 + r.IntN(20) {
			damage(r, d)
		}
		tl := timeline.New(s, d)
		doc, err := WhatIf(tl, classify.New(tl, classify.Options{}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewProgram(tl)
		if err != nil {
			continue
		}
		for i := range tl.OOMs {
			p.explain(&tl.OOMs[i], nil, nil)
		}
		// Replayed all the same, and under settings that it wasn't made with.
		for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:40"} {
			set, _, err := allocator.ParseConf(conf)
			if err != nil {
				t.Fatal(err)
			}
			q := p.start(&Scenario{Settings: set, Usable: 1 << 30, Packed: r.IntN(2) == 0})
			q.play(&Scenario{Settings: set, Usable: 1 << 30}, p.ops)
			q.finish()
		}
		if doc.MatchRate != nil && !(*doc.MatchRate >= 0 && *doc.MatchRate <= 1) {
			t.Errorf("seed %d: match rate %g", seed, *doc.MatchRate)
		}
	}
}

// damage changes something about a recording.
func damage(r *rand.Rand, d *snapshot.Device) {
	e := &d.Events
	i, j := r.IntN(e.Len()), r.IntN(e.Len())
	sizes := []int64{0, 1, -1, 1 << 62, 2 << 20, 20 << 20, 513}
	switch r.IntN(8) {
	case 0:
		e.Action[i] = snapshot.Action(r.IntN(int(snapshot.ActionOther)))
	case 1:
		e.Size[i] = sizes[r.IntN(len(sizes))]
	case 2:
		e.Address[i] = e.Address[j]
	case 3:
		e.Address[i] = []uint64{0, 1<<64 - 1, 1 << 63, e.Address[j] + 512}[r.IntN(4)]
	case 4:
		e.Action[i], e.Action[j] = e.Action[j], e.Action[i]
	case 5:
		if n := len(d.Segments); n > 0 {
			d.Segments[r.IntN(n)].Small = r.IntN(2) == 0
		}
	case 6:
		if n := len(d.Segments); n > 0 {
			d.Segments[r.IntN(n)].Expandable = r.IntN(2) == 0
		}
	case 7:
		if n := len(d.Segments); n > 0 {
			g := &d.Segments[r.IntN(n)]
			g.TotalSize = sizes[2+r.IntN(5)]
		}
	}
}
