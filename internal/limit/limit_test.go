package limit

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

// TestDepth: the deepest that lies in a text, as its decoder has it.
func TestDepth(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		text string
		want int
	}{
		{Recipe, `{"a": [1, {"b": "[[[[\"[["}], "c": {}}`, 3},
		{Recipe, `1`, 0},
		{YAML, "a:\n  b:\n    - c\n    - d:\n        e: f\ng: h\n", 5},
		{YAML, "- - - a\n- b\n", 4},
		{YAML, "? ? a\n", 3},
		{YAML, "-a--b: -5\n--- \n------------------\n", 1},
		{YAML, "a: [b, {c: [d]}]\nb: [e]\n", 4},
		{TOML, "a = 1\nb.c = 2\n", 2},
		{TOML, "[a.b.c]\nd.e = 1\n[f]\ng = 2\n", 5},
		{TOML, "[[a.b]]\nc = { d.e = { f = 1 } }\n", 6},
		{TOML, "a = [1.5, 2.5, 3.5, 4.5]\n", 3},
		{TOML, "a = [\n  1.5,\n  [2.5, 3.5],\n]\nb = 1\n", 4},
		{TOML, "# a.b.c.d.e.f\n\"a.b.c.d\" = 'e.f.g.h'\n", 1},
		{TOML, "a = \"\"\"\nb.c.d.e.\"f\".g\n\\\"\"\"\"\nb.c = ''\n", 2},
		{TOML, "a = '''b.c.d.e''f.g.h''''' # i.j.k\nb.c.\"\".d = \"\\\"e.f.g.h\"\n", 4},
		{TOML, "a = {b = \"\"\"x\"\"\"\"\", c.d.e = 1}\n", 4},
	} {
		d, deepest := limits[tt.kind].form(), 0
		for i := range len(tt.text) {
			deepest = max(deepest, d.after(tt.text[i]))
		}
		if deepest != tt.want {
			t.Errorf("%q: %d levels, want %d", tt.text, deepest, tt.want)
		}
		var err error
		switch tt.kind {
		case Recipe:
			err = json.Unmarshal([]byte(tt.text), new(any))
		case YAML:
			err = yaml.Unmarshal([]byte(tt.text), new(yaml.Node))
		case TOML:
			err = toml.Unmarshal([]byte(tt.text), new(map[string]any))
		}
		if err != nil && tt.kind != YAML { // lines of dashes are texts' there
			t.Errorf("%q: the decoder says %v", tt.text, err)
		}
	}
}

// TestReader: what is within the bounds comes as it is; each value of a stream has them anew.
func TestReader(t *testing.T) {
	for k := range Kind(len(limits)) {
		most := limits[k]
		if got, err := io.ReadAll(Reader(k, strings.NewReader(strings.Repeat("\n", 1000)))); err != nil || len(got) != 1000 {
			t.Errorf("kind %d: %d bytes, %v", k, len(got), err)
		}
		if most.bytes > 1<<20 {
			continue
		}
		got, err := io.ReadAll(Reader(k, io.LimitReader(endless{}, most.bytes+1)))
		if err == nil || !strings.HasPrefix(err.Error(), "more than ") || int64(len(got)) != most.bytes {
			t.Errorf("kind %d: %d bytes, %v", k, len(got), err)
		}
	}
	r := Reader(Reading, io.LimitReader(endless{}, 10<<20))
	for range 3 {
		if n, err := io.CopyN(io.Discard, r, 3<<20); err != nil {
			t.Fatal(n, err)
		}
		r.Next()
	}
	if err := Check(Labels, []byte(strings.Repeat("[", 17))); err == nil || err.Error() != "offset 16: deeper than 16 levels" {
		t.Error(err)
	}
}

// endless are blank lines.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

// FuzzTOML: what the bounds let through has no key deeper than they count.
func FuzzTOML(f *testing.F) {
	for _, s := range []string{"a.b.c = 1", "[a.b]\nc.d = {e.f = 1}", "[[a]]\n'b'.\"c\" = '''x'''", "a = \"\"\"\n\"\"\"\"\"\nb.c=1", "a=[{b.c={d.e=1}}]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var all map[string]any
		if len(s) > 4096 {
			return
		}
		d, deepest := limits[TOML].form(), 0
		for i := range len(s) {
			deepest = max(deepest, d.after(s[i]))
		}
		if deepest > 64 {
			return // the decoder would take long
		}
		meta, err := toml.Decode(s, &all)
		if err != nil {
			return
		}
		for _, key := range meta.Keys() {
			if len(key) > deepest {
				t.Errorf("%q lies %d deep, counted %d", key, len(key), deepest)
			}
		}
	})
}
