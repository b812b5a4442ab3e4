package change

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/timeline"
)

// tokensOfChunk is how many tokens a chunked loss takes at a time.
const tokensOfChunk = 1024

// chunked is a loss in pieces, each checkpointed.
func (r *rewriter) chunked() (string, error) {
	h, err := r.head()
	if err != nil {
		return "", err
	}
	if !h.shrink(func(bytes, tokens int64) int64 {
		if tokens <= tokensOfChunk {
			return bytes
		}
		return int64(float64(bytes) / float64(tokens) * tokensOfChunk)
	}) {
		return "", fmt.Errorf("the loss takes no more than %d tokens at a time as it is", tokensOfChunk)
	}
	for _, l := range h.losses() {
		h.letGo(&l)
		if l.gradient == none {
			continue
		}
		// The head's gradient is summed up over the pieces, in the type of the
		// product that makes it; then there are the sum, the last piece's, and
		// what they add up to.
		r.extra(l.sum(h), l.backward, l.end)
		if l.narrow == none {
			r.extra(l.sum(h), l.end, l.end+1)
		}
	}
	if !h.trained() {
		return fmt.Sprintf("The head takes %d tokens at a time, and what is wanted of their scores, each for %s words, is "+
			"taken from every piece. Generating wants the last token's alone: logits_to_keep=1 makes no others.",
			tokensOfChunk, units.Count(int(h.vocabulary))), nil
	}
	return fmt.Sprintf("The loss takes %d tokens of %s words at a time, forward and backward, and holds one piece of logits, "+
		"copies and gradients where there was the whole; the head's gradient is summed up over the pieces.",
		tokensOfChunk, units.Count(int(h.vocabulary))), nil
}

// fused is a linear cross-entropy in one kernel that makes the gradients in
// the forward pass.
func (r *rewriter) fused() (string, error) {
	h, err := r.head()
	if err != nil {
		return "", err
	}
	if !h.trained() {
		return "", fmt.Errorf("no backward pass was recorded, and a fused cross-entropy is for training")
	}
	if h.element == 0 {
		return "", fmt.Errorf("the width can't be told from the weights, by which a fused kernel cuts the logits")
	}
	width := h.vector / h.element
	pieces := int64(1)
	for pieces*width < h.vocabulary {
		pieces *= 2
	}
	h.shrink(func(bytes, _ int64) int64 { return max(bytes/pieces, 1) })
	for _, l := range h.losses() {
		h.letGo(&l)
		if l.gradient != none {
			r.extra(l.sum(h), l.forward, r.BornAt(l.gradient)-1)
		}
	}
	return fmt.Sprintf("A fused linear cross-entropy works in %d pieces, as many as keep a piece of logits no larger than the "+
		"hidden states (%s words, width %s), and makes the head's gradient in the forward pass.", pieces,
		units.Count(int(h.vocabulary)), units.Count(int(width))), nil
}

// head is a language model's last layer and what is known of its logits.
type head struct {
	*rewriter
	weights
	vocabulary int64
	sizes      map[int64]int // how often logits, their copies and gradients have each size
	ordered    []int64       // those sizes, sorted
	batches    []int64       // how many tokens batches may have: ids have 8 bytes
}

func (r *rewriter) head() (*head, error) {
	h := &head{rewriter: r, weights: r.weights(), sizes: map[int64]int{}}
	if r.of(classify.Logits, func(id timeline.AllocationID) { h.sizes[r.Requested(id)]++ }) == 0 {
		return nil, fmt.Errorf("no logits were found in the recording")
	}
	h.ordered = slices.Sorted(maps.Keys(h.sizes))
	h.of(classify.Inputs, func(id timeline.AllocationID) {
		if n := h.Requested(id) / 8; n > 0 && h.classes.Phase[id] == classify.Data && !slices.Contains(h.batches, n) &&
			len(h.batches) < mostBatches {
			h.batches = append(h.batches, n)
		}
	})
	if h.vocabulary = h.weights.vocabulary(); h.vocabulary == 0 {
		h.vocabulary = h.words()
	}
	if h.vocabulary == 0 {
		return nil, fmt.Errorf("the vocabulary can't be told from the weights, so neither how many tokens the logits have")
	}
	var rows, all float64 // bytes
	for bytes, n := range h.sizes {
		all += float64(bytes) * float64(n)
		if bytes%(h.vocabulary*2) == 0 {
			rows += float64(bytes) * float64(n)
		}
	}
	if rows*2 < all {
		return nil, fmt.Errorf("the logits aren't those of %s words, as many as the largest weights would have",
			units.Count(int(h.vocabulary)))
	}
	return h, nil
}

// trained reports whether a loss's gradient is worked out, or would have been but
// for a failed request.
func (h *head) trained() bool {
	return len(passes.Spans(h.classes, classify.Backward)) > 0 || len(h.OOMs) > 0
}

// mostBatches bounds the numbers of tokens that are looked at.
const mostBatches = 64

// words is the vocabulary by the logits of whole batches; the embedding has a row
// for each word. It is 0 when that can't be.
func (h *head) words() int64 {
	const few = 4000
	var words int64
	for bytes := range h.sizes {
		for _, tokens := range h.batches {
			row := tokens * h.width(bytes)
			if v := bytes / row; bytes%row == 0 && v >= few && h.embedding%(2*v) == 0 {
				words = max(words, v)
			}
		}
	}
	return words
}

