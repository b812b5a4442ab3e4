package view

import "testing"

// TestPrintable: nothing of a name steers the terminal, and what it was can be seen.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"train.py": "train.py", "é, 漢": "é, 漢", "\x1b[31m": `\x1b[31m`, "a\x00b": `a\x00b`, "a\nb\tc": `a\nb\tc`,
		"a\u202eb": `a\u202eb`, "a\u200bb\ufeff": `a\u200bb\ufeff`, "\u009b": `\x9b`, "\u2066": `\u2066`, "\u00ad": `\u00ad`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
