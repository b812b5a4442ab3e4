package names

import (
	"math/rand/v2"
	"testing"
)

// The pairs of an alignment are equal, ascending and as many as possible.
func TestAlign(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		some := func() []int64 {
			s := make([]int64, r.IntN(12))
			for i := range s {
				s[i] = int64(r.IntN(4))
			}
			return s
		}
		a, b := some(), some()
		pairs, ok := align(a, b)
		if !ok {
			t.Fatalf("%v and %v are not aligned", a, b)
		}
		last := [2]int{-1, -1}
		for _, p := range pairs {
			if a[p[0]] != b[p[1]] || p[0] <= last[0] || p[1] <= last[1] {
				t.Fatalf("%v and %v: pairs %v", a, b, pairs)
			}
			last = p
		}
		if want := longestCommon(a, b); len(pairs) != want {
			t.Fatalf("%v and %v: %d pairs, want %d", a, b, len(pairs), want)
		}
	}
	if _, ok := align(make([]int64, 3*maxDifference), nil); ok {
		t.Error("lists that differ in everything are aligned")
	}
}

func longestCommon(a, b []int64) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			rows[i+1][j+1] = max(rows[i][j+1], rows[i+1][j])
			if a[i] == b[j] {
				rows[i+1][j+1] = max(rows[i+1][j+1], rows[i][j]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
