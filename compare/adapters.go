package compare

import (
	"github.com/vramscope/vramscope/budget"
)

// adapters are what LoRA has beside a model.
type adapters struct {
	rank    int64 // 0: there are none
	targets string
	width   int64 // bytes of a weight
	bytes   int64 // of all of them
}

// adapting looks for the adapters of a setting among weights.
type adapting struct {
	config *budget.Config
	s      budget.Setting
	w      stored
}

// dtype is the word for adapters' width beside weights of another.
func (a adapters) dtype(w stored) string {
	if a.width == w.element && w.bits == 0 || a.width == 2 {
		return "model"
	}
	return "fp32"
}

// usualTargets are layers that are given adapters.
var usualTargets = []string{"all", "qv", "q_proj,k_proj,v_proj,o_proj", "q_proj,k_proj,v_proj", "gate_proj,up_proj,down_proj"}

// adapters are LoRA's, none when all of the model is trained: what the weights hold beyond
// the model is what the optimizer has state for. Their sizes tell on which layers they are,
// of those that are said and of the usual ones.
func (o *observed) adapters(s budget.Setting, w stored) adapters {
	state := o.stateBytes()
	if w.extra == 0 || state == 0 || w.extra*4 > w.bytes && w.bits == 0 || state > 4*w.extra || w.copies > 1.5 {
		return adapters{}
	}
	s = s.Defaults()
	s.Optimizer, s.Inference, s.FSDP, s.GPUs = "adamw", false, "", s.TP*s.PP*s.EP*s.CP
	for _, targets := range append([]string{s.LoRATargets}, usualTargets...) {
		s.LoRATargets = targets
		for _, width := range []int64{4, 2} {
			a := adapting{o.config, s, w}
			if rank, bytes := a.rank(width); rank > 0 {
				return adapters{rank, targets, width, bytes}
			}
		}
	}
	return adapters{}
}

// rank is the adapters', 0 where they aren't of these layers and this width. Beside packed
// weights lie their scales, so that no sum tells it.
func (a *adapting) rank(width int64) (rank, bytes int64) {
	said := max(a.s.LoRA, 1)
	a.s.LoRA = 1
	n, _ := a.bytes(width)
	if n == 0 {
		return 0, 0
	}
	ranks := []int64{max((a.w.extra+n/2)/n, 1), said}
	if a.w.bits > 0 {
		ranks = []int64{said, 256, 128, 64, 32, 16, 8, 4}
	}
	for _, a.s.LoRA = range ranks {
		n, here := a.bytes(width)
		if here && (a.w.bits > 0 && n <= a.w.extra || 100*max(n-a.w.extra, a.w.extra-n) <= a.w.extra) {
			return a.s.LoRA, n
		}
	}
	return 0, 0
}

// bytes are those of the setting's adapters, 0 where the model can't have them, and whether
// nearly all of these are among the weights.
func (a *adapting) bytes(width int64) (n int64, here bool) {
	_, tensors, err := budget.RankTensors(a.config, a.s)
	if err != nil {
		return 0, false
	}
	left, found := map[int64]int64{}, 0
	for _, x := range tensors {
		size := width * x.Elements()
		n += size
		if _, ok := left[size]; !ok {
			left[size] = a.w.sizes[size]
		}
		if left[size] > 0 {
			left[size]--
			found++
		}
	}
	return n, 10*found > 9*len(tensors)
}