// tokens is how many tokens logits of some bytes are for.
func (h *head) tokens(bytes int64) int64 { return bytes / (h.vocabulary * h.width(bytes)) }

// width is how many bytes each of the scores has, by a batch's tokens, all or
// less the last; else, where about half or twice as many bytes of logits occur
// too, the larger ones are fp32 and the smaller 16 bits wide.
func (h *head) width(bytes int64) int64 {
	two, four := false, false
	for _, tokens := range h.batches {
		two = two || about(bytes, tokens*h.vocabulary*2)
		four = four || about(bytes, tokens*h.vocabulary*4)
	}
	if two == four {
		two, four = h.occurs(bytes*2), h.occurs(bytes/2)
	}
	switch {
	case four, h.element == 0 && !two:
		return 4
	case two:
		return 2
	}
	return max(h.element, 2)
}

// about reports whether two sizes differ by what the last token makes at most.
func about(n, m int64) bool { return max(n-m, m-n) <= m/64 }

// occurs reports whether logits have about as many bytes.
func (h *head) occurs(bytes int64) bool {
	i, _ := slices.BinarySearch(h.ordered, bytes-bytes/64)
	return i < len(h.ordered) && about(h.ordered[i], bytes)
}

// shrink gives every tensor of logits another size; blocks of the same sizes
// that nobody knows the purpose of are taken as logits, too. It reports whether
// any became smaller.
func (h *head) shrink(size func(bytes, tokens int64) int64) bool {
	some := false
	for i, category := range h.classes.Category {
		id := timeline.AllocationID(i)
		bytes := h.Requested(id)
		switch category {
		case classify.Logits:
		case classify.Temporary, classify.Unknown:
			if h.sizes[bytes] == 0 || h.weights.sizes[bytes] > 0 || bytes < h.vocabulary {
				continue
			}
		default:
			continue
		}
		if h.BornAt(id) < 0 {
			h.Bytes[id] = 0 // the last step's, which nobody would hold
			continue
		}
		n := size(bytes, h.tokens(bytes))
		some = some || n < bytes
		h.resize(id, n)
	}
	h.shrinkFailed(size)
	return some
}

// shrinkFailed does so to requests that failed for a copy of logits that are there, in their precision or twice as wide.
func (h *head) shrinkFailed(size func(bytes, tokens int64) int64) {
	for i := range h.OOMs {
		bytes := h.OOMs[i].Requested
		if bytes >= h.vocabulary && h.weights.sizes[bytes] == 0 && (h.sizes[bytes] > 0 || h.sizes[bytes/2] > 0) {
			rounded := h.round(bytes)
			h.Sizes[rounded] = max(h.Sizes[rounded], size(bytes, h.tokens(bytes)))
		}
	}
}

// loss is where a step takes its loss, in events.
type loss struct {
	forward  int                   // its first logits
	backward int                   // where its backward pass begins
	end      int                   // after the head's gradient is there and its logits are gone
	gradient timeline.AllocationID // of the head's weight; none: it has none
	narrow   timeline.AllocationID // the same in 16 bits, before it is widened; none: there is none
}

// sum is the bytes of the head's gradient while it is summed up.
func (l *loss) sum(h *head) int64 {
	if l.narrow != none {
		return h.Requested(l.narrow)
	}
	return h.Requested(l.gradient)
}

// mostAfter bounds the search for the head's gradient, in allocations.
const mostAfter = 512

// losses finds the loss of every backward pass.
func (h *head) losses() []loss {
	var list []loss
	for _, span := range passes.Spans(h.classes, classify.Backward) {
		start := span.FirstEvent
		l := loss{forward: start, backward: start, end: start, gradient: none, narrow: none}
		from := h.BornSince(start)
		for id := from; id > 0 && id+mostAfter > from; {
			if id--; h.classes.Category[id] == classify.Logits && h.BornAt(id) >= 0 && h.FreedAt(id) >= start {
				l.forward = h.BornAt(id)
			}
		}
		for id := from; int(id) < min(int(from)+mostAfter, h.Len()) && l.gradient == none; id++ {
			switch n := h.Requested(id); {
			case n == h.embedding:
				l.gradient, l.end = id, h.BornAt(id)
			case 2*n == h.embedding && h.classes.Category[id] != classify.Logits && l.narrow == none:
				l.narrow = id
			}
		}
		list = append(list, l)
	}
	return list
}

// letGo frees the logits that a program holds longer than its loss needs them:
// a loss in pieces has none to give away.
func (h *head) letGo(l *loss) {
	last := l.backward
	var held []timeline.AllocationID
	for id := h.BornSince(l.forward); int(id) < h.Len() && h.BornAt(id) <= max(l.backward, l.end); id++ {
		if h.classes.Category[id] != classify.Logits {
			continue
		}
		if h.classes.Phase[id] == classify.Forward {
			held = append(held, id)
		} else if !h.Outlives(id) {
			last = max(last, h.FreedAt(id))
		}
	}
	l.end = max(l.end, last)
	for _, id := range held {
		if h.FreedAt(id) > l.end { // for no backward pass
			h.release(id, l.backward-1)
		}
	}
}
