package classify

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/internal/testing/ring"
	"github.com/vramscope/vramscope/internal/testing/worth/off"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var (
	ablate = flag.Bool("ablate", false, "leave out one case at a time, and write what that costs to testdata/worth.tsv; needs the corpus")
	only   = flag.String("only", "", "measure cases whose names match alone, and print what they cost")
)

// Tables that the measurement writes: what leaving out each case costs, and how often each
// rule is right, beside how sure it is.
const (
	worthTable = "testdata/worth.tsv"
	rightTable = "testdata/right.tsv"
)

// Sides of a measurement: recordings that were there when a case was written, and others.
const (
	written = "written"
	unseen  = "unseen"
)

// earlier is the round of recordings with which cases were written that don't say.
const earlier = 2

// worthGroups are the kinds of recordings that are told apart.
var worthGroups = []string{"stacks", "python", "none", "late", "cut", "overflowed", "expandable"}

func worthGroup(variant string) string {
	switch variant {
	case "late", "expandable", "python":
		return variant
	case "ring":
		return "overflowed"
	case "all", "named", "annotated":
		return "stacks"
	}
	return "none"
}

// aCase is something that can be left out: rules and signals by their ids, heuristics by
// their numbers.
type aCase struct {
	Name, Kind string // kind: rule, signal, helper, pair, subject
	rules      []string
	helpers    []int
	round      int
	subject    string // the package
}

// singles are all cases by themselves.
func singles() (out []aCase) {
	for _, r := range Rules() {
		begin := runtime.FuncForPC(max(reflect.ValueOf(r.Begin).Pointer(), reflect.ValueOf(r.Claim).Pointer())).Name()
		// PATH/rules/SUBJECT.init.func1
		subject, _, _ := strings.Cut(begin[strings.LastIndexByte(begin, '/')+1:], ".")
		out = append(out, aCase{Name: r.ID, Kind: "rule", rules: []string{r.ID}, round: cmp.Or(r.Round, earlier), subject: subject})
	}
	for _, signal := range phases.Signals() {
		out = append(out, aCase{Name: signal.ID, Kind: "signal", rules: []string{signal.ID}, round: earlier, subject: "phases"})
	}
	for n, id := range off.IDs {
		name, round, _ := strings.Cut(id, "@")
		r, _ := strconv.Atoi(round)
		subject, _, _ := strings.Cut(name, ".")
		out = append(out, aCase{Name: name, Kind: "helper", helpers: []int{n}, round: cmp.Or(r, earlier), subject: subject})
	}
	return out
}

// asOne is several cases as one.
func asOne(name, kind string, cases ...aCase) aCase {
	c := aCase{Name: name, Kind: kind}
	for _, x := range cases {
		c.rules, c.helpers, c.round = append(c.rules, x.rules...), append(c.helpers, x.helpers...), max(c.round, x.round)
	}
	return c
}

// cost is what leaving out a case costs, summed over recordings.
type cost struct {
	Changed                int // recordings of which anything is told otherwise
	Peak, Life, Sure, Leak float64
	Phase, Steps           float64
	Runs                   map[string]float64 // what it costs in each run: points at the peak, and sure and wrong
}

func (c *cost) add(run string, d cost) {
	c.Changed, c.Peak, c.Life = c.Changed+d.Changed, c.Peak+d.Peak, c.Life+d.Life
	c.Sure, c.Leak, c.Phase, c.Steps = c.Sure+d.Sure, c.Leak+d.Leak, c.Phase+d.Phase, c.Steps+d.Steps
	if c.Runs == nil {
		c.Runs = map[string]float64{}
	}
	c.Runs[run] += d.Peak + d.Sure
}

// helped and hurt are runs that are told better with the case, and better without it.
func (c *cost) helped() (helped, hurt int) {
	const least = 0.1 // points
	for _, x := range c.Runs {
		switch {
		case x >= least:
			helped++
		case x <= -least:
			hurt++
		}
	}
	return helped, hurt
}

// sample is one recording of a labelled run.
type sample struct {
	run   *labelledRun
	name  string
	group string
	round int
	v     variant
	tl    *timeline.Timeline
	plan  *plan
	sites map[fileLine]bool
	bare  bool // no stacks
	whole bool // a recording as it was made
}

// judged is a classification of a sample, scored.
type judged struct {
	figures
	leaks int // found less false ones
}

func (s *sample) judge(c *Classification) judged {
	_, found, wrong := judgeLeaks(c.Leaks(), s.plan, s.sites, !s.bare)
	return judged{s.run.score(s.tl, c, s.v), found - wrong}
}

