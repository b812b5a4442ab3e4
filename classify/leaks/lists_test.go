package leaks_test

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/leaks"
	"github.com/vramscope/vramscope/classify/meaning"
)

// wordOf is all that a leak's verdict says: "!" is a defect, "?" only suspected, and at
// the end come the steps that show it, the bytes of each, and all of them.
func wordOf(l *leaks.Leak) string {
	word := l.Kind
	if l.Defect {
		word += "!"
	}
	if l.Suspected {
		word += "?"
	}
	if l.Joined {
		word += " joined"
	}
	if l.Untrained {
		word += " untrained"
	}
	if l.File != "" {
		word += fmt.Sprintf(" %s:%d", path.Base(l.File), l.Line)
	}
	return fmt.Sprintf("%s %d*%d=%d", word, l.Steps, l.BytesPerStep, l.TotalBytes)
}

// tale is a program, and the words of all its leaks.
type tale struct {
	name string
	bare bool // without stacks
	tell func(s *story)
	want []string
}

func check(t *testing.T, tales []tale) {
	t.Helper()
	for _, x := range tales {
		t.Run(x.name, func(t *testing.T) {
			s := newStory(t, !x.bare)
			x.tell(s)
			var got []string
			for _, l := range s.leaks() {
				got = append(got, wordOf(&l))
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
}

// ordinary tells of a training step that leaves nothing behind, with something that
// happens at the end of its forward.
func (s *story) ordinary(forward func()) {
	s.in(meaning.Data)
	in := s.alloc(meaning.Inputs, mib, "train.py:10 main")
	s.in(meaning.Forward)
	saved := s.alloc(meaning.Activations, 32*mib, "net.py:20 forward", "train.py:11 main")
	s.work(8*mib, "net.py:21 forward", "train.py:11 main")
	if forward != nil {
		forward()
	}
	s.in(meaning.Backward)
	gradient := s.alloc(meaning.Gradients, 64*mib)
	s.free(saved)
	s.in(meaning.Optimizer)
	s.work(64*mib, "train.py:14 main")
	s.in(meaning.ZeroGrad)
	s.free(gradient, in)
}

// remembers tells n steps, some of which put so many bytes into a list.
func remembers(n int, bytes int64, in func(k int) bool) func(s *story) {
	return func(s *story) {
		s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
		s.loop(n, func(k int) {
			s.ordinary(nil)
			if s.in(meaning.OtherPhase); in(k) {
				s.alloc(meaning.Temporary, bytes, "log.py:7 remember", "train.py:16 main")
			}
		})
	}
}

func always(int) bool { return true }

func from(first int) func(int) bool { return func(k int) bool { return k >= first } }

func upTo(last int) func(int) bool { return func(k int) bool { return k <= last } }

func but(steps ...int) func(int) bool { return func(k int) bool { return !slices.Contains(steps, k) } }

func each(of int) func(int) bool { return func(k int) bool { return k%of == of-1 } }

// queue tells n steps, each of which puts in so many batches, and then takes one out
// where there are more than length.
func queue(n, in, length int) func(s *story) {
	return func(s *story) {
		s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
		var held []int
		s.loop(n, func(int) {
			s.in(meaning.Data)
			for range in {
				held = append(held, s.alloc(meaning.Temporary, 2*mib, "data.py:5 next", "train.py:9 main"))
			}
			if len(held) > length {
				s.free(held[0])
				held = held[1:]
			}
			s.ordinary(nil)
		})
	}
}

func TestGrowingList(t *testing.T) {
	check(t, []tale{
		{"in none of the steps", false, remembers(5, mib, func(int) bool { return false }), nil},
		{"in all of five", false, remembers(5, mib, always), []string{"growing_list! log.py:7 5*1048576=5242880"}},
		{"in all of three", false, remembers(3, mib, always), []string{"growing_list? log.py:7 3*1048576=3145728"}},
		{"in both of two", false, remembers(2, mib, always), []string{"growing_list? log.py:7 2*1048576=2097152"}},
		{"in one", false, remembers(1, mib, always), nil},
		{"in the last three of five", false, remembers(5, mib, from(2)), []string{"growing_list? log.py:7 3*1048576=3145728"}},
		{"in the last two of five", false, remembers(5, mib, from(3)), nil},
		{"up to the last step", false, remembers(6, mib, upTo(5)), []string{"growing_list! log.py:7 6*1048576=6291456"}},
		{"up to the last step but one", false, remembers(6, mib, upTo(4)), nil},
		{"in each third step", false, remembers(12, 3*mib, each(3)), []string{"growing_list! log.py:7 4*1258291=12582912"}},
		{"in seven of nine steps", false, remembers(9, mib, but(6, 7)), []string{"growing_list! log.py:7 7*815559=7340032"}},
		{"in six of ten", false, remembers(10, mib, but(4, 5, 7, 8)), nil},
		{"three steps apart at most", false, remembers(14, mib, but(11, 12)),
			[]string{"growing_list! log.py:7 12*898779=12582912"}},
		{"four steps apart", false, remembers(14, mib, but(10, 11, 12)), nil},
		{"of 16 KiB a step", false, remembers(5, 16*kib, always), []string{"growing_list? log.py:7 5*16384=81920"}},
		{"of a byte more than 15.5 KiB, which takes 16", false, remembers(5, 16*kib-511, always),
			[]string{"growing_list? log.py:7 5*16384=81920"}},
		{"of 15.5 KiB", false, remembers(5, 16*kib-512, always), nil},
		{"of so little in fifteen steps", false, remembers(15, 64*kib, always), []string{"growing_list? log.py:7 15*65536=983040"}},
		{"of so little in sixteen", false, remembers(16, 64*kib, always), []string{"growing_list! log.py:7 16*65536=1048576"}},
		{"of 64 KiB in all", false, remembers(4, 16*kib, always), []string{"growing_list? log.py:7 4*16384=65536"}},
		{"of 48 KiB in all", false, remembers(3, 16*kib, always), nil},
		{"without stacks", true, remembers(5, mib+512, always), []string{"growing_list! 5*1049088=5245440"}},
		{"without stacks, in two steps of three", true, remembers(3, mib+512, from(1)), nil},
	})
}

// TestBounded has containers that stop growing, and ones that don't.
func TestBounded(t *testing.T) {
	cleared := func(last int, before ...int64) func(s *story) { // in that step
		return func(s *story) {
			for _, bytes := range before {
				s.alloc(meaning.Weights, bytes, "train.py:5 main")
			}
			var held []int
			s.loop(6, func(k int) {
				s.ordinary(nil)
				s.in(meaning.OtherPhase)
				if held = append(held, s.alloc(meaning.Temporary, mib, "log.py:7 remember", "train.py:16 main")); k == last {
					s.free(held...)
				}
			})
		}
	}
	check(t, []tale{
		{"a queue of three", false, queue(9, 1, 3), nil},
		{"a queue of one", false, queue(9, 1, 1), nil},
		{"a queue that is longer by one each step", false, queue(9, 2, 3),
			[]string{"growing_list! data.py:5 9*2097152=20971520"}},
		{"one that has been so for too few steps", false, queue(5, 2, 3), nil},
		{"cleared in the last step", false, cleared(5, mib), nil},
		{"cleared with all else, as the program ends", false, cleared(5), []string{"growing_list! log.py:7 6*1048576=6291456"}},
		{"cleared in the step before the last", false, cleared(4, mib), nil},
		{"never cleared", false, cleared(6, mib), []string{"growing_list! log.py:7 6*1048576=6291456"}},
	})
}

// TestMeantToStay has what grows for good reason.
func TestMeantToStay(t *testing.T) {
	grows := func(c meaning.Category, by meaning.Signal) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
			s.by = by
			s.loop(5, func(int) { s.ordinary(func() { s.alloc(c, mib, "net.py:30 grow", "train.py:11 main") }) })
		}
	}
	found := []string{"growing_list! net.py:30 5*1048576=5242880"}
	history := func(last int) func(s *story) { // pairs of vectors, so many of the last step's
		return func(s *story) {
			s.loop(8, func(k int) {
				s.ordinary(nil)
				s.in(meaning.Optimizer)
				for i := range 2 {
					if k == 7 && i == last {
						s.fail(mib)
						return
					}
					s.alloc(meaning.OptimizerState, mib, "opt.py:3 step", "train.py:14 main")
				}
			})
		}
	}
	state := func(bytes func(k int) int64) func(s *story) {
		return func(s *story) {
			s.loop(5, func(k int) {
				s.ordinary(nil)
				s.in(meaning.Optimizer)
				s.alloc(meaning.OptimizerState, bytes(k), "opt.py:3 step", "train.py:14 main")
			})
		}
	}
	// weights of an older model are converted, of which in so many of eight steps one goes
	converts := func(gone int) func(s *story) {
		return func(s *story) {
			var old []int
			for range 8 {
				old = append(old, s.alloc(meaning.Weights, 16*mib, "load.py:3 main"))
			}
			s.loop(8, func(k int) {
				s.in(meaning.Forward)
				s.work(32*mib, "load.py:8 convert", "load.py:12 main")
				s.alloc(meaning.Unknown, 16*mib, "load.py:9 convert", "load.py:12 main")
				if k < gone {
					s.free(old[k])
				}
			})
		}
	}
	loads := func(work int64) func(s *story) {
		return func(s *story) {
			s.loop(6, func(int) {
				s.in(meaning.OtherPhase)
				s.work(work, "load.py:4 load")
				s.alloc(meaning.Unknown, 8*mib, "load.py:5 load", "load.py:12 main")
			})
		}
	}
	check(t, []tale{
		{"workspaces", false, grows(meaning.Workspace, meaning.ByLife), nil},
		{"weights that a range names", false, grows(meaning.Weights, meaning.ByAnnotation), nil},
		{"weights by their life only", false, grows(meaning.Weights, meaning.ByLife), found},
		{"weights by their size only", false, grows(meaning.Weights, meaning.BySize), found},
		{"a cache, though the program trains", false, grows(meaning.KVCache, meaning.ByPythonStack), found},
		{"as much state in every step", false, state(func(int) int64 { return mib }),
			[]string{"growing_list!? opt.py:3 5*1048576=5242880"}},
		{"a history, whose last step fails half-way", false, history(1), []string{"growing_list!? opt.py:3 8*2097152=15728640"}},
		{"a history, whose last step isn't cut", false, history(2), []string{"growing_list!? opt.py:3 8*2097152=16777216"}},
		{"state of one parameter after another", false, state(func(k int) int64 { return int64(8-k) * mib / 8 }), nil},
		{"weights converted in all steps", false, converts(8), nil},
		{"in six of eight", false, converts(6), nil},
		{"in five of eight", false, converts(5), []string{"growing_list! load.py:9 8*16777216=134217728"}},
		{"a model that is loaded", false, loads(4*mib - 512), nil},
		{"one that works half as much as it keeps", false, loads(4 * mib),
			[]string{"growing_list! load.py:5 6*8388608=50331648"}},
	})
}

// TestLayerLoop has a loop over the layers of one forward, which is no step.
func TestLayerLoop(t *testing.T) {
	layers := func(function string, outside ...string) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "a.py:5 main")
			s.in(meaning.Forward)
			if len(outside) > 0 {
				s.alloc(meaning.Activations, mib, outside...)
			}
			s.loop(6, func(int) {
				s.in(meaning.Forward)
				s.work(16*mib, "b.py:4 block", "a.py:8 "+function, "a.py:20 main")
				s.alloc(meaning.Activations, 2*mib, "b.py:5 block", "a.py:9 "+function, "a.py:20 main")
			})
		}
	}
	check(t, []tale{
		{"another line of the forward is outside", false, layers("forward", "a.py:7 forward", "a.py:20 main"), nil},
		{"all lines of the forward are in the loop", false, layers("forward"),
			[]string{"growing_list! b.py:5 6*2097152=12582912"}},
		{"a function that is no module's", false, layers("encode", "a.py:7 encode", "a.py:20 main"),
			[]string{"growing_list! b.py:5 6*2097152=12582912"}},
	})
}

