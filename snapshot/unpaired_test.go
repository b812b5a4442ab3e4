package snapshot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
)

// TestUnpairedActions: what skip_actions may leave out, and what then is known.
func TestUnpairedActions(t *testing.T) {
	for name, c := range map[string]struct {
		actions string // each with the address it is at
		aside   int
	}{
		"all":                             {"alloc:1 free_requested:1 free_completed:1 alloc:1", 0},
		"no requests":                     {"alloc:1 free_completed:1 alloc:1", 0},
		"no completions":                  {"alloc:1 free_requested:1 alloc:1", 0},
		"nothing was freed":               {"alloc:1 alloc:2 alloc:3", 0},
		"only what was there before":      {"free_requested:1 free_completed:1 free_requested:2 free_completed:2", 0},
		"no frees":                        {"segment_alloc:1 alloc:1 alloc:2 alloc:1", 3},
		"no allocations":                  {"free_requested:1 free_completed:1 free_requested:1 free_completed:1", 4},
		"no allocations, requests only":   {"free_requested:1 free_requested:1 segment_free:1", 2},
		"no addresses in the file at all": {"alloc:0 alloc:0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var events []recorder.Event
			words := strings.Fields(c.actions)
			for _, w := range words {
				action, at, _ := strings.Cut(w, ":")
				events = append(events, recorder.Event{Action: action, Address: int64(at[0]-'0') << 20, Size: 512})
			}
			file := (&recorder.Recording{Traces: [][]recorder.Event{events}}).Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
			for _, read := range []func() (*Snapshot, error){
				func() (*Snapshot, error) { return Decode(bytes.NewReader(file), Options{}) },
				func() (*Snapshot, error) { return DecodeGeneral(file) },
			} {
				s, err := read()
				if err != nil {
					t.Fatal(err)
				}
				d := &s.Devices[0]
				if d.Unpaired != c.aside {
					t.Errorf("%d set aside, want %d", d.Unpaired, c.aside)
				}
				for i, w := range words {
					action, _, _ := strings.Cut(w, ":")
					known := d.Events.Action[i] < ActionOther
					if s.ActionName(d.Events.Action[i]) != action || known != (c.aside == 0 || strings.HasPrefix(action, "segment")) {
						t.Errorf("event %d is %s, known: %v", i, s.ActionName(d.Events.Action[i]), known)
					}
				}
			}
		})
	}
}
