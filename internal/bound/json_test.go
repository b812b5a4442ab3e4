package bound_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/bound"
	"github.com/vramscope/vramscope/report"
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

// members are the values at each path of a document, as in devices[].steps.
func members(t *testing.T, text []byte) map[string][]any {
	t.Helper()
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out := map[string][]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		out[path] = append(out[path], v)
		switch v := v.(type) {
		case map[string]any:
			for name, x := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), x)
			}
		case []any:
			for _, x := range v {
				walk(path+"[]", x)
			}
		}
	}
	walk("", document)
	return out
}

// fill gives everything in a value something: lists an item, texts a few bytes.
func fill(v reflect.Value, text string, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if depth < 9 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), text, depth+1)
		}
	case reflect.Slice:
		if depth < 9 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i), text, depth+1)
			}
		}
	}
}

// odd has members of all kinds that encoding/json omits, or doesn't.
type odd struct {
	*named
	*Far
	Times
	Plain    int
	Hidden   string         `json:"-"`
	List     []string       `json:"list,omitempty"`
	Map      map[string]int `json:"map,omitempty"`
	Text     string         `json:"text,omitempty"`
	None     [0]int         `json:"none,omitempty"`
	Zeros    [2]int         `json:"zeros,omitempty"`
	Number   int            `json:"number,omitempty"`
	Pointer  *int           `json:"pointer,omitempty"`
	Struct   named          `json:"struct,omitempty"`
	Zero     named          `json:"zero,omitzero"`
	Array    [2]int         `json:"array,omitzero"`
	Empty    []string       `json:"empty,omitzero"`
	When     time.Time      `json:"when,omitzero"`
	WhenSet  *time.Time     `json:"when_set,omitzero"`
	Long     []string       `json:"long"`
	unlisted int
}

// Far is embedded by a pointer that may be nil.
type Far struct {
	Distance int `json:"distance"`
}

// Times is embedded and no structure.
type Times int

// TestMembers: a bounded document has the members that encoding/json writes.
func TestMembers(t *testing.T) {
	long := strings.Split(strings.Repeat("x", 3000), "")
	full, bare := &report.Document{}, &report.Document{}
	fill(reflect.ValueOf(full).Elem(), "text", 0)
	for _, x := range []*report.Document{full, bare} {
		x.Command = long
	}
	for name, document := range map[string]any{
		"odd, nil": &odd{Long: long},
		"odd, empty": &odd{Long: long, List: []string{}, Map: map[string]int{}, Empty: []string{}, WhenSet: &time.Time{},
			When: time.Time{}.In(time.FixedZone("a", 1))},
		"odd, set": &odd{Long: long, named: &named{"a"}, Far: &Far{1}, Times: 1, List: []string{"a"},
			Map: map[string]int{"a": 1}, Text: "a", Zeros: [2]int{1}, Number: 1, Pointer: new(int), Struct: named{"a"},
			Zero: named{"a"}, Array: [2]int{1}, When: time.Unix(1, 0), unlisted: 1},
		"report, bare": bare, "report, full": full,
	} {
		plain, err := json.Marshal(document)
		if err != nil {
			t.Fatal(name, err)
		}
		short, err := bound.JSON(document, int64(len(plain)-1000))
		if err != nil {
			t.Fatal(name, err)
		}
		want, got := members(t, plain), members(t, short)
		if len(got["left_out"]) == 0 {
			t.Fatalf("%s: nothing is left out of %d bytes", name, len(plain))
		}
		maps.DeleteFunc(got, func(path string, _ []any) bool { return strings.HasPrefix(path, "left_out") })
		if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
			t.Errorf("%s: members\n%v, want\n%v", name, a, b)
		}
	}
}

// TestLeftOut names what isn't there, and nothing else.
func TestLeftOut(t *testing.T) {
	nulls := 0
	full := &report.Document{}
	fill(reflect.ValueOf(full).Elem(), strings.Repeat("x", 20), 0)
	full.Findings, full.Devices[0].Leaks = []report.Finding{}, []report.Leak{}
	for _, document := range []any{full, &report.Document{Command: strings.Split(strings.Repeat("x", 3000), "")},
		long(1000, 5), long(100, 100)} {
		plain, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		known := members(t, plain)
		for most := int64(600); most < int64(len(plain)); most = most * 5 / 4 {
			out, err := bound.JSON(document, most)
			if err != nil {
				continue
			}
			got := members(t, out)
			var left struct {
				LeftOut []bound.LeftOut `json:"left_out"`
			}
			if err := json.Unmarshal(out, &left); err != nil || left.LeftOut == nil {
				t.Fatalf("%d bytes: left_out is no list, %v", most, err)
			}
			for _, x := range left.LeftOut {
				switch {
				case strings.HasSuffix(x.Path, " others"):
				case !slices.ContainsFunc(known[x.Path], something):
					t.Errorf("%d bytes: %s is left out, and has nothing", most, x.Path)
				case x.Items == 0 && !slices.Contains(got[x.Path], nil):
					t.Errorf("%d bytes: %s is called null, and is there", most, x.Path)
				case x.Items == 0:
					nulls++
				}
			}
		}
	}
	if nulls == 0 {
		t.Error("no member was null")
	}
	out, err := bound.JSON(long(3, 1), int64(len(indented(t, long(3, 1)))-100))
	if err != nil || !strings.Contains(string(out), `"left_out":[]`) {
		t.Errorf("only indentation went: %s, %v", out, err)
	}
}

// something reports whether a value is neither null nor an empty list.
func something(v any) bool {
	list, is := v.([]any)
	return v != nil && (!is || len(list) > 0)
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return out
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
