package labels

import (
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, x := range []struct {
		name, in string
		want     *File
		fails    string
	}{
		{"both kinds", `{"schema":"vramscope.labels/1","device":1,"labels":[
			{"address":140737488355328,"event":12,"category":"weights","name":"lm_head.weight"},
			{"address":512,"event":null,"category":"kv_cache","name":""}]}`,
			&File{1, []Label{{140737488355328, 12, "weights", "lm_head.weight", 1}, {512, -1, "kv_cache", "", 1}}}, ""},
		{"of several devices", `{"labels":[{"address":512,"device":0},{"address":513}],"device":2,"schema":"vramscope.labels/1"}`,
			&File{2, []Label{{512, -1, "", "", 0}, {513, -1, "", "", 2}}}, ""},
		{"a negative device", `{"schema":"vramscope.labels/1","labels":[{"address":1,"device":-1}]}`, nil, "label 0 has device -1"},
		{"no labels", `{"schema":"vramscope.labels/1","device":0,"labels":[]}`, &File{0, []Label{}}, ""},
		{"null, and other keys", `{"x":[{"labels":[1]},2],"labels":null,"y":3,"schema":"vramscope.labels/1"}`, &File{0, []Label{}}, ""},
		{"a list", `[]`, nil, "offset"},
		{"another schema", `{"schema":"vramscope.labels/2"}`, nil, "schema"},
		{"no address", `{"schema":"vramscope.labels/1","labels":[{"name":"x"}]}`, nil, "label 0 has no address"},
		{"a negative count", `{"schema":"vramscope.labels/1","labels":[{"address":1,"event":-2}]}`, nil, "event -2"},
		{"a negative address", `{"schema":"vramscope.labels/1","labels":[{"address":-1}]}`, nil, "offset"},
		{"an endless name", `{"schema":"vramscope.labels/1","labels":[{"address":1,"name":"` + strings.Repeat("x", maxName+1) + `"}]}`, nil, "name of label 0"},
		{"cut", `{"schema":"vramscope.labels/1","labels":[`, nil, "offset"},
		{"no JSON", "\x80\x04", nil, "offset"},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(x.in))
			switch {
			case x.fails == "" && err != nil:
				t.Fatal(err)
			case x.fails != "" && (err == nil || !strings.Contains(err.Error(), x.fails)):
				t.Fatalf("error is %v, want one with %q", err, x.fails)
			case !reflect.DeepEqual(got, x.want):
				t.Fatalf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

// TestStopsAtOnce: a file of labels without end is not read to its end.
func TestStopsAtOnce(t *testing.T) {
	const long = 64 << 20
	rest := io.LimitReader(emptyLabels{}, long).(*io.LimitedReader)
	_, err := Read(io.MultiReader(strings.NewReader(`{"schema":"vramscope.labels/1","labels":[`), rest))
	if err == nil || !strings.Contains(err.Error(), "label 0") || rest.N < long/2 {
		t.Errorf("%v, %d bytes left", err, rest.N)
	}
}

type emptyLabels struct{}

func (emptyLabels) Read(b []byte) (int, error) { return copy(b, "{},"), nil }

func FuzzRead(f *testing.F) {
	f.Add(`{"schema":"vramscope.labels/1","device":1,"labels":[{"address":1,"event":12,"category":"weights","name":"w"}]}`)
	f.Add(`{"schema":"vramscope.labels/1","labels":[{"address":18446744073709551615,"event":null}]}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, s string) {
		file, err := Read(strings.NewReader(s))
		if (file == nil) == (err == nil) {
			t.Fatalf("file %v, error %v", file, err)
		}
	})
}

func TestReadHolders(t *testing.T) {
	const schema = `"schema":"vramscope.holders/1"`
	for _, x := range []struct {
		name, in string
		want     []Holder
		fails    string
	}{
		{"two", `{` + schema + `,"holders":[{"path":"main.a","tensors":[512,1024],"graph":[2048],"shown":[8,1024],"x":[{}]},
			{"path":"f().b","device":1,"event":7,"tensors":[],"cycle":true,"bound":256,"elements":24}],"device":2}`,
			[]Holder{{"main.a", 2, -1, []uint64{512, 1024}, []uint64{2048}, []int64{8, 1024}, 0, 0, false},
				{"f().b", 1, 7, []uint64{}, nil, nil, 256, 24, true}}, ""},
		{"more than fit", `{` + schema + `,"holders":[{"bound":8,"elements":9}]}`, nil, "9 elements"},
		{"none", `{` + schema + `,"holders":[]}`, nil, ""},
		{"another schema", `{"schema":"vramscope.labels/1"}`, nil, "schema"},
		{"a negative address", `{` + schema + `,"holders":[{"tensors":[-1]}]}`, nil, "offset"},
		{"a negative event", `{` + schema + `,"holders":[{"event":-2}]}`, nil, "event -2"},
		{"an endless path", `{` + schema + `,"holders":[{"path":"` + strings.Repeat("x", maxName+1) + `"}]}`, nil, "path of holder 0"},
		{"bytes of others", `{` + schema + `,"holders":[{"tensors":[1,2],"shown":[1]}]}`, nil, "bytes of 1 tensors"},
		{"negative bytes", `{` + schema + `,"holders":[{"tensors":[1],"shown":[-1]}]}`, nil, "negative"},
		{"no object", `{` + schema + `,"holders":[1]}`, nil, "cannot unmarshal"},
		{"cut", `{` + schema + `,"holders":[{"path":"a","tensors":[1,`, nil, "offset"},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := ReadHolders(strings.NewReader(x.in))
			switch {
			case x.fails == "" && err != nil:
				t.Fatal(err)
			case x.fails != "" && (err == nil || !strings.Contains(err.Error(), x.fails)):
				t.Fatalf("error is %v, want one with %q", err, x.fails)
			case !reflect.DeepEqual(got, x.want):
				t.Fatalf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

func FuzzReadHolders(f *testing.F) {
	f.Add(`{"schema":"vramscope.holders/1","device":1,"holders":[{"path":"main.a","event":3,"tensors":[1],"graph":[2]}]}`)
	f.Add(`{"schema":"vramscope.holders/1","holders":[{"tensors":[18446744073709551615]}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if found, err := ReadHolders(strings.NewReader(s)); found != nil && err != nil {
			t.Fatalf("%v and %v", found, err)
		}
	})
}