// TestBesides has lists beside others, and what steps that the recording has lost put
// into them.
func TestBesides(t *testing.T) {
	two := func(second int64, at string) func(s *story) {
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
			s.loop(5, func(int) {
				s.ordinary(nil)
				s.in(meaning.OtherPhase)
				s.alloc(meaning.Temporary, 8*mib, "log.py:7 remember", "train.py:16 main")
				s.alloc(meaning.Temporary, second, at, "train.py:17 main")
			})
		}
	}
	lost := func(older int, line string) func(s *story) {
		return func(s *story) {
			for range older {
				s.before(meaning.Temporary, mib, line, "train.py:16 main")
			}
			remembers(2, mib, always)(s)
		}
	}
	sizes := func(n int) func(s *story) { // one for each step
		return func(s *story) {
			s.alloc(meaning.Weights, 64*mib)
			s.loop(n, func(k int) {
				s.ordinary(nil)
				s.in(meaning.OtherPhase)
				s.alloc(meaning.Temporary, mib+int64(k)*4*kib)
			})
		}
	}
	check(t, []tale{
		{"two lines of one function", false, two(mib, "log.py:8 remember"),
			[]string{"growing_list! log.py:7 5*9437184=47185920"}},
		{"of two functions, the little that comes with it is one with it", false, two(mib, "log.py:12 note"),
			[]string{"growing_list! log.py:7 5*9437184=47185920"}},
		{"of two functions, not half", false, two(4*mib, "log.py:12 note"),
			[]string{"growing_list! log.py:7 5*8388608=41943040", "growing_list! log.py:12 5*4194304=20971520"}},
		{"two steps alone", false, lost(0, ""), []string{"growing_list? log.py:7 2*1048576=2097152"}},
		{"two steps, and four that are lost", false, lost(4, "log.py:7 remember"),
			[]string{"growing_list! log.py:7 2*1048576=6291456"}},
		{"what is older comes from another line", false, lost(4, "log.py:9 other"),
			[]string{"growing_list? log.py:7 2*1048576=2097152"}},
		{"another size in each of five steps, without stacks", true, sizes(5), []string{"growing_list!? 4*1052672=4218880"}},
		{"one step fewer", true, sizes(4), nil},
	})
}

