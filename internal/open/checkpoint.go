package open

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/units"
)

// BesideCheckpoint is where a checkpoint's configuration lies.
func BesideCheckpoint(path string) string { return filepath.Join(filepath.Dir(path), "config.json") }

// CheckpointConfig prefers the config.json beside a checkpoint and says where
// the two disagree. Packed weights have their bytes from the checkpoint and
// everything else from the configuration.
func CheckpointConfig(path string) (*budget.Config, []string, error) {
	ts, err := Checkpoint(path)
	if err != nil {
		return nil, nil, err
	}
	beside := BesideCheckpoint(path)
	if packed := modelfile.PackedIn(ts); packed != nil {
		c, err := ReadConfig(beside)
		if err != nil {
			c, other := budget.FromTensors(ts)
			if other != nil && !errors.Is(err, fs.ErrNotExist) { // there is one, and why it does not help is what to know
				other = err
			}
			return c, nil, other
		}
		if c, err = c.Store(packed); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", beside, err)
		}
		return c, []string{fmt.Sprintf("%s describes the model; the checkpoint packs its weights (%s) into %s", beside,
			packed.Kind, units.Bytes(packed.Bytes))}, nil
	}
	var total int64
	for _, t := range ts {
		if !t.Buffer {
			total += t.Elements()
		}
	}
	var notes []string
	c, err := ReadConfig(beside)
	switch {
	case err == nil:
		n, err := budget.Count(c)
		if err != nil {
			return nil, nil, err // it was counted before
		}
		if n.Total == total {
			return c, []string{fmt.Sprintf("%s and the checkpoint agree on %s parameters", beside,
				units.Count(int(total)))}, nil
		}
		notes = append(notes,
			fmt.Sprintf("%s describes %s parameters, the checkpoint has %s: the checkpoint's tensors are taken",
				beside, units.Count(int(n.Total)), units.Count(int(total))))
	case !errors.Is(err, fs.ErrNotExist):
		notes = append(notes, "not used: "+OneLine(err))
	}
	c, err = budget.FromTensors(ts)
	return c, notes, err
}
