package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// logitsDominate finds scores over a vocabulary that take a good part of the
// peak.
func (e *examination) logitsDominate(dev *report.Device, f *facts) []draft {
	kept := e.atPeak(e.leaked(), classify.Logits) // no other loss would make less of those
	bytes := f.held(classify.Logits) - kept
	if e.collects || share(bytes, dev.AtPeak.AllocatedBytes) < 25 || bytes < 64<<20 {
		return nil
	}
	if doubtful, _ := e.doubtful(classify.Logits, e.t.Peaks.Allocated.Event); 2*doubtful > bytes {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "logits_dominate", Severity: f.severity(), Confidence: 0.9, Evidence: []string{}},
		change: "logits=chunked", worth: 1}
	d.Title = fmt.Sprintf("Logits and their copies take %s, %s of the peak", units.Bytes(bytes),
		units.Percent(bytes, dev.AtPeak.AllocatedBytes))
	parts := e.inParts()
	stale := e.staleAtPeak()
	if words, tokens := e.vocabulary(); words > 0 && !parts {
		d.spells, d.without = e.allBut(classify.Logits, chunk, tokens), fmt.Sprintf("with %s tokens at a time,",
			units.Count(chunk))
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s tokens x a vocabulary of %s x %s bytes for each score",
			units.Count(int(tokens)), units.Count(int(words)), trim(float64(bytes-stale)/float64(words)/float64(tokens))))
	}
	if kept > 0 {
		d.change = "" // it would make less of those, too
		d.Evidence = append(d.Evidence, units.Bytes(kept)+" more are what a leak keeps")
	}
	if stale > 0 {
		d.Evidence = append(d.Evidence, units.Bytes(stale)+" of it are the step before's, which a variable still holds")
	}
	d.Evidence = append(d.Evidence, siteLines(dev.Sites, classify.Logits, 3)...)
	if !f.trains && len(dev.OOMs) == 0 {
		if d.Fix = ptr("Compute scores only for the positions that are read (logits_to_keep=1 when generating), or in pieces"); e.scored() {
			d.Fix = ptr("The head and the loss on a part of the tokens at a time, so that the logits of all never exist at " +
				"once; or fewer tokens in a batch")
			d.Code = "loss = sum(cross_entropy(head(h), y, reduction=\"sum\") for h, y in zip(hidden.split(1024), " +
				"labels.split(1024))) / labels.numel()"
		}
		return []draft{d}
	}
	at := ""
	if loss := e.lossSite(); loss != nil {
		at = " in place of the loss at " + userLine(loss)
	} else if site := topSite(dev.Sites, classify.Logits); site != nil && site.CalledFrom == nil {
		at = " on what " + userLine(site) + " makes"
	} else if site != nil { // a library's model, which works out the loss, too
		at = " in place of the loss at " + userLine(site)
	}
	d.Fix = ptr("Chunked or fused cross-entropy" + at +
		", so that the logits of all tokens never exist at once; or fewer tokens in a batch")
	if parts {
		d.Evidence = append(d.Evidence, "a part of the tokens at a time already")
		d.Fix = ptr("Smaller parts, or a kernel that needs no logits," + at + "; or fewer tokens in a batch")
	}
	d.Code = "from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss   # needs no logits at all\n" +
		"# or: the head and the sum of losses of 1,024 tokens at a time, made again in backward\n" +
		"loss = sum(checkpoint(head_and_loss, h, y, use_reentrant=False) for h, y in zip(hidden.split(1024), " +
		"labels.split(1024))) / labels.numel()"
	return []draft{d}
}

// staleAtPeak counts the bytes of scores at the peak that the step before left.
func (e *examination) staleAtPeak() (bytes int64) {
	peak := e.t.Peaks.Allocated.Event
	now := e.stepNear(peak)
	for _, l := range e.classes.Leaks() {
		if l.Kind != classify.StaleOutputs {
			continue
		}
		for _, id := range l.Allocations {
			if e.classes.Category[id] == classify.Logits && e.t.AliveAt(id, peak) && e.classes.Step[id] < now {
				bytes += e.t.Allocated[id]
			}
		}
	}
	return bytes
}

