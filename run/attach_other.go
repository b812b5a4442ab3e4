//go:build !linux

package run

import (
	"context"
	"errors"
)

type running struct{ pid int }

var errLinuxAlone = errors.New("attach: only on Linux\n  Start the program with `vramscope run -- …`")

func reachable(int) ([]running, error)               { return nil, errLinuxAlone }
func alive(int) bool                                 { return false }
func (running) give(string) error                    { return errLinuxAlone }
func (running) seen(string) error                    { return errLinuxAlone }
func (running) inject(context.Context, string) error { return errLinuxAlone }
