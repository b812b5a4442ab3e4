package ranks

import (
	"testing"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/report"
)

// TestMainDump: of the dumps of one process, the one that is shown.
func TestMainDump(t *testing.T) {
	leak := report.Device{Leaks: []report.Leak{{Kind: "growing_list", Defect: true}}}
	perhaps := report.Device{Leaks: []report.Leak{{Kind: "growing_list", Defect: true, Suspected: true}}}
	failed := report.Device{OOMs: []report.OOM{{}}, Leaks: leak.Leaks}
	var none report.Device
	type dump struct {
		name   string
		events bool
		device report.Device
	}
	for _, x := range []struct {
		name  string
		dumps []dump
		want  int
	}{
		{"the last", []dump{{"pid1-0-step", true, none}, {"pid1-1-exit", true, none}}, 1},
		{"a step's shows a leak", []dump{{"pid1-0-step", true, leak}, {"pid1-1-step", true, leak}, {"pid1-2-exit", true, none}}, 1},
		{"the end shows it, too", []dump{{"pid1-0-step", true, leak}, {"pid1-1-exit", true, leak}}, 1},
		{"perhaps a leak", []dump{{"pid1-0-step", true, perhaps}, {"pid1-1-exit", true, none}}, 1},
		{"not the end", []dump{{"pid1-0-step", true, leak}, {"pid1-1-step", true, none}}, 1},
		{"a failure before", []dump{{"pid1-0-oom", true, failed}, {"pid1-1-step", true, leak}, {"pid1-2-exit", true, none}}, 0},
		{"the program's own", []dump{{"pid1-0-stop", true, none}, {"pid1-1-exit", false, none}}, 0},
	} {
		var j Job
		var all []int
		for i, d := range x.dumps {
			r := &Recording{Name: filename.Parse(d.name + ".pickle.gz"), Devices: []*Device{{Dev: d.device}}}
			if d.events {
				r.last = int64(i + 1)
			}
			j.Recorded, all = append(j.Recorded, r), append(all, i)
		}
		if got := j.mainDump(all); got != x.want {
			t.Errorf("%s: dump %d, want %d", x.name, got, x.want)
		}
	}
}
