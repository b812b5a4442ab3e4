package budget

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/gpus"
)

// Fit says whether a setting fits a device, and how far it could go there.
type Fit struct {
	GPU         gpus.GPU
	Fits        bool
	MaxBatch    int64   // at the setting's sequence; 0: not even one
	MaxSequence int64   // at the setting's batch
	MaxTokens   int64   // serving: tokens in all caches together
	AtOnce      float64 // serving by an engine: requests of full length in its pool
	HasSequence bool    // false for images and sound, which have one length
}

// Fits says whether a budget fits a device. The table's capacities are what
// PyTorch reports as the device's total; the context and communicators are
// taken from it, as is what the allocator reserves.
func (b *Budget) Fits(g gpus.GPU) bool { return b.Need(g) <= g.Capacity }

// Need is what a budget takes of a device, -1 for a setting that cannot be.
func (b *Budget) Need(g gpus.GPU) int64 {
	if b == nil {
		return -1
	}
	n := b.engineTotal() - b.Setting.Device().Context + g.Context
	switch e, ok := b.Setting.Served(); {
	case ok && e.Outside:
		return max(n, int64(float64(b.WeightsBytes+b.oneRequest)/e.Share)+g.Context)
	case ok:
		return int64(float64(n) / e.Share)
	}
	return n
}

// SequenceFree says whether sequences may be of any length: images and sound have one.
func (b *Budget) SequenceFree() bool {
	return !slices.Contains([]string{"vit", "deit", "dinov2", "dinov2_with_registers", "clip", "whisper", "wav2vec2", "hubert",
		network.UNetClass, "swin", "swinv2", "convnext", "convnextv2"},
		b.Model.Type)
}

// Looseness is reserved over allocated, for settings much like this one; 0 where nothing
// was served.
func (b *Budget) Looseness() float64 {
	if b.Setting.Inference {
		return 0
	}
	return float64(b.Reserved) / float64(max(b.PeakBytes, b.FirstStep, 1))
}

// WorkingBytes is what serving takes without the cache.
func (b *Budget) WorkingBytes() int64 {
	n := b.WeightsBytes
	for _, ph := range b.Phases {
		n = max(n, ph.Peak-ph.Categories[KVCache])
	}
	return n
}

// ReserveFactor is how much is reserved for each byte that is allocated, where nothing is served to tell.
func ReserveFactor(s Setting) float64 {
	if s.Reserve > 0 {
		return s.Reserve
	}
	if s.Allocator == "expandable" {
		return expandableReserve
	}
	return nativeReserve
}

// Measure is one step of the ladder: a change and what it saves on top of
// the changes before it.
type Measure struct {
	Change      string  `json:"change"` // as a reader would say it
	Flags       string  `json:"flags"`  // as the command takes it
	Costs       string  `json:"costs"`  // what it costs in turn
	Saves       int64   `json:"saves_bytes"`
	TotalDevice int64   `json:"total_device_bytes"` // reserved and context after it
	Fits        bool    `json:"fits"`
	Setting     Setting `json:"-"`
}

// WithVocabulary is the configuration with another vocabulary.
func WithVocabulary(c *Config, v int64) (*Config, error) {
	if v < 1 || v > 1<<31 {
		return nil, fmt.Errorf("--vocab %d: at least 1", v)
	}
	return c.of(c.WithText("vocab_size", float64(v))), nil
}
