package diagnose_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestOneAnswer: of a setting or change, a report and a replay by itself say the same of every failed run that ships.
func TestOneAnswer(t *testing.T) {
	compared := 0
	for file, doc := range answers(t, "recordings/*oom*/snapshot_*.gz", "unseen/*oom*/snapshot_*.gz", "scenarios/*oom*.gz",
		"scenarios/*fail*.gz") {
		if len(doc.Devices) != 1 || len(doc.Devices[0].OOMs) == 0 || doc.Trials == nil {
			continue
		}
		s, err := snapshot.Open(file, snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		tl := timeline.New(s, &s.Devices[0])
		alone, err := replay.WhatIf(tl, classify.New(tl, classify.Options{}), replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, settingMeets := &doc.Devices[0], false
		for i := range alone.Scenarios[1:] {
			x := &alone.Scenarios[i+1]
			settingMeets = settingMeets || len(x.Changes) == 0 && (x.Answer == words.Fits || x.Answer == words.Meets)
			for _, c := range d.Changes {
				same := len(x.Changes) == 0 && *c.FixID == x.Settings || len(x.Changes) == 1 && c.Tried == x.Changes[0]
				if same {
					compared++
				}
				if same && c.Answer != x.Answer {
					t.Errorf("%s: %s: the report says %q, the replay %q", file, x.Name, c.Answer, x.Answer)
				}
			}
		}
		if text := view.SettingsText(d, doc.Trials); settingMeets && strings.HasPrefix(text, "no allocator setting") {
			t.Errorf("%s: %q, yet one meets the request", file, text)
		}
	}
	if compared < 20 {
		t.Errorf("only %d changes were compared", compared)
	}
}
