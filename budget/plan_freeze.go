package budget

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
)

// freezable refuses what cannot be frozen, with the reason.
func (s Setting) freezable(mod *model) error {
	switch {
	case s.Freeze == 0:
	case s.Inference || s.adapts():
		return fmt.Errorf("--freeze is for training a part of the model: leave --inference and --lora out")
	case mod.encoder != nil || mod.vision != nil:
		return fmt.Errorf("--freeze %d: models of two stacks are not supported", s.Freeze)
	case s.Freeze < 0 || s.Freeze > int64(len(mod.blocks)):
		return fmt.Errorf("--freeze %d: the model has %d blocks", s.Freeze, len(mod.blocks))
	}
	return nil
}

// freeze leaves the first blocks of a model, and what is before them, as they are.
func (s Setting) freeze(mod *model) error {
	freezeVision(s, mod)
	if err := s.freezable(mod); err != nil || s.Freeze == 0 {
		return err
	}
	still, inBlocks := paramsOf(mod.blocks[:s.Freeze]), paramsOf(mod.blocks)
	before, mixed := true, false
	for _, q := range mod.params {
		before = before && !inBlocks[q]
		q.Trainable = q.Trainable && !before && !still[q]
		mixed = mixed || q.Trainable && !inBlocks[q]
	}
	for _, q := range mod.params { // what is outside of the blocks is one unit
		q.Joined = s.FSDP != "" && s.FSDPVersion == 1 && mixed && !q.Trainable && !inBlocks[q]
	}
	return nil
}

// freezeVision leaves encoders of images as they are, with what brings their results to the language model.
func freezeVision(s Setting, mod *model) {
	for _, q := range mod.params {
		if q.Role == RoleVision && s.FreezeVision && mod.vision != nil {
			q.Trainable = false
		}
	}
}

// trains says whether any of some weights is trained.
func trains(qs []*parameter) bool {
	return slices.ContainsFunc(qs, func(q *parameter) bool { return q.Trainable })
}

// unevenTensors adds to the optimizer's tensors what the fullest rank has more than its even
// share: of a flat tensor some ranks have frozen parameters, and others those that are trained.
func (p *plan) unevenTensors(ts []optTensor) []optTensor {
	if !slices.ContainsFunc(p.trained().params, func(q *parameter) bool { return q.Joined }) {
		return ts
	}
	k := p.shards(false)
	mine := make([]int64, k) // trained elements of each rank
	var all int64
	unit := func(qs []*parameter) {
		var at int64
		part := max(autograd.Parts(elements(qs, nil), k), 1)
		for _, q := range qs {
			for end := at + q.Elements(); at < end; {
				rank, next := at/part, min(end, (at/part+1)*part)
				if q.Trainable {
					mine[rank], all = mine[rank]+next-at, all+next-at
				}
				at = next
			}
		}
	}
	for _, b := range p.trained().blocks {
		unit(inUnit(b))
	}
	unit(outsideOf(p.trained().params, p.trained().blocks))
	return append(ts, optTensor{n: k*slices.Max(mine) - all, width: p.kept})
}

// inUnit is a block's parameters in the order of its modules: adapters come after what they hang on.
func inUnit(b *block) (qs []*parameter) {
	for _, q := range b.params {
		qs = append(qs, q)
		for _, a := range b.adapters {
			if a.Name == q.Name {
				qs = append(qs, a)
			}
		}
	}
	return qs
}
