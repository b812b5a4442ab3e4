// Package optimizers has what optimizers keep of the tensors that they train, and what a step of theirs takes.
//
//	state, temp := optimizers.Of("adamw").Bytes([]optimizers.Tensor{{N: 1 << 20, Width: 4}}, 0, false, false)
//
// It knows neither settings nor networks. Sizes are in bytes, unless they are said to be in elements.
package optimizers

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
)

// Optimizer is what one keeps and takes. state and temp are bytes per parameter in units of the parameter's width; big is per
// element of the largest tensor. Rows that need more than that have functions.
type Optimizer struct {
	Early bool   // its state exists before the first step
	Note  string // what a reader should know, "" for nothing

	state, temp, big float64
	perTensor        int64 // bytes of a step counter on the device
	wide             int64 // width of the state where it is not the parameter's
	stateOf          func(p Tensor, wp int64) int64
	tempOf           func(ps []Tensor, wp int64, workspace int64) int64
}

// Tensor is a trained tensor as an optimizer sees it.
type Tensor struct {
	N, Rows, Cols int64 // elements; of a matrix, 0 for a vector
	Width         int64 // bytes of an element
	Hidden        bool  // neither embedding nor head nor vector
	Unpacked      bool  // an 8-bit optimizer keeps its state in 32 bits
	Expert        bool  // of a routed expert
}

// all are known by the name of --optimizer. Plain names are PyTorch's default implementation (foreach).
var all = map[string]Optimizer{
	"adamw":            {state: 2, temp: 1},
	"adam":             {state: 2, temp: 1},
	"adam-wd":          {state: 2, temp: 1},
	"adamw-capturable": {state: 2, temp: 1, perTensor: 4},
	"adamw-fused":      {state: 2, perTensor: 4},
	"adamw-loop":       {state: 2, big: 2},
	"adamw-amsgrad":    {state: 3, temp: 1},
	"sgd":              {},
	"sgd-wd":           {temp: 1},
	"momentum":         {state: 1},
	"momentum-fused":   {state: 1},
	"nesterov":         {state: 1},
	"rmsprop":          {state: 1, temp: 1},
	"adagrad":          {state: 1, temp: 2, Early: true},
	"lion":             {state: 1, big: 2},
	"lamb":             {state: 2, big: 2},
	"adafactor":        {stateOf: factored, tempOf: adafactorLoop},
	"adafactor-foreach": {stateOf: factored, tempOf: func(ps []Tensor, wp, ws int64) int64 {
		var n int64
		for _, p := range ps {
			if p.Rows > 0 {
				n += wp * p.N
			}
		}
		return n + ws
	}},
	"adafactor-hf":       {stateOf: func(p Tensor, _ int64) int64 { return factored(p, 4) + 4 }, tempOf: adafactorHF},
	"adafactor-hf-beta1": {stateOf: func(p Tensor, _ int64) int64 { return factored(p, 4) + 4 + 4*p.N }, tempOf: adafactorHF},
	"muon": {stateOf: func(p Tensor, wp int64) int64 {
		if p.Rows == 0 {
			return 0
		}
		return wp * p.N
	}, tempOf: muonTemp,
		Note: "torch's Muon takes matrices only: vectors are counted without state, as if they were not trained by it"},
	"muon-adamw": {stateOf: func(p Tensor, wp int64) int64 {
		if p.Hidden {
			return wp * p.N
		}
		return 2 * wp * p.N
	}, tempOf: muonTemp},
	"adamw-8bit": {stateOf: func(p Tensor, _ int64) int64 { return eightBit(p, 2) },
		Note: eightBitNote},
	"lion-8bit": {stateOf: func(p Tensor, _ int64) int64 { return eightBit(p, 1) }, Note: eightBitNote},
	"adam-mini": {stateOf: func(p Tensor, wp int64) int64 {
		if p.Rows > 0 {
			return wp * (p.N + p.Rows)
		}
		return wp * (p.N + 1)
	}, big: 2},
	"galore":      {stateOf: galore(128), big: 2},
	"apollo":      {stateOf: apollo(256), wide: 4, big: 2},
	"apollo-mini": {stateOf: apollo(1), wide: 4, big: 2},
	"none":        {},
}

const eightBitNote = "bitsandbytes keeps tensors under 4,096 elements in 32 bits, with --framework transformers --trainer " +
	"those of embeddings, too"

// Names are those of all, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Of is the one of a name; of one that nobody has it keeps and takes nothing.
func Of(name string) Optimizer { return all[name] }

