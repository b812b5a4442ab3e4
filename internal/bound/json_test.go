package bound_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/bound"
)

// long is a report of many steps and findings.
func long(steps, findings int) []byte {
	type m = map[string]any
	device := m{"device": 0, "steps": []m{}, "findings": []m{}}
	for i := range steps {
		device["steps"] = append(device["steps"].([]m), m{"step": i, "phases": []string{"forward", "backward"}})
	}
	for i := range findings {
		device["findings"] = append(device["findings"].([]m), m{"id": fmt.Sprint("finding_", i),
			"evidence": []string{strings.Repeat("x", 40), "<y>"}})
	}
	b, _ := json.MarshalIndent(m{"schema": "s/1", "devices": []m{device}, "evidence": m{"logs": strings.Repeat("z", 100)}}, "", " ")
	return b
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		steps, findings int
		most            int64
		cut             []string // paths
	}{
		{2, 1, 10_000, nil},
		{1000, 5, 3000, []string{"devices[].steps"}},
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

// FuzzJSON bounds anything: what comes out is JSON and no longer.
func FuzzJSON(f *testing.F) {
	f.Add(long(20, 3), int64(600))
	f.Add([]byte(`[1,[2,[3]],{"a":{"b":[null,true,"<&>"]}}]`), int64(10))
	f.Add([]byte(`{"devices":[{"steps":[1,2,3]},{}],"devices":[]}`), int64(40))
	f.Fuzz(func(t *testing.T, document []byte, most int64) {
		out, err := bound.JSON(document, most)
		if err != nil || len(document) <= int(most) {
			return
		}
		if !json.Valid(out) || int64(len(out)) > most {
			t.Errorf("%d bytes for %d: %q", len(out), most, out)
		}
	})
}
