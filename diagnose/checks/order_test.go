package checks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// recordings are those of the repository.
func recordings(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"scenarios/*.pickle.gz", "recordings/*/*.pickle.gz"} {
		found, err := filepath.Glob("../../testdata/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

// look gives a function that makes a new look at each device of a recording.
func look(t *testing.T, path string) (*report.Document, func(device int) *facts.Pass) {
	t.Helper()
	s, err := snapshot.Open(path, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	classes := map[int]*classify.Classification{}
	made := func(d *snapshot.Device) (*timeline.Timeline, *classify.Classification) {
		if classes[d.Ordinal] == nil {
			classes[d.Ordinal] = classify.New(timeline.New(s, d), classify.Options{})
		}
		return classes[d.Ordinal].Timeline, classes[d.Ordinal]
	}
	doc, err := diagnose.Run([]diagnose.Source{{Path: path, Kind: "snapshot", Snapshot: s, Made: made}}, evidence.New(),
		diagnose.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc, func(device int) *facts.Pass {
		d := &doc.Devices[device]
		c := classes[d.Device]
		return facts.New(c.Timeline, c, frames.New(s), d)
	}
}

// TestOrder: no check leaves anything behind for another, so run in reverse they find
// the same; and each asks only for the facts that it declares.
func TestOrder(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, path := range recordings(t) {
		doc, pass := look(t, path)
		for i := range doc.Devices {
			forward, backward := text(t, checks.Forward(pass(i))), text(t, checks.Reversed(pass(i)))
			if forward != backward {
				t.Errorf("%s, device %d: in reverse the checks find\n%s\ninstead of\n%s", path, i, backward, forward)
			}
			for _, c := range checks.Device() {
				if used[c.ID] == nil {
					used[c.ID] = map[string]bool{}
				}
				c.Run(pass(i).Watched(func(n facts.Need) {
					used[c.ID][n.Name()] = true
					if !slices.Contains(c.Needs, n) {
						t.Errorf("%s: %s asks for %s, which isn't among its needs", path, c.ID, n.Name())
					}
				}))
			}
		}
	}
	if os.Getenv("NEEDS") != "" {
		for id, names := range used {
			fmt.Println("NEED", id, names)
		}
	}
}

func text(t *testing.T, drafts []checks.Draft) string {
	t.Helper()
	b, err := json.Marshal(drafts)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPapers: each check has an id of its own and says what it is about.
func TestPapers(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range append(checks.Device(), checks.Elsewhere()...) {
		if seen[c.ID] || c.ID == "" || c.Group == nil || c.Severity == "" || !strings.HasSuffix(c.Doc, ".") {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
	}
	for _, id := range strings.Fields("oom_true_shortage oom_fragmentation oom_other_process oom_memory_fraction growing_list " +
		"retained_graph gradients_kept missing_no_grad stale_outputs first_step_state fragmentation_creep varying_shapes " +
		"logits_dominate checkpointing_absent checkpointing_ineffective autocast_copies weights_twice weights_upcast inputs_kept " +
		"kv_cache_in_training empty_cache_in_loop allocator_setting private_pools outside_pytorch shared_memory_spill " +
		"over_budget rank_imbalance recording_late recording_overflowed recording_stopped recording_without_stacks " +
		"recording_empty damage") {
		if !seen[id] {
			t.Errorf("nothing finds %s", id)
		}
	}
}
