package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/optimizers"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// optimizerFiles tell an optimizer by the file that its state is made in, or that
// works in its step, the telling ones first.
var optimizerFiles = []named{
	{"galore_torch/", "galore"}, {"apollo_torch/", "apollo"},
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
func (o *observed) optimizer(trained int64, copies float64) (name, how string) {
	state := o.stateBytes()
	temporary, most := o.optimizerTemporary()
	ratio := float64(state) / float64(max(trained, 1))
	if name, how = o.optimizerOnStacks(state, ratio); name == "" {
		partial := o.step == nil && len(o.t.OOMs) > 0
		if trained == 0 || partial || state == 0 && !o.has(classify.Optimizer) && (!o.goesOn() || copies > 1.5) {
			return "", ""
		}
		if name, how = o.optimizerOfRatio(ratio, most, trained); name == "" {
			return "", ""
		}
	}
	kind, why := o.optimizerKind(trained, temporary, most)
	if slices.Contains(optimizers.Names(), name+kind) {
		name += kind
	}
	return name, how + why
}

// optimizerKind is how the step goes through the parameters, "" for many at once.
func (o *observed) optimizerKind(trained, temporary, most int64) (kind, how string) {
	switch {
	case o.shows(loop) && !o.shows(foreach), !o.shows(stacks) && temporary > trained-trained/8 && most < trained/2:
		return "-loop", ", and its loop over parameters"
	case !o.shows(foreach) && o.step != nil && 100*temporary < trained:
		return "-fused", ", and a step that needs no temporaries"
	}
	return "", ""
}

// optimizerOnStacks tells it by the files on the stacks; variants by the bytes of state.
func (o *observed) optimizerOnStacks(state int64, ratio float64) (name, how string) {
	for _, x := range optimizerFiles {
		if o.optimizers[x.name] {
			name, how = x.name, "the stacks of its state and its step"
			break
		}
	}
	switch {
	case name == "adamw" && ratio > 2.6 && ratio < 3.4:
		name, how = "adamw-amsgrad", how+", and a third moment"
	case name == "momentum" && state == 0 && !o.first:
		name, how = "sgd", how+", and no state"
	}
	return name, how
}

// optimizerOfRatio tells it by the bytes of state for each byte that is trained, and
// by the most temporaries at a time.
func (o *observed) optimizerOfRatio(ratio float64, most, trained int64) (name, how string) {
	how = fmt.Sprintf("%.2f bytes of state for each byte that is trained", ratio)
	for _, x := range []struct {
		from, to float64
		name     string
	}{
		{2.6, 3.4, "adamw-amsgrad"}, {1.7, 2.4, "adamw"}, {0.85, 1.2, "momentum"}, {0.4, 0.62, "adamw-8bit"},
		{0, 0.02, "adafactor"},
	} {
		if x.from < ratio && ratio < x.to {
			name = x.name
		}
	}
	switch {
	case name == "momentum" && most > trained*3/2:
		name, how = "adagrad", how+", and temporaries of twice that"
	case name == "momentum" && most > trained/2:
		name, how = "rmsprop", how+", and as many of temporaries"
	case ratio == 0 && o.step != nil:
		name, how = "sgd", "no state, as of no optimizer at all"
	}
	return name, how
}

// goesOn reports whether the step that is compared is a whole one, after which another
// came: an optimizer that has state would have it by then.
func (o *observed) goesOn() bool {
	n := len(o.c.Steps)
	return o.step != nil && n > 1 && o.step != &o.c.Steps[n-1]
}

// stateBytes is the optimizer's state at the end of what is looked at, or at its
// beginning, without what counts its steps: a program's last step ends with all freed.
func (o *observed) stateBytes() int64 {
	var begin, end int64
	first, last := o.compared()
	for i, category := range o.c.Category {
		id := timeline.AllocationID(i)
		if n := o.t.Requested(id); category == classify.OptimizerState && n > 8 {
			if o.t.AliveAt(id, last) {
				end += n
			}
			if first != timeline.NoEvent && o.t.AliveAt(id, first) {
				begin += n
			}
		}
	}
	return max(begin, end)
}

// optimizerTemporary are the bytes of temporaries of the optimizer's step, and the
// most of them at a time.
func (o *observed) optimizerTemporary() (all, most int64) {
	type change struct {
		event int
		bytes int64
	}
	var changes []change
	o.within(func(id timeline.AllocationID) {
		if o.c.Phase[id] == classify.Optimizer && o.c.Category[id] == classify.Temporary {
			n := o.t.Requested(id)
			all += n
			life := o.t.Life(id)
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
