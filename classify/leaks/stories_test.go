package leaks_test

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
)

// trainer is an ordinary training loop: three layers, AdamW.
type trainer struct {
	*story
	weights, grads, state []int
	outputs               []int // of the forward under way
}

func newTrainer(s *story) *trainer {
	tr := &trainer{story: s}
	for range 3 {
		tr.weights = append(tr.weights, s.alloc(meaning.Weights, 64*mib, "train.py:5 main"))
	}
	return tr
}

func (tr *trainer) forward() {
	tr.in(meaning.Data)
	tr.outputs = []int{tr.alloc(meaning.Inputs, 16<<10, "train.py:10 main")}
	tr.in(meaning.Forward)
	for i := range 3 {
		tr.outputs = append(tr.outputs, tr.alloc(meaning.Activations, 32*mib, fmt.Sprintf("net.py:%d forward", 20+i),
			"train.py:11 main"))
		tr.free(tr.alloc(meaning.Temporary, 8*mib, "net.py:30 forward", "train.py:11 main"))
	}
	tr.outputs = append(tr.outputs, tr.alloc(meaning.Temporary, 4, "train.py:12 main"))
}

// backward frees what the forward made, except what is still wanted.
func (tr *trainer) backward(keep ...int) {
	tr.in(meaning.Backward)
	for i := len(tr.outputs) - 1; i >= 0; i-- {
		tr.free(tr.alloc(meaning.Temporary, 32*mib))
		if !slices.Contains(keep, tr.outputs[i]) {
			tr.free(tr.outputs[i])
		}
	}
	for range tr.weights {
		if len(tr.grads) < len(tr.weights) {
			tr.grads = append(tr.grads, tr.alloc(meaning.Gradients, 64*mib))
		} else { // accumulated in place
			tr.free(tr.alloc(meaning.Temporary, 64*mib))
		}
	}
}

func (tr *trainer) optimize() {
	tr.in(meaning.Optimizer)
	for len(tr.state) < 2*len(tr.weights) {
		tr.state = append(tr.state, tr.alloc(meaning.OptimizerState, 64*mib, "train.py:14 main"))
	}
	tr.free(tr.alloc(meaning.Temporary, 64*mib, "train.py:14 main"))
}

func (tr *trainer) zeroGrad() {
	tr.in(meaning.ZeroGrad)
	tr.free(tr.grads...)
	tr.grads = nil
}

// train tells of a whole training step.
func (tr *trainer) train(keep ...int) {
	tr.forward()
	tr.backward(keep...)
	tr.optimize()
	tr.zeroGrad()
}

