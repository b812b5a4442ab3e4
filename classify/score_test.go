package classify

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/ring"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var update = flag.Bool("update", false, "rewrite the accepted figures")

// figures are what one classification achieved, in percent of bytes.
type figures struct {
	Peak      float64 // right at the allocated peak
	Life      float64 // right, weighted with how long it lived (in events)
	SureWrong float64 // wrong with a confidence of 0.9 or more
	Phase     float64 // phase right, of all allocated bytes
	Steps     float64 // step boundaries found, less those that are none

	unknown, missing float64
	confusion        map[string]int64
	phases           map[string]int64
}

// groups of variants are judged alike.
var groups = map[string][]string{
	"native": {"all", "named", "expandable", "annotated"},
	"python": {"python", "late"},
	"none":   {"none", "ring", "split128", "roundup4", "stopped", "state"},
}

func groupOf(variant string) string {
	for g, vs := range groups {
		if slices.Contains(vs, variant) {
			return g
		}
	}
	return "none"
}

// TestLabelledRuns compares with the truth and fails when a figure is worse
// than the last accepted one.
func TestLabelledRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every labelled recording")
	}
	got := map[string]figures{}
	for _, r := range labelledRuns(t) {
		for name, v := range r.Variants {
			if v.OK != nil && !*v.OK {
				continue
			}
			tl := r.timeline(t, name)
			got[r.Name+" "+name] = r.score(tl, New(tl, Options{}), v)
		}
	}
	printFigures(t, got)
	noWorse(t, got, "testdata/accepted.json")
}

// TestOverflowedRuns does the same with what a ring buffer that is too small would
// have kept of each run.
func TestOverflowedRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("reads many labelled recordings")
	}
	got := map[string]figures{}
	for _, r := range labelledRuns(t) {
		for _, name := range []string{"python", "none"} {
			v, ok := r.Variants[name]
			if _, err := os.Stat(r.path(name)); err != nil || !ok || v.OK != nil && !*v.OK {
				continue
			}
			for _, part := range []float64{0.35, 0.6, 0.8} {
				s, d := r.device(t, name)
				n, v := int(part*float64(d.Events.Len())), v
				for _, action := range d.Events.Action[:n] {
					if action == snapshot.Alloc {
						v.FirstOrdinal++
					}
				}
				v.FirstEvent, v.Events = v.FirstEvent+n, v.Events-n
				ring.Drop(d, n)
				tl := timeline.New(s, d)
				got[fmt.Sprintf("%s from %.0f %% on %s", r.Name, 100*part, name)] = r.score(tl, New(tl, Options{}), v)
			}
		}
	}
	for name, f := range got {
		t.Logf("%-60s %s unknown %5.2f %v", name, f, f.unknown, most(f.confusion))
	}
	noWorse(t, got, "testdata/accepted_overflowed.json")
}

// TestFreesWithoutStacks compares with what the same run's recording tells whose
// frees have stacks, too: context="alloc" records those of allocations alone.
func TestFreesWithoutStacks(t *testing.T) {
	if testing.Short() {
		t.Skip("reads many labelled recordings")
	}
	for _, r := range labelledRuns(t) {
		for _, name := range []string{"all", "python"} {
			v, ok := r.Variants[name]
			if _, err := os.Stat(r.path(name)); err != nil || !ok || v.OK != nil && !*v.OK {
				continue
			}
			s, d := r.device(t, name)
			tl := timeline.New(s, d)
			with := r.score(tl, New(tl, Options{}), v)
			for i, action := range d.Events.Action {
				if action != snapshot.Alloc && action != snapshot.OOM && d.Events.Stack != nil {
					d.Events.Stack[i] = 0
				}
			}
			tl = timeline.New(s, d)
			without := r.score(tl, New(tl, Options{}), v)
			if without.Peak < with.Peak-0.5 || without.Life < with.Life-1 || without.SureWrong > with.SureWrong+0.3 {
				t.Errorf("%s %s: %s %v, with the stacks of frees %s", r.Name, name, without, most(without.confusion), with)
			}
		}
	}
}

