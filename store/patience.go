package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"
)

// isTimeout tells errors of silence.
func isTimeout(err error) bool {
	var waited net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &waited) && waited.Timeout()
}

// backoff is how long to wait before a request is made for the nth time again: a random
// part of a time that doubles, so that many clients don't come back at once.
func backoff(n int) time.Duration {
	const shortest, longest = 100 * time.Millisecond, 5 * time.Second
	most := min(shortest<<min(n, 10), longest)
	return most/2 + rand.N(most/2)
}

// pause waits so long.
func pause(ctx context.Context, n int) {
	select {
	case <-time.After(backoff(n)):
	case <-ctx.Done():
	}
}
