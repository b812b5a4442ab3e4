//go:build !linux

// Package pages talks to the system about memory in pages, where it listens.
package pages

import (
	"errors"
	"os"
)

// Touch does nothing here.
func Touch[T any](s []T) {}

// Huge does nothing here.
func Huge[T any](s []T) {}

// Map isn't to be had here.
func Map(f *os.File, size int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap and Leave have nothing to do where nothing is mapped.
func Unmap(b []byte) {}
func Leave(b []byte) {}
