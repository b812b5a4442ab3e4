// Package licenses has the texts of licences under which the work of others is part of this program.
//
//	l, missing := licenses.All().In(info) // of debug.ReadBuildInfo, or buildinfo.ReadFile
//	err := l.WriteText(os.Stdout)
//
// texts.json.gz is made by the command in collect, from the modules as they were downloaded.
package licenses

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

//go:embed texts.json.gz
var packed []byte

// List are components with their texts. One text may be that of many.
type List struct {
	Components []Component `json:"components"`
	Texts      []string    `json:"texts"`
}

// Component is a module, or a package of scripts.
type Component struct {
	Kind     string   `json:"kind"` // golang, npm
	Name     string   `json:"name"`
	Version  string   `json:"version"`  // "" of Go's own library: the compiler's
	Licenses []string `json:"licenses"` // as SPDX calls them
	Files    []File   `json:"files"`
}

// File is a text by its name, and its place in the list.
type File struct {
	Name string `json:"name"`
	Text int    `json:"text"`
}

// Standard is how Go's own library is called.
const Standard = "std"

// All are the components of any build of this program, whatever its platform and tags.
var All = sync.OnceValue(func() *List {
	l := &List{}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(z).Decode(l)
	}
	if err != nil {
		panic("licenses: " + err.Error()) // a broken build, found by any test
	}
	return l
})

// In are the components of one build, and the modules of which no text is known. Scripts are in every one.
func (l *List) In(build *debug.BuildInfo) (in *List, missing []string) {
	in = &List{Texts: l.Texts}
	linked := map[string]string{Standard: strings.TrimPrefix(build.GoVersion, "go")}
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		linked[m.Path] = m.Version
	}
	for _, c := range l.Components {
		version, ok := linked[c.Name]
		if c.Kind == "golang" && (!ok || c.Name != Standard && c.Version != version) {
			continue
		}
		if c.Name == Standard {
			c.Version = version
		}
		in.Components = append(in.Components, c)
		delete(linked, c.Name)
	}
	for name, version := range linked {
		missing = append(missing, name+" "+version)
	}
	slices.Sort(missing)
	return in, missing
}

// WriteText writes each text once, below the names of the components that it is of.
func (l *List) WriteText(w io.Writer) error {
	type use struct {
		of   []string
		text int
	}
	var uses []use
	place := map[int]int{}
	for _, c := range l.Components {
		for _, f := range c.Files {
			at, ok := place[f.Text]
			if !ok {
				at = len(uses)
				place[f.Text] = at
				uses = append(uses, use{text: f.Text})
			}
			uses[at].of = append(uses[at].of, fmt.Sprintf("%s %s, %s", c.Name, c.Version, f.Name))
		}
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "vramscope contains the work of others, under these licences: %d components, %d texts.\n", len(l.Components),
		len(uses))
	for _, u := range uses {
		fmt.Fprintf(b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 100), strings.Join(u.of, "\n"),
			strings.TrimRight(l.Texts[u.text], "\n"))
	}
	return b.Flush()
}

// WriteSBOM writes the components as CycloneDX has them (version 1.5), without a date: the same build
// gives the same bytes.
func (l *List) WriteSBOM(w io.Writer, version string) error {
	type object = map[string]any
	licensed := func(ids []string) []object {
		if len(ids) == 1 {
			return []object{{"license": object{"id": ids[0]}}}
		}
		return []object{{"expression": strings.Join(ids, " AND ")}}
	}
	components := []object{}
	for _, c := range l.Components {
		purl := fmt.Sprintf("pkg:%s/%s@%s", c.Kind, strings.ToLower(c.Name), strings.ReplaceAll(c.Version, "+", "%2B"))
		components = append(components, object{"type": "library", "bom-ref": purl, "purl": purl, "name": c.Name,
			"version": c.Version, "licenses": licensed(c.Licenses)})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(object{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": object{"component": object{
		"type": "application", "bom-ref": "vramscope", "name": "vramscope", "version": version,
		"licenses": licensed([]string{"Apache-2.0"})}}, "components": components})
}
