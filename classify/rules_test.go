package classify

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/internal/testing/pagetext"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// generated begins the part of doc/classification.md that is made from the rules.
const generated = "<!-- From here on made from the rules: go test ./classify -run TestRulesDoc -update -->\n"

// TestRulesDoc keeps doc/classification.md true.
func TestRulesDoc(t *testing.T) {
	table, err := os.ReadFile("testdata/measured.txt")
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string][]string{}
	for line := range strings.SplitSeq(string(table), "\n") {
		cells := strings.Split(line, "\t")
		measured[cells[0]] = cells[1:]
	}
	var b strings.Builder
	var signal meaning.Signal
	for _, r := range Rules() {
		if r.Signal != signal {
			signal = r.Signal
			fmt.Fprintf(&b, "\n## Rules: %s\n", strings.ReplaceAll(signal.String(), "_", " "))
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s", r.ID, pagetext.Fill(r.Doc))
		if needs := needsOf(r); needs != "" {
			fmt.Fprintf(&b, "\nNeeds %s.\n", needs)
		}
		if m := measured[r.ID]; len(m) == 4 && m[1] != "-" {
			fmt.Fprintf(&b, "\nMeasured: right for %s %% of the %s allocations that it decided, said with %s %% on average.\n",
				m[1], m[0], m[3])
		}
	}
	pagetext.Keep(t, "../doc/classification.md", generated, b.String(), *update)
}

func needsOf(r *rules.Rule) string {
	var words []string
	for _, n := range r.Needs {
		words = append(words, n.String())
	}
	return strings.Join(words, ", ")
}

// TestRulesHavePapers: ids are words, each is there once, and everybody says why.
func TestRulesHavePapers(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.ID == "" || r.Signal == meaning.NoSignal || r.Born == 0 || r.Begin == nil || len(r.Doc) < 30 || seen[r.ID] {
			t.Errorf("%+v", r)
		}
		seen[r.ID] = true
		if reason := r.Reason(); len(reason) > 230 || !strings.HasSuffix(strings.TrimSuffix(reason, ")"), ".") {
			t.Errorf("%s: its reason is no short sentence: %q", r.ID, reason)
		}
	}
}

