package licenses

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// required are the modules of go.mod with their versions.
func required(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "require "), "//")
		if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[1], "v") {
			all[f[0]] = f[1]
		}
	}
	return all
}

// TestLinked: every module that this program is linked from has a licence here, in the version used, and none is
// listed that isn't a module any more. `go run ./internal/licenses/collect` makes the list anew.
func TestLinked(t *testing.T) {
	c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/vramscope")
	c.Dir = "../.."
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	build := &debug.BuildInfo{GoVersion: "go1.99"}
	for _, line := range slices.Compact(slices.Sorted(strings.Lines(string(out)))) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			build.Deps = append(build.Deps, &debug.Module{Path: name, Version: version})
		}
	}
	if len(build.Deps) < 20 {
		t.Fatalf("%d modules: %s", len(build.Deps), out)
	}
	l, missing := All().In(build)
	if len(missing) > 0 {
		t.Errorf("no licence of %q: go run ./internal/licenses/collect", missing)
	}
	if l.Components[len(l.Components)-1].Kind != "npm" || !slices.ContainsFunc(l.Components, func(c Component) bool {
		return c.Name == Standard && c.Version == "1.99"
	}) {
		t.Errorf("neither Go's own library nor scripts: %+v", l.Components)
	}
	versions := required(t)
	for _, c := range All().Components {
		if c.Kind == "golang" && c.Name != Standard && versions[c.Name] != c.Version {
			t.Errorf("%s %s, in go.mod %q: go run ./internal/licenses/collect", c.Name, c.Version, versions[c.Name])
		}
	}
}

// TestTexts: each component has a licence and its text, and what other licences ask for.
func TestTexts(t *testing.T) {
	all := All()
	notices := 0
	for _, c := range all.Components {
		if len(c.Licenses) == 0 || len(c.Files) == 0 {
			t.Errorf("%s: licences %v, files %v", c.Name, c.Licenses, c.Files)
		}
		for _, f := range c.Files {
			if len(all.Texts[f.Text]) < 60 {
				t.Errorf("%s, %s: %q", c.Name, f.Name, all.Texts[f.Text])
			}
			if strings.HasPrefix(f.Name, "NOTICE") {
				notices++
			}
		}
	}
	if notices < 4 {
		t.Errorf("only %d notices", notices)
	}
	var b bytes.Buffer
	if err := all.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Copyright (c) 2013 TOML authors", "This product includes software developed at\nThe Apache Software Foundation",
		"Copyright 2009 The Go Authors.", "echarts 6", "John C. Griffin"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(b.String(), "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"); n > 20 {
		t.Errorf("the same text %d times", n)
	}
}

// TestIn: only what a build has, and what of it has no text.
func TestIn(t *testing.T) {
	l := &List{Components: []Component{{Kind: "golang", Name: "a", Version: "v1"}, {Kind: "golang", Name: "b", Version: "v1"},
		{Kind: "golang", Name: Standard}, {Kind: "npm", Name: "s", Version: "1"}}}
	for _, c := range []struct {
		deps          []*debug.Module
		want, missing string
	}{
		{nil, "std 1.26 s 1", ""},
		{[]*debug.Module{{Path: "b", Version: "v1"}}, "b v1 std 1.26 s 1", ""},
		{[]*debug.Module{{Path: "a", Version: "v2"}, {Path: "c", Version: "v3"}}, "std 1.26 s 1", "a v2,c v3"},
		{[]*debug.Module{{Path: "x", Version: "v9", Replace: &debug.Module{Path: "a", Version: "v1"}}}, "a v1 std 1.26 s 1", ""},
	} {
		in, missing := l.In(&debug.BuildInfo{GoVersion: "go1.26", Deps: c.deps})
		var got []string
		for _, x := range in.Components {
			got = append(got, x.Name, x.Version)
		}
		if strings.Join(got, " ") != c.want || strings.Join(missing, ",") != c.missing {
			t.Errorf("%v: %v, missing %v", c.deps, got, missing)
		}
	}
}

func TestSBOM(t *testing.T) {
	l := &List{Components: []Component{{Kind: "golang", Name: "github.com/A/b", Version: "v1+x", Licenses: []string{"MIT"}},
		{Kind: "npm", Name: "s", Version: "1", Licenses: []string{"BSD-3-Clause", "MIT"}}}}
	var b, again bytes.Buffer
	if err := l.WriteSBOM(&b, "1.2"); err != nil {
		t.Fatal(err)
	}
	_ = l.WriteSBOM(&again, "1.2")
	var doc struct {
		BOMFormat, SpecVersion string
		Metadata               struct {
			Component struct{ Name, Version string }
		}
		Components []struct {
			PURL     string
			Licenses []struct {
				License    struct{ ID string }
				Expression string
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	x, y := doc.Components[0], doc.Components[1]
	if doc.BOMFormat != "CycloneDX" || doc.SpecVersion != "1.5" || doc.Metadata.Component.Version != "1.2" || x.PURL != "pkg:golang/github.com/a/b@v1%2Bx" ||
		x.Licenses[0].License.ID != "MIT" || y.Licenses[0].Expression != "BSD-3-Clause AND MIT" || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("%s", b.Bytes())
	}
}
