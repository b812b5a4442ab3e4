package facts

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// CacheGrows is by how much keys and values grow with each step of those before a request that failed; nil where they don't
// grow in each of them, or are no tenth of what is in use.
func CacheGrows(p *Pass, o *timeline.OOM) *int64 {
	const steps, tenth = 4, 10
	k := int(p.StepAt(o.Event))
	if k < steps+1 {
		return nil
	}
	var held [steps + 1]int64 // at the beginnings of the last steps
	for id := range p.Each(classify.KVCache) {
		for i := range held {
			if p.T.AliveAt(id, p.Classes.Steps[k-steps+i].FirstEvent) {
				held[i] += p.T.Requested(id)
			}
		}
	}
	for i := range steps {
		if held[i+1] <= held[i] {
			return nil
		}
	}
	if held[steps]*tenth < o.Active {
		return nil
	}
	return new((held[steps] - held[0]) / steps)
}
