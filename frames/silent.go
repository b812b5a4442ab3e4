package frames

import "strings"

// Silent reports whether a native frame says nothing about the program: it has no name,
// or is the recorder's, the allocator's, the interpreter's or a layer between operators.
func Silent(function string) bool {
	for _, telling := range []string{"at::_ops::", "torch::autograd::generated::",
		"torch::autograd::AccumulateGrad::", "c10d::"} {
		if strings.HasPrefix(function, telling) {
			return false
		}
	}
	for _, layer := range []string{"c10::", "at::", "torch::", "std::", "pybind11::", "THPVariable", "c10d::"} {
		if strings.Contains(function, layer) {
			return true
		}
	}
	return !strings.Contains(function, "::")
}
