package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/vramscope/vramscope/store"
)

// outcome is what became of a run, or of a folder that could not be read. The
// reports stay where the workers wrote them.
type outcome struct {
	Path  string
	State int
	Error string // of a failed one, one line
}

// What can become of a run.
const (
	done      = iota
	unchanged // since its report was made
	nothing   // text that says nothing: no run after all
	failed
	unread // not a run: something on the way to runs
)

// summary is what the program says in the end. The last worker leaves it with
// the results, because nothing else comes back from a cluster.
type summary struct {
	Schema    string   `json:"schema"`
	Runs      int      `json:"runs"` // analysed now or before
	Unchanged int      `json:"unchanged"`
	Removed   int      `json:"removed"` // of an earlier batch in the same place
	Failed    []string `json:"failed"`  // one line each
	Unread    []string `json:"unread"`
}

const (
	summarySchema = "vramscope.beam/1"
	summaryFile   = "beam.json"
)

func (s *summary) add(o outcome) {
	switch o.State {
	case done:
		s.Runs++
	case unchanged:
		s.Runs++
		s.Unchanged++
	case failed:
		s.Failed = append(s.Failed, o.Error)
	case unread:
		s.Unread = append(s.Unread, o.Error)
	}
}

func (s *summary) write(ctx context.Context, out *store.Place) error {
	return out.Write(ctx, summaryFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) })
}

// dropSummary removes what an earlier pipeline left that nobody waited for: this one
// leaves none if it finds nothing.
func dropSummary(ctx context.Context, name string) error {
	out, err := store.Open(ctx, name)
	if err != nil {
		return err
	}
	defer out.Close()
	return out.Remove(ctx, summaryFile)
}

// takeSummary reads what the last worker left, and removes it.
func takeSummary(ctx context.Context, name string) (*summary, error) {
	out, err := store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	r, err := out.Read(ctx, summaryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &summary{}, nil // nothing was found to be joined
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &summary{}
	if err := json.NewDecoder(r).Decode(s); err != nil || s.Schema != summarySchema {
		return nil, fmt.Errorf("%s is no summary of schema %s", out.URL(summaryFile), summarySchema)
	}
	return s, out.Remove(ctx, summaryFile)
}
