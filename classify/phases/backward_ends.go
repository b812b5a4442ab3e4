package phases

import "github.com/vramscope/vramscope/classify/meaning"

// BackwardEnds tells where iterations end without an optimizer.
var BackwardEnds = &Signal{
	ID: "backward-ends",
	Doc: `A step ends with its backward pass, where no optimizer steps. Programs that only add up gradients, or whose optimizer neither
allocates nor is named, are cut so.`,
	Tells: Steps,
	Needs: []Need{Training},
	Find:  func(f *facts) found { return found{starts: f.after(f.ends(meaning.Backward))} },
}