// leakStories are programs with the leaks that they show, as "kind file:line".
var leakStories = []struct {
	name string
	tell func(s *story)
	want []string // defects
	also []string // what is no defect
	mute bool     // without stacks nothing can be said
}{
	{"training alone", func(s *story) {
		tr := newTrainer(s)
		s.loop(5, func(int) { tr.train() })
	}, nil, []string{"first_step_state? train.py:14"}, false},

	{"a list of detached tensors", func(s *story) {
		tr := newTrainer(s)
		s.loop(5, func(int) {
			tr.train()
			s.in(meaning.OtherPhase)
			s.alloc(meaning.Temporary, 8*mib, "log.py:7 remember", "train.py:16 main")
		})
	}, []string{"growing_list log.py:7"}, nil, false},

	{"a list that takes something every third step", func(s *story) {
		tr := newTrainer(s)
		s.loop(15, func(k int) {
			tr.train()
			if s.in(meaning.OtherPhase); k%3 == 2 {
				s.alloc(meaning.Temporary, 8*mib, "log.py:7 remember", "train.py:16 main")
			}
		})
	}, []string{"growing_list log.py:7"}, nil, false},

	{"a list in two steps only is suspected", func(s *story) {
		tr := newTrainer(s)
		s.loop(2, func(int) {
			tr.train()
			s.in(meaning.OtherPhase)
			s.alloc(meaning.Temporary, 32*mib, "log.py:7 remember", "train.py:16 main")
		})
	}, []string{"growing_list? log.py:7"}, nil, false},

	{"features of every batch, without training", func(s *story) {
		s.alloc(meaning.Weights, 256*mib, "extract.py:3 main")
		s.loop(6, func(int) {
			s.in(meaning.Forward)
			for i := range 8 {
				a := s.alloc(meaning.Temporary, 16*mib, fmt.Sprintf("net.py:%d forward", 20+i), "extract.py:8 encode")
				if i < 7 {
					s.free(a)
				}
			}
		})
	}, []string{"growing_list extract.py:8"}, nil, false},

	{"copies of the gradients", func(s *story) {
		tr := newTrainer(s)
		s.loop(5, func(int) {
			tr.forward()
			tr.backward()
			s.in(meaning.OtherPhase)
			for range 3 {
				s.alloc(meaning.Temporary, 64*mib, "norms.py:9 record", "train.py:13 main")
			}
			tr.optimize()
			tr.zeroGrad()
		})
	}, []string{"growing_list norms.py:9"}, nil, false},

	{"a state carried from step to step with its graph", func(s *story) {
		tr := newTrainer(s)
		s.loop(5, func(int) {
			tr.forward()
			s.in(meaning.Forward)
			for i := range 8 {
				s.alloc(meaning.Activations, int64(8+i%4)*mib, fmt.Sprintf("net.py:%d forward", 40+i), "train.py:11 main")
			}
			tr.backward()
			tr.optimize()
			tr.zeroGrad()
		})
	}, []string{"retained_graph net.py:47"}, nil, false},

	{"a metric kept with its graph", func(s *story) {
		tr := newTrainer(s)
		s.loop(5, func(int) {
			tr.forward()
			s.in(meaning.Forward)
			s.alloc(meaning.Logits, 100*mib, "metrics.py:4 entropy", "train.py:12 main")
			s.alloc(meaning.Logits, 100*mib, "metrics.py:5 entropy", "train.py:12 main")
			s.alloc(meaning.Temporary, 4, "metrics.py:5 entropy", "train.py:12 main")
			tr.backward()
			tr.optimize()
			tr.zeroGrad()
		})
	}, []string{"retained_graph metrics.py:5"}, nil, false},

	{"losses summed without no_grad", func(s *story) {
		s.alloc(meaning.Weights, 256*mib, "eval.py:3 main")
		s.loop(4, func(int) {
			s.in(meaning.Forward)
			for i := range 12 {
				s.alloc(meaning.Activations, int64(4+i%5)*mib, fmt.Sprintf("net.py:%d forward", 20+i), "eval.py:8 main")
				s.free(s.alloc(meaning.Temporary, 4*mib, "net.py:19 forward", "eval.py:8 main"))
				s.free(s.alloc(meaning.Temporary, 4*mib, "net.py:19 forward", "eval.py:8 main"))
				s.free(s.alloc(meaning.Temporary, 4*mib, "net.py:19 forward", "eval.py:8 main"))
			}
			s.alloc(meaning.Temporary, 4, "eval.py:9 main")
		})
	}, []string{"retained_graph eval.py:9"}, nil, true},

	{"gradients zeroed in place", func(s *story) {
		tr := newTrainer(s)
		s.loop(4, func(int) {
			tr.forward()
			tr.backward()
			tr.optimize()
		})
	}, []string{"gradients_kept"}, nil, false},

	{"gradients zeroed in place before the forward", func(s *story) {
		tr := newTrainer(s)
		s.loop(4, func(int) {
			s.in(meaning.ZeroGrad)
			tr.forward()
			tr.backward()
			tr.optimize()
		})
	}, []string{"gradients_kept"}, nil, false},

	{"gradients freed after the next forward", func(s *story) {
		tr := newTrainer(s)
		s.loop(5, func(int) {
			tr.forward()
			tr.zeroGrad()
			tr.backward()
			tr.optimize()
		})
	}, nil, nil, false},

	{"gradients accumulated, the optimizer not seen", func(s *story) {
		tr := newTrainer(s)
		s.loop(6, func(int) {
			tr.forward()
			tr.backward()
		})
	}, nil, nil, false},

	{"gradients accumulated over four steps", func(s *story) {
		tr := newTrainer(s)
		s.loop(12, func(k int) {
			tr.forward()
			tr.backward()
			if k%4 == 3 {
				tr.optimize()
				tr.zeroGrad()
			}
		})
	}, nil, nil, false},

	{"momentum taken for gradients", func(s *story) {
		tr := newTrainer(s)
		s.loop(5, func(k int) {
			tr.forward()
			tr.backward()
			if k == 0 {
				for range tr.weights {
					s.alloc(meaning.Gradients, 64*mib)
				}
			}
			tr.optimize()
			tr.zeroGrad()
		})
	}, nil, nil, false},

	{"DDP's buckets, built again in the second step", func(s *story) {
		tr := newTrainer(s)
		s.alloc(meaning.Communication, 192*mib, "train.py:6 main")
		s.loop(5, func(k int) {
			if s.in(meaning.Forward); k == 1 {
				s.alloc(meaning.Communication, 192*mib, "train.py:11 main")
			}
			tr.train()
		})
	}, nil, nil, false},

	{"a queue of three batches", func(s *story) {
		tr := newTrainer(s)
		var queue []int
		s.loop(8, func(int) {
			s.in(meaning.Data)
			if queue = append(queue, s.alloc(meaning.Inputs, 16*mib, "data.py:5 next")); len(queue) > 3 {
				s.free(queue[0])
				queue = queue[1:]
			}
			tr.train()
		})
	}, nil, nil, false},

	{"a list that is cleared every fourth step", func(s *story) {
		tr := newTrainer(s)
		var list []int
		s.loop(11, func(k int) {
			tr.train()
			s.in(meaning.OtherPhase)
			if list = append(list, s.alloc(meaning.Temporary, 8*mib, "log.py:7 remember")); k%4 == 3 {
				s.free(list...)
				list = nil
			}
		})
	}, nil, nil, false},

	{"state of one size that every second step makes anew", func(s *story) {
		tr := newTrainer(s)
		var roots []int
		s.loop(6, func(k int) {
			tr.forward()
			tr.backward()
			if tr.optimize(); k == 0 {
				for range 6 {
					s.alloc(meaning.OptimizerState, 16*mib, "train.py:15 root")
				}
			}
			for i := 0; k%2 == 0 && i < 6; i++ {
				anew := s.alloc(meaning.OptimizerState, 16*mib, "train.py:15 root")
				if len(roots) == 6 {
					s.free(roots[0])
					roots = roots[1:]
				}
				roots = append(roots, anew)
			}
			tr.zeroGrad()
		})
	}, nil, nil, false},

	{"a buffer that is filled anew once, and what the last step's variables hold", func(s *story) {
		tr := newTrainer(s)
		buffer, kept := s.alloc(meaning.Inputs, 128*mib, "data.py:5 main"), -1
		s.loop(13, func(k int) {
			s.in(meaning.Forward)
			if k == 12 {
				s.alloc(meaning.Activations, 64*mib, "train.py:17 main")
				return
			}
			if k == 0 {
				s.alloc(meaning.Activations, 64<<10, "train.py:6 main")
			}
			if k == 8 {
				s.free(buffer)
				s.alloc(meaning.Activations, 128*mib, "data.py:9 refill")
				s.alloc(meaning.Activations, 9*mib, "net.py:40 hook")
			}
			if kept >= 0 {
				s.free(kept, kept+1)
			}
			kept = s.alloc(meaning.Inputs, 16*mib, "train.py:10 main")
			s.alloc(meaning.Activations, 256*mib, "train.py:11 main")
			tr.train()
		})
	}, nil, []string{"first_step_state? train.py:14"}, false},

	{"a list that has stopped growing", func(s *story) {
		tr := newTrainer(s)
		s.loop(9, func(k int) {
			tr.train()
			if s.in(meaning.OtherPhase); k < 4 {
				s.alloc(meaning.Temporary, 8*mib, "log.py:7 remember")
			}
		})
	}, nil, nil, false},

	{"numbers for the log", func(s *story) {
		tr := newTrainer(s)
		s.loop(20, func(int) {
			tr.train()
			s.in(meaning.OtherPhase)
			s.alloc(meaning.Temporary, 4, "log.py:7 remember")
			s.alloc(meaning.Temporary, 256, "log.py:8 remember")
		})
	}, nil, nil, false},

	{"outputs held until the next forward has made new ones", func(s *story) {
		tr := newTrainer(s)
		var held []int
		s.loop(4, func(int) {
			tr.forward()
			s.in(meaning.Forward)
			out := s.alloc(meaning.Logits, 200*mib, "train.py:11 main")
			s.free(held...)
			held = []int{out}
			tr.backward()
			tr.optimize()
			tr.zeroGrad()
		})
	}, nil, []string{"stale_outputs train.py:11"}, false},

	{"outputs of a module, held by who calls it", func(s *story) {
		s.alloc(meaning.Weights, 256*mib, "check.py:3 main")
		var held []int
		s.loop(4, func(int) {
			s.in(meaning.Forward)
			hidden := s.alloc(meaning.Temporary, 32*mib, "net.py:20 forward", "check.py:9 validate", "check.py:30 main")
			s.free(s.alloc(meaning.Temporary, 32*mib, "net.py:22 forward", "check.py:9 validate", "check.py:30 main"))
			out := s.alloc(meaning.Logits, 200*mib, "net.py:24 forward", "net.py:30 forward", "check.py:9 validate",
				"check.py:30 main")
			s.free(hidden)
			s.free(held...)
			loss := s.alloc(meaning.Temporary, mib, "check.py:10 validate", "check.py:30 main")
			held = []int{out, loss}
		})
	}, nil, []string{"stale_outputs check.py:9"}, false},

	{"decoding with a cache that is copied as it grows", func(s *story) {
		s.alloc(meaning.Weights, 512*mib, "chat.py:3 main")
		cache := make([]int, 4)
		s.loop(12, func(k int) {
			s.in(meaning.Generate)
			for i := range cache {
				s.free(s.alloc(meaning.Temporary, 4*mib, "net.py:20 forward", "chat.py:9 main"))
				next := s.alloc(meaning.KVCache, int64(100+k)*32<<10, "net.py:25 forward", "chat.py:9 main")
				if k > 0 {
					s.free(cache[i])
				}
				cache[i] = next
			}
		})
	}, nil, nil, false},

	{"the caches of all requests", func(s *story) {
		s.alloc(meaning.Weights, 512*mib, "chat.py:3 main")
		s.loop(6, func(int) {
			cache := make([]int, 4)
			s.in(meaning.Generate)
			for token := range 8 {
				for i := range cache {
					s.free(s.alloc(meaning.Temporary, 4*mib, "net.py:20 forward", "chat.py:9 reply", "chat.py:20 main"))
					next := s.alloc(meaning.KVCache, int64(100+token)*32<<10, "net.py:25 forward", "chat.py:9 reply",
						"chat.py:20 main")
					if token > 0 {
						s.free(cache[i])
					}
					cache[i] = next
				}
			}
		})
	}, []string{"growing_list chat.py:9"}, nil, false},

	{"decoding with a cache that is a list of tokens", func(s *story) {
		s.alloc(meaning.Weights, 512*mib, "chat.py:3 main")
		s.loop(12, func(int) {
			s.in(meaning.Generate)
			for range 4 {
				s.free(s.alloc(meaning.Temporary, 4*mib, "net.py:20 forward", "chat.py:9 main"))
				s.alloc(meaning.KVCache, 64<<10, "net.py:25 forward", "chat.py:9 main")
				s.free(s.alloc(meaning.KVCache, 1*mib, "net.py:26 forward", "chat.py:9 main"))
			}
		})
	}, nil, nil, false},

	{"the layers of one forward", func(s *story) {
		s.alloc(meaning.Weights, 256*mib, "train.py:5 main")
		s.in(meaning.Forward)
		s.alloc(meaning.Activations, 16*mib, "net.py:48 forward", "train.py:11 main")
		s.loop(6, func(int) {
			s.in(meaning.Forward)
			for i := range 6 {
				s.free(s.alloc(meaning.Temporary, 8*mib, "block.py:4 forward", "net.py:50 forward", "train.py:11 main"))
				s.alloc(meaning.Activations, int64(4+i%3)*mib, fmt.Sprintf("block.py:%d forward", 5+i), "net.py:50 forward",
					"train.py:11 main")
			}
			s.alloc(meaning.Activations, 4*mib, "net.py:51 forward", "train.py:11 main")
		})
	}, nil, nil, false},

	{"a model loaded layer by layer", func(s *story) {
		s.loop(8, func(int) {
			s.in(meaning.Forward)
			for range 4 {
				s.alloc(meaning.Unknown, 64*mib, "load.py:5 load")
			}
		})
	}, nil, nil, false},

	{"a shadow of the weights, updated in place", func(s *story) {
		tr := newTrainer(s)
		for range 3 {
			s.alloc(meaning.Weights, 64*mib, "ema.py:5 init")
		}
		s.loop(5, func(int) {
			tr.train()
			s.in(meaning.OtherPhase)
			s.free(s.alloc(meaning.Temporary, 64*mib, "ema.py:9 update"))
		})
	}, nil, nil, false},

	{"batches of varying length", func(s *story) {
		tr := newTrainer(s)
		s.loop(6, func(k int) {
			s.in(meaning.Data)
			in := s.alloc(meaning.Inputs, int64(1+k*7%5)<<20, "data.py:5 next")
			s.in(meaning.Forward)
			var acts []int
			for range 10 {
				acts = append(acts, s.alloc(meaning.Activations, int64(1+k*7%5)*16*mib, "net.py:20 forward"))
			}
			tr.backward()
			s.free(acts...)
			s.free(in)
			tr.optimize()
			tr.zeroGrad()
			tr.outputs = nil
		})
	}, nil, []string{"varying_shapes data.py:5"}, false},

	{"batches of one length, with a few operations more in some steps", func(s *story) {
		tr := newTrainer(s)
		s.loop(6, func(k int) {
			s.in(meaning.Forward)
			var acts []int
			for range k % 3 {
				acts = append(acts, s.alloc(meaning.Temporary, 8*mib, "net.py:19 forward"))
			}
			for i := range 60 {
				acts = append(acts, s.alloc(meaning.Activations, int64(2+i%4*3)*mib, fmt.Sprintf("net.py:%d forward", 20+i)))
			}
			tr.backward()
			s.free(acts...)
			tr.optimize()
			tr.zeroGrad()
			tr.outputs = nil
		})
	}, nil, nil, false},

	{"reserved memory that grows alone", func(s *story) {
		tr := newTrainer(s)
		s.loop(8, func(int) {
			tr.train()
			s.reserve(200 * mib)
		})
	}, nil, []string{"fragmentation_creep"}, false},

	{"reserved memory that is given back and taken again", func(s *story) {
		tr := newTrainer(s)
		s.loop(10, func(k int) {
			tr.train()
			if k == 7 {
				for range k {
					s.giveBack()
				}
			} else {
				s.reserve(200 * mib)
			}
		})
	}, nil, nil, false},
}
