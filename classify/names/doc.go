// Package names gives allocations the names of the model's tensors: from labels and the
// recording's metadata (name.go), else by the order of their sizes (match.go, order.go,
// align.go). An order only tells names: the categories must be known by then.
package names
