package evidence

import "testing"

// TestJoinTracked: of a tracker's two files on the same GPUs, one has names and sizes, the other readings.
func TestJoinTracked(t *testing.T) {
	named := func(gpu, source int) GPU {
		return GPU{GPU: gpu, Source: source, Tool: "W&B", Name: new("A100"), TotalBytes: new(int64(80 << 30))}
	}
	read := func(gpu, source int) GPU {
		return GPU{GPU: gpu, Source: source, Tool: "W&B", Samples: 5, PeakUsedBytes: new(int64(20 << 30))}
	}
	for _, order := range [][2]*Evidence{{{GPUs: []GPU{named(0, 0), named(1, 0)}}, {GPUs: []GPU{read(0, 1), read(1, 1)}}},
		{{GPUs: []GPU{read(0, 0), read(1, 0)}}, {GPUs: []GPU{named(0, 1), named(1, 1)}}}} {
		ev := New()
		ev.Add(order[0])
		ev.Add(order[1])
		if len(ev.GPUs) != 2 || ev.GPUs[0].Samples != 5 || ev.GPUs[1].Name == nil || *ev.GPUs[1].TotalBytes != 80<<30 {
			t.Errorf("%+v", ev.GPUs)
		}
	}
	ev := New()
	ev.Add(&Evidence{GPUs: []GPU{named(0, 0), named(1, 0), {GPU: 0, Source: 2, Samples: 1}}})
	if len(ev.GPUs) != 3 {
		t.Errorf("alone, or beside another monitor: %+v", ev.GPUs)
	}
}
