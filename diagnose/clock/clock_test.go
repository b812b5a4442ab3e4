package clock

import "testing"

// TestOrderOfLevels matches curves of which neither has a clock.
func TestOrderOfLevels(t *testing.T) {
	const gib = 1 << 30
	reserved := []int64{0, 1 * gib, 3 * gib, 2 * gib, 6 * gib, 4 * gib, 8 * gib}
	var used []float64
	for _, r := range reserved {
		for range 3 {
			used = append(used, float64(r+gib/2))
		}
	}
	if m := matchLevels(reserved, used); m.method != "levels" || m.confidence < 0.5 {
		t.Errorf("%+v", m)
	}
	for i, j := 0, len(used)-1; i < j; i, j = i+1, j-1 {
		used[i], used[j] = used[j], used[i]
	}
	if m := matchLevels(reserved, used); m.method != "" {
		t.Errorf("backwards: %+v", m)
	}
	if m := matchLevels([]int64{gib, gib}, []float64{gib, gib, gib, gib}); m.method != "" {
		t.Errorf("flat: %+v", m)
	}
}
