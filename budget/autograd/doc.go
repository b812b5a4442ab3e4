// Package autograd counts the bytes that a step of training or inference takes. A Machine runs a model's operations on byte
// counts and keeps the books that PyTorch's autograd keeps; Reserve replays what it has asked for through the caching allocator.
//
//	m := autograd.New(2, 2, autograd.Pass{}) // bytes of the compute type, and of a parameter
//	x := m.Tensor(4*1024*4096, 2)
//	m.Drop(x)
//	fmt.Println(m.Peaks[autograd.Load].Bytes)
//
// It knows neither networks nor settings: what it asks of a setting is a Pass. Sizes are in bytes, unless they are said to be
// in elements.
package autograd
