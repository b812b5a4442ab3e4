package oom_test

import (
	"testing"

	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
)

// TestCapacity: which word on the size of a GPU counts, and when words that differ make it unknown.
func TestCapacity(t *testing.T) {
	said := func(gpu int, bytes int64) evidence.OOMMessage {
		return evidence.OOMMessage{GPU: evidence.Known(gpu), CapacityBytes: evidence.Known(bytes)}
	}
	watched := func(gpu int, bytes int64) evidence.GPU {
		return evidence.GPU{GPU: gpu, TotalBytes: evidence.Known(bytes)}
	}
	trainer := func(bytes int64) evidence.Log { return evidence.Log{Pressure: evidence.Pressure{CapacityBytes: bytes}} }
	anyOf := func(s oom.Sizes) oom.Sizes { s.Device, s.GPU = -1, -1; return s }
	type messages = []evidence.OOMMessage
	type gpus = []evidence.GPU
	for _, test := range []struct {
		name     string
		sizes    oom.Sizes
		evidence evidence.Evidence
		want     int64
		source   string
	}{
		{"nothing", anyOf(oom.Sizes{}), evidence.Evidence{}, 0, ""},
		{"the user before the recording", oom.Sizes{Given: 1, Recorded: 2}, evidence.Evidence{OOMMessages: messages{said(0, 3)}},
			1, "flag"},
		{"the recording before a message", oom.Sizes{Recorded: 2}, evidence.Evidence{OOMMessages: messages{said(0, 3)}},
			2, "oom_entry"},
		{"a message before a monitor", oom.Sizes{}, evidence.Evidence{OOMMessages: messages{said(0, 3)}, GPUs: gpus{watched(0,
			4)}},
			3, "message"},
		{"a monitor before a trainer", anyOf(oom.Sizes{}), evidence.Evidence{GPUs: gpus{watched(0, 4)},
			Logs: []evidence.Log{trainer(5)}}, 4, "nvidia_smi"},
		{"a trainer", anyOf(oom.Sizes{}), evidence.Evidence{Logs: []evidence.Log{{}, trainer(5)}}, 5, "trainer"},
		{"a trainer, who doesn't say which GPU", oom.Sizes{GPU: 0, Device: -1},
			evidence.Evidence{Logs: []evidence.Log{trainer(5)}},
			0, ""},
		{"trainers that agree", anyOf(oom.Sizes{}), evidence.Evidence{Logs: []evidence.Log{trainer(5), trainer(5)}}, 5,
			"trainer"},
		{"trainers that don't", anyOf(oom.Sizes{}), evidence.Evidence{Logs: []evidence.Log{trainer(5), trainer(6)}}, 0, ""},
		{"a trainer with GPUs of several sizes", anyOf(oom.Sizes{}), evidence.Evidence{Logs: []evidence.Log{trainer(-1)}}, 0, ""},
		{"a message about another GPU", oom.Sizes{Device: 1}, evidence.Evidence{OOMMessages: messages{said(0, 3), said(1, 4)}},
			4, "message"},
		{"a message about no GPU in particular", oom.Sizes{Device: 1}, evidence.Evidence{OOMMessages: messages{said(-1, 3)}},
			3, "message"},
		{"one about a second GPU alone", oom.Sizes{Device: 0}, evidence.Evidence{OOMMessages: messages{said(1, 3)}}, 0, ""},
		{"none about this GPU", oom.Sizes{Device: 1}, evidence.Evidence{OOMMessages: messages{said(0, 3)}}, 0, ""},
		{"the first of two about one GPU", oom.Sizes{Device: 0}, evidence.Evidence{OOMMessages: messages{said(0, 3), said(0, 4)}},
			3, "message"},
		{"any GPU, all of one size", anyOf(oom.Sizes{}), evidence.Evidence{OOMMessages: messages{said(0, 3), said(1, 3)}},
			3, "message"},
		{"any GPU, of two sizes, whatever monitors say", anyOf(oom.Sizes{}), evidence.Evidence{
			OOMMessages: messages{said(0, 3), said(1, 4)}, GPUs: gpus{watched(0, 3)}}, 0, ""},
		{"monitors of two sizes", anyOf(oom.Sizes{}), evidence.Evidence{GPUs: gpus{watched(0, 3), watched(1, 4)}}, 0, ""},
		{"a monitor of the right one", oom.Sizes{GPU: 1}, evidence.Evidence{GPUs: gpus{watched(0, 3), watched(1, 4)}},
			4, "nvidia_smi"},
		{"messages without a size", oom.Sizes{}, evidence.Evidence{OOMMessages: messages{said(0, -1)}, GPUs: gpus{watched(0,
			-1)}},
			0, ""},
		{"no less than was reserved", oom.Sizes{Least: 3}, evidence.Evidence{OOMMessages: messages{said(0, 3)}}, 3, "message"},
		{"less than was reserved", oom.Sizes{Least: 4}, evidence.Evidence{OOMMessages: messages{said(0, 3)},
			GPUs: gpus{watched(0, 4)}}, 4, "nvidia_smi"},
		{"a monitor's, less than was reserved", oom.Sizes{Least: 4}, evidence.Evidence{GPUs: gpus{watched(0, 3)}}, 0, ""},
		{"where the rest is in the host's memory", oom.Sizes{Least: 4, Spill: true}, evidence.Evidence{
			OOMMessages: messages{said(0, 2)}, GPUs: gpus{watched(0, 3)}}, 3, "nvidia_smi"},
	} {
		if got, source := test.sizes.Capacity(&test.evidence); got != test.want || source != test.source {
			t.Errorf("%s: %d by %q, want %d by %q", test.name, got, source, test.want, test.source)
		}
	}
}
