package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// programs are those in which something runs where nobody would look for it.
var programs = map[string]func(p *program){
	"an ordinary loop": func(p *program) {
		p.train(4, p.ordinary)
	},

	"the optimizer runs forward and backward, as LBFGS does, and Lightning lets any do": func(p *program) {
		p.train(4, func(k int) {
			p.within("Optimizer.step#LBFGS.step", func() {
				p.outer = []string{stepFrame, wrapperFrame, "train.py:15 main"}
				p.within("Optimizer.zero_grad#LBFGS.zero_grad", p.clear)
				saved := p.forward("train.py:12 closure", 8)
				saved = append(saved, p.alloc(Activations, 7*mib, p.at("train.py:13 closure")...))
				saved = append(saved, p.alloc(Activations, 4, p.at("train.py:13 closure")...))
				p.backward(saved)
				p.outer = nil
				p.update(k)
			})
		})
	},

	"the gradient of a gradient, as for forces and penalties": func(p *program) {
		p.train(4, func(k int) {
			saved := p.forward("train.py:12 main", 8)
			for i := range 8 { // create_graph=True: the first pass saves, too
				saved = append(saved, p.alloc(Activations, int64(4+i%2)*mib))
				p.free(p.alloc(Temporary, 5*mib))
			}
			saved = append(saved, p.alloc(Activations, 2*mib, linearFrame, callFrame, "train.py:13 main"))
			p.backward(saved)
			p.update(k)
			p.clear()
		})
	},

	"the curvature of a model, by two backward passes in a row": func(p *program) {
		start := func(line string) int {
			return p.alloc(Temporary, 4, "site-packages/torch/autograd/__init__.py:233 _make_grads", "site-packages/torch/autograd/__init__.py:500 grad", line)
		}
		p.train(4, func(k int) {
			saved := p.forward("train.py:12 main", 8)
			root := start("train.py:12 main")
			var grads []int
			for i := range 8 { // create_graph=True: the first pass saves, too
				saved = append(saved, p.alloc(Activations, int64(4+i%2)*mib))
				p.free(p.alloc(Temporary, 5*mib))
			}
			for i := range p.weights {
				grads = append(grads, p.alloc(Gradients, p.weight(i)))
			}
			p.free(root)
			for range p.weights {
				p.free(p.alloc(Temporary, 512, "train.py:13 <genexpr>", "train.py:13 <module>"))
			}
			root = start("train.py:13 main")
			for i := len(saved) - 1; i >= 0; i-- {
				p.free(p.alloc(Temporary, 5*mib))
				p.free(saved[i])
			}
			p.free(root)
			p.free(grads...)
		})
	},

	"weights are moved along their gradients and back, with another pass between": func(p *program) {
		p.train(4, func(k int) {
			p.backward(p.forward("train.py:12 main", 8))
			var moved []int
			for i := range p.weights {
				moved = append(moved, p.alloc(Temporary, p.weight(i), "train.py:13 main"))
			}
			p.clear()
			p.backward(p.forward("train.py:14 main", 8))
			p.within("Optimizer.step#AdamW.step", func() { p.update(k) })
			p.clear()
			p.free(moved...)
		})
	},

	"each weight is updated inside backward, as soon as its gradient is there": func(p *program) {
		for i := range 9 {
			p.build(p.weight(3 + i))
		}
		p.train(4, func(k int) {
			saved := p.forward("train.py:12 main", 2*len(p.weights))
			root := p.alloc(Temporary, 4)
			for i := len(p.weights) - 1; i >= 0; i-- {
				for _, s := range []int{saved[2*i+1], saved[2*i]} {
					p.free(p.alloc(Temporary, 5*mib))
					p.free(s)
				}
				grad := p.alloc(Gradients, p.weight(i))
				p.within("Optimizer.step#AdamW.step", func() {
					if k == 0 {
						p.alloc(OptimizerState, p.weight(i), stateFrame, stepFrame, wrapperFrame, "train.py:8 hook")
					}
					p.free(p.alloc(Temporary, p.weight(i), stepFrame, wrapperFrame, "train.py:8 hook"))
				})
				p.within("Optimizer.zero_grad#AdamW.zero_grad", func() { p.free(grad) })
			}
			p.free(root)
		})
	},

	"the best weights so far are copied after every evaluation": func(p *program) {
		for i := range 9 {
			p.build(p.weight(3 + i))
		}
		var best []int
		p.loop(4, func(k int) {
			batch := p.alloc(Inputs, mib/2, "train.py:10 main") // too small to be asked for: an evaluation comes first
			for range 6 {
				p.free(p.alloc(Temporary, 6*mib, linearFrame, callFrame, "train.py:16 main"))
			}
			old := best
			best = nil
			for i := range p.weights {
				best = append(best, p.alloc(Weights, p.weight(i), "site-packages/torch/storage.py:264 clone", "train.py:17 main"))
				p.free(p.alloc(Temporary, 4, "train.py:17 main"))
			}
			p.free(old...)
			p.ordinary(k)
			p.free(batch)
		})
	},

	"a loss that compares numbers, with a penalty on what is widest": func(p *program) {
		p.train(4, func(k int) {
			saved := []int{
				p.alloc(Activations, 64*mib, linearFrame, callFrame, "train.py:12 main"),
				p.alloc(Activations, 4*mib, linearFrame, callFrame, "train.py:12 main"),
				p.alloc(Activations, 4, "site-packages/torch/nn/functional.py:3880 mse_loss", "train.py:13 main"),
				p.alloc(Activations, 4, "train.py:13 main"),
			}
			root := p.alloc(Temporary, 4)
			first := p.alloc(Temporary, 64*mib)
			second := p.alloc(Temporary, 64*mib)
			p.free(first, second, root)
			p.backward(saved)
			p.update(k)
			p.clear()
		})
	},

	"Adagrad makes its state before the first step": func(p *program) {
		for i := range p.weights {
			p.alloc(OptimizerState, p.weight(i), "site-packages/torch/optim/adagrad.py:80 __init__", "train.py:7 main")
		}
		p.train(4, func(int) { p.ordinary(1) })
	},

	"each batch takes the place of the last one, each of another size, and nothing is trained": func(p *program) {
		for i := range 24 {
			p.build(int64(8+i%3) * mib)
		}
		var before []int
		p.loop(9, func(k int) {
			batch := []int{p.alloc(Inputs, int64(20+k*k)*mib, "train.py:10 main")}
			p.free(before...)
			var last int
			for i := range 24 {
				out := p.alloc(Temporary, int64(5+k)*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+i), callFrame, "train.py:12 main")
				p.free(p.alloc(Temporary, 2*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+i), callFrame, "train.py:12 main"))
				if i > 0 {
					p.free(last)
				}
				last = out
			}
			p.free(last)
			before = batch
		})
	},

	"autocast casts every weight once a pass, though nothing is trained": func(p *program) {
		for i := range 24 {
			p.build(int64(8+i%3) * mib)
		}
		p.loop(6, func(int) {
			var casts []int
			batch := p.alloc(Inputs, mib/2, "train.py:10 main") // too small to be asked for: nothing tells it
			for _, w := range p.weights {
				casts = append(casts, p.alloc(AutocastCopies, p.allocs[w].bytes/2, linearFrame, callFrame, "train.py:12 main"))
				p.free(p.alloc(Temporary, 7*mib, linearFrame, callFrame, "train.py:12 main"))
			}
			p.free(casts...)
			p.free(batch)
		})
	},

	"autocast casts every weight for an evaluation, and again for the training pass after it": func(p *program) {
		cast := func() (copies []int) {
			for _, w := range p.weights {
				copies = append(copies, p.alloc(AutocastCopies, p.allocs[w].bytes/2, linearFrame, callFrame, "train.py:12 main"))
				p.free(p.alloc(Temporary, 7*mib, linearFrame, callFrame, "train.py:12 main"))
				p.free(p.alloc(Temporary, 5*mib, linearFrame, callFrame, "train.py:12 main"))
			}
			return copies
		}
		p.train(4, func(k int) {
			p.free(cast()...)
			copies := cast()
			saved := p.forward("train.py:12 main", 8)
			root := p.alloc(Temporary, 4)
			for i := len(saved) - 1; i >= 0; i-- {
				p.free(p.alloc(Temporary, 5*mib))
				p.free(saved[i])
			}
			for i := len(p.weights) - 1; i >= 0; i-- {
				half := p.alloc(Temporary, p.weight(i)/2)
				p.free(copies[i])
				p.grads = append(p.grads, p.alloc(Gradients, p.weight(i)))
				p.free(half)
			}
			p.free(p.alloc(Temporary, 5*mib), root)
			p.update(k)
			p.clear()
		})
	},

	"one pass of a model of functions": func(p *program) {
		p.loop(1, func(k int) {
			batch := p.alloc(Inputs, mib/2, "train.py:10 main")
			var saved []int
			for i := range 8 {
				saved = append(saved, p.alloc(Activations, int64(3+5*i%8)*mib, "site-packages/torch/nn/functional.py:1500 relu", fmt.Sprintf("train.py:%d model", 20+i), "train.py:12 main"))
			}
			p.backward(saved)
			p.update(k)
			p.clear()
			p.free(batch)
		})
	},

	"servers make their caches before anybody asks": func(p *program) {
		for _, frame := range []string{
			"site-packages/vllm/v1/worker/gpu_model_runner.py:3900 _allocate_kv_cache_tensors",
			"site-packages/sglang/srt/mem_cache/memory_pool.py:850 _create_buffers",
			"site-packages/torchtune/modules/kv_cache.py:50 __init__",
			"site-packages/lmdeploy/pytorch/engine/cache_engine.py:150 _allocate_cache",
			"site-packages/text_generation_server/layers/attention/kv_cache.py:80 __init__",
			"site-packages/transformers/generation/continuous_batching/cache.py:190 __init__",
		} {
			p.alloc(KVCache, 64*mib, frame, "serve.py:7 main")
		}
		p.loop(6, func(int) {
			for k := range 8 {
				p.free(p.alloc(Temporary, 5*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+k), callFrame, "serve.py:12 main"))
			}
		})
	},

	"a program that builds its layers without torch's": func(p *program) {
		for i := range 5 {
			p.alloc(Weights, int64(3+2*i)*mib, "layers.py:9 __init__", "train.py:5 main")
			p.alloc(Weights, int64(30+i)*mib, "backend.py:19 allocate", "layers.py:30 init_all_weights", "train.py:5 main")
		}
		p.alloc(Inputs, 25*mib, "train.py:6 main")
		p.loop(6, func(int) {
			for k := range 8 {
				p.free(p.alloc(Temporary, 5*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+k), callFrame, "serve.py:12 main"))
			}
		})
	},

	"setup calls a function of torch's": func(p *program) {
		p.alloc(Inputs, 9*mib, "site-packages/torch/nn/functional.py:5600 normalize", "train.py:6 main")
		p.train(4, p.ordinary)
	},
}

