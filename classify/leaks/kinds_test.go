package leaks_test

import (
	"fmt"
	"testing"

	"github.com/vramscope/vramscope/classify/leaks"
	"github.com/vramscope/vramscope/classify/meaning"
)

func TestRetainedGraph(t *testing.T) {
	keeps := func(n int, kinds int, loss int64, in func(k int) bool) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
			s.loop(n, func(k int) {
				s.ordinary(func() {
					if !in(k) {
						return
					}
					for i := range kinds {
						s.alloc(meaning.Activations, int64(2+i)*mib, fmt.Sprintf("net.py:%d forward", 40+i), "train.py:11 main")
					}
					if loss > 0 {
						s.alloc(meaning.Temporary, loss, "train.py:12 main")
					}
				})
			})
		}
	}
	passes := func(kept int) func(s *story) { // without training
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "eval.py:3 main")
			s.loop(4, func(int) {
				s.in(meaning.Forward)
				for i := range 12 {
					a := s.alloc(meaning.Activations, int64(1+i%3)*mib, fmt.Sprintf("net.py:%d forward", 20+i), "eval.py:8 main")
					s.work(4*mib, "net.py:19 forward", "eval.py:8 main")
					if i >= kept {
						s.free(a)
					}
				}
				s.alloc(meaning.Temporary, 4, "eval.py:9 main")
			})
		}
	}
	check(t, []tale{
		{"two tensors and the loss", false, keeps(5, 2, 4, always), []string{"retained_graph! train.py:12 5*5243392=26216960"}},
		{"of three steps", false, keeps(3, 2, 4, always), []string{"retained_graph! train.py:12 3*5243392=15730176"}},
		{"of two steps", false, keeps(2, 2, 4, always), []string{"retained_graph!? train.py:12 2*5243392=10486784"}},
		{"of one step", false, keeps(1, 2, 4, always), nil},
		{"up to the step before the last, which is cut short", false, keeps(6, 2, 4, upTo(4)),
			[]string{"retained_graph! train.py:12 5*5243392=26216960"}},
		{"up to the step before that", false, keeps(6, 2, 4, upTo(3)), nil},
		{"one tensor and the loss is a list", false, keeps(5, 1, 4, always),
			[]string{"growing_list! train.py:11 5*2097664=10488320"}},
		{"a loss of 512 bytes", false, keeps(5, 2, 512, always), []string{"retained_graph! train.py:12 5*5243392=26216960"}},
		{"a loss that is no number", false, keeps(5, 2, 513, always), []string{"retained_graph! train.py:12 5*5243904=26219520"}},
		{"five tensors without a loss", false, keeps(5, 5, 0, always),
			[]string{"retained_graph! net.py:44 5*20971520=104857600"}},
		{"six tensors without a loss", false, keeps(5, 6, 0, always), []string{"retained_graph! net.py:45 5*28311552=141557760"}},
		{"without stacks", true, keeps(5, 2, 4, always), []string{"retained_graph! 5*5243392=26216960"}},
		{"passes without training", false, passes(12), []string{"retained_graph! eval.py:9 4*25166336=100665344"}},
		{"five tensors of each", false, passes(5), []string{"retained_graph! eval.py:9 4*9437696=37750784"}},
		{"without stacks they may be layers", true, passes(12), nil},
	})
}

