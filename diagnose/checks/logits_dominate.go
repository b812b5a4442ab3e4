package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

var logitsDominate = Check{
	ID: "logits_dominate", Group: peak, Severity: ByDesign,
	Doc: "Logits, their copies and their gradients take a quarter of the peak, leaks aside. The evidence gives tokens " +
		"× vocabulary × bytes for each logit, and the lines that make most of them.",
	Saves: "by replay with `logits=chunked`; where that isn't possible, from the recorded curve with logits for 1,024 " +
		"tokens at a time.",
	Needs: []facts.Need{facts.Leaked, facts.Peak, facts.Collected, facts.Phases, facts.Loss},
	Run:   findLogitsDominate,
}

func findLogitsDominate(p *facts.Pass) []Draft {
	kept := p.AtPeak(facts.Leaked.Of(p), classify.Logits) // another loss makes no less of those
	bytes := facts.Peak.Of(p).Held(classify.Logits) - kept
	if facts.Collected.Of(p).FillPeak() || facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 25 || bytes < 64<<20 {
		return nil
	}
	if doubtful, _ := p.Doubtful(classify.Logits, p.T.Peaks.Allocated.Event); 2*doubtful > bytes {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.9}, Change: "logits=chunked", Worth: 1}
	d.Title = fmt.Sprintf("Logits and their copies take %s, %s of the peak", units.Bytes(bytes),
		units.Percent(bytes, p.Dev.AtPeak.AllocatedBytes))
	parts := inParts(p)
	stale := staleAtPeak(p)
	if words, tokens := vocabulary(p); words > 0 && !parts {
		d.Spells, d.Without = allBut(p, classify.Logits, chunk, tokens), fmt.Sprintf("with %s tokens at a time,",
			units.Count(chunk))
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s tokens x a vocabulary of %s x %s bytes for each score",
			units.Count(int(tokens)), units.Count(int(words)), trim(float64(bytes-stale)/float64(words)/float64(tokens))))
	}
	if kept > 0 {
		d.Change = "" // it would make less of those, too
		d.Evidence = append(d.Evidence, units.Bytes(kept)+" more are what a leak keeps")
	}
	if stale > 0 {
		d.Evidence = append(d.Evidence, units.Bytes(stale)+" of it are the step before's, which a variable still holds")
	}
	d.Evidence = append(d.Evidence, facts.SiteLines(p.Dev.Sites, classify.Logits, 3)...)
	if !facts.Phases.Of(p).Trains && len(p.Dev.OOMs) == 0 {
		untrainedLogits(p, &d)
	} else {
		chunkedLoss(p, &d, parts)
	}
	return []Draft{d}
}

// untrainedLogits advises passes that aren't trained on.
func untrainedLogits(p *facts.Pass, d *Draft) {
	if !p.Scored() {
		d.advise("logits_to_keep")
		d.FixID = new("logits_to_keep")
		return
	}
	d.advise("logits_dominate.untrained")
}

// chunkedLoss advises another loss, in its place where that is known.
func chunkedLoss(p *facts.Pass, d *Draft, parts bool) {
	at := ""
	if loss := facts.Loss.Of(p); loss != nil {
		at = " in place of the loss at " + facts.UserLine(loss)
	} else if site := facts.TopSite(p.Dev.Sites, classify.Logits); site != nil && site.CalledFrom == nil {
		at = " on what " + facts.UserLine(site) + " makes"
	} else if site != nil { // a library's model, which works out the loss, too
		at = " in place of the loss at " + facts.UserLine(site)
	}
	id := "logits_dominate"
	if !p.CrossEntropy() {
		id += ".any_loss"
	}
	d.advise(id, "at", at)
	if parts {
		d.Evidence = append(d.Evidence, "a part of the tokens at a time already")
		d.Fix = advice.Text("logits_dominate.in_parts", "at", at)
	}
}

// staleAtPeak counts the bytes of scores at the peak that the step before left.
func staleAtPeak(p *facts.Pass) (bytes int64) {
	peak := p.T.Peaks.Allocated.Event
	now := p.StepNear(peak)
	for _, l := range p.Classes.Leaks() {
		if l.Kind != classify.StaleOutputs {
			continue
		}
		for _, id := range l.Allocations {
			if p.Classes.Category[id] == classify.Logits && p.T.AliveAt(id, peak) && p.Classes.Step[id] < now {
				bytes += p.T.Allocated[id]
			}
		}
	}
	return bytes
}

// inParts reports whether a line makes scores three times in a row, each time soon
// after those went that it made before: a part of the tokens at a time. Between
// others lies a whole pass.
func inParts(p *facts.Pass) bool {
	const (
		soon = 12 // allocations
		row  = 3
	)
	type chain struct {
		last  timeline.AllocationID
		count int
	}
	chains := map[facts.GraphKind]chain{}
	for i := p.T.Older(); i < p.T.Len(); i++ {
		id := timeline.AllocationID(i)
		k := facts.GraphKind{Stack: p.T.Stack(id), Bytes: p.T.Requested(id)}
		if p.Classes.Category[id] != classify.Logits || p.Classes.Phase[id] != classify.Forward || k.Stack == 0 {
			continue
		}
		switch c, ok := chains[k]; {
		case !ok || id-c.last > soon:
			chains[k] = chain{id, 1}
		case p.T.FreeRequested[c.last] < p.T.Born[i]:
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

// allBut is what a category takes at any time, leaks aside, less the facts.Share of one
// chunk.
func allBut(p *facts.Pass, category classify.Category, chunk, whole int64) (out []facts.Spell) {
	if whole <= chunk {
		return nil
	}
	leaked := p.LeakedSet()
	for id := range p.Each(category) {
		if !leaked[id] {
			s := p.LifeOf(id)
			s.Bytes = int64(float64(s.Bytes) * (1 - float64(chunk)/float64(whole)))
			out = append(out, s)
		}
	}
	return out
}
