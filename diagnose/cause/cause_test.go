package cause_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/diagnose/cause"
	"github.com/vramscope/vramscope/report"
)

const gib = int64(1) << 30

func of(name string, gibs float64) report.Cause {
	return report.Cause{Cause: name, Bytes: int64(gibs * float64(gib))}
}

// defects are mistakes that hold 20 GiB, surroundings what keeps memory that is there.
var (
	defects      = []string{report.LeakCause, report.RetainedGraph, report.SecondModel, report.KeptException, report.CycleCause}
	surroundings = []string{report.OtherProcess, report.FractionCause, report.Pieces, report.PrivatePool, report.PendingFree}
	designs      = []string{"weights", "gradients", "optimizer_state", "activations", "logits", "kv_cache", "autocast_copies",
		"inputs", report.Temporaries, report.HeldCause, report.Unclear}
)

// scene is a failure on a full GPU of 80 GiB that lacked 2 GiB, with some causes.
func scene(names ...string) *cause.Scene {
	s := &cause.Scene{Asked: 4 * gib, Whole: 80 * gib, InUse: 78 * gib, Lacked: 2 * gib}
	for _, name := range names {
		c := of(name, 20)
		switch {
		case slices.Contains(defects, name):
			s.Defects = append(s.Defects, c)
		case slices.Contains(surroundings, name):
			s.Around = &c
		case name == report.TooLarge:
			s.Asked = 200 * gib
		default:
			s.Design = append(s.Design, c)
		}
	}
	return s
}

func namesOf(list []report.Cause) (out []string) {
	for _, c := range list {
		out = append(out, c.Cause)
	}
	return out
}

// TestEachCause: each cause alone is the verdict.
func TestEachCause(t *testing.T) {
	for _, name := range slices.Concat(defects, surroundings, designs, []string{report.TooLarge}) {
		if got := namesOf(scene(name).Judge()); !slices.Equal(got, []string{name}) {
			t.Errorf("%s alone: %v", name, got)
		}
	}
	if got := namesOf((&cause.Scene{Asked: gib}).Judge()); !slices.Equal(got, []string{report.Unclear}) {
		t.Errorf("nothing: %v", got)
	}
}

// TestPairs: a defect comes before what stands around it, that before what the job needs by design, whatever their bytes;
// a request that nothing meets is told alone.
func TestPairs(t *testing.T) {
	place := func(name string) int {
		return slices.IndexFunc([][]string{{report.TooLarge}, defects, surroundings, designs}, func(kind []string) bool {
			return slices.Contains(kind, name)
		})
	}
	all := slices.Concat([]string{report.TooLarge}, defects, surroundings, designs)
	for _, a := range all {
		for _, b := range all {
			if a == b || slices.Contains(surroundings, a) && slices.Contains(surroundings, b) { // a request has one such cause
				continue
			}
			got := namesOf(scene(a, b).Judge())
			switch {
			case a == report.TooLarge || b == report.TooLarge:
				if !slices.Equal(got, []string{report.TooLarge}) {
					t.Errorf("%s and %s: %v", a, b, got)
				}
			case len(got) != 2 || place(got[0]) > place(got[1]):
				t.Errorf("%s and %s: %v", a, b, got)
			}
		}
	}
}

