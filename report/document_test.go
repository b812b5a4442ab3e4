package report_test

import (
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestAbout: a report is of its recording, wherever that comes among the inputs.
func TestAbout(t *testing.T) {
	for _, tt := range []struct {
		inputs []report.Input
		want   string
	}{
		{[]report.Input{{Path: "a.yaml", Kind: "recipe"}, {Path: "b.pickle", Kind: "snapshot"}, {Path: "c.pickle", Kind: "snapshot"}}, "b.pickle"},
		{[]report.Input{{Path: "train.log", Kind: "log"}, {Path: "z.csv", Kind: "nvidia_smi"}}, "train.log"},
	} {
		if got := (&report.Document{Inputs: tt.inputs}).About(); got.Path != tt.want {
			t.Errorf("%v: the report is of %s: want %s", tt.inputs, got.Path, tt.want)
		}
	}
	if got := (&report.Document{}).About(); got != nil {
		t.Errorf("a report without inputs is of %v", got)
	}
}
