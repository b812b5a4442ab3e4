package report_test

import (
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// TestMessageAdvice: what a change saves is said of a message where one finding alone advises it.
func TestMessageAdvice(t *testing.T) {
	fix, other := "stop the others", "a smaller batch"
	m := &evidence.OOMMessage{Fix: &fix}
	one := report.Finding{ID: "oom_other_process", Fix: &fix, SavesBytes: new(int64(5))}
	doc := &report.Document{Findings: []report.Finding{one, {ID: "oom_true_shortage", Fix: &other}}}
	if a := doc.MessageAdvice(m); *a.Fix != fix || a.SavesBytes == nil || *a.SavesBytes != 5 {
		t.Errorf("of one failure: %+v", a)
	}
	two := one
	two.SavesBytes = new(int64(9))
	doc.Findings = append(doc.Findings, two)
	if a := doc.MessageAdvice(m); *a.Fix != fix || *a.ID != "oom_other_process" || a.SavesBytes != nil {
		t.Errorf("of two failures: %+v", a)
	}
	if doc.Devices = make([]report.Device, 1); doc.MessageAdvice(&evidence.OOMMessage{}).Fix != nil {
		t.Error("a verdict on a recording is advice on a message")
	}
}

// TestMessageFingerprint: failures of which nothing is known but what helps are equal where that is.
func TestMessageFingerprint(t *testing.T) {
	a, b := "a smaller cache", "room beside PyTorch"
	of := func(m evidence.OOMMessage) string { return report.MessageFingerprint(&m) }
	if of(evidence.OOMMessage{Fix: &a}) == of(evidence.OOMMessage{Fix: &b}) {
		t.Error("two failures without figures are one")
	}
	if of(evidence.OOMMessage{Fix: &a, RequestedBytes: new(int64(1))}) != of(evidence.OOMMessage{Fix: &b, RequestedBytes: new(int64(1))}) {
		t.Error("the same request fails in two ways")
	}
}