// samples calls a function for every recording, and for parts of those as cut ones,
// overflowed and late ones would have them.
func samples(t *testing.T, f func(*sample)) {
	newest := map[string]bool{}
	for _, list := range corpus.Glob(t, "labelled/new.tsv") {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			newest[strings.Split(line, "\t")[0]] = true
		}
	}
	for _, r := range labelledRuns(t) {
		round := earlier
		if newest[r.Name] {
			round++
		}
		samplesOf(t, r, round, f)
	}
	for _, r := range unseenRuns(t) {
		samplesOf(t, r, earlier+1, f)
	}
}

// samplesOf calls a function for the recordings of a run, and for parts of them.
func samplesOf(t *testing.T, r *labelledRun, round int, f func(*sample)) {
	p, sites := planOf(t, r)
	for _, name := range slices.Sorted(maps.Keys(r.Variants)) {
		v := r.Variants[name]
		if v.OK != nil && !*v.OK {
			continue
		}
		s := sample{run: r, name: name, group: worthGroup(name), round: round, v: v, plan: p, sites: sites, bare: name == "none", whole: true}
		s.tl = r.timeline(t, name)
		f(&s)
		for _, d := range derived(t, s) {
			f(d)
		}
	}
}

// TestUnseen scores the project's runs on which no rule is tuned, and fails where the mean of
// a group falls below what testdata/unseen.tsv says; -update writes what is.
func TestUnseen(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every unseen recording")
	}
	const table, slack = "testdata/unseen.tsv", 0.02 // points
	p := prices{Count: map[string]int{}, Base: map[string]*judgedSum{}}
	for _, r := range unseenRuns(t) {
		samplesOf(t, r, earlier+1, func(s *sample) { p.sum(s, s.judge(New(s.tl, Options{}))) })
	}
	var now strings.Builder
	now.WriteString("group\trecordings\tpeak\tlife\tsure and wrong\tleaks\n")
	for _, g := range append(slices.Clone(worthGroups), "all") {
		n, x := float64(p.Count[unseen+" "+g]), p.Base[unseen+" "+g]
		fmt.Fprintf(&now, "%s\t%.0f\t%.3f\t%.3f\t%.3f\t%d\n", g, n, x.Peak/n, x.Life/n, x.Sure/n, x.Leaks)
	}
	if *update {
		if err := os.WriteFile(table, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) map[string]judgedSum {
		out := map[string]judgedSum{}
		for line := range strings.Lines(text) {
			var group string
			var n int
			var x judgedSum
			if k, _ := fmt.Sscanf(line, "%s\t%d\t%f\t%f\t%f\t%d", &group, &n, &x.Peak, &x.Life, &x.Sure, &x.Leaks); k == 6 {
				out[group] = x
			}
		}
		return out
	}
	was, is := read(string(before)), read(now.String())
	if len(was) != len(worthGroups)+1 {
		t.Errorf("%s has %d groups", table, len(was))
	}
	for group, w := range was {
		if x := is[group]; x.Peak < w.Peak-slack || x.Sure > w.Sure+slack || x.Leaks < w.Leaks {
			t.Errorf("%s: right at the peak for %.3f %% (%.3f before), sure and wrong %.3f (%.3f), leaks %d (%d)",
				group, x.Peak, w.Peak, x.Sure, w.Sure, x.Leaks, w.Leaks)
		}
	}
}

// derived are parts of a recording: what a dump in the middle, a small ring, and a recorder
// that was switched on late would have kept.
func derived(t *testing.T, of sample) (out []*sample) {
	const most = 60_000 // events
	if of.name != "python" && of.name != "none" || of.tl.Device.Events.Len() > most {
		return nil
	}
	of.whole = false
	begin := func(part float64, drop func(*snapshot.Device, int), group string) {
		s := of
		snap, d := s.run.device(t, s.name)
		n := int(part * float64(d.Events.Len()))
		for _, action := range d.Events.Action[:n] {
			if action == snapshot.Alloc {
				s.v.FirstOrdinal++
			}
		}
		s.v.FirstEvent, s.v.Events = s.v.FirstEvent+n, s.v.Events-n
		drop(d, n)
		s.tl, s.group = timeline.New(snap, d), group
		s.name = fmt.Sprintf("%s from %.0f %%", s.name, 100*part)
		out = append(out, &s)
	}
	begin(0.6, ring.Drop, "overflowed")
	if of.name == "python" {
		begin(0.35, startAt, "late")
	}
	s := of
	snap, d := s.run.device(t, s.name)
	n := d.Events.Len() / 2
	for n > 0 && d.Events.Action[n-1] != snapshot.Alloc {
		n--
	}
	if n > 0 {
		cutAt(snap, d, n)
		s.v.Events, s.v.Allocs = n, nil
		s.tl, s.group, s.name = timeline.New(snap, d), "cut", s.name+" to 50 %"
		out = append(out, &s)
	}
	return out
}

