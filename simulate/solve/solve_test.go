package solve

import (
	"strings"
	"testing"

	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
)

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

// TestTell: a search that a failure broke off doesn't tell of values that it hasn't tried.
func TestTell(t *testing.T) {
	fits, lacks := &try{value: 8, Outcome: Outcome{Fits: true}}, &try{value: 32, Outcome: Outcome{Lacks: "out of memory"}}
	for _, c := range []struct {
		best, next *try
		ended      bool
		head       string
	}{
		{nil, lacks, true, "nothing of 1 to 64 fits"},
		{nil, lacks, false, "the search broke off: 32 doesn't fit, whether a smaller one does isn't known"},
		{fits, lacks, true, "8 is the largest of 1 to 64 that fits"},
		{fits, lacks, false, "the search broke off: 8 fits, larger ones may, too"},
		{fits, nil, true, "8 fits, the largest that was asked for"},
		{nil, nil, false, ""},
	} {
		var out strings.Builder
		s := &Solver{to: &out, Name: func(name string) string { return name }, options: vrun.Options{Simulated: &simulate.Setting{}}}
		s.options.Simulated.GPU.Name = "A100 40GB"
		s.tell(1, 64, c.best, c.next, c.ended)
		head, _, _ := strings.Cut(out.String(), "\n")
		if head = strings.TrimPrefix(head, "SIMULATED A100 40GB · "); head != c.head {
			t.Errorf("%q, want %q", head, c.head)
		}
	}
}
