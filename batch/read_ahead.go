package batch

import (
	"iter"
)

// readAhead is how many results are read before they are asked for: from a
// store each takes its time, and from a disk decoding takes the other cores'.
const readAhead = 8

// ahead gives what a function makes of values, in their order, working on the
// next ones meanwhile.
func ahead[T, U any](values []T, f func(T) (U, error)) iter.Seq2[U, error] {
	type outcome struct {
		value U
		err   error
	}
	return func(yield func(U, error) bool) {
		queue := make(chan chan outcome, readAhead)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			defer close(queue)
			for _, v := range values {
				one := make(chan outcome, 1)
				select {
				case queue <- one:
				case <-stop:
					return
				}
				go func() {
					u, err := f(v)
					one <- outcome{u, err}
				}()
			}
		}()
		for one := range queue {
			if o := <-one; !yield(o.value, o.err) {
				return
			}
		}
	}
}
