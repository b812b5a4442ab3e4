//go:build !linux

// Package pages asks the system for large pages where it takes such advice.
package pages

// Make is make([]T, length, capacity).
func Make[T any](length, capacity int) []T { return make([]T, length, capacity) }
