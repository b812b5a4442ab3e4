package classify

import "testing"

// TestLayersAreNoSteps has a program that fails in its first pass, with stacks:
// its layers recur as iterations do. Iterations around a model of the same kind do,
// too.
func TestLayersAreNoSteps(t *testing.T) {
	const sequential = "site-packages/torch/nn/modules/container.py:250 forward"
	layer := func(outer ...string) [2][]string {
		return [2][]string{append([]string{"net.py:5 forward", callFrame}, outer...), append([]string{"net.py:6 forward", callFrame}, outer...)}
	}
	method := []string{"net.py:12 body", "net.py:16 forward", callFrame, "train.py:12 main"}
	container := []string{sequential, callFrame, "train.py:12 main"}
	for _, x := range []struct {
		name   string
		layer  [2][]string
		before []string // another line, of the first pass
		again  bool     // of every pass
		steps  int
	}{
		{"a method calls the layers", layer(method...), append([]string{linearFrame, callFrame, "net.py:11 body"}, method[1:]...), false, 1},
		{"Sequential calls them", layer(container...), nil, false, 1},
		{"Sequential calls others, too", layer(container...), append([]string{linearFrame, callFrame}, container...), false, 1},
		{"a loop calls Sequential", layer(container...), append([]string{linearFrame, callFrame}, container...), true, 8},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newProgram(t, true)
			batch := p.alloc(Inputs, mib, "train.py:10 main")
			for k := range 8 {
				if x.before != nil && (k == 0 || x.again) {
					p.alloc(Activations, 5*mib, x.before...)
				}
				p.alloc(Activations, 5*mib, x.layer[0]...)
				for i := range int64(3) {
					p.alloc(Activations, 5*mib+i*mib, append([]string{linearFrame, callFrame}, x.layer[0]...)...)
					p.free(p.alloc(Temporary, 3*mib, append([]string{linearFrame, callFrame}, x.layer[1]...)...))
				}
				p.alloc(Activations, 5*mib, x.layer[1]...)
			}
			if !x.again {
				p.fail(5 * mib)
				p.events[len(p.events)-1].Stack = p.stack(x.layer[0])
			}
			p.free(batch)
			if c := New(p.timeline(), Options{}); len(c.Steps) != x.steps {
				t.Errorf("%d steps, want %d", len(c.Steps), x.steps)
			}
		})
	}
}
