package replay

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay/passes"
)

// TestAnswer: what isn't known to come is no failure, and a request that is met no success.
func TestAnswer(t *testing.T) {
	state := passes.ToCome{Bytes: 30, State: passes.State{ToCome: 30}}
	for _, c := range []struct {
		name string
		room Room
		want words.Answer
	}{
		{"nobody knows the GPU", Room{Left: 50, LeftThen: 50, Part: 1}, words.NotKnown},
		{"not even the request", Room{Most: 100, Left: -1, Part: 1}, words.Fails},
		{"nothing is known of what follows", Room{Most: 100, Left: 5, LeftThen: 5, Part: 1}, words.Meets},
		{"the same with much to spare", Room{Most: 100, Left: 20, LeftThen: 20, Part: 1}, words.Meets},
		{"the same with a change", Room{Most: 100, Left: 20, LeftThen: 20, Part: 1, Changed: true}, words.Fits},
		{"the program went on", Room{Most: 100, Left: 1, LeftThen: 1, Part: 1, WentOn: true}, words.Fits},
		{"the rest of the step fits", Room{Most: 100, Left: 5, LeftThen: 5, Part: 1, After: passes.ToCome{Bytes: 9}, Request: 4}, words.Fits},
		{"the rest of the step fits, a list of roots that may follow doesn't", Room{Most: 100, Left: 50, LeftThen: 50, Part: 1,
			After: passes.ToCome{Bytes: 30, State: passes.State{ToCome: 30, Maybe: 25}}}, words.Meets},
		{"the rest of the step doesn't", Room{Most: 100, Left: 5, LeftThen: 5, Part: 1, After: passes.ToCome{Bytes: 10}, Request: 4},
			words.MeetsThenFails},
		{"state that doesn't fit", Room{Most: 100, Left: 26, LeftThen: 26, Part: 1, After: state, Request: 3}, words.MeetsThenFails},
		{"in 8 bits it does", Room{Most: 100, Left: 10, LeftThen: 10, Part: 0.254, After: state, Request: 3}, words.Fits},
		{"layers that don't fit", Room{Most: 100, Left: 50, LeftThen: 30, Part: 1, After: passes.ToCome{Layers: 40}}, words.MeetsThenFails},
		{"layers fit, what follows them isn't known", Room{Most: 100, Left: 9, LeftThen: 9, Part: 1, After: passes.ToCome{Layers: 5}},
			words.Meets},
		{"a change leaves nobody knows how much", Room{Most: 100, Left: 19, LeftThen: 19, Part: -1, Changed: true, After: passes.ToCome{Layers: 5}},
			words.Meets},
		{"moments of the gradients that are there", Room{Most: 100, Left: 30, LeftThen: 30, Part: 1, Changed: true, After: passes.ToCome{Moments: 31}},
			words.MeetsThenFails},
		{"those of all weights may come", Room{Most: 100, Left: 30, LeftThen: 30, Part: 1, Changed: true, After: passes.ToCome{Likely: 31}}, words.Meets},
	} {
		if got := c.room.Answer(); got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

// TestCapacityTellsTheNeed: of a size that isn't enough, what the run needs is told, not what the first request lacked.
func TestCapacityTellsTheNeed(t *testing.T) {
	for _, c := range []struct {
		run, want string
		size      int64
	}{
		{"gpt2_fp32_adamw__hf_loop/snapshot_roundup4", "8 GiB: doesn't fit: the run needs 9.4 GiB (10.2 GiB reserved), 1.9 GiB more than " +
			"PyTorch could have; it is out of memory in", 8 << 30},
		{"gpt2_fp32_adamw__hf_loop/snapshot_roundup4", "16 GiB: fits, peak", 16 << 30},
		{"llama8b_full_oom__fp32_autocast/snapshot_none", "96 GiB: doesn't fit: the request that failed does, but the run needs about " +
			"120 GiB, 24.2 GiB more than PyTorch could have", 96 << 30},
	} {
		doc := tried(t, c.run, Options{Capacities: []int64{c.size}})
		if !strings.HasPrefix(doc.Verdict, c.want) {
			t.Errorf("%s: %s", c.run, doc.Verdict)
		}
	}
}
