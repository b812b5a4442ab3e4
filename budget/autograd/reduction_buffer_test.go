package autograd

import "testing"

// TestPieces: they come to all bytes, and there are never too many.
func TestPieces(t *testing.T) {
	for _, c := range []struct{ n, size, want int64 }{{0, 5, 0}, {10, 5, 2}, {11, 5, 3}, {1 << 50, 25 << 20, mostPieces}, {9, 0, 9}} {
		var sum int64
		all := Pieces(c.n, c.size)
		for _, n := range all {
			sum += n
		}
		if sum != c.n || int64(len(all)) != c.want {
			t.Errorf("%d bytes by %d: %d pieces of %d", c.n, c.size, len(all), sum)
		}
	}
}

// TestStaging: what sums over rows allocate besides their result, by PyTorch's own
// host code.
func TestStaging(t *testing.T) {
	for _, c := range []struct{ rows, columns, width, want int64 }{
		{1, 768, 4, 0},
		{1000, 768, 4, 0},
		{1024, 128, 4, 1048580},
		{1024, 768, 4, 6291480},
		{1024, 30522, 2, 0}, // only 2 columns at once: too few rows
		{2048, 130, 4, 532492},
		{2048, 30522, 4, 23442804},
		{2048, 30524, 2, 140655548},
		{5000, 257, 4, 657956},
		{5000, 4096, 4, 138412160},
		{16384, 30524, 4, 250053564},
		{2048, 128256, 2, 197005224},
		{5000, 128256, 4, 197005224},  // in two parts
		{16384, 128256, 4, 262672296}, // in four
		{16384, 128256, 2, 525853608}, // summed in float32
		{5000, 300000, 2, 1200000},
		{2048, 2, 4, 0},
		{0, 768, 4, 0},
	} {
		if got := Staging(c.rows, c.columns, c.width); got != c.want {
			t.Errorf("%d rows of %d columns of %d bytes: %d, want %d", c.rows, c.columns, c.width, got, c.want)
		}
	}
}
