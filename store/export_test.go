package store

import (
	"context"
	"time"
)

// Born ends the name of what a contender for a bucket's lock writes first.
const Born = born

// LockFor is Lock in a bucket with other times.
func (p *Place) LockFor(ctx context.Context, silence, every, settle time.Duration) (unlock func(), err error) {
	return lease{p, leaseTimes{silence, every, settle}}.lock(ctx)
}