// TestJoined has a tensor that a line makes anew in every step, larger by what is
// there, or merely larger.
func TestJoined(t *testing.T) {
	joins := func(n, every int, part, first int64, kept bool) func(s *story) {
		return func(s *story) {
			done := int64(0)
			s.alloc(meaning.Weights, 64*mib, "train.py:5 main")
			all := s.alloc(meaning.Temporary, first, "train.py:7 main")
			s.loop(n, func(k int) {
				if k%every > 0 {
					s.ordinary(nil)
					return
				}
				s.in(meaning.OtherPhase)
				done++
				out := s.alloc(meaning.Temporary, part, "train.py:12 main")
				if !kept {
					s.free(out)
				}
				next := s.alloc(meaning.Temporary, first+done*part, "train.py:13 main")
				if kept {
					s.free(out)
				}
				s.free(all)
				all = next
				s.ordinary(nil)
			})
		}
	}
	check(t, []tale{
		{"five times", false, joins(5, 1, mib, mib, true), []string{"growing_list! joined train.py:13 5*1048576=6291456"}},
		{"four times", false, joins(4, 1, mib, mib, true), []string{"growing_list! joined train.py:13 4*1048576=5242880"}},
		{"every other step", false, joins(10, 2, mib, mib, true), []string{"growing_list! joined train.py:13 10*524288=6291456"}},
		{"three times", false, joins(3, 1, mib, mib, true), nil},
		{"of 16 KiB each", false, joins(5, 1, 16*kib, mib, true), []string{"growing_list? joined train.py:13 5*16384=1130496"}},
		{"of a byte less", false, joins(5, 1, 16*kib-1, mib, true), nil},
		{"what it is larger by isn't there", false, joins(5, 1, 3*mib, mib, false), nil},
		{"without stacks", true, joins(5, 1, mib, mib, true), nil},
	})
}

// TestEndOfTheLastStep: the last step is a short one, and what goes with the program after it makes it no longer.
func TestEndOfTheLastStep(t *testing.T) {
	check(t, []tale{{"a list that goes at the end", false, func(s *story) {
		all := []int{s.alloc(meaning.Weights, 64*mib, "train.py:5 main")}
		s.loop(7, func(k int) {
			if k < 6 {
				s.ordinary(nil)
				for range 4 {
					all = append(all, s.alloc(meaning.Temporary, mib, "log.py:7 remember", "train.py:16 main"))
				}
				return
			}
			s.in(meaning.Forward)
			s.work(mib, "net.py:21 forward", "train.py:18 main")
			s.free(all...)
		})
	}, []string{"growing_list! log.py:7 6*4194304=25165824"}}})
}
