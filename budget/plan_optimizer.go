package budget

import (
	"maps"
	"math"
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
)

// optimizerRow is what an optimizer keeps and takes. state and temp are
// bytes per parameter in units of the parameter's width; big is per element
// of the largest tensor. Rows that need more than that have functions.
type optimizerRow struct {
	state, temp, big float64
	perTensor        int64 // bytes of a step counter on the device
	early            bool  // state exists before the first step
	wide             int64 // width of the state where it is not the parameter's
	stateOf          func(p optTensor, wp int64) int64
	tempOf           func(ps []optTensor, wp int64, workspace int64) int64
	note             string
}

// optTensor is a trained tensor as an optimizer sees it.
type optTensor struct {
	n, rows, cols int64 // rows and cols 0 for a vector
	width         int64 // bytes of an element
	hidden        bool  // neither embedding nor head nor vector
	unpacked      bool  // an 8-bit optimizer keeps its state in 32 bits
	expert        bool
}

// optimizers, by the name of --optimizer. Plain names are PyTorch's default
// implementation (foreach).
var optimizers = map[string]optimizerRow{
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
	"adagrad":          {state: 1, temp: 2, early: true},
	"lion":             {state: 1, big: 2},
	"lamb":             {state: 2, big: 2},
	"adafactor":        {stateOf: factored, tempOf: adafactorLoop},
	"adafactor-foreach": {stateOf: factored, tempOf: func(ps []optTensor, wp, ws int64) int64 {
		var n int64
		for _, p := range ps {
			if p.rows > 0 {
				n += wp * p.n
			}
		}
		return n + ws
	}},
	"adafactor-hf":       {stateOf: func(p optTensor, _ int64) int64 { return factored(p, 4) + 4 }, tempOf: adafactorHF},
	"adafactor-hf-beta1": {stateOf: func(p optTensor, _ int64) int64 { return factored(p, 4) + 4 + 4*p.n }, tempOf: adafactorHF},
	"muon": {stateOf: func(p optTensor, wp int64) int64 {
		if p.rows == 0 {
			return 0
		}
		return wp * p.n
	}, tempOf: muonTemp,
		note: "torch's Muon takes matrices only: vectors are counted without state, as if they were not trained by it"},
	"muon-adamw": {stateOf: func(p optTensor, wp int64) int64 {
		if p.hidden {
			return wp * p.n
		}
		return 2 * wp * p.n
	}, tempOf: muonTemp},
	"adamw-8bit": {stateOf: func(p optTensor, _ int64) int64 { return eightBit(p, 2) },
		note: eightBitNote},
	"lion-8bit": {stateOf: func(p optTensor, _ int64) int64 { return eightBit(p, 1) }, note: eightBitNote},
	"adam-mini": {stateOf: func(p optTensor, wp int64) int64 {
		if p.rows > 0 {
			return wp * (p.n + p.rows)
		}
		return wp * (p.n + 1)
	}, big: 2},
	"galore":      {stateOf: galore(128), big: 2},
	"apollo":      {stateOf: apollo(256), wide: 4, big: 2},
	"apollo-mini": {stateOf: apollo(1), wide: 4, big: 2},
	"none":        {},
}

const eightBitNote = "bitsandbytes keeps tensors under 4,096 elements in 32 bits, with --framework transformers --trainer " +
	"those of embeddings, too"

// Optimizers lists the names, sorted.
func Optimizers() []string { return slices.Sorted(maps.Keys(optimizers)) }

// factored is Adafactor's second moment: a row and a column per matrix.
func factored(p optTensor, wp int64) int64 {
	if p.rows > 0 {
		return wp * (p.n/p.cols + p.n/p.rows)
	}
	return wp * p.n
}

// eightBit is bitsandbytes' state: a byte per element and moment, and a
// float32 scale per 256 of them.
func eightBit(p optTensor, moments int64) int64 {
	if p.n < 4096 || p.unpacked {
		return 4 * moments * p.n
	}
	return moments * (p.n + 4*((p.n+255)/256))
}

func galore(r int64) func(optTensor, int64) int64 {
	return func(p optTensor, wp int64) int64 {
		if !p.hidden || min(p.rows, p.cols) <= r {
			return 2 * wp * p.n
		}
		return wp * r * (min(p.rows, p.cols) + 2*max(p.rows, p.cols))
	}
}

func apollo(r int64) func(optTensor, int64) int64 {
	return func(p optTensor, wp int64) int64 {
		if !p.hidden || min(p.rows, p.cols) <= r {
			return 2 * wp * p.n
		}
		return wp * r * 2 * max(p.rows, p.cols)
	}
}

// adafactorLoop walks the tensors: the last one's update is still there while
// the next one's norms and its own update are made.
func adafactorLoop(ps []optTensor, wp, ws int64) int64 {
	var peak, before int64
	for _, p := range ps {
		if p.rows == 0 {
			peak = max(peak, before+2*wp*p.n)
		} else {
			peak = max(peak, before+autograd.Staging(p.rows, p.cols, wp), before+wp*p.n+ws)
		}
		before = wp * p.n
	}
	return peak
}