// TestPrograms classifies what the programs tell: right with Python stacks, and
// without any not wrong where it is sure.
func TestPrograms(t *testing.T) {
	for name, tell := range programs {
		for _, stacks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stacks %v", name, stacks), func(t *testing.T) {
				p := newProgram(t, stacks)
				tell(p)
				c := New(p.timeline(), Options{})
				sure := uint8(0)
				if !stacks {
					sure = 90
				}
				said := map[string]int{}
				for id, a := range p.allocs {
					if got := c.Category[id]; got != a.category && a.bytes >= mib && c.Confidence[id] >= sure {
						said[fmt.Sprintf("%d MiB of %v in step %d: said %v, %d %% sure by %v in %v", a.bytes>>20, a.category, a.step, got, c.Confidence[id], c.Signal[id], c.Phase[id])]++
					}
				}
				for what, n := range said {
					t.Errorf("%d times %s", n, what)
				}
				if stacks && len(c.Steps) != len(p.steps) {
					t.Errorf("%d steps, want %d", len(c.Steps), len(p.steps))
				}
				if n := slices.Index(c.Category, Logits); n >= 0 {
					t.Errorf("scores of %d bytes, where there are none", p.allocs[n].bytes)
				}
				for _, id := range p.weights {
					if !stacks && c.Category[id] != Weights && p.allocs[id].bytes >= mib && !slices.Contains(c.Phase, Backward) {
						t.Errorf("%d MiB of weights: said %v in %v", p.allocs[id].bytes>>20, c.Category[id], c.Phase[id])
					}
				}
				if strings.HasPrefix(name, "setup") && c.Confidence[3] > 80 {
					t.Errorf("%d %% sure of a table that nothing but its life tells of", c.Confidence[3])
				}
			})
		}
	}
}
