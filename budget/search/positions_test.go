package search

import (
	"maps"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// A learned table of positions ends every sequence; what is worked out goes on.
func TestLearnedPositions(t *testing.T) {
	g := gpus.GPU{Name: "80GB", Capacity: 80 << 30, Context: 500 << 20}
	for _, tt := range []struct {
		kind   string
		fields map[string]any
		want   int64 // 0: no end
	}{
		{"gpt2", nil, 1024}, {"gpt2", map[string]any{"n_positions": 300.0}, 300}, {"gpt_neo", nil, 2048}, {"opt", nil, 2048}, {"bert", nil, 512}, {"distilbert", nil, 512},
		{"roberta", map[string]any{"max_position_embeddings": 514.0}, 512}, {"bart", nil, 1024}, {"whisper", nil, 448}, {"clip", nil, 77},
		{"clip", map[string]any{"architectures": []any{"CLIPTextModel"}}, 77}, {"vit", nil, 0}, {"llama", nil, 0}, {"bloom", nil, 0}, {"t5", nil, 0}, {"mamba", nil, 0}, {"modernbert", nil, 0},
	} {
		fields := map[string]any{"model_type": tt.kind}
		maps.Copy(fields, tt.fields)
		c, err := newConfig(fields)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Positions(); got != tt.want {
			t.Errorf("%s: %d positions, want %d", tt.kind, got, tt.want)
		}
		b, err := budget.Compute(c, budget.Setting{})
		if err != nil || tt.want > 0 && b.Setting.Sequence > tt.want || b.Model.Positions != tt.want {
			t.Errorf("%s: the plain setting has %d tokens, %v", tt.kind, b.Setting.Sequence, err)
		}
		if tt.want == 0 {
			continue
		}
		for _, s := range []budget.Setting{{}, {Inference: true}} {
			s.Sequence = tt.want
			if _, err := budget.Compute(c, s); err != nil {
				t.Errorf("%s: as long as the table: %v", tt.kind, err)
			}
			if s.Sequence++; tt.kind == "whisper" { // whose --seq is cut to what the decoder can take
				s.DecoderSeq = s.Sequence
			}
			if _, err := budget.Compute(c, s); err == nil || !strings.Contains(err.Error(), "learned positions") {
				t.Errorf("%s: one token more: %v", tt.kind, err)
			}
			if s.Sequence, s.DecoderSeq = 64, 0; tt.kind == "whisper" || tt.kind == "clip" {
				continue // nothing to solve for: their inputs have one length
			}
			if n, _, err := Solve(c, s, "seq", g); err != nil || n != tt.want {
				t.Errorf("%s: the longest sequence is %d, want %d (%v)", tt.kind, n, tt.want, err)
			}
			fits, err := Fits(c, s, []gpus.GPU{g})
			if err != nil || fits[0].HasSequence && fits[0].MaxSequence != tt.want {
				t.Errorf("%s: %+v, %v", tt.kind, fits, err)
			}
		}
	}
	gpt2, err := newConfig(map[string]any{"model_type": "gpt2"})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]budget.Setting{"context": {Inference: true, Sequence: 512, Context: 1025}, "new tokens": {Inference: true, Sequence: 1000, NewTokens: 25}} {
		if _, err := budget.Compute(gpt2, s); err == nil || !strings.Contains(err.Error(), "1025") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, _, err := Solve(gpt2, budget.Setting{Inference: true, Sequence: 64, NewTokens: 100}, "seq", g); err != nil || n != 896 {
		t.Errorf("with room for new tokens the longest prompt is %d, %v", n, err)
	}
	bart, err := newConfig(map[string]any{"model_type": "bart"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := budget.Compute(bart, budget.Setting{Sequence: 64, DecoderSeq: 1025}); err == nil || !strings.Contains(err.Error(), "--decoder-seq 1025") {
		t.Errorf("a long target: %v", err)
	}
}
