package change

import "testing"

// TestTooManyEdits: what multiplies lives by steps ends at a bound, and says so.
func TestTooManyEdits(t *testing.T) {
	r := &rewriter{Edits: Edits{List: make([]Edit, maxEdits-1)}}
	r.release(0, 1)
	if r.tooMany || len(r.List) != maxEdits {
		t.Fatal("refused before the bound")
	}
	r.revive(0, 2)
	if !r.tooMany || len(r.List) != maxEdits {
		t.Errorf("%d edits, too many: %v", len(r.List), r.tooMany)
	}
}
