package bound_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/bound"
)

// answer is a report of many steps and findings.
type answer struct {
	Schema   string   `json:"schema"`
	Devices  []device `json:"devices"`
	Evidence *logs    `json:"evidence"`
	Any      any      `json:"any"`
}

type device struct {
	Device   int       `json:"device"`
	Steps    []step    `json:"steps"`
	Findings []finding `json:"findings"`
	Curve    []int64   `json:"-"`
}

type logs struct {
	Logs string `json:"logs"`
}

type step struct {
	Step   int      `json:"step"`
	Phases []string `json:"phases"`
}

type finding struct {
	named
	Evidence []string `json:"evidence"`
}

type named struct {
	ID string `json:"id"`
}

func long(steps, findings int) *answer {
	d := device{Curve: make([]int64, 9)}
	for i := range steps {
		d.Steps = append(d.Steps, step{i, []string{"forward", "backward"}})
	}
	for i := range findings {
		d.Findings = append(d.Findings, finding{named{fmt.Sprint("finding_", i)}, []string{strings.Repeat("x", 40), "<y>"}})
	}
	return &answer{Schema: "s/1", Devices: []device{d}, Evidence: &logs{strings.Repeat("z", 100)}, Any: &d}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		steps, findings int
		most            int64
		cut             []string // paths
	}{
		{2, 1, 10_000, nil},
		{1000, 5, 3000, []string{"devices[].steps", "any.steps"}},
		{100_000, 3, 1000, []string{"devices[].steps"}},
		{10, 100, 2000, []string{"devices[].findings"}},
		{1000, 1000, 1500, []string{"devices[].findings", "devices[].steps"}},
	} {
		document := long(c.steps, c.findings)
		out, err := bound.JSON(document, c.most)
		if err != nil {
			t.Errorf("%d steps in %d bytes: %v", c.steps, c.most, err)
			continue
		}
		var got struct {
			Schema  string
			Devices []struct {
				Steps, Findings []json.RawMessage
			}
			LeftOut []bound.LeftOut `json:"left_out"`
		}
		if err := json.Unmarshal(out, &got); err != nil || got.Schema != "s/1" || len(got.Devices) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		if int64(len(out)) > c.most && len(c.cut) > 0 || int64(len(out)) < c.most/2 && len(c.cut) > 0 {
			t.Errorf("%d bytes, want as many of %d as can be", len(out), c.most)
		}
		left := map[string]int{}
		for _, l := range got.LeftOut {
			left[l.Path] = l.Items
		}
		for _, path := range c.cut {
			if left[path] == 0 {
				t.Errorf("%d of %s, want some: %v", left[path], path, left)
			}
		}
		if n := len(got.Devices[0].Steps) + left["devices[].steps"]; n != c.steps {
			t.Errorf("%d steps are there or counted, of %d", n, c.steps)
		}
		if n := len(got.Devices[0].Findings) + left["devices[].findings"]; n != c.findings {
			t.Errorf("%d findings are there or counted, of %d", n, c.findings)
		}
		if d := document.Devices[0]; len(d.Steps) != c.steps || len(d.Findings) != c.findings || len(d.Findings[0].Evidence) != 2 {
			t.Error("what was given is cut itself")
		}
	}
	if out, err := bound.JSON(long(10, 10), 20); err == nil || !strings.Contains(err.Error(), "the shortest answer takes") {
		t.Errorf("20 bytes: %s, %v", out, err)
	}
}

func TestLines(t *testing.T) {
	var b strings.Builder
	l := &bound.Lines{W: &b, Most: 12}
	fmt.Fprint(l, "one\ntw")
	fmt.Fprint(l, "o\nthree\nx\nfour")
	if err := l.Close(); err != nil || b.String() != "one\ntwo\n" || l.Left != 3 {
		t.Errorf("%q, %d left, %v", b.String(), l.Left, err)
	}
}

// FuzzJSON bounds answers of any length: what comes out is JSON and no longer.
func FuzzJSON(f *testing.F) {
	f.Add(20, 3, "a", int64(600))
	f.Add(0, 1, "<&>\xff", int64(10))
	f.Add(3, 2000, strings.Repeat("ä", 99), int64(5000))
	f.Fuzz(func(t *testing.T, steps, findings int, text string, most int64) {
		document := long(max(0, steps%5000), max(0, findings%5000))
		document.Schema, document.Evidence.Logs = text, text
		out, err := bound.JSON(document, most)
		if err != nil {
			return
		}
		if !json.Valid(out) || int64(len(out)) > most {
			t.Errorf("%d bytes for %d: %q", len(out), most, out)
		}
	})
}