func TestGradientsKept(t *testing.T) {
	// a gradient that n steps zero in place, of which the optimizer runs in some
	zeroes := func(n int, bytes int64, optimizes func(k int) bool) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
			s.loop(n, func(k int) {
				s.in(meaning.Forward)
				saved := s.alloc(meaning.Activations, 32*mib, "net.py:20 forward", "train.py:11 main")
				s.in(meaning.Backward)
				if k == 0 {
					s.alloc(meaning.Gradients, bytes)
				}
				s.free(saved)
				if optimizes(k) {
					s.in(meaning.Optimizer)
					s.work(mib, "train.py:14 main")
				}
			})
		}
	}
	// another of 8 MiB is freed in each of five steps, before the optimizer runs or after
	frees := func(bytes int64, before bool) func(s *story) {
		return func(s *story) {
			s.loop(5, func(k int) {
				s.in(meaning.Forward)
				s.work(mib, "net.py:20 forward", "train.py:11 main")
				s.in(meaning.Backward)
				if k == 0 {
					s.alloc(meaning.Gradients, bytes)
				}
				other := s.alloc(meaning.Gradients, 8*mib)
				for i := range 2 {
					if before == (i == 0) {
						s.in(meaning.ZeroGrad)
						s.free(other)
					} else {
						s.in(meaning.Optimizer)
						s.work(mib, "train.py:14 main")
					}
				}
			})
		}
	}
	check(t, []tale{
		{"four steps", false, zeroes(4, 8*mib, always), []string{"gradients_kept! 4*8388608=8388608"}},
		{"three steps", false, zeroes(3, 8*mib, always), []string{"gradients_kept! 3*8388608=8388608"}},
		{"two steps", false, zeroes(2, 8*mib, always), []string{"gradients_kept!? 2*8388608=8388608"}},
		{"the optimizer ran once, and one backward after it", false, zeroes(3, 8*mib, func(k int) bool { return k == 1 }), nil},
		{"once, and three backwards after it", false, zeroes(4, 8*mib, func(k int) bool { return k == 0 }),
			[]string{"gradients_kept! 4*8388608=8388608"}},
		{"never", false, zeroes(4, 8*mib, func(int) bool { return false }), nil},
		{"64 KiB", false, zeroes(4, 64*kib, always), []string{"gradients_kept! 4*65536=65536"}},
		{"a block less", false, zeroes(4, 64*kib-512, always), nil},
		{"twice what is freed before the optimizer", false, frees(80*mib, true), []string{"gradients_kept! 5*83886080=83886080"}},
		{"a block less than that", false, frees(80*mib-512, true), nil},
		{"nine times what the optimizer uses and is freed", false, frees(360*mib, false),
			[]string{"gradients_kept! 5*377487360=377487360"}},
		{"a block less than nine times", false, frees(360*mib-512, false), nil},
	})
	s := newStory(t, true)
	zeroes(4, 8*mib, always)(s)
	if found := s.leaks(); len(found) != 1 || found[0].Near.Line != 14 || found[0].Near.Function != "main" {
		t.Errorf("the optimizer runs at train.py:14, not near %+v", found)
	}
}

func TestStaleOutputs(t *testing.T) {
	// n forwards whose output is let go in the next one, after that has begun or ended
	holds := func(n int, bytes, peak int64, late func(k int) bool) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, peak, "check.py:3 main")
			var held []int
			s.loop(n, func(k int) {
				s.in(meaning.Forward)
				if !late(k) {
					s.free(held...)
					held = nil
				}
				for range 3 {
					s.work(mib, "net.py:20 forward", "check.py:9 main")
				}
				out := s.alloc(meaning.Logits, bytes, "net.py:24 forward", "check.py:9 main")
				s.free(held...)
				held = []int{out}
			})
			s.free(held...)
		}
	}
	check(t, []tale{
		{"four steps", false, holds(4, 8*mib, 64*mib, always), []string{"stale_outputs check.py:9 3*8388608=8388608"}},
		{"three steps", false, holds(3, 8*mib, 64*mib, always), []string{"stale_outputs? check.py:9 2*8388608=8388608"}},
		{"two steps", false, holds(2, 8*mib, 64*mib, always), []string{"stale_outputs? check.py:9 1*8388608=8388608"}},
		{"one step", false, holds(1, 8*mib, 64*mib, always), nil},
		{"let go as the next forward begins", false, holds(4, 8*mib, 64*mib, func(int) bool { return false }), nil},
		{"late in half of the steps", false, holds(5, 8*mib, 64*mib, func(k int) bool { return k%2 == 0 }),
			[]string{"stale_outputs? check.py:9 2*8388608=8388608"}},
		{"late in fewer", false, holds(6, 8*mib, 64*mib, func(k int) bool { return k%2 == 0 }), nil},
		{"1 MiB", false, holds(4, mib, 64*mib, always), []string{"stale_outputs check.py:9 3*1048576=1048576"}},
		{"a block less", false, holds(4, mib-512, 64*mib, always), nil},
		{"a hundredth of the peak", false, holds(4, mib, 98*mib, always), []string{"stale_outputs check.py:9 3*1048576=1048576"}},
		{"less than that", false, holds(4, mib, 99*mib, always), nil},
		{"without stacks", true, holds(4, 8*mib, 64*mib, always), []string{"stale_outputs 3*8388608=8388608"}},
	})
}