// adafactorHF works in float32: two copies of the largest tensor, four where
// parameter and gradient are narrower.
func adafactorHF(ps []optTensor, wp, _ int64) int64 {
	var peak int64
	for _, p := range ps {
		n := 8 * p.n
		if wp < 4 {
			n = 16 * p.n
		}
		peak = max(peak, n+factored(p, 4))
	}
	return peak
}

// muonTemp is Newton-Schulz on the largest matrix: the update, two bf16
// copies, and two square products.
func muonTemp(ps []optTensor, wp, ws int64) int64 {
	var peak int64
	for _, p := range ps {
		if p.rows > 0 {
			s := min(p.rows, p.cols)
			peak = max(peak, (wp+4)*p.n+4*s*s+ws)
		}
	}
	return peak
}

// optTensors are those of some parameters that are trained.
func (p *plan) optTensors(qs []*parameter) []optTensor {
	var ps []optTensor
	for _, q := range qs {
		if !q.Trainable {
			continue
		}
		t := optTensor{n: p.padded(q), width: p.betweenSteps(q), expert: q.Expert(),
			unpacked: p.overridesEmbeddings() && (q.Role == network.RoleEmbedding || q.Role == network.RolePosition)}
		if k := len(q.Shape); k > 1 && !(q.Shape[k-1] == 1 && k == 2) {
			t.cols = q.Shape[k-1]
			t.rows = q.Shape[k-2]
			t.hidden = q.Role != network.RoleEmbedding && q.Role != network.RoleHead && q.Role != network.RolePosition
		}
		ps = append(ps, t)
	}
	return ps
}

// byWidth are tensors in groups of one type, which take their steps one after the other.
func byWidth(ts []optTensor) (groups [][]optTensor) {
	for len(ts) > 0 {
		same := func(t optTensor) bool { return t.width == ts[0].width }
		other := slices.DeleteFunc(slices.Clone(ts), same)
		groups = append(groups, slices.DeleteFunc(ts, func(t optTensor) bool { return !same(t) }))
		ts = other
	}
	return groups
}

// optimizerBytes are the state and the step's temporaries of an optimizer
// over tensors of one width. With a float32 master copy the state
// is float32, the copy belongs to it, and the step casts the gradients unless they are as wide already.
func optimizerBytes(name string, ps []optTensor, ws int64, master, wideGradients bool) (state, temp int64) {
	row := optimizers[name]
	var n, big int64
	for _, p := range ps {
		n += p.n
		big = max(big, p.n)
	}
	var wp int64
	if len(ps) > 0 {
		wp = ps[0].width
	}
	w := wp
	if master {
		w = 4
	}
	if row.wide > 0 {
		w = row.wide
	}
	if row.stateOf != nil {
		for _, p := range ps {
			state += row.stateOf(p, w)
		}
	} else {
		state = int64(row.state * float64(w) * float64(n))
	}
	state += row.perTensor * int64(len(ps))
	temp = int64((row.temp*float64(n) + row.big*float64(big)) * float64(w))
	if row.tempOf != nil {
		temp = row.tempOf(ps, w, ws)
	}
	if master && w != wp {
		state += 4 * n
		if !wideGradients {
			temp += 4 * n
		}
	}
	return state, temp
}

// overridesEmbeddings: Transformers' Trainer has bitsandbytes keep embeddings' state in 32 bits (its
// GlobalOptimManager); loops of one's own with Accelerate don't.
func (p *plan) overridesEmbeddings() bool {
	return p.Trainer && !p.unsaid && p.profile.accelerates
}

// reserved is what the caching allocator takes from the device for these requests, in bytes.
func (p *plan) reserved(load, step []request) int64 {
	o := autograd.Reserve{Expandable: p.Allocator == "expandable", Early: optimizers[p.Optimizer].early,
		Behind: p.flatUnits() && p.HostAhead, Ahead: unitsAhead}
	if p.FreeGathers {
		o.Ahead = math.MaxInt
	}
	o.State, o.Temp = p.optimizerTensors()
	return o.Reserved(load, step)
}

// optimizerTensors are the sizes of what the optimizer keeps, and of what a step takes.
func (p *plan) optimizerTensors() (state, temp []int64) {
	if p.Offload != "none" || p.Optimizer == "none" {
		return nil, nil
	}
	ws, _ := p.workspaces()
	row := optimizers[p.Optimizer]
	ts := p.unevenTensors(p.optTensors(p.everything()))
	for _, t := range ts {
		s, x := optimizerBytes(p.Optimizer, []optTensor{t}, ws, p.MasterWeights, p.wideGradients())
		s, n := p.share(s, 1, t.expert), int64(max(row.state, 1))
		for range n {
			state = append(state, s/n)
		}
		if row.big == 0 && row.tempOf == nil {
			temp = append(temp, p.share(x, 1, t.expert))
		}
	}
	if row.big > 0 || row.tempOf != nil {
		_, x := p.optimizer()
		temp = append(temp, x)
	}
	return state, temp
}
