// Package facts is one look at a device of a recording, and what checks of it
// share: each fact is a value of a type of its own, worked out when it is first
// asked for, once.
//
//	p := facts.New(timeline, classes, view, &device)
//	if facts.Phases.Of(p).Trains { … }
package facts

import (
	"sync"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// Pass is one look at a device. Facts about what the report says of it are asked for
// when its description, its failures and its leaks are complete, as checks find them.
type Pass struct {
	T         *timeline.Timeline
	Classes   *classify.Classification
	View      *frames.View
	Dev       *report.Device    // what the report says of the device so far
	Given     int64             // the GPU's size as the user gave it, in bytes; 0: not
	Variables []classify.Holder // the variables that hold what is alive at the dump; none where nobody recorded them
	known     *cells
	asked     func(Need) // told of each fact that is asked for; nil: nobody is
}

// New is a look at a device.
func New(t *timeline.Timeline, classes *classify.Classification, view *frames.View, dev *report.Device) *Pass {
	return &Pass{T: t, Classes: classes, View: view, Dev: dev, known: &cells{of: map[Need]*cell{}}}
}

// Watched is the same look, which tells of each fact that is asked of it, those
// aside that other facts ask for.
func (p *Pass) Watched(asked func(Need)) *Pass {
	watched := *p
	watched.asked = asked
	return &watched
}

// Need is a fact of any type.
type Need interface{ Name() string }

// Fact is something that checks share.
type Fact[T any] struct {
	name  string
	find  func(*Pass) T
	inner bool
}

// Named is a fact that is found so.
func Named[T any](name string, find func(*Pass) T) *Fact[T] { return &Fact[T]{name: name, find: find} }

// inner is a fact that only other facts and methods of Pass ask for.
func inner[T any](find func(*Pass) T) *Fact[T] { return &Fact[T]{find: find, inner: true} }

// Name is the fact in a few words.
func (f *Fact[T]) Name() string { return f.name }

// Of is the fact about a device.
func (f *Fact[T]) Of(p *Pass) T {
	if p.asked != nil {
		if !f.inner {
			p.asked(f)
		}
		plain := *p
		plain.asked = nil
		p = &plain
	}
	c := p.known.cell(f)
	c.once.Do(func() { c.value = f.find(p) })
	return c.value.(T)
}

// cells hold the facts that were asked for.
type cells struct {
	mutex sync.Mutex
	of    map[Need]*cell
}

type cell struct {
	once  sync.Once
	value any
}

func (c *cells) cell(of Need) *cell {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	x := c.of[of]
	if x == nil {
		x = &cell{}
		c.of[of] = x
	}
	return x
}

// Scarce reports whether a request failed, or nearly all of the device was taken.
func (p *Pass) Scarce() bool { return Scarce(p.Dev) }

// Scarce reports the same of what is said of a device.
func Scarce(d *report.Device) bool {
	return len(d.OOMs) > 0 || d.CapacityBytes != nil && d.Peaks.Reserved.Bytes >= *d.CapacityBytes/10*9
}

// Severity is that of what costs memory by design: worth a warning only where
// memory runs short.
func (p *Pass) Severity() report.Severity {
	if p.Scarce() {
		return report.Warning
	}
	return report.Info
}
