package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// optimizerFiles tell an optimizer by the file that its state is made in, or that
// works in its step, the telling ones first.
var optimizerFiles = []struct{ file, name string }{
	{"bitsandbytes/", "adamw-8bit"}, {"torch/optim/adamw.py", "adamw"}, {"torch/optim/adam.py", "adamw"}, {"torch/optim/sgd.py",
		"momentum"},
	{"torch/optim/_adafactor.py", "adafactor"}, {"transformers/optimization.py", "adafactor-hf"}, {"torch/optim/rmsprop.py",
		"rmsprop"},
	{"torch/optim/adagrad.py", "adagrad"}, {"torch/optim/_muon.py", "muon"}, {"lion_pytorch/", "lion"}, {"/lion.py", "lion"},
}

// optimizer is the optimizer's name, by the stacks of its state or of its step,
// else by the size of its state for each byte of what is trained, unless a failure
// has left that in parts. Of weights there are so many copies: where there is more
// than one, state may be among them.
func (e *eye) optimizer(trained int64, copies float64) (name, how string) {
	for _, o := range optimizerFiles {
		if name == "" && e.signs.optimizers[o.name] {
			name, how = o.name, "the stacks of its state and its step"
		}
	}
	state := e.stateBytes()
	temporary, most := e.optimizerTemporary()
	ratio := float64(state) / float64(max(trained, 1))
	switch {
	case name == "adamw" && ratio > 2.6 && ratio < 3.4:
		name, how = "adamw-amsgrad", how+", and a third moment"
	case name == "momentum" && state == 0 && !e.first:
		name, how = "sgd", how+", and no state"
	}
	if name == "" {
		partial := e.step == nil && len(e.t.OOMs) > 0
		if trained == 0 || partial || state == 0 && !e.has(classify.Optimizer) && (!e.goesOn() || copies > 1.5) {
			return "", ""
		}
		how = fmt.Sprintf("%.2f bytes of state for each byte that is trained", ratio)
		switch {
		case ratio > 2.6 && ratio < 3.4:
			name = "adamw-amsgrad"
		case ratio > 1.7 && ratio < 2.4:
			name = "adamw"
		case ratio > 0.85 && ratio < 1.2:
			name = "momentum"
			if most > trained*3/2 {
				name, how = "adagrad", how+", and temporaries of twice that"
			} else if most > trained/2 {
				name, how = "rmsprop", how+", and as many of temporaries"
			}
		case ratio > 0.4 && ratio < 0.62:
			name = "adamw-8bit"
		case ratio > 0 && ratio < 0.02:
			name = "adafactor"
		case ratio == 0 && e.step != nil:
			name, how = "sgd", "no state, as of no optimizer at all"
		}
	}
	if name == "" {
		return "", ""
	}
	kind := ""
	switch {
	case e.signs.loop && !e.signs.foreach, !e.signs.stacks && temporary > trained-trained/8 && most < trained/2:
		kind, how = "-loop", how+", and its loop over parameters"
	case !e.signs.foreach && e.step != nil && 100*temporary < trained:
		kind, how = "-fused", how+", and a step that needs no temporaries"
	}
	if slices.Contains(budget.Optimizers(), name+kind) {
		name += kind
	}
	return name, how
}

// goesOn tells whether the step that is compared is a whole one, after which another
// came: an optimizer that has state would have it by then.
func (e *eye) goesOn() bool {
	n := len(e.c.Steps)
	return e.step != nil && n > 1 && e.step != &e.c.Steps[n-1]
}

// stateBytes is the optimizer's state at the end of what is looked at, or at its
// beginning, without what counts its steps: a program's last step ends with all freed.
func (e *eye) stateBytes() int64 {
	var begin, end int64
	first, last := e.looked()
	for i, category := range e.c.Category {
		id := timeline.AllocationID(i)
		if n := e.t.Requested(id); category == classify.OptimizerState && n > 8 {
			if e.t.AliveAt(id, last) {
				end += n
			}
			if first != timeline.NoEvent && e.t.AliveAt(id, first) {
				begin += n
			}
		}
	}
	return max(begin, end)
}

// optimizerTemporary are the bytes of temporaries of the optimizer's step, and the
// most of them at a time.
func (e *eye) optimizerTemporary() (all, most int64) {
	type change struct {
		event int
		bytes int64
	}
	var changes []change
	e.within(func(id timeline.AllocationID) {
		if e.c.Phase[id] == classify.Optimizer && e.c.Category[id] == classify.Temporary {
			n := e.t.Requested(id)
			all += n
			life := e.t.Life(id)
			changes = append(changes, change{life.Born, n}, change{life.Freed, -n})
		}
	})
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.event, b.event) })
	var now int64
	for _, c := range changes {
		now += c.bytes
		most = max(most, now)
	}
	return all, most
}