// difference is what leaving out a rule changes of a classification, in words; "" for
// nothing.
func difference(tl *timeline.Timeline, with, without *Classification) string {
	type move struct{ from, to Category }
	moved := map[move]int64{}
	surer := 0
	for i, c := range with.Category {
		if o := without.Category[i]; o != c {
			moved[move{c, o}] += tl.Allocated[i]
		} else if with.Detail[i] != without.Detail[i] || with.Confidence[i] != without.Confidence[i] {
			surer++
		}
	}
	if len(moved) == 0 {
		if surer == 0 {
			return ""
		}
		return units.Plural(surer, "allocation") + " of another kind or confidence"
	}
	keys := slices.SortedFunc(maps.Keys(moved), func(a, b move) int {
		return cmp.Or(cmp.Compare(moved[b], moved[a]), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	k := keys[0]
	return fmt.Sprintf("%s %v would be %v", units.Bytes(moved[k]), k.from, k.to)
}

// shipped are the recordings of the repository, and those of VRAMSCOPE_CORPUS.
func shipped(t *testing.T) (paths []string) {
	for _, pattern := range []string{"../testdata/scenarios/*.pickle.gz", "../testdata/recordings/*/snapshot_*.pickle.gz"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return append(append(paths, corpus.Glob(t, "labelled/*/snapshot_*.pickle.gz")...), corpus.Glob(t, "snapshots/*.p*kl*")...)
}

// timelinesOf are the devices of a recording.
func timelinesOf(t *testing.T, path string) (out []*timeline.Timeline) {
	s, err := snapshot.Open(path, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Devices {
		out = append(out, timeline.New(s, &s.Devices[i]))
	}
	return out
}

// TestEveryRuleIsNeeded: testdata/needed.txt names for each rule a recording of real
// PyTorch that is told worse, or less surely, without it. A rule without one is listed
// with a dash: it wants a recording, or should go.
func TestEveryRuleIsNeeded(t *testing.T) {
	if *ablate {
		writeNeeded(t)
	}
	f, err := os.Open("testdata/needed.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]bool{}
	open := map[string][]*timeline.Timeline{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		cells := strings.Split(lines.Text(), "\t")
		id, path := cells[0], cells[1]
		listed[id] = true
		if !strings.HasPrefix(path, "testdata/") {
			continue
		}
		if open[path] == nil {
			open[path] = timelinesOf(t, filepath.Join("..", path))
		}
		if !slices.ContainsFunc(open[path], func(tl *timeline.Timeline) bool {
			return difference(tl, New(tl, Options{}), New(tl, Options{Without: []string{id}})) != ""
		}) {
			t.Errorf("%s: %s is the same without it; run go test ./classify -run EveryRule -ablate", id, path)
		}
	}
	for _, r := range Rules() {
		if !listed[r.ID] {
			t.Errorf("testdata/needed.txt doesn't have the rule %s; run go test ./classify -run EveryRule -ablate", r.ID)
		}
	}
}

// writeNeeded leaves out one rule at a time, and lists what changes.
func writeNeeded(t *testing.T) {
	type need struct {
		path, how string
		others    int
	}
	needed := map[string]*need{}
	for _, path := range shipped(t) {
		for _, tl := range timelinesOf(t, path) {
			with := New(tl, Options{})
			spoke := make([]bool, len(Rules())+1)
			for _, n := range with.Rule {
				spoke[n] = true
			}
			for i, r := range Rules() {
				if !spoke[i+1] {
					continue
				}
				how := difference(tl, with, New(tl, Options{Without: []string{r.ID}}))
				switch n := needed[r.ID]; {
				case how == "":
					continue
				case n == nil:
					needed[r.ID] = &need{path, how, 0}
				default:
					if n.others++; strings.HasSuffix(n.how, "confidence") && !strings.HasSuffix(how, "confidence") {
						n.path, n.how = path, how
					}
				}
				t.Logf("%-24s %s: %s", r.ID, shortPath(path), how)
			}
		}
	}
	var b strings.Builder
	for _, r := range Rules() {
		n := needed[r.ID]
		if n == nil {
			n = &need{path: "-", how: "no recording at hand"}
		}
		fmt.Fprintf(&b, "%s\t%s\t%d more\t%s\n", r.ID, shortPath(n.path), n.others, n.how)
	}
	if err := os.WriteFile("testdata/needed.txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shortPath is a recording's place in the repository or in the corpus.
func shortPath(path string) string {
	if own, ok := strings.CutPrefix(path, "../"); ok {
		return own
	}
	return filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
}

// TestRulesAreMeasured prints for each rule how much of what it decides on labelled
// recordings is right, beside how sure it was; with -ablate it keeps that in
// testdata/measured.txt.
func TestRulesAreMeasured(t *testing.T) {
	if !*ablate {
		t.Skip("measures every rule on every labelled recording")
	}
	type sum struct{ blocks, right, bytes, rightBytes, sure int64 }
	sums := make([]sum, len(Rules())+1)
	for _, r := range labelledRuns(t) {
		for name, v := range r.Variants {
			if _, err := os.Stat(r.path(name)); err != nil || v.OK != nil && !*v.OK {
				continue
			}
			tl := r.timeline(t, name)
			c := New(tl, Options{})
			n, firstEvent, _ := r.window(v)
			for o, id := range r.match(tl, v, n, firstEvent)[:n] {
				if id == timeline.NoAllocation {
					continue
				}
				s, size := &sums[c.Rule[id]], r.truth.BlockSize[o]
				s.blocks, s.bytes, s.sure = s.blocks+1, s.bytes+size, s.sure+int64(c.Confidence[id])
				if r.truth.Categories[r.truth.Category[o]] == c.Category[id].String() {
					s.right, s.rightBytes = s.right+1, s.rightBytes+size
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString("rule\tblocks\tright, % of blocks\tright, % of bytes\tsure, % on average\n")
	for i, r := range Rules() {
		if s := sums[i+1]; s.blocks > 0 {
			fmt.Fprintf(&b, "%s\t%d\t%.1f\t%.1f\t%d\n", r.ID, s.blocks, share(s.right, s.blocks), share(s.rightBytes, s.bytes), s.sure/s.blocks)
		} else {
			fmt.Fprintf(&b, "%s\t0\t-\t-\t-\n", r.ID)
		}
	}
	t.Log("\n" + b.String())
	if err := os.WriteFile("testdata/measured.txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRulesAreNoSurerThanRight: on average a rule is as often right, in blocks of the
// labelled recordings, as it says that it is.
func TestRulesAreNoSurerThanRight(t *testing.T) {
	const few, rounding = 100, 1 // blocks, percent
	known := map[string]string{
		"collective":         "tensor parallel layers: what they gather is part of the model, and counts as activations there",
		"temporary-in-setup": "whole weights that are there until each rank has its shard",
	}
	text, err := os.ReadFile("testdata/measured.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		var id string
		var blocks int
		var right, bytes, sure float64
		if n, _ := fmt.Sscanf(line, "%s\t%d\t%f\t%f\t%f", &id, &blocks, &right, &bytes, &sure); n < 5 || blocks < few {
			continue
		}
		if surer := sure > right+rounding; surer != (known[id] != "") {
			t.Errorf("%s is right in %.1f %% of %d blocks, and %.0f %% sure", id, right, blocks, sure)
		}
	}
}
