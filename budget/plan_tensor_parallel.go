package budget

import (
	"fmt"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
)

// tensorParallel makes this rank's part of the model.
func (p *plan) tensorParallel() error {
	if p.TP == 1 && p.EP == 1 {
		return nil
	}
	done, err := p.model.Divide(p.TP, p.EP, p.expertTP, p.ExpertLoad)
	if err == nil && p.TP > 1 {
		p.undivided(done)
	}
	return err
}

// undivided notes what is left whole though it is large, for want of a scheme.
func (p *plan) undivided(done map[*parameter]bool) {
	var n int64
	name := ""
	for _, q := range p.model.Params {
		if len(q.Shape) < 2 || done[q] || q.Role == network.RoleNorm || q.Role == network.RoleRouter ||
			q.Role == network.RolePosition {
			continue
		}
		if n == 0 {
			name = q.Name
		}
		n += q.Elements()
	}
	if n > p.whole.Total/100 {
		p.notes = append(p.notes, fmt.Sprintf("--tp %d leaves %d parameters whole on every rank (the first is %s): no known "+
			"scheme divides them", p.TP, n, name))
	}
}

// symmetric is the workspace of asynchronous tensor parallelism, one for the group, as large as
// the largest product asks for: a product whose results are summed over the ranks sends two of a
// rank's pieces by turns, one whose input is gathered has its own piece there
// (torch/distributed/_symmetric_memory, _pipelined_produce_and_all2all). It is mapped in pages of 2 MiB.
func (p *holding) symmetric() int64 {
	if !p.AsyncTP || p.TP == 1 || !p.SequenceParallel || !p.Compile || p.Inference {
		return 0
	}
	return autograd.Parts(2*p.Batch*autograd.Parts(p.Sequence, p.TP)*p.model.Hidden*p.width, 2*mib) * 2 * mib
}
