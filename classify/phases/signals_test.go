package phases_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/internal/testing/pagetext"
)

var update = flag.Bool("update", false, "write doc/classification.md")

// TestSignalsDoc keeps what doc/classification.md says of signals true.
func TestSignalsDoc(t *testing.T) {
	var b strings.Builder
	for k, s := range phases.Signals() {
		if k == 0 || s.Tells != phases.Signals()[k-1].Tells {
			fmt.Fprintf(&b, "\n## Signals: %s\n", s.Tells)
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s", s.ID, pagetext.Fill(s.Doc))
	}
	pagetext.Keep(t, "../../doc/classification.md",
		"<!-- From here on made from the signals of phases: go test ./classify/phases -run TestSignalsDoc -update -->\n", b.String(), *update)
}

// TestSignalsHavePapers: ids are words that no rule has either, everybody says why in a short sentence, and the signals of
// events stand first, where half a byte counts them.
func TestSignalsHavePapers(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range classify.Rules() {
		seen[r.ID] = true
	}
	var before phases.Subject
	for k, s := range phases.Signals() {
		if seen[s.ID] || strings.ContainsAny(s.ID, " _") || s.Find == nil || s.Tells < before || s.Tells == phases.Events && k > 15 {
			t.Errorf("%d: %+v", k, s)
		}
		if reason := s.Reason(); len(reason) < 30 || len(reason) > 200 || strings.HasSuffix(reason, "..") {
			t.Errorf("%s: its reason is no short sentence: %q", s.ID, reason)
		}
		if n := uint8(k + 1); phases.SignalOf(n) != s || !phases.Known(s.ID) {
			t.Errorf("%s isn't found", s.ID)
		}
		seen[s.ID], before = true, s.Tells
	}
	if phases.SignalOf(0) != nil || phases.Known("gradient") || len(seen) != len(phases.Signals())+len(classify.Rules()) {
		t.Error("a signal that isn't there")
	}
}
