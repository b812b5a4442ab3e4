package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/timeline"
)

// trim writes a number with at most one decimal.
func trim(x float64) string {
	if s := fmt.Sprintf("%.1f", x); s[len(s)-2:] != ".0" {
		return s
	}
	return fmt.Sprintf("%.0f", x)
}

const (
	leastWords = 4000    // less than any vocabulary has
	widest     = 1 << 17 // more than any model's vectors take, in bytes
	fewVectors = 3       // biases and norms of a model's width
)

// vocabulary is how many words there are, and how many tokens the logits at the
// peak are of: a table of the model's has a vector for each word, the largest
// logits a score of 2 or 4 bytes for each word and token, and a batch at least
// as many numbers as there are tokens. 0 where that doesn't say it all.
func vocabulary(p *facts.Pass) (words, tokens int64) {
	held, inputs := sizesAtPeak(p)
	var scores int64
	for n := range held[classify.Logits] {
		scores = max(scores, n)
	}
	for vector, count := range held[classify.Weights] {
		if vector < 128 || vector > widest || count < fewVectors {
			continue
		}
		for table := range held[classify.Weights] {
			w := table / vector
			if table%vector != 0 || w < leastWords {
				continue
			}
			for _, score := range [...]int64{2, 4} {
				n := scores / (w * score)
				if scores%(w*score) != 0 || !isBatch(inputs, n) || w == words && n == tokens {
					continue
				}
				if words > 0 {
					return 0, 0 // more than one answer
				}
				words, tokens = w, n
			}
		}
	}
	return words, tokens
}

// sizesAtPeak counts what is allocated at the peak by category and requested
// bytes, and inputs whenever they are there: backward has no need of them.
func sizesAtPeak(p *facts.Pass) (held [classify.NumCategories]map[int64]int, inputs map[int64]int) {
	for c := range held {
		held[c] = map[int64]int{}
	}
	inputs = map[int64]int{}
	event := p.T.Peaks.Allocated.Event
	for i, c := range p.Classes.Category {
		id := timeline.AllocationID(i)
		if c == classify.Inputs {
			inputs[p.T.Requested(id)]++
		}
		if p.T.AliveAt(id, event) {
			held[c][p.T.Requested(id)]++
		}
	}
	return held, inputs
}

// isBatch reports whether one of the inputs has a number of 8 bytes for each
// token, or for one token more in each sequence.
func isBatch(inputs map[int64]int, tokens int64) bool {
	for n := range inputs {
		sequences := n/8 - tokens
		if n%8 == 0 && (sequences == 0 || sequences > 0 && sequences*8 <= tokens && tokens%sequences == 0) {
			return true
		}
	}
	return false
}