func TestVaryingShapes(t *testing.T) {
	// so many operations of each step have sizes of its own
	varies := func(n, operations int, scale int64, size func(k int) int64) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
			s.loop(n, func(k int) {
				s.in(meaning.Data)
				in := s.alloc(meaning.Inputs, size(k)*scale, "data.py:5 next", "train.py:9 main")
				s.in(meaning.Forward)
				var saved []int
				for range operations {
					saved = append(saved, s.alloc(meaning.Activations, size(k)*scale, "net.py:20 forward", "train.py:11 main"))
				}
				s.in(meaning.Backward)
				s.free(saved...)
				s.free(in)
			})
		}
	}
	other := func(k int) int64 { return int64(1 + k%2) } // than the step before
	check(t, []tale{
		{"six steps", false, varies(6, 8, mib, other), []string{"varying_shapes data.py:5 6*9437184=9437184"}},
		{"three steps", false, varies(3, 8, mib, other), []string{"varying_shapes data.py:5 3*9437184=9437184"}},
		{"two steps", false, varies(2, 8, mib, other), nil},
		{"seven operations", false, varies(6, 7, mib, other), nil},
		{"one size", false, varies(6, 8, mib, func(int) int64 { return 2 }), nil},
		{"half of the steps", false, varies(5, 8, mib, func(k int) int64 { return int64(1 + k/2) }),
			[]string{"varying_shapes? data.py:5 3*9437184=18874368"}},
		{"fewer", false, varies(6, 8, mib, func(k int) int64 { return int64(1 + (k+1)/3) }), nil},
		{"peaks a MiB apart", false, varies(6, 15, 64*kib, other), []string{"varying_shapes data.py:5 6*1048576=1048576"}},
		{"a block less", false, varies(6, 15, 64*kib-512, other), nil},
		{"a twentieth of the bytes", false, varies(6, 8, mib, func(k int) int64 { return int64(19 + k%2) }),
			[]string{"varying_shapes data.py:5 6*9437184=9437184"}},
		{"less than that", false, varies(6, 8, mib, func(k int) int64 { return int64(20 + k%2) }), nil},
		{"without stacks", true, varies(6, 8, mib, other), []string{"varying_shapes 6*9437184=9437184"}},
	})
}

func TestFragmentationCreep(t *testing.T) {
	// n steps, some of which reserve more than they allocate
	creeps := func(n int, weights, bytes int64, in func(k int) bool) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, weights, "train.py:5 main")
			s.loop(n, func(k int) {
				s.in(meaning.Forward)
				s.work(4*kib, "net.py:20 forward", "train.py:11 main")
				if in(k) {
					s.reserve(bytes)
				}
			})
		}
	}
	check(t, []tale{
		{"eight steps", false, creeps(8, mib, 200*mib, always), []string{"fragmentation_creep 6*209715200=1258291200"}},
		{"four steps", false, creeps(4, mib, 200*mib, always), []string{"fragmentation_creep? 2*209715200=419430400"}},
		{"three steps", false, creeps(3, mib, 200*mib, always), nil},
		{"the first two steps alone", false, creeps(8, mib, 200*mib, upTo(1)), nil},
		{"three of six steps", false, creeps(8, mib, 200*mib, func(k int) bool { return k > 1 && k%2 == 0 }),
			[]string{"fragmentation_creep? 3*104857600=629145600"}},
		{"two of six steps", false, creeps(8, mib, 200*mib, func(k int) bool { return k > 1 && k%3 == 0 }), nil},
		{"2 MiB a step", false, creeps(8, mib, 2*mib, always), []string{"fragmentation_creep 6*2097152=12582912"}},
		{"a block less", false, creeps(8, mib, 2*mib-512, always), nil},
		{"a twentieth of what is reserved", false, creeps(8, 223*mib, 2*mib, always),
			[]string{"fragmentation_creep 6*2097152=12582912"}},
		{"less than that", false, creeps(8, 224*mib, 2*mib, always), nil},
	})
}

