package budget

import (
	"slices"

	"github.com/vramscope/vramscope/budget/network"
)

// linearExperts are what the model's routers, and experts' projections, were called when they were linear layers:
// PEFT takes these names, as it takes all-linear, for the tensors that Transformers 5 makes of them, with a rank for each
// (utils/transformers_weight_conversion.py). It leaves linear layers of such names out then; families with these aren't here.
func (p *holding) linearExperts() (names [3][]string) {
	switch {
	case p.profile.BareExperts:
	case slices.Contains([]string{"mixtral", "minimax", "minimax_m2"}, p.model.Config.Type):
		return [3][]string{{"gate"}, {"w1", "w3"}, {"w2"}}
	case slices.Contains([]string{"qwen3_moe", "olmoe", "flex_olmo"}, p.model.Config.Type):
		return [3][]string{{"gate"}, {"gate_proj", "up_proj"}, {"down_proj"}}
	}
	return names
}

// addAdapters hangs them on the model, where the setting has some.
func (p *holding) addAdapters() (err error) {
	if !p.Adapts() {
		return nil
	}
	p.adapters, err = p.model.Adapt(network.Adapters{Kind: p.Adapter, Rank: p.LoRA, Targets: p.LoRATargets,
		Modules: p.SaveModules, ByRole: p.profile.Fabric,
		Wide: p.wideAdapters(), LinearExperts: p.linearExperts(), NoExperts: p.bareExpertsOnly(),
		Joins: p.OneUnit && p.flatUnits()})
	return err
}

// bareExpertsOnly says whether adapters are such that experts can't have them.
func (p *holding) bareExpertsOnly() bool {
	return p.Adapter == "dora" || p.LoRADropout > 0 || p.frozenPacked()
}
