package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// logitsDominate finds scores over a vocabulary that take a good part of the
// peak.
func (e *examination) logitsDominate(dev *report.Device, f *facts) []draft {
	bytes := f.held(classify.Logits)
	if share(bytes, dev.AtPeak.AllocatedBytes) < 25 || bytes < 64<<20 {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "logits_dominate", Severity: f.severity(), Confidence: 0.9, Evidence: []string{}}, change: "logits=chunked", byDesign: true}
	d.Title = fmt.Sprintf("Logits and their copies take %s, %s of the peak", report.Bytes(bytes), report.Percent(bytes, dev.AtPeak.AllocatedBytes))
	words, tokens := e.vocabulary()
	if words > 0 && tokens > 0 {
		d.spells, d.without = e.allBut(classify.Logits, chunk, tokens), fmt.Sprintf("with %s tokens at a time,", report.Count(chunk))
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s tokens x a vocabulary of %s x %s bytes for each score", report.Count(int(tokens)), report.Count(int(words)), trim(float64(bytes)/float64(words)/float64(tokens))))
	} else if words > 0 {
		d.Evidence = append(d.Evidence, fmt.Sprintf("the vocabulary has %s words", report.Count(int(words))))
	}
	site := topSite(dev.Sites, classify.Logits)
	for i, n := 0, 0; i < len(dev.Sites) && n < 3; i++ {
		if s := &dev.Sites[i]; *s.Category == classify.Logits.String() && s.Known {
			d.Evidence = append(d.Evidence, siteLine(s))
			n++
		}
	}
	if !f.trains && len(dev.OOMs) == 0 {
		d.Fix = ptr("Compute scores only for the positions that are read (logits_to_keep=1 when generating), or in pieces")
		return []draft{d}
	}
	at := ""
	if site != nil {
		at = " in place of the loss at " + userLine(site)
	}
	d.Fix = ptr("Chunked or fused cross-entropy" + at + ", so that the logits of all tokens never exist at once; or fewer tokens in a batch")
	d.Code = "from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss   # needs no logits at all\n" +
		"# or: the head and the loss on 1,024 tokens at a time, made again in backward\n" +
		"loss = sum(checkpoint(head_and_loss, h, y, use_reentrant=False) for h, y in zip(hidden.split(1024), labels.split(1024)))"
	return []draft{d}
}

// chunk is how many tokens a chunked loss takes at a time.
const chunk = 1024

// allBut is what a category takes at any time, less the share of one chunk.
func (e *examination) allBut(category classify.Category, chunk, whole int64) (out []spell) {
	if whole <= chunk {
		return nil
	}
	for i, c := range e.classes.Category {
		if c == category {
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
		return (&report.Site{Function: c.Function, File: c.File, Line: c.Line}).Short()
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

// leastWords is less than any vocabulary has, and widest more than any model's
// vectors take, in bytes.
const (
	leastWords = 4000
	widest     = 1 << 17
)

// vocabulary is the number of rows of the largest weight, as of an embedding,
// and how many tokens the logits at the peak are of; 0 where it can't be told.
// A model's vectors are by far the most common small weights.
func (e *examination) vocabulary() (words, tokens int64) {
	count := map[int64]int{}
	var vector, table int64
	for i, c := range e.classes.Category {
		if c != classify.Weights {
			continue
		}
		n := e.t.Requested(timeline.AllocationID(i))
		table = max(table, n)
		if n >= 128 && n <= widest {
			count[n]++
		}
	}
	for n, k := range count {
		if best := count[vector]; k > best || k == best && n < vector {
			vector = n
		}
	}
	if vector == 0 || table%vector != 0 || table/vector < leastWords {
		return 0, 0
	}
	words = table / vector
	// Scores exist in 16 and in 32 bits; where both do, their sizes tell which is which.
	var least, most int64
	event := e.t.Peaks.Allocated.Event
	for i, c := range e.classes.Category {
		if c != classify.Logits {
			continue
		}
		id := timeline.AllocationID(i)
		if n := e.t.Requested(id); n%words == 0 && e.t.AliveAt(id, event) {
			most = max(most, n)
			if least == 0 || n < least {
				least = n
			}
		}
	}
	switch {
	case least > 0 && most == 2*least:
		return words, least / words / 2
	case least > 0 && most == least:
		return words, most / words / e.elementOf(vector)
	}
	return words, 0
}

// elementOf is the bytes of a weight's number, by the square matrices that
// vectors of a model's width make; 4 where there are none.
func (e *examination) elementOf(vector int64) int64 {
	half, full := 0, 0
	for i, c := range e.classes.Category {
		if c != classify.Weights {
			continue
		}
		switch e.t.Requested(timeline.AllocationID(i)) {
		case vector * (vector / 2):
			half++
		case vector * (vector / 4):
			full++
		}
	}
	if half > full {
		return 2
	}
	return 4
}
