package solve

import "testing"

func TestRead(t *testing.T) {
	for _, c := range []struct {
		text      string
		low, high int
		ok        bool
	}{
		{"1:64", 1, 64, true}, {"0:0", 0, 0, true}, {"64:1", 0, 0, false}, {"8", 0, 0, false}, {"-1:4", 0, 0, false},
		{"1:x", 0, 0, false}, {"1:99999999999", 0, 0, false}, {"", 0, 0, false},
	} {
		low, high, err := read(c.text)
		if (err == nil) != c.ok || c.ok && (low != c.low || high != c.high) {
			t.Errorf("%q: %d, %d, %v", c.text, low, high, err)
		}
	}
}

// TestGuess: after two that fit, the next value tried is the last that their growth leaves room for.
func TestGuess(t *testing.T) {
	s := &Solver{}
	if n := s.guess(1, 64, nil); n != 32 {
		t.Errorf("the first is %d", n)
	}
	small := try{value: 8, Outcome: Outcome{Reserved: 800, Spare: 900, Fits: true}}
	large := try{value: 16, Outcome: Outcome{Reserved: 1600, Spare: 100, Fits: true}}
	s.tries = []try{small, {value: 32}, large}
	if n := s.guess(17, 31, &large); n != 17 {
		t.Errorf("with room for one more, %d", n)
	}
	large.Spare = 100000
	if n := s.guess(17, 31, &large); n != 31 {
		t.Errorf("with room for all, %d", n)
	}
	large.Reserved = 800 // nothing grows
	if n := s.guess(17, 31, &large); n != 24 {
		t.Errorf("without growth, %d", n)
	}
}
