package units

import (
	"math/rand/v2"
	"testing"
)

// TestSize: three significant digits, the same whether of bytes or of what Bytes writes.
func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 512: "512 B", 1000: "0.98 KiB", 1 << 20: "1 MiB", 74680205312: "69.6 GiB", 1002 << 20: "0.98 GiB",
		10732175360: "10 GiB", 107363696640: "100 GiB", 950 << 20: "950 MiB", -5 << 30: "-5 GiB", 14 << 40: "14 TiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		n := random.Int64N(1 << (11 + random.IntN(27)))
		if of := Size(n); n >= 1<<10 && Rounded(Bytes(n)) != of {
			t.Fatalf("%d: %s in a sentence, %s of %s", n, of, Rounded(Bytes(n)), Bytes(n))
		}
	}
}
