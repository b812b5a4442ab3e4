package logs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// TestPressure tells how often the GPU was full by the trainer's count.
func TestPressure(t *testing.T) {
	const flush = "[2025-02-03 14:12:55,120] [WARNING] [stage3.py:2118:step] %d pytorch allocator cache flushes since last " +
		"step. this happens when there is high memory pressure\n"
	const retries = "[rank0]:[titan] 2025-04-01 18:41:10,112 - root - WARNING - %d CUDA memory allocation retries.\n"
	const oom = "RuntimeError: CUDA error: out of memory\n"
	tests := []struct {
		log, says string
		severity  report.Severity
	}{
		{fmt.Sprintf(flush, 1) + fmt.Sprintf(flush, 2), "The GPU was full 3 times", report.Warning},
		{fmt.Sprintf(flush, 1), "The GPU was full once", report.Info},
		{fmt.Sprintf(retries, 2) + fmt.Sprintf(retries, 5), "The GPU was full 5 times", report.Warning},
		{fmt.Sprintf(retries, 5) + oom, "The GPU was full 5 times", report.Info},
	}
	for _, test := range tests {
		doc := judged(t, input{name: "train.log", text: "step 1 loss 2.5\n" + test.log})
		if f := found(doc, "cache_flushed"); f == nil || f.Severity != test.severity || !strings.HasPrefix(f.Title, test.says) ||
			!strings.Contains(f.Evidence[0], "train.log:2") {
			t.Errorf("%q: %+v", test.log, doc.Findings)
		}
	}
}

// TestFullHowOften: once is a word, often is a warning unless a failure says more, and where the
// log reports far less than the GPU has, something else held the rest.
func TestFullHowOften(t *testing.T) {
	for _, test := range []struct {
		flushes, most, gpu int64
		failed             bool
		severity           report.Severity // "": nothing is told
		evidence           int
	}{
		{0, 10 * gib, 100 * gib, false, "", 0},
		{1, 100 * gib, 100 * gib, false, report.Info, 1},
		{2, 100 * gib, 100 * gib, false, report.Info, 1},
		{3, 100 * gib, 100 * gib, false, report.Warning, 1},
		{3, 100 * gib, 100 * gib, true, report.Info, 1},
		{3, 90 * gib, 100 * gib, false, report.Warning, 1},
		{3, 90*gib - 1, 100 * gib, false, report.Warning, 2},
		{3, 90*gib - 1, 100 * gib, true, report.Info, 1},
		{3, 90*gib - 1, 0, false, report.Warning, 1},
		{3, 0, 100 * gib, false, report.Warning, 1},
	} {
		ev := evidence.New()
		ev.Logs = []evidence.Log{{Steps: &evidence.Steps{MaxMemoryBytes: &test.most},
			Pressure: evidence.Pressure{Flushes: test.flushes, Line: 12, CapacityBytes: test.gpu}}}
		if test.failed {
			ev.OOMMessages = []evidence.OOMMessage{{Line: 40, Driver: true}}
		}
		f := found(added(ev), "cache_flushed")
		if f == nil {
			if test.severity != "" {
				t.Errorf("%+v: not told", test)
			}
			continue
		}
		if f.Severity != test.severity || len(f.Evidence) != test.evidence || !strings.HasPrefix(f.Evidence[0],
			"train.log:12: ") {
			t.Errorf("%+v: %s, %q", test, f.Severity, f.Evidence)
		}
	}
}
