package search

import (
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// A decoder that hears sound is trained on as many tokens as the target has,
// and on no more than it has positions for unless told to.
func TestTokensOfSound(t *testing.T) {
	for _, tt := range []struct {
		s    budget.Setting
		want int64
	}{{budget.Setting{}, 448}, {budget.Setting{Sequence: 128}, 128}, {budget.Setting{DecoderSeq: 64}, 64}, {budget.Setting{Sequence: 128, DecoderSeq: 64}, 64}} {
		b, err := budget.Compute(configOf(t, whisperSmall), tt.s)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Phase(budget.Forward).Categories[budget.Logits]; b.Setting.DecoderSeq != tt.want || got > 2*tt.want*51865 {
			t.Errorf("%+v: %d tokens, logits of %d bytes, want %d tokens", tt.s, b.Setting.DecoderSeq, got, tt.want)
		}
	}
	if n, _, err := Solve(configOf(t, whisperSmall), budget.Setting{}, "seq", gpus.All()[0]); err == nil {
		t.Errorf("the longest sound: %d", n)
	}
}
