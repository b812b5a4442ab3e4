package budget

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/optimizers"
)

// freezable refuses what cannot be frozen, with the reason.
func freezable(s Setting, mod *network.Model) error {
	switch {
	case s.Freeze == 0:
	case s.Inference || s.Adapts():
		return fmt.Errorf("--freeze is for training a part of the model: leave --inference and --lora out")
	case mod.Encoder != nil || mod.Vision != nil:
		return fmt.Errorf("--freeze %d: models of two stacks are not supported", s.Freeze)
	case s.Freeze < 0 || s.Freeze > int64(len(mod.Blocks)):
		return fmt.Errorf("--freeze %d: the model has %d blocks", s.Freeze, len(mod.Blocks))
	}
	return nil
}

// freeze leaves the first blocks of a model, and what is before them, as they are.
func freeze(s Setting, mod *network.Model) (notes []string, err error) {
	freezeVision(s, mod)
	if notes, err = freezeNamed(s, mod); err != nil {
		return nil, err
	}
	if err := freezable(s, mod); err != nil || s.Freeze == 0 {
		return notes, err
	}
	still, inBlocks := network.ParamsOf(mod.Blocks[:s.Freeze]), network.ParamsOf(mod.Blocks)
	before, mixed := true, false
	for _, q := range mod.Params {
		before = before && !inBlocks[q]
		q.Trainable = q.Trainable && !before && !still[q]
		mixed = mixed || q.Trainable && !inBlocks[q]
	}
	for _, q := range mod.Params { // what is outside of the blocks is one unit
		q.Joined = s.FSDP != "" && s.FSDPVersion == 1 && mixed && !q.Trainable && !inBlocks[q]
	}
	return notes, nil
}

// freezeVision leaves encoders of images as they are, with what brings their results to the language model.
func freezeVision(s Setting, mod *network.Model) {
	for _, q := range mod.Params {
		if q.Role == network.RoleVision && s.FreezeVision && mod.Vision != nil {
			q.Trainable = false
		}
	}
}

// unevenTensors adds to the optimizer's tensors what the fullest rank has more than its even
// share: of a flat tensor some ranks have frozen parameters, and others those that are trained.
func (p *holding) unevenTensors(ts []optimizers.Tensor) []optimizers.Tensor {
	if !slices.ContainsFunc(p.trained().Params, func(q *parameter) bool { return q.Joined }) {
		return ts
	}
	k := p.shards(false)
	mine := make([]int64, k) // trained elements of each rank
	var all int64
	unit := func(qs []*parameter) {
		var at int64
		part := max(autograd.Parts(network.Elements(qs, nil), k), 1)
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
	for _, b := range p.trained().Blocks {
		unit(inUnit(b))
	}
	inside := network.ParamsOf(p.trained().Blocks)
	unit(slices.DeleteFunc(slices.Clone(p.trained().Params), func(q *parameter) bool { return inside[q] }))
	return append(ts, optimizers.Tensor{N: k*slices.Max(mine) - all, Width: p.kept})
}

// inUnit is a block's parameters in the order of its modules: adapters come after what they hang on.
func inUnit(b *network.Block) (qs []*parameter) {
	for _, q := range b.Params {
		qs = append(qs, q)
		for _, a := range b.Adapters {
			if a.Name == q.Name {
				qs = append(qs, a)
			}
		}
	}
	return qs
}
