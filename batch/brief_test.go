package batch

import (
	"reflect"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

func TestFactsOf(t *testing.T) {
	ev := evidence.New()
	ev.Parameters = []evidence.Parameters{{BatchSize: new(int64(8))}}
	doc := &report.Document{Evidence: ev, Notes: []report.Note{{Key: "lr", Value: " 1e-4 "}, {Key: "host", Value: "node7"}, {Key: "odd", Value: "NaN"}},
		Budget: map[string]any{"setting": map[string]any{"batch": 4, "sequence": 2048}}}
	doc.Environment.Command = new("python train.py --rank 16 --dropout=0.1 --name x --seed")
	want := []report.Fact{{Name: "batch size", Value: 8}, {Name: "sequence length", Value: 2048}, {Name: "lr", Value: 1e-4}, {Name: "host", Text: "node7"},
		{Name: "--rank", Value: 16}, {Name: "--dropout", Value: 0.1}}
	if got := factsOf(doc); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := factsOf(&report.Document{}); len(got) > 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestBrief(t *testing.T) {
	failed := failing("e/1", "aa", "do this", 50, 3<<30)
	failed.Document.Devices[0].OOMs[0].Phase = new("first_optimizer_step")
	for want, c := range map[string]struct {
		doc    *report.Document
		status report.Status
		p      point
	}{
		"fragmentation in first optimizer step, 3 GiB asked for": {failed.Document, report.StatusOOM, point{}},
		"1 GiB a step: growing list, f a.py:3":                   {&report.Document{}, report.StatusLeak, point{leak: gib, kind: "growing_list", where: "f a.py:3"}},
		"memory peaked at 3 GiB":                                 {&report.Document{Verdict: report.Verdict{Text: "No failure recorded: memory peaked at 3 GiB"}}, report.StatusFine, point{}},
		"one two three four five six seven eight nine ten eleven twelve…": {&report.Document{Verdict: report.Verdict{Text: "one two three four five six seven eight nine ten eleven twelve, thirteen"}},
			report.StatusWarning, point{}},
	} {
		if got := brief(c.doc, c.status, &c.p); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}
