package budget

import (
	"math"
	"testing"

	"github.com/vramscope/vramscope/budget/losses"
)

// TestAlikePieces: pieces of a chunked loss that aren't worked through take what the others do.
func TestAlikePieces(t *testing.T) {
	c, err := FromParams(1_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	at := func(pieces int64) float64 {
		b, err := Compute(c, Setting{Sequence: pieces * losses.ChunkTokens, Loss: "chunked", Checkpointing: "full"})
		if err != nil {
			t.Fatal(err)
		}
		return float64(b.PeakBytes)
	}
	half, all := at(losses.AlikePieces/2), at(losses.AlikePieces)
	if want, got := all+2*(all-half), at(2*losses.AlikePieces); math.Abs(got/want-1) > 0.001 {
		t.Errorf("%.0f bytes with twice as many pieces as are worked through, want %.0f", got, want)
	}
}