func TestFirstStepState(t *testing.T) {
	// the state that each step makes; anew says that it takes the place of the one before
	makes := func(weights int64, anew bool, bytes ...int64) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, weights, "train.py:5 main")
			var state []int
			s.loop(len(bytes), func(k int) {
				s.in(meaning.Forward)
				s.work(4*kib, "net.py:20 forward", "train.py:11 main")
				s.in(meaning.Optimizer)
				if bytes[k] == 0 {
					return
				}
				old := state
				state = []int{s.alloc(meaning.OptimizerState, bytes[k], "site-packages/torch/optim/adamw.py:130 _init_group",
					"train.py:14 main")}
				if anew {
					s.free(old...)
				}
			})
		}
	}
	check(t, []tale{
		{"in the first of four steps", false, makes(mib, false, 8*mib, 0, 0, 0),
			[]string{"first_step_state? train.py:14 1*8388608=8388608"}},
		{"in the second", false, makes(mib, false, 0, 8*mib, 0, 0), []string{"first_step_state? train.py:14 1*8388608=8388608"}},
		{"in the only step", false, makes(mib, false, 8*mib), []string{"first_step_state? train.py:14 1*8388608=8388608"}},
		{"in none", false, makes(mib, false, 0, 0, 0, 0), nil},
		{"of 1 MiB", false, makes(mib, false, mib, 0, 0, 0), []string{"first_step_state? train.py:14 1*1048576=1048576"}},
		{"of a block less", false, makes(mib, false, mib-512, 0, 0, 0), nil},
		{"of a hundredth of the peak", false, makes(99*mib-4*kib, false, mib, 0, 0, 0),
			[]string{"first_step_state? train.py:14 1*1048576=1048576"}},
		{"of less than that", false, makes(99*mib-4*kib+512, false, mib, 0, 0, 0), nil},
		{"half of it in later steps", false, makes(mib, false, 8*mib, 4*mib, 4*mib, 0, 0, 0),
			[]string{"first_step_state? train.py:14 1*8388608=8388608"}},
		{"more than half", false, makes(mib, false, 8*mib, 4*mib, 4*mib+512, 0, 0, 0), nil},
		{"made anew in each step", false, makes(mib, true, 8*mib, 8*mib, 8*mib, 8*mib), nil},
	})
	s := newStory(t, true)
	makes(mib, false, 8*mib, 0, 0)(s)
	if found := s.leaks(); len(found) != 1 || found[0].Optimizer != "adamw" || found[0].Category != meaning.OptimizerState {
		t.Errorf("the state is adamw's, not as in %+v", found)
	}
}

// TestUntrained has what a validation's passes keep in a program that trains.
func TestUntrained(t *testing.T) {
	evaluate := func(s *story, n, kinds int, bytes int64) (kept []int) {
		s.passes(n, func(int) {
			s.work(8*mib, "net.py:18 forward", "eval.py:8 evaluate", "train.py:18 main")
			for i := range kinds {
				kept = append(kept, s.alloc(meaning.Activations, bytes, fmt.Sprintf("net.py:%d forward", 20+i),
					"eval.py:8 evaluate", "train.py:18 main"))
				s.work(8*mib, "net.py:19 forward", "eval.py:8 evaluate", "train.py:18 main")
			}
			if kinds > 1 {
				kept = append(kept, s.alloc(meaning.Temporary, 4, "eval.py:9 evaluate", "train.py:18 main"))
			}
		})
		return kept
	}
	// some of three training steps end with passes, and free what those keep in the next
	trains := func(passes, kinds int, bytes int64, in func(k int) bool) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
			var kept []int
			s.loop(3, func(k int) {
				s.free(kept...)
				kept = nil
				if s.ordinary(nil); in(k) {
					kept = evaluate(s, passes, kinds, bytes)
				}
			})
		}
	}
	last := from(2)
	check(t, []tale{
		{"graphs of each epoch", false, trains(4, 8, mib, always),
			[]string{"retained_graph! untrained eval.py:8 4*8389120=33556480"}},
		{"graphs of one epoch", false, trains(4, 8, mib, upTo(0)),
			[]string{"retained_graph! untrained eval.py:8 4*8389120=33556480"}},
		{"graphs of two passes", false, trains(2, 8, mib, upTo(0)),
			[]string{"retained_graph!? untrained eval.py:8 2*8389120=16778240"}},
		{"nothing kept", false, trains(4, 0, mib, always), nil},
		{"outputs, as the recording ends", false, trains(4, 1, 16*mib, last),
			[]string{"growing_list! untrained eval.py:8 4*16777216=67108864"}},
		{"outputs that are used", false, trains(4, 1, 16*mib, upTo(1)), nil},
		{"outputs of less than a tenth of the peak", false, trains(4, 1, mib, last), nil},
	})
}

// TestCapacity says in which step memory ends, of what grows.
func TestCapacity(t *testing.T) {
	for _, l := range []struct {
		leak leaks.Leak
		ok   bool
	}{
		{leaks.Leak{Kind: leaks.GrowingList, BytesPerStep: 1}, true},
		{leaks.Leak{Kind: leaks.RetainedGraph, BytesPerStep: 1}, true},
		{leaks.Leak{Kind: leaks.RetainedGraph, BytesPerStep: 1, Untrained: true}, false},
		{leaks.Leak{Kind: leaks.GrowingList}, false},
		{leaks.Leak{Kind: leaks.StaleOutputs, BytesPerStep: 1}, false},
		{leaks.Leak{Kind: leaks.GradientsKept, BytesPerStep: 1}, false},
	} {
		if _, ok := l.leak.StepAtCapacity(mib); ok != l.ok {
			t.Errorf("%+v: %v", l.leak, ok)
		}
		if _, ok := l.leak.StepAtCapacity(0); ok {
			t.Errorf("%+v fills a device without memory", l.leak)
		}
	}
}
