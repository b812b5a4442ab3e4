package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/optimizer"
)

var ResumedState = &rules.Rule{
	ID: "resumed-state",
	Doc: `What setup leaves beside weights: two blocks of each weight's size, in pairs, are the moments that an optimizer has
from a checkpoint. So are two more sets than what is trained, where no step makes state of their sizes. Less sure without
stacks.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{optimizer.Beside},
	Begin:  func(a *rules.Facts) rules.Says { return rules.Each(optimizer.Beside.Of(a)) },
}
