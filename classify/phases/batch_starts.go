package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
)

// BatchStarts tells where iterations begin that only run forward.
var BatchStarts = &Signal{
	ID: "batch-starts",
	Doc: `A step begins where a batch is loaded after the one before was used, in loops that only run forward. What is loaded in
pieces is one batch.`,
	Tells: Steps,
	Find: func(f *facts) (x found) {
		used := true // by a forward pass
		for i := f.Loop; i < f.Last; i++ {
			switch {
			case f.Phases[i] == meaning.Forward || f.Phases[i] == meaning.Generate:
				used = true
			case used && f.Phases[i] == meaning.Data && (i == f.Loop || f.Phases[i-1] != meaning.Data) &&
				f.Events.Action[i] == snapshot.Alloc:
				x.starts = append(x.starts, i)
				used = false
			}
		}
		if len(x.starts) < 2 {
			return found{}
		}
		return x
	},
}
