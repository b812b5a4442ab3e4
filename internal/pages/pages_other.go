//go:build !linux

// Package pages has the system put memory behind long slices before they are
// used, where it takes such advice.
package pages

// Touch does nothing here.
func Touch[T any](s []T) {}