// Kept is how many tensors it keeps for each of a training's.
func (o Optimizer) Kept() int64 { return int64(max(o.state, 1)) }

// ByTensor says whether a step takes memory for each tensor, and not for all of them together.
func (o Optimizer) ByTensor() bool { return o.big == 0 && o.tempOf == nil }

// factored is Adafactor's second moment: a row and a column per matrix.
func factored(p Tensor, wp int64) int64 {
	if p.Rows > 0 {
		return wp * (p.N/p.Cols + p.N/p.Rows)
	}
	return wp * p.N
}

// eightBit is bitsandbytes' state: a byte per element and moment, and a
// float32 scale per 256 of them.
func eightBit(p Tensor, moments int64) int64 {
	if p.N < 4096 || p.Unpacked {
		return 4 * moments * p.N
	}
	return moments * (p.N + 4*((p.N+255)/256))
}

func galore(r int64) func(Tensor, int64) int64 {
	return func(p Tensor, wp int64) int64 {
		if !p.Hidden || min(p.Rows, p.Cols) <= r {
			return 2 * wp * p.N
		}
		return wp * r * (min(p.Rows, p.Cols) + 2*max(p.Rows, p.Cols))
	}
}

func apollo(r int64) func(Tensor, int64) int64 {
	return func(p Tensor, wp int64) int64 {
		if !p.Hidden || min(p.Rows, p.Cols) <= r {
			return 2 * wp * p.N
		}
		return wp * r * 2 * max(p.Rows, p.Cols)
	}
}

// adafactorLoop walks the tensors: the last one's update is still there while
// the next one's norms and its own update are made.
func adafactorLoop(ps []Tensor, wp, ws int64) int64 {
	var peak, before int64
	for _, p := range ps {
		if p.Rows == 0 {
			peak = max(peak, before+2*wp*p.N)
		} else {
			peak = max(peak, before+autograd.Staging(p.Rows, p.Cols, wp), before+wp*p.N+ws)
		}
		before = wp * p.N
	}
	return peak
}

// adafactorHF works in float32: two copies of the largest tensor, four where
// parameter and gradient are narrower.
func adafactorHF(ps []Tensor, wp, _ int64) int64 {
	var peak int64
	for _, p := range ps {
		n := 8 * p.N
		if wp < 4 {
			n = 16 * p.N
		}
		peak = max(peak, n+factored(p, 4))
	}
	return peak
}

// muonTemp is Newton-Schulz on the largest matrix: the update, two bf16
// copies, and two square products.
func muonTemp(ps []Tensor, wp, ws int64) int64 {
	var peak int64
	for _, p := range ps {
		if p.Rows > 0 {
			s := min(p.Rows, p.Cols)
			peak = max(peak, (wp+4)*p.N+4*s*s+ws)
		}
	}
	return peak
}

// ByWidth are tensors in groups of one type, which take their steps one after the other.
func ByWidth(ts []Tensor) (groups [][]Tensor) {
	for len(ts) > 0 {
		same := func(t Tensor) bool { return t.Width == ts[0].Width }
		other := slices.DeleteFunc(slices.Clone(ts), same)
		groups = append(groups, slices.DeleteFunc(ts, func(t Tensor) bool { return !same(t) }))
		ts = other
	}
	return groups
}

// Bytes are those of its state and of a step's temporaries, for tensors of one width and products with a workspace of so many
// bytes. With a float32 master copy the state is float32, the copy belongs to it, and the step casts the gradients unless they
// are as wide already.
func (o Optimizer) Bytes(ps []Tensor, ws int64, master, wideGradients bool) (state, temp int64) {
	var n, big int64
	for _, p := range ps {
		n += p.N
		big = max(big, p.N)
	}
	var wp int64
	if len(ps) > 0 {
		wp = ps[0].Width
	}
	w := wp
	if master {
		w = 4
	}
	if o.wide > 0 {
		w = o.wide
	}
	if o.stateOf != nil {
		for _, p := range ps {
			state += o.stateOf(p, w)
		}
	} else {
		state = int64(o.state * float64(w) * float64(n))
	}
	state += o.perTensor * int64(len(ps))
	temp = int64((o.temp*float64(n) + o.big*float64(big)) * float64(w))
	if o.tempOf != nil {
		temp = o.tempOf(ps, w, ws)
	}
	if master && w != wp {
		state += 4 * n
		if !wideGradients {
			temp += 4 * n
		}
	}
	return state, temp
}
