package replay

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
)

// What Saves tells is the difference of two replays; a change that can't be
// made saves nothing and says why.
func TestSaves(t *testing.T) {
	for _, run := range []string{"retained_graph__trainer_entropy/snapshot_named", "gpt2_fp32_adamw__hf_loop/snapshot_late", "qwen_vocab_oom__05b/snapshot_all"} {
		t.Run(run, func(t *testing.T) {
			c := classified(t, run)
			names := []string{"optimizer=sgd", "batch=x1", "leak=fixed"}
			list, err := c.Saves(c.classes, names...)
			if err != nil || len(list) != len(names) {
				t.Fatal(list, err)
			}
			before := c.Run(Scenario{Settings: c.Settings, Packed: len(c.layout.Segments) > 0})
			for i, s := range list {
				if s.Change != names[i] || (s.Assumption == "") != (s.Impossible != "") {
					t.Errorf("%+v", s)
				}
				if s.Impossible != "" {
					if s.Allocated != 0 || s.Reserved != 0 {
						t.Errorf("%s can't be made, yet saves %d and %d bytes", s.Change, s.Allocated, s.Reserved)
					}
					continue
				}
				after, _ := c.after(t, s.Change)
				if s.Allocated != before.PeakAllocated-after.PeakAllocated || s.Reserved != before.PeakReserved-after.PeakReserved {
					t.Errorf("%s saves %d and %d bytes, replays peak at %+v and %+v", s.Change, s.Allocated, s.Reserved, before, after)
				}
				if s.Change == "batch=x1" && (s.Allocated != 0 || s.Reserved != 0) {
					t.Errorf("the same batch saves %d and %d bytes", s.Allocated, s.Reserved)
				}
			}
		})
	}
}

func TestSavesRefuses(t *testing.T) {
	c := classified(t, "mlp_regression__script/snapshot_all")
	if _, err := c.Saves(c.classes, "optimizer=none"); err == nil {
		t.Error("an unknown change is taken")
	}
	c.checked = &Check{Addresses: 100, AddressesRight: 50}
	if _, err := c.Saves(c.classes, "optimizer=sgd"); err == nil || !strings.Contains(err.Error(), "50.0 %") {
		t.Errorf("half of the addresses are wrong: %v", err)
	}
}

// A bound on the work leaves scenarios out, and says so.
func TestWhatIfBounded(t *testing.T) {
	p := load(t, filepath.Join(shipped, "mlp_regression__script/snapshot_all.pickle.gz"))
	classes := classify.New(p.Timeline, classify.Options{})
	n := p.Timeline.Device.Events.Len()
	for _, c := range []struct {
		bound, scenarios int
	}{{n - 1, 0}, {n, 1}, {3 * n, 3}, {100 * n, 0}} {
		doc, err := p.WhatIf(classes, Options{MaxEvents: c.bound})
		if err != nil {
			t.Fatal(err)
		}
		left := strings.Contains(strings.Join(doc.Notes, "\n"), "left out")
		switch {
		case c.bound < n:
			if doc.Refused == nil || len(doc.Scenarios) > 0 {
				t.Errorf("%d events of %d: %+v", c.bound, n, doc)
			}
		case c.scenarios > 0 && (len(doc.Scenarios) != c.scenarios || !left):
			t.Errorf("%d events of %d: %d scenarios, want %d; notes %q", c.bound, n, len(doc.Scenarios), c.scenarios, doc.Notes)
		case c.scenarios == 0 && left:
			t.Errorf("%d events are not enough for %d scenarios of %d", c.bound, len(doc.Scenarios), n)
		}
	}
}

// TestFirstStateMustFit: what was there before the recording needs room, too, less
// what lay in its cache.
func TestFirstStateMustFit(t *testing.T) {
	p := load(t, "../testdata/recordings/gpt2_fp32_adamw__hf_loop/snapshot_late.pickle.gz")
	for usable, fits := range map[int64]bool{64 << 30: true, 9800 << 20: true, 2 << 30: false} {
		r := p.Run(Scenario{Settings: p.Settings, Usable: usable})
		if r.OOM == fits || !fits && (r.OOMEvent != 0 || r.Short <= 0) {
			t.Errorf("with %d MiB: out of memory %v at event %d, %d bytes short", usable>>20, r.OOM, r.OOMEvent, r.Short)
		}
	}
}
