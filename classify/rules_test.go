package classify

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/testing/pagetext"
	"github.com/vramscope/vramscope/internal/units"
)

// generated begins the part of doc/classification.md that is made from the rules.
const generated = "<!-- From here on made from the rules: go test ./classify -run TestRulesDoc -update -->\n"

// TestRulesDoc keeps doc/classification.md true.
func TestRulesDoc(t *testing.T) {
	measured := rightTold(t)
	var b strings.Builder
	var signal meaning.Signal
	for _, r := range Rules() {
		if r.Signal != signal {
			signal = r.Signal
			fmt.Fprintf(&b, "\n## Rules: %s\n", strings.ReplaceAll(signal.String(), "_", " "))
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s", r.ID, pagetext.Fill(r.Doc))
		for _, side := range []string{unseen, written} {
			if m := measured[r.ID+" "+side]; m.runs > 0 {
				fmt.Fprintf(&b, "\nMeasured: %.1f %% right, %.0f %% sure, %s%s.\n", m.right, m.sure, units.Plural(m.runs, "run"),
					map[string]string{written: " that it was written with"}[side])
				break
			}
		}
	}
	b.WriteString(worthText(t))
	pagetext.Keep(t, "../doc/classification.md", generated, b.String(), *update)
}

// worthText is the table of what each case is worth, for doc/classification.md.
func worthText(t *testing.T) string {
	text, err := os.ReadFile(worthTable)
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ changed, peak string }
	of := map[string]map[string]row{}
	var names []string
	for line := range strings.Lines(string(text)) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(c) != 13 || c[3] != "all" || c[1] == "pair" {
			continue
		}
		if of[c[0]] == nil {
			of[c[0]] = map[string]row{}
			names = append(names, c[0])
		}
		of[c[0]][c[2]] = row{c[4], c[5]}
	}
	var b strings.Builder
	all := of["(everything)"]
	b.WriteString("\n## What a case is worth\n\n")
	b.WriteString(pagetext.Fill(fmt.Sprintf(`What leaving it out costs at the peak, in percent of the bytes that are right. On the left of recordings that were
there when most cases were written (%s, %.1f %% right), on the right of later ones (%s, %.1f %%). Cases of less than a point aren't listed; %s has all.`,
		all[written].changed, number(all[written].peak), all[unseen].changed, number(all[unseen].peak), "`classify/testdata/worth.tsv`")))
	b.WriteString("\n| case | written for | later |\n|---|--:|--:|\n")
	for _, name := range names {
		w, u := number(of[name][written].peak), number(of[name][unseen].peak)
		if name != "(everything)" && max(w, u) >= 1 {
			fmt.Fprintf(&b, "| `%s` | %.1f | %.1f |\n", name, w, u)
		}
	}
	return b.String()
}

func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// TestRulesHavePapers: ids are words, each is there once, and everybody says why.
func TestRulesHavePapers(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.ID == "" || r.Signal == meaning.NoSignal || r.Born == 0 || (r.Begin == nil) == (r.Claim == nil) || len(r.Doc) < 30 || seen[r.ID] {
			t.Errorf("%+v", r)
		}
		seen[r.ID] = true
		if reason := r.Reason(); len(reason) > 230 || !strings.HasSuffix(strings.TrimSuffix(reason, ")"), ".") {
			t.Errorf("%s: its reason is no short sentence: %q", r.ID, reason)
		}
	}
}

// sureness is how often a rule is right, and how sure it was, in percent.
type sureness struct {
	runs, blocks int
	right, sure  float64
}

// rightTold reads testdata/right.tsv, by rule and side.
func rightTold(t *testing.T) map[string]sureness {
	text, err := os.ReadFile(rightTable)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]sureness{}
	for line := range strings.Lines(string(text)) {
		var id, side string
		var x sureness
		if n, _ := fmt.Sscanf(line, "%s\t%s\t%d\t%d\t%f\t%f", &id, &side, &x.runs, &x.blocks, &x.right, &x.sure); n >= 4 {
			out[id+" "+side] = x
		}
	}
	return out
}

// TestRulesAreAsSureAsRight: where a rule decides enough in several runs that it wasn't written
// for, it is about as often right as it says, neither surer nor much shyer.
func TestRulesAreAsSureAsRight(t *testing.T) {
	const fewRuns, fewBlocks, rounding, shy = 3, 100, 2, 20 // the last two in percent
	known := map[string]string{
		"recomputed":    "three runs; passes that run a model again without checkpointing, as a cache of gradients does, look the same",
		"left-by-setup": "where a program fails in its setup without stacks, all of it is a guess",
	}
	measured := rightTold(t)
	for _, r := range Rules() {
		x := measured[r.ID+" "+unseen]
		if x.runs < fewRuns || x.blocks < fewBlocks {
			continue
		}
		if off := x.sure > x.right+rounding || x.sure < x.right-shy; off != (known[r.ID] != "") {
			t.Errorf("%s is right for %.1f %% of the bytes in %d runs, and %.0f %% sure", r.ID, x.right, x.runs, x.sure)
		}
	}
}
