package cut

import (
	"strings"
	"testing"
)

// TestCut stands on each limit and beyond it, with letters of several bytes.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		s       string
		most    int
		letters string
		bytes   string
	}{
		{"", 4, "", ""},
		{"abcd", 4, "abcd", "abcd"},
		{"abcde", 4, "abc…", "abcd…"},
		{"äöüß", 4, "äöüß", "äö…"},
		{"äöüßa", 5, "äöüßa", "äö…"},
		{"aäöüß", 4, "aäö…", "aä…"},
		{"a€", 3, "a€", "a…"},
		{"😀😀", 4, "😀😀", "😀…"},
		{"😀😀", 1, "…", "…"},
	} {
		if got := Letters(c.s, c.most); got != c.letters {
			t.Errorf("%q in %d letters: %q, want %q", c.s, c.most, got, c.letters)
		}
		if got := Bytes(c.s, c.most); got != c.bytes {
			t.Errorf("%q in %d bytes: %q, want %q", c.s, c.most, got, c.bytes)
		}
	}
	if n := Whole([]byte(strings.Repeat("\x80", 20)), 10); n != 6 { // what is no text isn't searched to its beginning
		t.Errorf("%d bytes, want 6", n)
	}
}
