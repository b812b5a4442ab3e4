package names

import (
	"slices"
	"testing"
)

// A checkpoint's tensors come in the order of their names, a module's children
// are moved before its own parameters.
func TestOrders(t *testing.T) {
	m := &matcher{tensors: []Tensor{{Name: "cls"}, {Name: "body.scale"}, {Name: "body.in.weight"}, {Name: "body.in.bias"}, {Name: "body.out.weight"}, {Name: "head.weight"}}}
	for _, x := range []struct {
		name string
		got  order
		want order
	}{
		{"children first", childrenFirst(m.tensors), order{2, 3, 4, 1, 5, 0}},
		{"by name", m.forwardOrders()[2], order{3, 2, 4, 1, 0, 5}},
		{"backward", m.backwardOrders()[0], order{5, 4, 2, 3, 1, 0}},
		{"decayed first", m.decayed(order{0, 1, 2, 3, 4, 5}), order{0, 1, 2, 4, 5, 3}},
	} {
		if !slices.Equal(x.got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, x.got, x.want)
		}
	}
}
