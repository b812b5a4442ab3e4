package classify

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/timeline"
)

// TestLabelledNames gives the matcher the parameters of a labelled run, in the
// order in which its optimizer has them, and compares the names of weights,
// gradients and optimizer state with the truth's.
func TestLabelledNames(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every labelled recording")
	}
	for _, r := range labelledRuns(t) {
		var info struct {
			Models map[string]struct{ Dtype []string }
		}
		if err := readJSON(filepath.Join(r.Dir, "run.json"), &info); err != nil {
			t.Fatal(err)
		}
		var element int64
		for _, m := range info.Models {
			if len(m.Dtype) == 1 && len(info.Models) == 1 {
				element = map[string]int64{"torch.float32": 4, "torch.bfloat16": 2, "torch.float16": 2}[m.Dtype[0]]
			}
		}
		tensors := trueTensors(r.truth, element)
		if len(tensors) == 0 || r.Device != nil { // the truth's names are those of pieces of the model
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Variants)) {
			v := r.Variants[name]
			if v.OK != nil && !*v.OK {
				continue
			}
			tl := r.timeline(t, name)
			c := New(tl, Options{Tensors: tensors})
			firstEvent := v.FirstEvent
			if v.Addresses == "own" {
				firstEvent = 0
			}
			var right, wrong, all int64
			var byCategory, rightOf [NumCategories]int64
			example := ""
			for o, id := range r.match(tl, v, len(r.truth.Addr), firstEvent) {
				if id == timeline.NoAllocation {
					continue
				}
				want := trueName(r.truth, o)
				if want != "" {
					all += tl.Allocated[id]
					byCategory[c.Category[id]] += tl.Allocated[id]
				}
				switch got := ""; {
				case c.Name == nil || c.Name[id] == 0, strings.HasPrefix(r.truth.Strings[r.truth.What[o]], "checkpoint "): // a loaded file's
				default:
					if got = c.Names[c.Name[id]]; got == want || strings.TrimSuffix(got, ".momentum") == strings.TrimSuffix(want, ".momentum_buffer") {
						right += tl.Allocated[id]
						rightOf[c.Category[id]] += tl.Allocated[id]
					} else {
						wrong += tl.Allocated[id]
						example = got + " is " + want
					}
				}
			}
			t.Logf("%-40s %-10s named right %5.1f %% of %6d MiB (weights %5.1f, gradients %5.1f, optimizer state %5.1f), wrong %5.2f %% %s", r.Name, name, share(right, all), all>>20,
				share(rightOf[Weights], byCategory[Weights]), share(rightOf[Gradients], byCategory[Gradients]), share(rightOf[OptimizerState], byCategory[OptimizerState]), share(wrong, all), example)
			if 200*wrong > all && !slices.Contains(reordered, r.Name) {
				t.Errorf("%s %s: %.2f %% of bytes have a wrong name: %s", r.Name, name, share(wrong, all), example)
			}
		}
	}
}

// reordered are runs in which gradients of equal sizes come in another order than the
// weights are used in: of a layer's q, k and v, one is named as another is. One has an embedding
// in half precision, of which nothing but its size could tell without stacks.
var reordered = []string{"distill__cached_scores", "optimizer__muon_gpt", "pipeline__1f1b_rank1of4", "tensor_parallel__dtensor_rank2of4"}

// trueTensors are a run's parameters in its optimizer's order, else in the
// order in which they were made.
func trueTensors(tr *truth, element int64) (tensors []Tensor) {
	if element == 0 {
		return nil
	}
	made := map[string]int64{}
	var names []string
	for o := range tr.Addr {
		if tr.Categories[tr.Category[o]] == "weights" && tr.Strings[tr.Sub[o]] == "parameter" {
			name := plainName(tr.Strings[tr.What[o]])
			if made[name] == 0 {
				names = append(names, name)
			}
			made[name] = tr.Size[o]
		}
	}
	var stepped []string
	for o := range tr.Addr {
		if kind, name, ok := strings.Cut(plainName(tr.Strings[tr.What[o]]), " of "); ok && made[name] > 0 && kind != "grad" && !slices.Contains(stepped, name) {
			stepped = append(stepped, name)
		}
	}
	list := func(names []string) (tensors []Tensor) {
		for _, name := range names {
			tensors = append(tensors, Tensor{Name: name, Elements: made[name] / element})
		}
		return tensors
	}
	if len(stepped) == len(names) { // an optimizer with one group has the model's own order
		if slices.Equal(childrenFirst(stepped), names) {
			return list(stepped)
		}
	}
	return list(names)
}

// plainName is a name without what DDP and torch.compile put before it.
func plainName(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "_orig_mod.", ""), " module.", " ")
}

// trueName is a labelled allocation's name as the matcher would give it.
func trueName(tr *truth, o int) string {
	what := plainName(tr.Strings[tr.What[o]])
	kind, name, found := strings.Cut(what, " of ")
	switch tr.Categories[tr.Category[o]] {
	case "weights":
		return what
	case "gradients":
		if found && kind == "grad" {
			return name + ".grad"
		}
	case "optimizer_state":
		if found {
			return name + "." + kind
		}
	}
	return ""
}

// childrenFirst is the order of a walk over modules that comes to a module's own
// parameters after its children's.
func childrenFirst(names []string) (out []string) {
	var walk func(prefix string)
	walk = func(prefix string) {
		seen := map[string]bool{}
		var own []string
		for _, name := range names {
			rest, below := strings.CutPrefix(name, prefix)
			child, _, deeper := strings.Cut(rest, ".")
			switch {
			case !below:
			case !deeper:
				own = append(own, name)
			case !seen[child]:
				seen[child] = true
				walk(prefix + child + ".")
			}
		}
		out = append(out, own...)
	}
	walk("")
	return out
}
