package budget

import (
	"fmt"
	"slices"
)

// freeze leaves the first blocks of a model, and what is before them, as they are.
//
// complexity: what cannot be frozen is refused with the reason
func (s Setting) freeze(mod *model) error {
	switch {
	case s.Freeze == 0:
		return nil
	case s.Inference || s.adapts():
		return fmt.Errorf("--freeze is for training a part of the model: leave --inference and --lora out")
	case mod.encoder != nil || mod.vision != nil:
		return fmt.Errorf("--freeze %d: models of two stacks are not supported", s.Freeze)
	case s.Freeze < 0 || s.Freeze > int64(len(mod.blocks)):
		return fmt.Errorf("--freeze %d: the model has %d blocks", s.Freeze, len(mod.blocks))
	}
	still, inBlocks := paramsOf(mod.blocks[:s.Freeze]), paramsOf(mod.blocks)
	before, mixed := true, false
	for _, q := range mod.params {
		before = before && !inBlocks[q]
		q.trainable = q.trainable && !before && !still[q]
		mixed = mixed || q.trainable && !inBlocks[q]
	}
	for _, q := range mod.params { // what is outside of the blocks is one unit
		q.joined = s.FSDP != "" && s.FSDPVersion == 1 && mixed && !q.trainable && !inBlocks[q]
	}
	return nil
}

// trains says whether any of some weights is trained.
func trains(qs []*parameter) bool {
	return slices.ContainsFunc(qs, func(q *parameter) bool { return q.trainable })
}

// unevenTensors adds to the optimizer's tensors what the fullest rank has more than its even
// share: of a flat tensor some ranks have frozen parameters, and others those that are trained.
func (p *plan) unevenTensors(ts []optTensor) []optTensor {
	var trained, frozen int64
	inBlocks := paramsOf(p.trained().blocks)
	for _, q := range p.trained().params {
		switch {
		case q.joined:
			frozen += q.Elements()
		case q.trainable && !inBlocks[q]:
			trained += q.Elements()
		}
	}
	if k := p.shards(false); frozen > 0 {
		ts = append(ts, optTensor{n: k*min(trained, parts(trained+frozen, k)) - trained, width: p.kept})
	}
	return ts
}