// TestShares: what a defect held decides, at the bounds.
func TestShares(t *testing.T) {
	step := 3 * gib
	leak := func(gibs float64) report.Cause {
		c := of(report.LeakCause, gibs)
		c.Leak = &report.Leak{BytesPerStep: &step}
		return c
	}
	for _, c := range []struct {
		what  string
		scene cause.Scene
		want  []string
	}{
		{"what was missing and no less", cause.Scene{Asked: gib, InUse: 70 * gib, Lacked: 2 * gib, Defects: []report.Cause{leak(2)},
			Design: []report.Cause{of("logits", 60)}}, []string{"leak", "logits"}},
		{"less than was missing", cause.Scene{Asked: gib, InUse: 70 * gib, Lacked: 9 * gib, Defects: []report.Cause{leak(8)},
			Design: []report.Cause{of("logits", 60)}}, []string{"logits", "leak"}},
		{"less than was missing, and too little for a word", cause.Scene{Asked: gib, InUse: 70 * gib, Lacked: 9 * gib,
			Defects: []report.Cause{leak(6)}, Design: []report.Cause{of("logits", 60)}}, []string{"logits"}},
		{"enough, but below a fiftieth of what is in use", cause.Scene{Asked: gib, InUse: 70 * gib, Lacked: gib / 2,
			Defects: []report.Cause{leak(1)}, Design: []report.Cause{of("logits", 60)}}, []string{"logits"}},
		{"in pieces, most of what is in use", cause.Scene{Asked: gib, InUse: 10 * gib, Left: 60 * gib, Defects: []report.Cause{leak(5)},
			Around: &report.Cause{Cause: report.Pieces, Bytes: gib}}, []string{"leak", "pieces"}},
		{"in pieces, and soon all of the rest", cause.Scene{Asked: gib, InUse: 70 * gib, Left: 8 * gib, Defects: []report.Cause{leak(5)},
			Around: &report.Cause{Cause: report.Pieces, Bytes: gib}}, []string{"leak", "pieces"}},
		{"in pieces, and not for long", cause.Scene{Asked: gib, InUse: 70 * gib, Left: 9 * gib, Defects: []report.Cause{leak(5)},
			Around: &report.Cause{Cause: report.Pieces, Bytes: gib}}, []string{"pieces"}},
		{"full but for pieces, and as much as was asked", cause.Scene{Asked: gib, InUse: 70 * gib, Defects: []report.Cause{leak(2)},
			Design: []report.Cause{of("logits", 60)}}, []string{"leak", "logits"}},
		{"the same beside another process", cause.Scene{Asked: gib, InUse: 70 * gib, Defects: []report.Cause{leak(2)},
			Around: &report.Cause{Cause: report.OtherProcess, Bytes: 8 * gib}}, []string{"leak", "other_process"}},
		{"full but for pieces, and less than was asked", cause.Scene{Asked: 8 * gib, InUse: 70 * gib, Defects: []report.Cause{leak(7)},
			Design: []report.Cause{of("logits", 60)}}, []string{"logits", "leak"}},
		{"two defects, the larger first", cause.Scene{Asked: gib, InUse: 70 * gib, Lacked: gib, Defects: []report.Cause{leak(5),
			of(report.SecondModel, 9)}}, []string{"second_model", "leak"}},
		{"a run that grows", cause.Scene{InUse: 70 * gib, Defects: []report.Cause{leak(2)}, Design: []report.Cause{of("weights", 60)}},
			[]string{"leak", "weights"}},
		{"a run that fits", cause.Scene{InUse: 70 * gib, Defects: []report.Cause{leak(1)}, Design: []report.Cause{of("weights", 60)}},
			[]string{"weights"}},
		{"many kinds, none of a tenth", cause.Scene{InUse: 70 * gib, Design: []report.Cause{of("weights", 5), of("logits", 6)}},
			[]string{"logits"}},
		{"a first step's state", cause.Scene{Asked: gib, InUse: 70 * gib, Lacked: 9 * gib, ToCome: 40 * gib,
			Design: []report.Cause{of("weights", 30), of("optimizer_state", 10)}}, []string{"optimizer_state", "weights"}},
		{"as large as the GPU", cause.Scene{Asked: 80 * gib, Whole: 80 * gib, InUse: gib, Design: []report.Cause{of("weights", 1)}},
			[]string{"weights"}},
		{"a square", cause.Scene{Asked: 40 * gib, Whole: 80 * gib, Length: 100_000}, []string{report.TooLarge}},
	} {
		if got := namesOf(c.scene.Judge()); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
