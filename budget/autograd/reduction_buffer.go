package autograd

// Staging is the buffer in which PyTorch sums t rows of n columns of e bytes into
// one row, as for the gradient of a bias, on a device of 132 multiprocessors: where
// blocks of threads share the rows of a column, each keeps a float32 for it, and a
// counter says who is last. After setReduceConfig of PyTorch's Reduce.cuh; in
// agreement with what sums of 20 widths over 16 numbers of rows take.
func Staging(t, n, e int64) int64 {
	const (
		threads        = 512 // of a block, for one column each
		warp           = 32
		atATime        = 2048 // threads of a multiprocessor
		multiprocessor = 132
		least, most    = 16, 256 // rows of a thread
		indexed        = 1<<31 - 1
	)
	if t <= 0 || n <= 0 {
		return 0
	}
	columns := int64(4) // that a thread takes at once
	for n%columns != 0 {
		columns /= 2
	}
	var parts int64
	if e < 4 && t*n*e > indexed { // the parts are summed in float32
		parts = 4 * n
	}
	for t > 1 && t*n*e > indexed {
		t = (t + 1) / 2
	}
	wide := min(powerBelow(n/columns), warp)
	high := min(powerBelow(t), threads/columns/wide)
	wide = min(powerBelow(n/columns), threads/columns/high)
	rows := (t + high - 1) / high // of a thread
	grid := (n/columns + wide - 1) / wide
	target := multiprocessor * (atATime / (wide * high))
	if t < min(high*16, most) || rows < most || grid > target {
		return parts
	}
	share := max(min((target+grid-1)/grid, (rows+least-1)/least), (rows+most-1)/most)
	if share < 2 {
		return parts
	}
	return parts + 4*n*share*wide*columns + 4*grid
}

// powerBelow is the largest power of two that isn't larger than n.
func powerBelow(n int64) int64 {
	p := int64(1)
	for p <= n/2 {
		p *= 2
	}
	return p
}
