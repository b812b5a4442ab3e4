package names

// maxDifference is how many insertions and deletions alignment puts up with: a
// model that differs more is another one.
const maxDifference = 1000

// align finds the longest common subsequence of two lists of sizes as pairs of
// indices, with as few differences as possible; ok is false when they differ
// too much. (Myers, An O(ND) Difference Algorithm, 1986.)
func align(a, b []int64) (pairs [][2]int, ok bool) {
	limit := min(len(a)+len(b), maxDifference)
	// reach[k] is how far along a the best path on diagonal k has come; trace
	// keeps it for every number of differences.
	reach := make([]int, 2*limit+3)
	offset := limit + 1
	var trace [][]int
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && reach[offset+k-1] < reach[offset+k+1] {
				x = reach[offset+k+1]
			} else {
				x = reach[offset+k-1] + 1
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[offset+k] = x
			if x >= len(a) && y >= len(b) {
				trace = append(trace, append([]int(nil), reach[offset-d:offset+d+1]...))
				return backtrack(trace, len(a), len(b)), true
			}
		}
		trace = append(trace, append([]int(nil), reach[offset-d:offset+d+1]...))
	}
	return nil, false
}

// backtrack follows the paths from the end: trace[d] holds diagonals -d to d.
func backtrack(trace [][]int, x, y int) [][2]int {
	var pairs [][2]int
	for d := len(trace) - 1; d >= 0; d-- {
		k := x - y
		previous := 0
		if d > 0 {
			before := trace[d-1] // its diagonal j is at j + d - 1
			at := func(j int) int {
				if j < -(d-1) || j > d-1 {
					return -1
				}
				return before[j+d-1]
			}
			if k == -d || k != d && at(k-1) < at(k+1) {
				previous = k + 1
			} else {
				previous = k - 1
			}
			startX := at(previous)
			startY := startX - previous
			for x > startX && y > startY {
				x, y = x-1, y-1
				pairs = append(pairs, [2]int{x, y})
			}
			x, y = startX, startY
			continue
		}
		for x > 0 && y > 0 {
			x, y = x-1, y-1
			pairs = append(pairs, [2]int{x, y})
		}
	}
	for i, j := 0, len(pairs)-1; i < j; i, j = i+1, j-1 {
		pairs[i], pairs[j] = pairs[j], pairs[i]
	}
	return pairs
}
