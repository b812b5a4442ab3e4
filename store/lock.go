package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// LockName is the file, or the beginning of the objects' names, that says that a program
// writes to a place.
const LockName = ".vramscope-lock"

// ErrNoLocks is wrapped by errors about a place whose file system has no locks.
var ErrNoLocks = errors.New("has no locks")

// holder is who writes to a place.
type holder struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

func (h *holder) String() string {
	return fmt.Sprintf("process %d on %.100s, since %s", h.PID, h.Host, h.Since.Format(time.DateTime))
}

func self() holder {
	host, _ := os.Hostname()
	return holder{host, os.Getpid(), time.Now()}
}

// Lock makes a place this program's to write to until it calls unlock. Where another has
// it, the error names that one. In a folder the system lets go of what a killed program
// held, on NFS as well. In a bucket a program that was killed holds it until others see
// that it doesn't say any more that it is alive.
func (p *Place) Lock(ctx context.Context) (unlock func(), err error) {
	if dir, ok := p.backend.(folder); ok {
		unlock, err = dir.lock()
	} else {
		unlock, err = lease{p, usualLease}.lock(ctx)
	}
	var other *takenError
	if errors.As(err, &other) {
		return nil, &Error{URL: p.base, Cause: "another batch writes there: " + other.by, Err: err,
			Advice: "Wait for it, or give the results a folder of their own; merge joins them."}
	}
	return unlock, p.fail("", err)
}

// takenError says who has a lock.
type takenError struct{ by string }

func (e *takenError) Error() string { return e.by }

// leaseTimes are how long a holder of a bucket's lock may say nothing before it is taken for
// dead, and how often it says that it is alive.
type leaseTimes struct{ silence, every, settle time.Duration }

// usualLease: settle is more than the second to which stores tell times.
var usualLease = leaseTimes{5 * time.Minute, time.Minute, 1100 * time.Millisecond}

// lease is a lock made of objects. Every contender writes one of its own and then looks
// who was first, by the store's clock: what was written in the same second is there to
// see by the time it looks.
type lease struct {
	place *Place
	leaseTimes
}

// Names of a contender's objects: what it was born with, and what it writes again and
// again.
const (
	born  = "-born"
	alive = "-alive"
)

func (l lease) lock(ctx context.Context) (unlock func(), err error) {
	id := fmt.Sprintf("%s-%016x", LockName, rand.Uint64())
	text, _ := json.Marshal(self()) // plain data always can be
	say := func(what string) error {
		return l.place.Write(ctx, id+what, func(w io.Writer) error { _, err := w.Write(text); return err })
	}
	leave := func() {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		_ = l.place.Remove(ctx, id+alive) // what stays is taken for dead soon
		_ = l.place.Remove(ctx, id+born)
	}
	if err := say(born); err != nil {
		return nil, err
	}
	select {
	case <-time.After(l.settle):
	case <-ctx.Done():
	}
	first, err := l.first(ctx, id)
	if err != nil || first != id {
		leave()
		return nil, cmp.Or(err, error(&takenError{l.who(ctx, first)}))
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(l.every):
				_ = say(alive)
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-done
		leave()
	}, nil
}

// first is the contender whose lock it is, given oneself. What dead ones left is removed.
func (l lease) first(ctx context.Context, own string) (string, error) {
	births, signs := map[string]time.Time{}, map[string]time.Time{}
	for f, err := range l.place.List(ctx) {
		if err != nil {
			return "", err
		}
		if f.Name > LockName+"~" { // names are in order
			break
		}
		if id, ok := strings.CutSuffix(f.Name, born); ok {
			births[id], signs[id] = f.Modified, later(signs[id], f.Modified)
		} else if id, ok := strings.CutSuffix(f.Name, alive); ok {
			signs[id] = later(signs[id], f.Modified)
		}
	}
	now, ok := births[own]
	if !ok {
		return "", errors.New("what was written to it isn't there")
	}
	first := own
	for id, at := range births {
		if now.Sub(signs[id]) >= l.silence || id != own && l.isDead(ctx, id) {
			_ = l.place.Remove(ctx, id+alive)
			_ = l.place.Remove(ctx, id+born)
		} else if cmp.Or(at.Compare(births[first]), cmp.Compare(id, first)) < 0 {
			first = id
		}
	}
	return first, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// holder reads who wrote a contender's object.
func (l lease) holder(ctx context.Context, id string) (h holder, ok bool) {
	r, err := l.place.Read(ctx, id+born)
	if err != nil {
		return h, false
	}
	defer r.Close()
	return h, json.NewDecoder(io.LimitReader(r, 1<<12)).Decode(&h) == nil
}

// isDead reports whether a contender was a process of this machine that is no more.
func (l lease) isDead(ctx context.Context, id string) bool {
	h, ok := l.holder(ctx, id)
	me := self()
	return ok && h.Host == me.Host && h.Host != "" && !runs(h.PID)
}

// who says who a contender is.
func (l lease) who(ctx context.Context, id string) string {
	if h, ok := l.holder(ctx, id); ok {
		return h.String() + fmt.Sprintf("; if that was killed, in %s from its last sign of life on anybody may", l.silence)
	}
	return "another process"
}
