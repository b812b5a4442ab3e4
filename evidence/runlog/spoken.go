package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/evidence/guess"
	"github.com/vramscope/vramscope/internal/pattern"
)

// spoken are phrases, in lower case, by which people and programs speak of a request for memory that failed. A text
// with such a line and no message of a known form tells of a failure all the same.
var spoken = pattern.Of(`(out[- ]?of[- ]?(?:(?:gpu|cuda|device) )?memory|out of (?:vram|hbm)|` +
	`(?:failed|failure|unable) to alloc|unable to create|(?:cannot|could not|couldn't) alloc|` +
	`alloc(?:ation)? failed|allocation failure|` +
	`insufficient (?:(?:gpu|device) )?memory|not enough (?:memory|gpu|vram|device mem)|memory exhausted)|` +
	`(?:^|[^\pL\pN_.\-/])(oom)(?:s|ed|ing|error|exception)?(?:[^a-z]|$)`)

// notSpoken are words anywhere in a line of which nothing failed: options, comments, program text, and the shared memory of a
// kernel.
var notSpoken = pattern.Of(`^ *(?:--|//)|this is not a failure|to avoid fragmentation|except |raise |import |print\(|logger\.|` +
	`isinstance\(|#|out of resource|lmcache`)

// afterSpoken is what follows such phrases where nothing failed: counters, names of settings and of fields, prose.
var afterSpoken = pattern.Of("^[a-z]*`?(?:s: |: 0|_|-|=|[\"'] in |[\"']:| killer| score|: none|: false| errors are )")

// denials are words of which none may stand shortly before such a phrase, in its clause: by them nothing failed, or not yet.
// Those of modals do so unless "have" stands behind them; a cause is that by which something failed all the same: "could not
// go on after OOM". A point or colon within a word is of a name: torch.cuda.
var (
	denials = pattern.Of("(?:^|[ `])(?:\\S*n't|not|no|never|without|avoids?|avoiding|prevent(?:s|ing)?|against|if|about|" +
		"means|what|risk|case|solved?|solves|fix(?:es|ed|ing)?|reduces?|handles?|handling|detects?|" +
		"(may|might|can|could|would|will))" + clause)
	causes = pattern.Of("(?:^|[ `])(?:after|from|because|due)" + clause)
)

// clause is up to five words of one, the last perhaps a part of a name: `torch.cuda.
const clause = "(?: +[^ ,;!?()\\[\\]{}\"|>]*[^ ,;!?()\\[\\]{}\"|>.:]){0,5}(?: +[^ ,;!?()\\[\\]{}\"|>]*)?$"

// denied looks at the words before a phrase, back to where its clause begins.
func denied(before []byte) bool {
	m := denials().FindSubmatchIndex(before)
	modal := m != nil && m[2] >= 0
	return guess.Denied.Made(m != nil && !causes().Match(before) && !(modal && bytes.Contains(before[m[2]:], []byte(" have "))))
}

// opens and closes are the ends of a quotation within a sentence, which speaks of the words.
var (
	opens  = pattern.Of("\\pL [\"'`“][^\"'`”]*$")
	closes = pattern.Of("^[^\"'`“]{0,200}[\"'`”] \\pL")
)

// recovers are words by which the program goes on after a failure.
var recovers = pattern.Of(`retrying|trying again|try again with|skipping|recover|falling back|switching to|reducing|halving`)

// retriedLines is how far below a failure a program may say that it tries again.
const retriedLines = 6

// maxSpoken is how many such lines are kept.
const maxSpoken = 64

// spokenLine keeps a line that speaks of a failure in no known form.
func (p *Parser) spokenLine(number int, line []byte, _ features) bool {
	if len(line) > maxOther || p.oom.open {
		return false
	}
	lower := bytes.ToLower(line)
	if !speaks(lower) || !p.seemsNew(line) || p.spoken >= maxSpoken {
		return false
	}
	p.spoken++
	p.oom.finish(p)
	m := evidence.OOMMessage{Line: number, AfterStep: p.steps.latest(), UpToStep: -1, Unclear: true, Unsure: true,
		Rank: p.rank(number, line), Quote: ending.Quoted(line, maxQuote), WentOn: recovers().Match(lower)}
	for n := len(p.report.OOMs) - 1; m.WentOn && n >= 0 && number-p.report.OOMs[n].Line <= retriedLines; n-- {
		p.report.OOMs[n].WentOn = true // what failed is tried again otherwise: another failure would be told
	}
	p.tell(&m, line)
	p.keepOOM(&m)
	return true
}

// seemsNew leaves lines out that say again what one just before said.
func (p *Parser) seemsNew(line []byte) bool {
	n := len(p.report.OOMs)
	return n == 0 || !p.report.OOMs[n-1].Unclear || p.report.OOMs[n-1].Quote != ending.Quoted(line, maxQuote)
}

// speaks looks for a phrase beside which nothing says otherwise.
func speaks(lower []byte) bool {
	if notSpoken().Match(lower) {
		return false
	}
	for _, at := range spoken().FindAllSubmatchIndex(lower, -1) {
		from, to := max(at[2], at[4]), max(at[3], at[5])
		if !denied(lower[:from]) && !afterSpoken().Match(lower[to:]) &&
			!(opens().Match(lower[:from]) && closes().Match(lower[to:])) {
			return true
		}
	}
	return false
}

// maxQuote is how much of a line is quoted.
const maxQuote = 300
