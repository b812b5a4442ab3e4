package replay

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// A simulated allocator, written apart from this one, and a replay of its
// recording agree on every address. Expandable segments are left out: there the
// simulation takes the best fit, where PyTorch looks at what lies behind it.
func TestSimulatedRecordingsComeOutAsRecorded(t *testing.T) {
	for name, program := range map[string]recorder.Program{
		"plain":            {Seed: 1, Events: 3000},
		"late":             {Seed: 2, Events: 1500, Skip: 1001},
		"streams":          {Seed: 4, Events: 3000, Streams: 3},
		"private pools":    {Seed: 5, Events: 3000, Pools: 2},
		"rounded up":       {Seed: 6, Events: 3000, RoundUp: 4},
		"large left whole": {Seed: 7, Events: 3000, MaxSplit: 40 << 20, Capacity: 64 << 30},
		"out of memory":    {Seed: 8, Events: 3000, Capacity: 256 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			run := recorder.Simulate(program)
			file := run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
			s, err := snapshot.Decode(bytes.NewReader(file), snapshot.Options{Size: int64(len(file))})
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewProgram(timeline.New(s, &s.Devices[0]))
			if err != nil {
				t.Fatal(err)
			}
			c := p.Verify()
			if c.Rate() < 1 || c.CallRate() < 1 || c.Addresses == 0 {
				t.Errorf("%d of %d addresses, %d of %d calls: %s; %s", c.AddressesRight, c.Addresses, c.CallsRight, c.Calls, c.First, c.Cause)
			}
		})
	}
}
