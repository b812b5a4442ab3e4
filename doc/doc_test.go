package doc_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/doc"
	"github.com/vramscope/vramscope/report"
)

// TestTopics looks up every id that a report can have.
func TestTopics(t *testing.T) {
	ask := func(topic, word string) string {
		t.Helper()
		most := 8_000
		if topic == "json" { // a whole schema
			most = 10_000
		}
		text, err := doc.Topic(topic, word)
		if err != nil || len(text) == 0 || len(text) > most || !strings.Contains(text, word) {
			t.Errorf("%s %s: %d bytes, %v", topic, word, len(text), err)
		}
		return text
	}
	for _, c := range append(checks.Device(), checks.Elsewhere()...) {
		if text := ask("findings", c.ID); !strings.HasPrefix(text, "### `"+c.ID+"`\n") || strings.Count(text, "###") != 1 {
			t.Errorf("%s: %s", c.ID, text)
		}
	}
	for _, r := range classify.Rules() {
		if text := ask("rules", r.ID); !strings.HasPrefix(text, "### `"+r.ID+"`\n") || strings.Count(text, "###") != 1 {
			t.Errorf("%s: %s", r.ID, text)
		}
	}
	for _, s := range phases.Signals() {
		if text := ask("signals", s.ID); !strings.HasPrefix(text, "### `"+s.ID+"`\n") || strings.Count(text, "###") != 1 {
			t.Errorf("%s: %s", s.ID, text)
		}
	}
	for _, c := range report.Categories {
		ask("categories", c)
	}
	ask("json", "A report")
	for _, topic := range doc.Topics() {
		text, err := doc.Topic(topic, "")
		if err != nil || !strings.HasPrefix(text, "# ") || strings.Contains(text, "<!--") && (topic == "rules" || topic == "signals") {
			t.Errorf("%s: %v, %.60s", topic, err, text)
		}
	}
	if text, err := doc.Topic("findings", "no_such"); err == nil || !strings.Contains(err.Error(), "logits_dominate") {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := doc.Topic("../doc/json", ""); err == nil || !strings.Contains(err.Error(), "findings, categories, rules, json") {
		t.Errorf("%s, %v", text, err)
	}
}
