package optimizers

import "testing"

// TestBytes: bytes of a parameter that optimizers keep, and that a step of theirs takes.
func TestBytes(t *testing.T) {
	const n = 1 << 20
	ts := []Tensor{{N: n, Rows: 1 << 10, Cols: 1 << 10, Width: 2, Hidden: true}}
	for name, want := range map[string][4]int64{ // without a float32 copy, and with one
		"adamw": {4 * n, 2 * n, 12 * n, 8 * n}, "adamw-fused": {4*n + 4, 0, 12*n + 4, 4 * n}, "sgd": {0, 0, 4 * n, 4 * n},
		"momentum": {2 * n, 0, 8 * n, 4 * n}, "nonesuch": {0, 0, 4 * n, 4 * n},
	} {
		state, temp := Of(name).Bytes(ts, 0, false, false)
		wide, both := Of(name).Bytes(ts, 0, true, false)
		if got := [4]int64{state, temp, wide, both}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	mixed := append(ts, Tensor{N: 8, Width: 4}, ts[0])
	if groups := ByWidth(mixed); len(groups) != 2 || len(groups[0]) != 2 {
		t.Errorf("%v", groups)
	}
}
