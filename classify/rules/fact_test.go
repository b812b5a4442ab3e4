package rules

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/internal/together"
)

var (
	found  atomic.Int32
	first  = Named("first", func(*Facts) int { return int(found.Add(1)) })
	second = Named("second", func(a *Facts) int { return first.Of(a) * 10 })
)

// TestFacts: a fact is worked out once for a look, whoever asks, and told of where a rule asks
// for it and not another fact.
func TestFacts(t *testing.T) {
	found.Store(0)
	a := New(&phases.Program{})
	var asked []string
	if got := second.Of(a.Watched(func(n Need) { asked = append(asked, n.String()) })); got != 10 {
		t.Errorf("second is %d", got)
	}
	if !slices.Equal(asked, []string{"second"}) {
		t.Errorf("asked for %q", asked)
	}
	together.Each(100, func(int) {
		if first.Of(a) != 1 || second.Of(a) != 10 {
			t.Error("worked out again")
		}
	})
	again := a.Again(first)
	if first.Of(again) != 1 {
		t.Error("first didn't stay")
	}
	anew := a.Again()
	anew.Ask(first, Training, second)
	if first.Of(anew) != 2 || second.Of(anew) != 20 || first.Of(a) != 1 {
		t.Error("another look has the facts of the first")
	}
}
