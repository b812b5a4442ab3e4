package store_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/testing/fakes3"
	"github.com/vramscope/vramscope/store"
)

// TestFolderLock: one at a time, whoever has it is named, and nothing stays.
func TestFolderLock(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()+"/out"
	a := open(t, dir)
	unlock, err := a.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lock(ctx); err == nil || !strings.HasPrefix(err.Error(), dir+": another batch writes there: process ") {
		t.Errorf("error is %v", err)
	}
	unlock()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v left", err, entries)
	}
	for range 2 { // and again
		unlock, err = a.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
}

// TestLease is the same in a bucket, where a holder that is no more, or says nothing any
// more, is passed over.
func TestLease(t *testing.T) {
	fakes3.Start(t)
	ctx := context.Background()
	p := open(t, "s3://team/out")
	quick := func() (func(), error) { return p.LockFor(ctx, time.Hour, 20*time.Millisecond, 1100*time.Millisecond) }
	unlock, err := quick()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // it has said that it is alive
	if _, err := quick(); err == nil || !strings.HasPrefix(err.Error(), "process ") {
		t.Errorf("error is %v", err)
	}
	unlock()
	left := func() (names []string) {
		for f, err := range p.List(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, f.Name)
		}
		return names
	}
	if names := left(); names != nil {
		t.Errorf("%q left", names)
	}

	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]struct {
		host    string
		pid     int
		silence time.Duration
	}{
		"no process here": {here, 1 << 30, time.Hour},
		"silent":          {"elsewhere", 1, time.Second / 2},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.Write(ctx, store.LockName+"-0"+store.Born, func(w io.Writer) error {
				return json.NewEncoder(w).Encode(map[string]any{"host": other.host, "pid": other.pid})
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			unlock, err := p.LockFor(ctx, other.silence, time.Hour, 0)
			if err != nil {
				t.Fatal(err)
			}
			unlock()
			if names := left(); names != nil {
				t.Errorf("%q left", names)
			}
		})
	}

	var holders int
	results := make(chan error)
	for range 4 { // all at once: one has it
		go func() { _, err := quick(); results <- err }()
	}
	for range 4 {
		if <-results == nil {
			holders++
		}
	}
	if holders != 1 {
		t.Errorf("%d have the lock", holders)
	}
}
