package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// patience is how long a store may be silent: until it has accepted a connection,
// until the first byte of an answer, and between any two bytes.
type patience time.Duration

// usualPatience is far more than stores that work take, and little enough for
// somebody who waits.
const usualPatience = patience(20 * time.Second)

// rounds is how often a store that is silent is asked.
const rounds = 3

// isTimeout tells errors of silence.
func isTimeout(err error) bool {
	var waited net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &waited) && waited.Timeout()
}

// limit makes a client's connections impatient.
func (p patience) limit(t *http.Transport) {
	silence := time.Duration(p)
	dial := (&net.Dialer{Timeout: silence, KeepAlive: silence}).DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return impatient{c, silence}, nil
	}
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout, t.IdleConnTimeout = silence, silence, silence
}

// impatient is a connection that breaks when nothing comes or goes for a while.
type impatient struct {
	net.Conn
	silence time.Duration
}

func (c impatient) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.silence)) // a closed connection says so in the reading
	return c.Conn.Read(b)
}

// Write also gives who waits for the answer its time anew.
func (c impatient) Write(b []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.silence))
	return c.Conn.Write(b)
}

// asking bounds a request whose answer is short, all of its attempts together: with the
// waits between them.
func (p patience) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*rounds*time.Duration(p))
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
