package runlog

import (
	"bytes"
	"math"

	"github.com/vramscope/vramscope/internal/pattern"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

// readBars reads tqdm's progress bars:
//
//	Epoch 2:  10%|█         | 10/100 [00:05<00:45,  1.99it/s, loss=2.31]
//
// Bars of training have no name, or a name that says so, or show a loss; those
// of downloads and shards are passed over. What the Trainer prints behind a
// bar on the same line is handed back.
func (s *stepState) readBars(p *Parser, number int, line []byte) []byte {
	s.progress.loading = p.beforeNumber == number-1 && readsData(p.before)
	for rest := line; ; {
		i := bytes.Index(rest, []byte("%|"))
		if i < 0 {
			break
		}
		name := barName(rest[:i])
		rest = rest[i+2:]
		end := bytes.IndexByte(rest, '|')
		if end < 0 {
			break
		}
		rest = rest[end+1:]
		body := rest
		if next := bytes.Index(rest, []byte("%|")); next >= 0 {
			body = rest[:next]
		}
		if bytes.HasPrefix(name, []byte("Processed prompts")) { // vLLM's
			p.report.Known++
		}
		s.readBar(p, number, name, body)
	}
	for _, open := range [...]string{"{'", `{"`} {
		if i := bytes.LastIndex(line, []byte(open)); i >= 0 {
			return line[i:]
		}
	}
	if i := bytes.LastIndex(line, []byte("]step:")); i >= 0 { // verl's
		return line[i+1:]
	}
	return nil
}

// barName is what stands before the percentage: behind the previous bar.
func barName(before []byte) []byte {
	before = bytes.TrimRight(before, "0123456789.")
	if i := bytes.LastIndexByte(before, ']'); i >= 0 {
		before = before[i+1:]
	}
	return bytes.Trim(before, " :\t")
}

func (s *stepState) readBar(p *Parser, number int, name, body []byte) {
	if len(body) > 400 {
		body = body[:400]
	}
	list := s.words.scan(s.pairs, body)
	s.pairs = list
	if len(list) < 2 || !list[0].of || !list[0].whole || list[0].unit != noUnit || testName(name) {
		return
	}
	step := evidence.Step{Line: number, Number: int64(list[0].value), Epoch: -1, Loss: math.NaN(), Seconds: -1,
		AllocatedBytes: unknown, ReservedBytes: unknown}
	for i := range list {
		showsBeside(&step, &list[i])
	}
	if math.IsNaN(step.Loss) && (step.Seconds < 0 && step.Number > 0 || !trainingName(name)) {
		return
	}
	if named := s.words.scan(nil, name); len(named) > 0 && named[0].epoch {
		step.Epoch = int64(named[0].value)
	}
	position := list[0].position
	f := readFacts(list[1:], body, s.binary) // "mem=21.3GB" among what it shows
	step.AllocatedBytes, step.ReservedBytes = f.allocated, f.reserved
	s.keepMemory(&f)
	if s.progress.step(name, barEnd(body[position:]), step, s.epoch) {
		p.told++
		p.survival.step(p, step.Number, nil, true, step.Number == barEnd(body[position:]))
	}
}

// showsBeside takes the time of a pass, and the loss, that a bar shows.
func showsBeside(step *evidence.Step, q *pair) {
	switch {
	case q.unit == perItem && step.Seconds < 0 && q.value > 0:
		step.Seconds = q.value
	case q.unit == perSecond && step.Seconds < 0 && q.value > 0:
		step.Seconds = 1 / q.value
	case q.loss && !q.eval && math.IsNaN(step.Loss):
		step.Loss = q.value
	}
}

// barEnd is the total of "10/100 [".
func barEnd(body []byte) int64 {
	_, rest, _ := figures.Integer(body)
	_, rest, _ = bytes.Cut(rest, []byte("/"))
	total, _, _ := figures.Integer(bytes.TrimLeft(rest, " "))
	return total
}

// readsData tells words of preparing data, in the line above a loop's bar.
func readsData(line []byte) bool {
	return phrase(bytes.ToLower(line)).has("loading", "reading", "tokeniz", "mapping", "download", "dataset", "data set",
		"preprocess", "caching", "filtering", "indexing")
}

func trainingName(name []byte) bool {
	lower := phrase(bytes.ToLower(name))
	return len(name) == 0 || lower.has("train", "epoch", "step", "iter") && !lower.has("constrain", "dataset", "load")
}

var evaluates = pattern.Of(`(?i)(?:^|[^\pL\pN_])(?:val|eval|test|predict|infer)`)

// testName tells the bar of an evaluation.
func testName(name []byte) bool { return evaluates().Match(name) }

// timeStamp finds 2026-05-20 04:24:47,521 near the beginning of a line, in
// nanoseconds since 1970 of the log's own clock; 0 when there is none. It looks
// first where the line before had it.
func timeStamp(line []byte, before int) (nanos int64, at int) {
	limit := min(len(line)-19, 80)
	if before <= limit {
		if nanos, _, ok := figures.DateTime(line[before:]); ok {
			return nanos, before
		}
	}
	for i := 0; i <= limit; i++ {
		if nanos, _, ok := figures.DateTime(line[i:]); ok {
			return nanos, i
		}
	}
	return 0, before
}
