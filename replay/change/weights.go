package change

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// weights are the sizes of a model's weights in requested bytes, with what
// they tell about its shapes.
type weights struct {
	sizes     map[int64]int // how often each occurs
	vector    int64         // bytes of a vector of the model's width, by far the most common small size
	element   int64         // bytes of a scalar; 0 when it can't be told
	embedding int64         // bytes of the largest matrix that few have: embedding and head; 0: none
}

// weights looks at what is classified as weights. A vector has width × element
// bytes, a square matrix width times as many: so the element can be told from
// which of the possible widths occurs as a number of rows.
func (r *rewriter) weights() weights {
	w := weights{sizes: map[int64]int{}}
	there := map[int64]int{} // at the peak: not what was cast meanwhile
	r.of(classify.Weights, func(id timeline.AllocationID) {
		n := r.Requested(id)
		w.sizes[n]++
		if r.AliveAt(id, r.Peaks.Allocated.Event) {
			there[n]++
		}
	})
	if len(there) > 0 {
		w.sizes = there
	}
	for n, count := range w.sizes {
		if count <= mostHeads {
			w.embedding = max(w.embedding, n)
		}
	}
	w.findVector()
	w.findElement()
	return w
}

// findVector takes the most common of small sizes.
func (w *weights) findVector() {
	for n, count := range w.sizes {
		if n < 128 || n > 1<<17 {
			continue
		}
		// An adapter's matrices may be more than there are vectors; no embedding
		// has so few rows of them.
		a, b := weights{embedding: w.embedding, vector: n}, weights{embedding: w.embedding, vector: w.vector}
		better := a.vocabulary() > 0
		if better == (b.vocabulary() > 0) {
			better = count > w.sizes[w.vector] || count == w.sizes[w.vector] && n < w.vector
		}
		if better {
			w.vector = n
		}
	}
}

// findElement tells by the square matrices.
func (w *weights) findElement() {
	if w.vector == 0 {
		return
	}
	votes := map[int64]int{}
	for n, count := range w.sizes {
		for _, e := range []int64{2, 4} {
			if n == w.vector*(w.vector/e) {
				votes[e] += count
			}
		}
	}
	switch {
	case votes[2] > votes[4]:
		w.element = 2
	case votes[4] > votes[2]:
		w.element = 4
	}
}

// mostHeads is how often a size of embedding and head occurs at most: with two
// of them, and a copy of each such as an EMA keeps. Matrices of layers occur
// more often.
const mostHeads = 4

// vocabulary is the rows of embedding and head; 0 when it is no
// multiple of the model's width.
func (w *weights) vocabulary() int64 {
	if w.vector == 0 || w.embedding%w.vector != 0 || w.embedding/w.vector < 4000 {
		return 0
	}
	return w.embedding / w.vector
}

// bytes is what all weights take.
func (w *weights) bytes() (sum int64) {
	for n, count := range w.sizes {
		sum += n * int64(count)
	}
	return sum
}

// layersAre says whether the matrices of a model's layers are those of n of them, and can't be of one less.
func (w *weights) layersAre(n int) bool {
	fewer := true
	for bytes, count := range w.sizes {
		if bytes <= 64*w.vector || count < n-1 { // vectors have many sizes, and what isn't a layer's occurs seldom
			continue
		}
		if count%n != 0 {
			return false
		}
		fewer = fewer && count%(n-1) == 0
	}
	return !fewer
}