// noWorse compares figures with the last accepted ones, or accepts them.
func noWorse(t *testing.T, got map[string]figures, accepted string) {
	t.Helper()
	if *update {
		b, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(accepted), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(accepted, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := map[string]figures{}
	if err := readJSON(accepted, &want); err != nil {
		t.Fatal(err)
	}
	for name, g := range got {
		w := want[name]
		const slack = 0.005 // rounding
		if g.Peak < w.Peak-slack || g.Life < w.Life-slack || g.Phase < w.Phase-slack || g.Steps < w.Steps-slack || g.SureWrong > w.SureWrong+slack {
			t.Errorf("%s: %s, accepted was %s", name, g, w)
		}
	}
}

func (f figures) String() string {
	return fmt.Sprintf("peak %6.2f life %6.2f sure_wrong %5.2f phase %6.2f steps %6.2f", f.Peak, f.Life, f.SureWrong, f.Phase, f.Steps)
}

func printFigures(t *testing.T, got map[string]figures) {
	names := slices.Sorted(maps.Keys(got))
	type sum struct {
		figures
		n     int
		worst float64
	}
	sums := map[string]*sum{}
	for _, name := range names {
		f := got[name]
		v := name[strings.IndexByte(name, ' ')+1:]
		t.Logf("%-48s %s unknown %5.2f %v | %v", name, f, f.unknown, most(f.confusion), most(f.phases))
		for _, k := range []string{v, "GROUP " + groupOf(v)} {
			s := sums[k]
			if s == nil {
				s = &sum{worst: 100}
				sums[k] = s
			}
			s.Peak, s.Life, s.SureWrong, s.Phase, s.Steps = s.Peak+f.Peak, s.Life+f.Life, s.SureWrong+f.SureWrong, s.Phase+f.Phase, s.Steps+f.Steps
			s.n++
			s.worst = min(s.worst, f.Peak)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		s := sums[k]
		n := float64(s.n)
		s.figures = figures{Peak: s.Peak / n, Life: s.Life / n, SureWrong: s.SureWrong / n, Phase: s.Phase / n, Steps: s.Steps / n}
		t.Logf("%-16s n %3d %s worst peak %6.2f", k, s.n, s.figures, s.worst)
	}
}

// most is the largest entries of a tally, in MiB.
func most(tally map[string]int64) string {
	keys := slices.Collect(maps.Keys(tally))
	sort.Slice(keys, func(i, j int) bool { return tally[keys[i]] > tally[keys[j]] })
	var parts []string
	for _, k := range keys[:min(4, len(keys))] {
		parts = append(parts, fmt.Sprintf("%s:%d", k, tally[k]>>20))
	}
	return strings.Join(parts, " ")
}

// window is the part of the truth that a variant recorded: rows up to n, and events.
func (r *labelledRun) window(v variant) (n, firstEvent, lastEvent int) {
	tr, first := r.truth, v.FirstOrdinal
	n, firstEvent, lastEvent = len(tr.Addr), v.FirstEvent, v.FirstEvent+v.Events
	switch {
	case v.Addresses == "own":
		if v.LabelledAlloc != nil {
			n = min(n, first+*v.LabelledAlloc)
		}
		firstEvent = 0
		if first > 0 {
			firstEvent = tr.AllocEvent[first]
		}
		lastEvent = tr.AllocEvent[n-1] + 1
	case v.Allocs == nil && v.Events == 0 || v.Allocs != nil && *v.Allocs == 0:
		firstEvent = max(tr.AllocEvent[n-1], slices.Max(tr.FreeCompletedEvent)) + 1
		lastEvent = firstEvent
	}
	return n, firstEvent, lastEvent
}

// score joins a classification with the truth, in the truth's own clock.
func (r *labelledRun) score(tl *timeline.Timeline, c *Classification, v variant) figures {
	tr, first := r.truth, v.FirstOrdinal
	n, firstEvent, lastEvent := r.window(v)
	predicted := r.match(tl, v, n, firstEvent)
	type delta struct {
		event int
		bytes int64
	}
	var deltas []delta
	var now int64
	outside := func(o int) bool {
		f := tr.FreeCompletedEvent[o]
		return f >= 0 && f < firstEvent || tr.AllocEvent[o] >= lastEvent
	}
	for o := range n {
		if outside(o) {
			continue
		}
		if a := tr.AllocEvent[o]; a < firstEvent {
			now += tr.BlockSize[o]
		} else {
			deltas = append(deltas, delta{a, tr.BlockSize[o]})
		}
		if f := tr.FreeCompletedEvent[o]; f >= 0 && f < lastEvent {
			deltas = append(deltas, delta{f, -tr.BlockSize[o]})
		}
	}
	sort.Slice(deltas, func(i, j int) bool {
		if deltas[i].event != deltas[j].event {
			return deltas[i].event < deltas[j].event
		}
		return deltas[i].bytes < deltas[j].bytes
	})
	best, peak := now, firstEvent-1
	for _, d := range deltas {
		if now += d.bytes; now > best {
			best, peak = now, d.event
		}
	}
	out := figures{confusion: map[string]int64{}, phases: map[string]int64{}}
	var right, total, wrong, unknown, life, lifeRight, phase, phaseRight, missing int64
	for o := range n {
		if outside(o) {
			continue
		}
		a, f, size := tr.AllocEvent[o], tr.FreeCompletedEvent[o], tr.BlockSize[o]
		want, got, sure, gotPhase := tr.Categories[tr.Category[o]], "missing", false, "missing"
		if id := predicted[o]; id != timeline.NoAllocation {
			got, sure, gotPhase = c.Category[id].String(), c.Confidence[id] >= 90, c.Phase[id].String()
		}
		end := lastEvent
		if f >= 0 {
			end = min(f, lastEvent)
		}
		span := int64(end - max(a, firstEvent))
		life += size * span
		if got == want {
			lifeRight += size * span
		}
		if a >= firstEvent {
			phase += size
			if p := tr.Phases[tr.Phase[o]]; p == gotPhase {
				phaseRight += size
			} else {
				out.phases[p+">"+gotPhase] += size
			}
		}
		if a > peak || f >= 0 && f <= peak {
			continue
		}
		total += size
		switch {
		case got == want:
			right += size
			continue
		case got == "missing":
			missing += size
		case got == "unknown":
			unknown += size
		}
		if sure {
			wrong += size
		}
		out.confusion[want+">"+got] += size
	}
	out.Peak, out.Life, out.SureWrong = share(right, total), share(lifeRight, life), share(wrong, total)
	out.unknown, out.missing, out.Phase = share(unknown, total), share(missing, total), share(phaseRight, phase)
	out.Steps = r.stepBoundaries(c, predicted, first, n)
	return out
}

func share(x, y int64) float64 {
	if y == 0 {
		return 100
	}
	return math.Round(1e4*float64(x)/float64(y)) / 100
}

// match finds the allocation of the timeline for each row of the truth.
func (r *labelledRun) match(tl *timeline.Timeline, v variant, n, firstEvent int) []timeline.AllocationID {
	tr, first := r.truth, v.FirstOrdinal
	out := make([]timeline.AllocationID, n)
	for o := range out {
		out[o] = timeline.NoAllocation
	}
	alive := map[uint64]int{}
	for o := range min(first, n) {
		if f := tr.FreeCompletedEvent[o]; f < 0 || f >= firstEvent {
			alive[tr.Addr[o]] = o
		}
	}
	bySize := map[int64][]timeline.AllocationID{}
	for id := range timeline.AllocationID(tl.Older()) {
		if o, ok := alive[tl.Address(id)]; ok && v.Addresses != "own" {
			out[o] = id
		}
		bySize[tl.Requested(id)] = append(bySize[tl.Requested(id)], id)
	}
	if v.Addresses == "own" {
		for _, o := range slices.Sorted(maps.Values(alive)) {
			if ids := bySize[tr.Size[o]]; len(ids) > 0 {
				out[o], bySize[tr.Size[o]] = ids[0], ids[1:]
			}
		}
	}
	o := first
	for id := timeline.AllocationID(tl.Older()); int(id) < tl.Len() && o < n; id++ {
		if tl.Requested(id) == tr.Size[o] && (v.Addresses == "own" || tl.Address(id) == tr.Addr[o]) {
			out[o] = id
		}
		o++
	}
	return out
}

// stepBoundaries compares where a new step begins, in allocations.
func (r *labelledRun) stepBoundaries(c *Classification, predicted []timeline.AllocationID, first, n int) float64 {
	var want, hit, wrong int64
	for o := first + 1; o < n; o++ {
		id, before := predicted[o], predicted[o-1]
		if id == timeline.NoAllocation || before == timeline.NoAllocation {
			continue
		}
		w, g := r.truth.Step[o] != r.truth.Step[o-1], c.Step[id] != c.Step[before]
		switch {
		case w && g:
			want++
			hit++
		case w:
			want++
		case g:
			wrong++
		}
	}
	return share(max(hit-wrong, 0), want)
}