// count adds how often rules are right in a sample.
func (s *sample) count(c *Classification, right map[string]map[string]*hits) {
	n, firstEvent, _ := s.run.window(s.v)
	for o, id := range s.run.match(s.tl, s.v, n, firstEvent)[:n] {
		if id == timeline.NoAllocation || c.Rule[id] == 0 {
			continue
		}
		r := registry[c.Rule[id]-1]
		k := r.ID + " " + sideOf(s.round, cmp.Or(r.Round, earlier))
		if right[k] == nil {
			right[k] = map[string]*hits{}
		}
		if right[k][s.run.Name] == nil {
			right[k][s.run.Name] = &hits{}
		}
		h := right[k][s.run.Name]
		size := float64(s.run.truth.BlockSize[o])
		h.Blocks, h.Bytes, h.Sure = h.Blocks+1, h.Bytes+size, h.Sure+size*float64(c.Confidence[id])
		if s.run.truth.Categories[s.run.truth.Category[o]] == c.Category[id].String() {
			h.Right += size
		}
	}
}

// same reports whether two classifications say the same, as far as figures go.
func same(a, b *Classification) bool {
	return slices.Equal(a.Category, b.Category) && slices.Equal(a.Confidence, b.Confidence) && slices.Equal(a.Phase, b.Phase) &&
		slices.Equal(a.Step, b.Step) && slices.Equal(a.Detail, b.Detail)
}

// prices are costs by case, side and group; the group "all" has all of a side.
type prices struct {
	Of    map[string]map[string]*cost // case -> "side group"
	Count map[string]int              // "side group" of round 2's cases -> recordings
	Base  map[string]*judgedSum       // "side group" -> figures with everything on
	Right map[string]map[string]*hits // "rule side" -> run -> blocks that the rule decided
}

// hits count what a rule decided in a run's own recordings: blocks, and their bytes.
type hits struct {
	Blocks             int
	Bytes, Right, Sure float64
}

type judgedSum struct {
	Peak, Life, Sure, Phase, Steps float64
	Leaks                          int
}

// sum adds the figures of a sample.
func (p prices) sum(s *sample, j judged) {
	side := sideOf(s.round, earlier)
	for _, k := range [...]string{side + " " + s.group, side + " all"} {
		p.Count[k]++
		if p.Base[k] == nil {
			p.Base[k] = &judgedSum{}
		}
		x := p.Base[k]
		x.Peak, x.Life, x.Sure, x.Leaks = x.Peak+j.Peak, x.Life+j.Life, x.Sure+j.SureWrong, x.Leaks+j.leaks
		x.Phase, x.Steps = x.Phase+j.Phase, x.Steps+j.Steps
	}
}

func sideOf(round, of int) string {
	if round > of {
		return unseen
	}
	return written
}

// price measures cases on all samples.
func price(t *testing.T, cases []aCase, parts bool) prices {
	p := prices{map[string]map[string]*cost{}, map[string]int{}, map[string]*judgedSum{}, map[string]map[string]*hits{}}
	for _, c := range cases {
		p.Of[c.Name] = map[string]*cost{}
	}
	samples(t, func(s *sample) {
		if !s.whole && !parts {
			return
		}
		off.Set()
		base := New(s.tl, Options{})
		asked := make([]bool, len(off.IDs))
		for n := range asked {
			asked[n] = off.Called(n)
		}
		spoke := map[string]bool{} // some decide nothing, but agree or contradict: so does what they share a subject with
		for _, n := range base.Rule {
			spoke[RuleID(n)] = true
		}
		b := s.judge(base)
		p.sum(s, b)
		if s.whole {
			s.count(base, p.Right)
		}
		for _, c := range cases {
			active := slices.ContainsFunc(c.helpers, func(n int) bool { return asked[n] }) ||
				slices.ContainsFunc(c.rules, func(id string) bool { return spoke[id] || phases.Known(id) })
			if !active && (c.Kind == "helper" || c.Kind == "pair") {
				continue
			}
			off.Set(c.helpers...)
			without := New(s.tl, Options{Without: c.rules})
			if same(base, without) {
				continue
			}
			w := s.judge(without)
			d := cost{Changed: 1, Peak: b.Peak - w.Peak, Life: b.Life - w.Life, Sure: w.SureWrong - b.SureWrong, Leak: float64(b.leaks - w.leaks),
				Phase: b.Phase - w.Phase, Steps: b.Steps - w.Steps}
			side := sideOf(s.round, c.round)
			for _, k := range [...]string{side + " " + s.group, side + " all"} {
				if p.Of[c.Name][k] == nil {
					p.Of[c.Name][k] = &cost{}
				}
				p.Of[c.Name][k].add(s.run.Name, d)
			}
			if d.Peak != 0 || d.Sure != 0 || d.Leak != 0 {
				t.Logf("%-28s %s %s %s: peak %+.2f life %+.2f sure %+.2f leaks %+.0f", c.Name, side, s.run.Name, s.name, d.Peak, d.Life, d.Sure, d.Leak)
			}
		}
		off.Set()
	})
	return p
}

