package dataset

import "testing"

// TestInert: what a spreadsheet would run, or a terminal obey, is text.
func TestInert(t *testing.T) {
	for text, want := range map[string]string{
		"forward": "forward", "": "", "a=b": "a=b", "a-b": "a-b",
		"=cmd|'/C calc'!A0": "'=cmd|'/C calc'!A0", "@SUM(1+1)": "'@SUM(1+1)", "+1+cmd": "'+1+cmd", "-2": "'-2", " =1": "' =1",
		"\t=1+1": "'\t=1+1", "\x1b[31m\a\x00": `\x1b[31m\x07\x00`, "a\r\nb": "a\\x0d\nb", "\u009b1m": `\x9b1m`,
	} {
		if got := inert(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
