// Package together runs the parts of one piece of work at the same time.
package together

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// Do runs the parts at the same time and waits for all of them. A panic
// in one reaches the caller, who may have a thousand other recordings to see to.
func Do(parts ...func()) {
	var done sync.WaitGroup
	var once sync.Once
	var failed any
	for _, part := range parts {
		done.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					once.Do(func() { failed = fmt.Sprintf("%v\n%s", r, debug.Stack()) })
				}
			}()
			part()
		})
	}
	done.Wait()
	if failed != nil {
		panic(failed)
	}
}

// Each runs part for every number below n, as many at a time as there are
// processors: for parts that each take memory. Panics are as of Do.
func Each(n int, part func(i int)) {
	var next atomic.Int64
	worker := func() {
		for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
			part(i - 1)
		}
	}
	Do(slices.Repeat([]func(){worker}, min(n, runtime.GOMAXPROCS(0)))...)
}
