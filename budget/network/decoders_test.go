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
		names, changes, _ := strings.Cut(line, ": ")
		families += len(strings.Fields(names))
		for word := range strings.FieldsSeq(changes) {
			name, value, _ := strings.Cut(word, "=")
			rows[word], rows[value] = true, true
			if name == "norm" || name == "rope" || name == "spread" {
				if _, ok := kinds[word]; !ok {
					t.Errorf("%s: %s", names, word)
				}
			}
		}
	}
	if families != len(decoders()) {
		t.Errorf("%d families of %d names", len(decoders()), families)
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
