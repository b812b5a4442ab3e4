package network

import (
	"strings"
	"testing"
)

// TestDecoderRows: the words of decoders.txt are known, and none is known for nothing.
func TestDecoderRows(t *testing.T) {
	rows, families := map[string]bool{}, 0
	for line := range strings.Lines(decoderRows) {
		if line[0] == '#' {
			continue
		}
		families++
		for _, word := range strings.Fields(line)[1:] {
			name, value, _ := strings.Cut(word, "=")
			rows[word], rows[value] = true, true
			if name == "norm" || name == "rope" || name == "spread" {
				if _, ok := kinds[word]; !ok {
					t.Errorf("%s: %s", strings.Fields(line)[0], word)
				}
			}
		}
	}
	if families != len(decoders()) {
		t.Errorf("%d families of %d lines", len(decoders()), families)
	}
	for name := range quirks {
		if !rows[name] {
			t.Errorf("no family has %s", name)
		}
	}
	for name := range kinds {
		if !rows[name] {
			t.Errorf("no family has %s", name)
		}
	}
}
