package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

var kvCacheInTraining = Check{
	ID: "kv_cache_in_training", Group: peak, Severity: "info",
	Doc: "Keys and values are cached in passes that a backward pass follows, and take 16 MiB and 1 % of the peak: " +
		"nothing is generated there.",
	Saves: "by replay with `use_cache=off`.",
	Needs: []facts.Need{facts.Peak, facts.Phases}, Run: findCacheInTraining,
}

func findCacheInTraining(p *facts.Pass) []Draft {
	bytes := facts.Peak.Of(p).Held(classify.KVCache)
	if !facts.Phases.Of(p).Trains || bytes < 16<<20 || facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 1 {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 0.9}, Change: "use_cache=off", Most: bytes}
	d.Title = fmt.Sprintf("Keys and values are cached in passes that are trained on, which generate nothing: %s at the peak",
		units.Bytes(bytes))
	d.Evidence = facts.SiteLines(p.Dev.Sites, classify.KVCache, 2)
	if p.Dev.Stacks == "none" {
		d.Confidence = 0.7
	}
	d.advise("kv_cache_in_training")
	return []Draft{d}
}