// TestWorth holds testdata/worth.tsv to its word: every case is in it, and none costs on
// recordings that it wasn't written for, in more runs than it helps. Cases that are worth little
// there are named (-v).
// With -ablate it is written anew: go run ./internal/testing/worth -corpus FOLDER.
func TestWorth(t *testing.T) {
	if *ablate {
		writeWorth(t)
	}
	f, err := os.Open(worthTable)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		cells := strings.Split(lines.Text(), "\t")
		if len(cells) != 13 || cells[0] == "case" || cells[1] == "all" {
			continue
		}
		listed[cells[0]] = true
		if cells[2] != unseen || cells[3] != "all" || cells[1] == "pair" || cells[1] == "subject" {
			continue
		}
		var figures [8]float64
		for k := range figures {
			if figures[k], err = strconv.ParseFloat(cells[5+k], 64); err != nil {
				t.Fatal(err)
			}
		}
		const fluke = 1 // run: one may stand on its head for any case
		worth, helped, hurt := figures[0]+figures[2], figures[6], figures[7]
		switch {
		case worth < 0 && hurt > helped+fluke:
			t.Errorf("%s costs %.3f points on recordings that it wasn't written for, and is right in %.0f runs, wrong in %.0f: it should go",
				cells[0], -worth, helped, hurt)
		case worth < some && figures[3] <= 0 && figures[4] < some && figures[5] < some:
			t.Logf("%s is worth %.3f points on recordings that it wasn't written for: helps %.0f runs, hurts %.0f", cells[0], worth, helped, hurt)
		}
	}
	for _, name := range priced(t) {
		if !listed[name] {
			t.Errorf("%s has no price: go run ./internal/testing/worth -corpus FOLDER", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		if !strings.ContainsAny(name, " (") {
			t.Errorf("%s has a price and is no more: go run ./internal/testing/worth -corpus FOLDER", name)
		}
	}
}

// priced are all that must have a price: rules, and functions with a switch.
func priced(t *testing.T) (names []string) {
	for _, r := range Rules() {
		names = append(names, r.ID)
	}
	for _, s := range phases.Signals() {
		names = append(names, s.ID)
	}
	switches, err := os.ReadFile("testdata/switches.tsv")
	for _, m := range regexp.MustCompile(`(?m)^(\w+\.\w+)(?:@\d+)?\t`).FindAllSubmatch(switches, -1) {
		names = append(names, string(m[1]))
	}
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// writeWorth measures single cases, then pairs of cheap ones of a subject, and subjects.
func writeWorth(t *testing.T) {
	if len(off.IDs) == 0 {
		t.Fatal("heuristics have no switches: go run ./internal/testing/worth -corpus FOLDER")
	}
	if *only == "" {
		corpus.Path(t, "labelled") // else nothing is written
	}
	cases := singles()
	if *only != "" {
		chosen := regexp.MustCompile(*only)
		cases = slices.DeleteFunc(cases, func(c aCase) bool { return !chosen.MatchString(c.Name) })
	}
	p := price(t, cases, true)
	if *only != "" {
		t.Log("\n" + table(cases, p) + rightness(p))
		return
	}
	joint := jointly(cases, p)
	q := price(t, append(slices.Clone(cases), joint...), false) // of recordings as they were made: there are hundreds of pairs
	for _, c := range joint {
		if c.Kind != "subject" && q.extra(c) < some {
			continue
		}
		for k, x := range q.Of[c.Name] { // a mean over these, in sums over all
			f := float64(p.Count[k]) / float64(q.Count[k])
			x.Peak, x.Life, x.Sure, x.Phase, x.Steps = x.Peak*f, x.Life*f, x.Sure*f, x.Phase*f, x.Steps*f
		}
		p.Of[c.Name] = q.Of[c.Name]
		cases = append(cases, c)
	}
	for name, text := range map[string]string{worthTable: table(cases, p), rightTable: rightness(p)} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// some is what is worth a line, in points.
const some = 0.05

// worth is what leaving out a case costs on a side, in points of bytes that are right or not
// surely wrong.
func (p prices) worth(name, side string) float64 {
	x := p.Of[name][side+" all"]
	if x == nil {
		return 0
	}
	return (x.Peak + x.Sure) / float64(p.Count[side+" all"])
}

// extra is what two cases cost together beyond what each costs, on either side.
func (p prices) extra(pair aCase) (most float64) {
	a, b, _ := strings.Cut(pair.Name, " + ")
	for _, side := range [...]string{written, unseen} {
		most = max(most, p.worth(pair.Name, side)-max(p.worth(a, side), 0)-max(p.worth(b, side), 0))
	}
	return most
}

// jointly are subjects as wholes, and pairs of a subject of which one seems worth little:
// rules stand in for each other.
func jointly(cases []aCase, p prices) (out []aCase) {
	of := map[string][]aCase{}
	for _, c := range cases {
		of[c.subject] = append(of[c.subject], c)
	}
	for _, subject := range slices.Sorted(maps.Keys(of)) {
		all := of[subject]
		out = append(out, asOne("all of "+subject, "subject", all...))
		for i, a := range all {
			for _, b := range all[i+1:] {
				pair := asOne(a.Name+" + "+b.Name, "pair", a, b)
				if p.worth(a.Name, unseen) < some && p.worth(b.Name, unseen) < some {
					out = append(out, pair)
				}
			}
		}
	}
	return out
}

// points rounds to a thousandth, and never to -0.
func points(x float64) float64 { return math.Round(x*1000)/1000 + 0 }

// rightness writes how often each rule is right, of bytes that it decides: a run's bytes count
// as parts of all that its recordings make, so that a large one is worth no more than another.
func rightness(p prices) string {
	all := map[string]float64{} // by run
	for _, of := range p.Right {
		for run, h := range of {
			all[run] += h.Bytes
		}
	}
	var b strings.Builder
	b.WriteString("rule\tside\truns\tblocks\tright, %\tsure, %\n")
	for _, r := range Rules() {
		for _, side := range [...]string{written, unseen} {
			var sum hits
			of := p.Right[r.ID+" "+side]
			for _, run := range slices.Sorted(maps.Keys(of)) {
				h := of[run]
				sum.Blocks += h.Blocks
				sum.Bytes, sum.Right, sum.Sure = sum.Bytes+h.Bytes/all[run], sum.Right+h.Right/all[run], sum.Sure+h.Sure/all[run]
			}
			if sum.Blocks == 0 {
				fmt.Fprintf(&b, "%s\t%s\t0\t0\t-\t-\n", r.ID, side)
			} else {
				fmt.Fprintf(&b, "%s\t%s\t%d\t%d\t%.1f\t%.1f\n", r.ID, side, len(of), sum.Blocks, 100*sum.Right/sum.Bytes, sum.Sure/sum.Bytes)
			}
		}
	}
	return b.String()
}

// table writes prices: what everything comes to, then each case.
func table(cases []aCase, p prices) string {
	var b strings.Builder
	b.WriteString("case\tkind\tside\tgroup\tchanged\tpeak\tlife\tsure and wrong\tleaks\tphase\tsteps\truns helped\truns hurt\n")
	for _, side := range [...]string{written, unseen} {
		for _, g := range append(slices.Clone(worthGroups), "all") {
			if k := side + " " + g; p.Count[k] > 0 {
				n, x := float64(p.Count[k]), p.Base[k]
				fmt.Fprintf(&b, "(everything)\tall\t%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%d\t%.3f\t%.3f\t-\t-\n", side, g, p.Count[k],
					x.Peak/n, x.Life/n, x.Sure/n, x.Leaks, x.Phase/n, x.Steps/n)
			}
		}
	}
	for _, c := range cases {
		for _, side := range [...]string{written, unseen} {
			for _, g := range append(slices.Clone(worthGroups), "all") {
				k := side + " " + g
				x := p.Of[c.Name][k]
				if x == nil {
					if g != "all" {
						continue
					}
					x = &cost{}
				}
				n := max(float64(p.Count[k]), 1)
				helped, hurt := x.helped()
				fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%.0f\t%.3f\t%.3f\t%d\t%d\n", c.Name, c.Kind, side, g, x.Changed,
					points(x.Peak/n), points(x.Life/n), points(x.Sure/n), points(x.Leak), points(x.Phase/n), points(x.Steps/n), helped, hurt)
			}
		}
	}
	return b.String()
}