// lossSite is the line that makes most copies of scores, in a loss if one does; nil
// when no stack shows any.
func (e *examination) lossSite() *report.Site {
	type maker struct {
		rank  int
		bytes int64
	}
	makers := map[snapshot.StackID]maker{}
	best := snapshot.StackID(0)
	for i, detail := range e.classes.Detail {
		id := timeline.AllocationID(i)
		stack := e.t.Stack(id)
		if stack == 0 || detail != classify.LogitsCopy || e.classes.Category[i] != classify.Logits {
			continue
		}
		m, ok := makers[stack]
		if !ok {
			m.rank = e.lossRank(stack)
		}
		m.bytes += e.t.Requested(id)
		makers[stack] = m
		if top := makers[best]; best == 0 || m.rank > top.rank || m.rank == top.rank && m.bytes >= top.bytes {
			best = stack
		}
	}
	if best == 0 {
		return nil
	}
	s := siteOf(siteKey{site: e.view.Site(best), known: true, category: classify.Logits})
	if s.Function == "" {
		return nil
	}
	return &s
}

// scored tells whether a loss is worked out of the scores: all of them are read.
func (e *examination) scored() bool {
	seen := map[snapshot.StackID]bool{}
	for i, c := range e.classes.Category {
		stack := e.t.Stack(timeline.AllocationID(i))
		if c != classify.Logits || seen[stack] {
			continue
		}
		seen[stack] = true
		if e.lossRank(stack) > 0 {
			return true
		}
	}
	return false
}

// lossRank says how surely a stack is a loss's: 2 for cross-entropy, 1 for what it
// is made of, which has other uses, 0 for none.
func (e *examination) lossRank(stack snapshot.StackID) (rank int) {
	s := e.t.Snapshot
	for _, f := range s.Stack(stack) {
		switch s.String(s.Frames[f].Function) {
		case "cross_entropy", "nll_loss":
			return 2
		case "log_softmax":
			rank = 1
		}
	}
	return rank
}

// inParts tells whether a line makes scores three times in a row, each time soon
// after those went that it made before: a part of the tokens at a time. Between
// others lies a whole pass.
func (e *examination) inParts() bool {
	const (
		soon = 12 // allocations
		row  = 3
	)
	type chain struct {
		last  timeline.AllocationID
		count int
	}
	chains := map[graphKind]chain{}
	for i := e.t.Older(); i < e.t.Len(); i++ {
		id := timeline.AllocationID(i)
		k := graphKind{e.t.Stack(id), e.t.Requested(id)}
		if e.classes.Category[id] != classify.Logits || e.classes.Phase[id] != classify.Forward || k.stack == 0 {
			continue
		}
		switch c, ok := chains[k]; {
		case !ok || id-c.last > soon:
			chains[k] = chain{id, 1}
		case e.t.FreeRequested[c.last] < e.t.Born[i]:
			if c.count+1 == row {
				return true
			}
			chains[k] = chain{id, c.count + 1}
		}
	}
	return false
}

// chunk is how many tokens a chunked loss takes at a time.
const chunk = 1024

// allBut is what a category takes at any time, leaks aside, less the share of one
// chunk.
func (e *examination) allBut(category classify.Category, chunk, whole int64) (out []spell) {
	if whole <= chunk {
		return nil
	}
	leaked := map[timeline.AllocationID]bool{}
	for _, id := range e.leaked() {
		leaked[id] = true
	}
	for i, c := range e.classes.Category {
		if c == category && !leaked[timeline.AllocationID(i)] {
			s := e.lifeOf(timeline.AllocationID(i))
			s.bytes = int64(float64(s.bytes) * (1 - float64(chunk)/float64(whole)))
			out = append(out, s)
		}
	}
	return out
}

// userLine is the user's line of a call site, else the library's.
func userLine(s *report.Site) string {
	if c := s.CalledFrom; c != nil {
		return placeText(c)
	}
	return s.Short()
}

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
func (e *examination) vocabulary() (words, tokens int64) {
	held, inputs := e.sizesAtPeak()
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
func (e *examination) sizesAtPeak() (held [classify.NumCategories]map[int64]int, inputs map[int64]int) {
	for c := range held {
		held[c] = map[int64]int{}
	}
	inputs = map[int64]int{}
	event := e.t.Peaks.Allocated.Event
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		if c == classify.Inputs {
			inputs[e.t.Requested(id)]++
		}
		if e.t.AliveAt(id, event) {
			held[c][e.t.Requested(id)]++
		}
	}
	return held, inputs
}

// isBatch tells whether one of the inputs has a number of 8 bytes for each
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
