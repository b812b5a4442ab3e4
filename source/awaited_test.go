package source

import "testing"

// TestAwaited: a sum is trained on where a backward pass of it follows the loop that adds to it.
func TestAwaited(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		want       bool
	}{
		{"behind the loop", "for x in xs:\n    total = total + f(x)\ntotal.backward()\n", 2, true},
		{"divided, in an outer loop", "for i in n:\n    total = 0\n    for x in xs:\n        total += f(x)\n    (total / 8).backward()\n", 4, true},
		{"by a scaler", "for x in xs:\n    total += f(x)\nscaler.scale(total).backward()\n", 2, true},
		{"by a function", "for x in xs:\n    total += f(x)\naccelerator.backward(total)\n", 2, true},
		{"in the loop", "for x in xs:\n    total += f(x)\n    total.backward()\n", 2, false},
		{"of the loss", "for x in xs:\n    total += f(x)\nloss.backward()\n", 2, false},
		{"made anew", "for x in xs:\n    total = total + f(x)\ntotal = f(y)\ntotal.backward()\n", 2, false},
		{"made anew in another loop", "for x in xs:\n    total += f(x)\nfor y in ys:\n    total = f(y)\n    total.backward()\n", 2, false},
		{"made of itself", "for x in xs:\n    total += f(x)\ntotal = total / 8\ntotal.backward()\n", 2, true},
		{"of an attribute", "for x in xs:\n    total += f(x)\nout.total.backward()\n", 2, false},
		{"nowhere", "for x in xs:\n    total += f(x)\nprint(total)\n", 2, false},
		{"in another function", "for x in xs:\n    total += f(x)\ndef g(total):\n    total.backward()\n", 2, false},
		{"through another variable", "for x in xs:\n    total += f(x)\nloss = total / 8\nloss.backward()\n", 2, true},
		{"a number of it", "for x in xs:\n    total += f(x)\nmean = total.item() / 8\nmean.backward()\n", 2, false},
		{"gathered", "for x in xs:\n    kept.append(f(x))\nloss = g(torch.cat(kept))\nloss.backward()\n", 2, true},
		{"gathered, in steps", "for x in xs:\n    kept.append(f(x))\nsim = h(kept) @ w\nloss = g(sim)\nloss.backward()\n", 2, true},
		{"gathered, one by one", "for x in xs:\n    kept.append(f(x))\nfor k in kept:\n    k.backward()\n", 2, true},
		{"gathered and printed", "for x in xs:\n    kept.append(f(x))\nprint(kept)\nloss.backward()\n", 2, false},
		{"gathered anew", "for x in xs:\n    kept.append(f(x))\nkept = []\nloss = g(kept)\nloss.backward()\n", 2, false},
		{"gathered in an attribute", "for x in xs:\n    self.kept.append(f(x))\nloss = g(kept)\nloss.backward()\n", 2, false},
	} {
		f := Parse("a.py", c.text)
		p := Place{File: f, Line: c.line, stmt: f.at(c.line), Form: Carried}
		if x := storesOf(f.stmts[p.stmt].tokens); len(x) > 0 && x[0].method != "" {
			p.Form, p.what = Method, x[0]
		}
		if got := p.Awaited(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
