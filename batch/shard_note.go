package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/vramscope/vramscope/store"
)

// partFile says which shard of a batch a folder holds.
const partFile = "shard.json"

type part struct {
	Index int `json:"shard"` // from 0
	Count int `json:"of"`
}

// NotePart writes down which of how many shards the results in out are of, so that
// Merge can miss one. A whole batch has no such note.
func NotePart(ctx context.Context, out *store.Place, index, count int) error {
	if count > 1 {
		return out.Write(ctx, partFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(part{index, count}) })
	}
	if _, err := out.Stat(ctx, partFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return out.Remove(ctx, partFile)
}

// missingPart is an error where the notes of some parts show that another shard's
// isn't among them.
func missingPart(ctx context.Context, parts []*store.Place) error {
	seen := map[part]bool{}
	count := 0
	for _, place := range parts {
		r, err := place.Read(ctx, partFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a whole batch, or done by other means
		}
		if err != nil {
			return err
		}
		var p part
		err = json.NewDecoder(io.LimitReader(r, 1<<10)).Decode(&p)
		r.Close()
		if err != nil || p.Count < 1 || p.Index < 0 || p.Index >= p.Count {
			return fmt.Errorf("%s: %s says nothing of a shard", place.URL(""), partFile)
		}
		seen[p] = true
		if count == 0 {
			count = p.Count
		}
		if p.Count != count {
			return fmt.Errorf("%s is of a batch in %d shards, others are of one in %d", place.URL(""), p.Count, count)
		}
	}
	if len(seen) < count {
		for i := range count {
			if !seen[part{i, count}] {
				more := ""
				if n := count - len(seen) - 1; n > 0 {
					more = fmt.Sprintf(", nor are %d more", n)
				}
				return fmt.Errorf("shard %d/%d isn't among the parts%s: its runs would be missing", i, count, more)
			}
		}
	}
	return nil
}
