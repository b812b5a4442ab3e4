package dataset

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestFindingsOfTheWholeRun gives those that no GPU of a recording has, as a
// log's, rows without a device.
func TestFindingsOfTheWholeRun(t *testing.T) {
	doc := &report.Document{Findings: []report.Finding{{ID: "oom_other_process", Severity: report.Critical, Title: "others hold the GPU", Evidence: []string{"train.log:7"}, Confidence: 0.9}}}
	rows := string(appended(t, Findings, JSONL, func(a *Appender) error { return a.Document("run", doc) }))
	if strings.Count(rows, "\n") != 1 || !strings.Contains(rows, `"device":null,"rank":null,"id":"oom_other_process"`) {
		t.Errorf("rows %s", rows)
	}
}
