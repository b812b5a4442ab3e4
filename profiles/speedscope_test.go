package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// speedscopeOf reads what is written back, strictly by the names of the format.
func speedscopeOf(t *testing.T, r Recording, at ...Moment) speedscopeFile {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSpeedscope(&b, r, at...); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	var f speedscopeFile
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestSpeedscope checks every recording by the rules of speedscope's schema:
// frames that exist, as many weights as samples, values from start to end; and
// that a moment's weights sum to what is allocated.
func TestSpeedscope(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r Recording) {
		f := speedscopeOf(t, r, Peak, End)
		if f.Schema != "https://www.speedscope.app/file-format-schema.json" || f.Active >= len(f.Profiles) {
			t.Errorf("schema %q, profile %d of %d", f.Schema, f.Active, len(f.Profiles))
		}
		for _, frame := range f.Shared.Frames {
			if frame.Name == "" {
				t.Error("a frame without a name")
			}
		}
		for _, p := range f.Profiles {
			if p.Type != "sampled" || p.Unit != "bytes" || p.Name == "" || len(p.Samples) != len(p.Weights) {
				t.Errorf("%s: %d samples, %d weights", p.Name, len(p.Samples), len(p.Weights))
			}
			sum := p.Start
			for i, stack := range p.Samples {
				if len(stack) < 2 || p.Weights[i] <= 0 {
					t.Errorf("%s: stack %v of %d bytes", p.Name, stack, p.Weights[i])
				}
				for _, frame := range stack {
					if frame < 0 || frame >= len(f.Shared.Frames) {
						t.Fatalf("%s: no frame %d", p.Name, frame)
					}
				}
				sum += p.Weights[i]
			}
			if sum != p.End {
				t.Errorf("%s: weights up to %d, end is %d", p.Name, sum, p.End)
			}
		}
		next := 0
		for _, d := range r.Devices {
			if got, want := f.Profiles[next].End, d.Timeline.Peaks.Allocated.Bytes; got != want {
				t.Errorf("%s: %d bytes, want %d", f.Profiles[next].Name, got, want)
			}
			if got, want := f.Profiles[next+1].End, d.Timeline.End.Allocated; got != want {
				t.Errorf("%s: %d bytes, want %d", f.Profiles[next+1].Name, got, want)
			}
			for next += 2; next < len(f.Profiles) && strings.Contains(f.Profiles[next].Name, "in the course of"); next++ {
			}
		}
		if next != len(f.Profiles) {
			t.Errorf("%d profiles, expected %d", len(f.Profiles), next)
		}
	})
}

// TestSpeedscopeGolden shows one file in full, a stack a line.
func TestSpeedscopeGolden(t *testing.T) {
	f := speedscopeOf(t, recording(t, small), Peak, End)
	var b strings.Builder
	for _, p := range f.Profiles {
		fmt.Fprintf(&b, "%s, %d bytes\n", p.Name, p.End)
		for i, stack := range p.Samples {
			var names []string
			for _, frame := range stack {
				names = append(names, f.Shared.Frames[frame].Name)
			}
			fmt.Fprintf(&b, "%12d %s\n", p.Weights[i], strings.Join(names, ";"))
		}
	}
	golden(t, "speedscope.txt", b.String())
}
