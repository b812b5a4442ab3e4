package classify

import (
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
)

// frameFact is a frame's part in its stack's evidence.
type frameFact struct {
	marks
	hint         hint
	python, user bool
	forward      bool // one level of a module's forward
	step         bool // of one of torch's optimizers, which may be given a closure
	builds       bool // a constructor of the program's own
}

// judgeStacks works out the evidence of every distinct stack, each frame once.
func judgeStacks(s *snapshot.Snapshot) []evidence {
	view := frames.New(s)
	facts := make([]frameFact, len(s.Frames))
	for i := range s.Frames {
		f := &s.Frames[i]
		id := snapshot.FrameID(i)
		if view.Language(id) == frames.Python {
			facts[i] = judgePython(s.String(f.Function), s.String(f.File))
			facts[i].user = view.Owner(id) == frames.User
			if facts[i].user && namesWeights(s.String(f.Function)) {
				facts[i].marks |= named
			}
			if facts[i].user {
				facts[i].marks |= namesCache(s.String(f.Function))
			}
			facts[i].builds = facts[i].user && s.String(f.Function) == "__init__"
		} else {
			facts[i] = judgeNative(s.String(f.Function))
		}
	}
	out := make([]evidence, max(1, s.NumStacks()))
	for id := range s.NumStacks() {
		out[id] = judgeStack(facts, s.Stack(snapshot.StackID(id)))
	}
	return out
}

func judgeStack(facts []frameFact, frames []snapshot.FrameID) evidence {
	var e evidence
	python, user, closure := false, false, false
	for _, f := range frames {
		fact := &facts[f]
		m := fact.marks
		// The program's own code inside a step is what the step was given to run:
		// another forward and backward.
		user = user || fact.user
		closure = closure || user && fact.step
		if e.hint == hintOf(Optimizer) { // what an optimizer is called from says nothing of its work
			m &^= weight | inModule
		}
		e.marks |= m
		if fact.builds && !python {
			e.marks |= named
		}
		if fact.python && !python {
			python = true
			if fact.user {
				e.marks |= userInner
			}
			if fact.marks&engine != 0 && fact.marks&rebuild == 0 {
				e.marks |= nested
			}
		}
		if (e.hint == 0 || e.hint == hintOf(Forward) && fact.hint == hintOf(Generate)) && !(closure && fact.hint == hintOf(Optimizer)) {
			e.hint = fact.hint
		}
		if fact.forward && e.depth < 255 {
			e.depth++
		}
	}
	if e.marks&(engine|loss) == engine|loss {
		e.marks = e.marks&^loss | lossGrad
	}
	if e.marks&engine != 0 && e.hint != hintOf(Optimizer) {
		e.hint = hintOf(Backward)
	}
	return e
}

// namesWeights tells names such as init_all_weights and load_params.
func namesWeights(function string) bool {
	name := strings.ToLower(function)
	if !strings.Contains(name, "weight") && !strings.Contains(name, "param") {
		return false
	}
	for _, verb := range [...]string{"init", "load", "create", "make", "build", "alloc"} {
		if strings.HasPrefix(strings.TrimLeft(name, "_"), verb) {
			return true
		}
	}
	return false
}

// namesCache tells names such as allocate_kv_cache, which say what is cached, and
// setup_caches, which don't. Those that cache other things say which.
func namesCache(function string) marks {
	name := strings.Trim(strings.ToLower(function), "_")
	if !strings.Contains(name, "cache") {
		return 0
	}
	verb, words, _ := strings.Cut(name, "_")
	switch verb {
	case "init", "initialize", "create", "make", "build", "alloc", "allocate", "prealloc", "preallocate", "setup", "set", "reserve", "new":
	default:
		return 0
	}
	found := anyCache
	keys, values := false, false
	for word := range strings.SplitSeq(words, "_") {
		switch word {
		case "kv", "kvcache", "kvcaches":
			found = ownCache
		case "key", "keys":
			keys = true
		case "value", "values":
			values = true
		case "cache", "caches", "up", "and", "past", "static", "paged", "attn", "attention", "gpu", "cuda", "buffer", "buffers", "tensor", "tensors":
		default:
			return 0
		}
	}
	switch {
	case keys && values:
		return ownCache
	case keys || values:
		return 0
	}
	return found
}

func judgePython(function, file string) frameFact {
	fact := frameFact{python: true}
	if strings.Contains(file, "\\") {
		file = strings.ReplaceAll(file, "\\", "/")
	}
	for i := range pythonRules {
		r := &pythonRules[i]
		if (r.function == "" || r.function == function) && strings.Contains(file, r.file) {
			fact.marks, fact.hint = r.marks, r.hint
			break
		}
	}
	switch function { // of torch, or what people call their own
	case "cross_entropy", "cross_entropy_loss", "nll_loss", "log_softmax":
		fact.marks |= loss
	case "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss":
		fact.marks |= distance
	case "binary_cross_entropy_with_logits":
		fact.marks |= perClass
	}
	fact.step = function == "step" && strings.Contains(file, "torch/optim/") && !strings.HasSuffix(file, "torch/optim/optimizer.py")
	fact.forward = function == "_call_impl" && strings.HasSuffix(file, "torch/nn/modules/module.py")
	return fact
}

func judgeNative(function string) frameFact {
	fact := frameFact{marks: native}
	if rest, ok := strings.CutPrefix(function, "at::_ops::"); ok {
		name, _, _ := strings.Cut(rest, "::")
		fact.marks |= operators[name]
		return fact
	}
	for i := range nativeRules {
		r := &nativeRules[i]
		if strings.Contains(function, r.function) {
			fact.marks |= r.marks
			fact.hint = max(fact.hint, r.hint)
		}
	}
	return fact
}
