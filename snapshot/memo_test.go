package snapshot

import "testing"

// TestSparse: a file's size alone makes no column grow without bound.
func TestSparse(t *testing.T) {
	d := &tables{window: window{total: 6 << 40}}
	var last growth
	rows := d.estimate(1, 0, &last)
	d.base = 1 << 20
	if n := d.estimate(rows+1, rows, &last); n > 100*firstRows {
		t.Errorf("from %d rows to %d", rows, n)
	}
	d.total = 100 << 20
	if n := d.estimate(2*rows, rows, &last); n < 2*rows {
		t.Errorf("%d rows where %d are needed", n, 2*rows)
	}
}
