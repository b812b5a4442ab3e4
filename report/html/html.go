// Package html writes a report, the page over many reports and plain sheets,
// each as one file that needs nothing else.
package html

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/templates"
)

// Document writes a document as one page that needs nothing else: no network, no
// other file. Its policy lets no script run but the page's own, whatever the
// names in the recording look like.
func Document(w io.Writer, doc *report.Document) error {
	_, err := Beside(w, doc, "")
	return err
}

// Beside writes a document as a page that takes its script from a file named
// ScriptName in a folder, given from where the page lies: thousands of pages then
// share one copy. A page that draws nothing needs no such file, and says false.
func Beside(w io.Writer, doc *report.Document, folder string) (shares bool, err error) {
	v, err := newPage(doc)
	if err != nil {
		return false, err
	}
	c := constant()
	scripts := c.light
	switch {
	case v.Drawn() && folder != "":
		scripts, v.Shared = c.shared, folder+"/"+ScriptName()
	case v.Drawn():
		scripts = c.full
	}
	return v.Drawn(), v.write(w, c.style, scripts)
}

// Served writes a document as a page of a server, which must have the columns of the
// page's devices under the names that are given to store, each gzipped; the page
// asks for those of a device when it is shown, in ranges.
func Served(w io.Writer, doc *report.Document, store func(name string, columns []byte) error) error {
	v, err := newPage(doc)
	if err != nil {
		return err
	}
	for i := range v.Devices {
		d := &v.Devices[i]
		if d.Data == nil {
			continue
		}
		name := fmt.Sprintf("columns-%d", i)
		if err := store(name, d.columns); err != nil {
			return err
		}
		d.Data = servedColumns{name, len(d.columns)}
	}
	scripts := inline(templates.ServedScript())
	if v.Drawn() {
		scripts = inline(templates.ServedScripts()...)
	}
	scripts.policy += "; connect-src 'self'"
	return v.write(w, template.CSS(templates.Style()+templates.ServedStyle()), scripts)
}

// servedColumns says which columns a page must ask for.
type servedColumns struct {
	Source string `json:"source"`
	Bytes  int    `json:"bytes"`
}

func (v *page) write(w io.Writer, style template.CSS, scripts scripts) error {
	v.Style, v.Policy = style, scripts.policy
	if err := pageTemplate().Execute(shown{w}, v); err != nil {
		return err
	}
	_, err := io.WriteString(w, scripts.elements)
	return err
}

// pageTemplate is parsed once: escaping it takes longer than writing a page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page.tmpl").Funcs(functions).ParseFS(templates.Pages, "*.tmpl"))
})

// constants are what is the same in every page. Of a small recording's page
// they are nine tenths: in a batch they must cost nothing but the writing.
type constants struct {
	style  template.CSS
	full   scripts // of a page that stands alone
	shared scripts // of one that takes its script from a file
	light  scripts // of one without pictures that need the charting library
	file   string  // that file's text
	name   string  // and name
}

// scripts are what a page runs, and the policy that allows that alone.
type scripts struct{ elements, policy string }

var constant = sync.OnceValue(func() constants {
	c := constants{style: template.CSS(templates.Style()), full: inline(templates.Scripts()...),
		light: inline(templates.LightScript())}
	c.file = strings.Join(templates.Scripts(), "\n")
	sum := sha256.Sum256([]byte(c.file))
	c.name = "page-" + hex.EncodeToString(sum[:6]) + ".js"
	// Only the page's template names a file, and the policy allows none from elsewhere.
	// A browser may take a file from a disk for the page's own, or for no one's.
	c.shared = scripts{"</body>\n</html>\n", policy("'self' file:")}
	return c
})

// ScriptName is the name of the file that pages written by Beside need. It is
// another one for another version of the program.
func ScriptName() string { return constant().name }

// Script is that file's text.
func Script() string { return constant().file }

// inline are scripts within a page.
func inline(texts ...string) scripts {
	var s scripts
	var allowed []string
	for _, text := range texts {
		s.elements += "<script>" + text + "</script>\n"
		allowed = append(allowed, allows(text))
	}
	s.elements += "</body>\n</html>\n"
	s.policy = policy(strings.Join(allowed, " "))
	return s
}

// allows is how a policy names a script.
func allows(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Policies are the hashes of the scripts of all kinds of page, as a policy names them: a page that is opened from
// another one's memory inherits that one's policy.
func Policies() string {
	all := append(templates.Scripts(), templates.LightScript(), templates.CompareScript(), templates.IndexScript())
	for i, text := range all {
		all[i] = allows(text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// policy allows the given scripts, pictures made by them, and nothing else.
func policy(allowed string) string {
	return "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " +
		"script-src " + allowed
}

// embed is a value as JSON that can stand in a script element: <, >, & and the
// line separators of JavaScript are written as escapes.
func embed(v any) (template.JS, error) {
	b, err := json.Marshal(v)
	return template.JS(b), err
}

// functions are what the templates call.
var functions = template.FuncMap{
	"bytes":      units.Bytes,
	"size":       units.Size,
	"rounded":    units.Rounded,
	"bare":       bare,
	"capital":    capital,
	"offmachine": report.OffMachine,
	"count":      units.Count,
	"json":       embed,
	"plural":     units.Plural,
	"percent":    units.Percent,
	"title":      report.CategoryTitle,
	"deref":      func(n *int64) int64 { return *n },
	"words":      view.Plain,
	"place":      report.ShortPlace,
	"signed":     units.Signed,
	"minus":      func(a, b int64) int64 { return a - b },
	"printable":  view.Printable, "lines": func(code string) []string { return strings.Split(code, "\n") },
	"class": class, "dot": dot, "both": hasSigns,
	"heads": hasHead, "cell": cellAt, "order": order, "names": names,
	"share": func(part, whole int64) float64 {
		if whole <= 0 {
			return 0
		}
		return min(100, 100*float64(part)/float64(whole))
	},
}

// capital is a word at the beginning of a line.
func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
