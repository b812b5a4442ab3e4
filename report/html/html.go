// Package html writes a report, the page over many reports and plain sheets,
// each as one file that needs nothing else.
package html

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
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
	v, err := newPage(doc)
	if err != nil {
		return err
	}
	v.Style, v.Policy = constant().style, constant().policy
	t, err := pageTemplate()
	if err != nil {
		return err
	}
	if err := t.Execute(shown{w}, v); err != nil {
		return err
	}
	_, err = io.WriteString(w, constant().scripts)
	return err
}

// pageTemplate is parsed once: escaping it takes longer than writing a page.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page.tmpl").Funcs(functions).ParseFS(templates.Pages, "*.tmpl")
})

// constants are what is the same in every page. Of a small recording's page
// they are nine tenths: in a batch they must cost nothing but the writing.
type constants struct {
	style   template.CSS
	policy  string
	scripts string // and what follows them
}

var constant = sync.OnceValue(func() constants {
	c := constants{style: template.CSS(templates.Style())}
	var scripts []template.JS
	for _, s := range templates.Scripts() {
		scripts = append(scripts, template.JS(s))
		c.scripts += "<script>" + s + "</script>\n"
	}
	c.policy = policy(scripts)
	c.scripts += "</body>\n</html>\n"
	return c
})

// policy allows the given scripts, pictures made by them, and nothing else.
func policy(scripts []template.JS) string {
	var b strings.Builder
	b.WriteString("default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " +
		"script-src")
	for _, s := range scripts {
		sum := sha256.Sum256([]byte(s))
		b.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	return b.String()
}

// embed is a value as JSON that can stand in a script element: <, >, & and the
// line separators of JavaScript are written as escapes.
func embed(v any) (template.JS, error) {
	b, err := json.Marshal(v)
	return template.JS(b), err
}

// functions are what the templates call.
var functions = template.FuncMap{
	"bytes":    units.Bytes,
	"cache":    cache,
	"count":    units.Count,
	"json":     embed,
	"monitors": view.Monitors,
	"plural":   units.Plural,
	"percent":  units.Percent,
	"title":    report.CategoryTitle,
	"severity": severityWord,
	"deref":    func(n *int64) int64 { return *n },
	"words":    view.Plain,
	"place":    report.ShortPlace,
	"signed":   units.Signed,
	"shell":    view.ShellWord,
	"minus":    func(a, b int64) int64 { return a - b },
	"seconds":  func(s *float64) string { return fmt.Sprintf("%.3f", *s) },
	"share100": func(f float64) float64 { return 100 * f },
	"share": func(part, whole int64) float64 {
		if whole <= 0 {
			return 0
		}
		return min(100, 100*float64(part)/float64(whole))
	},
}

func severityWord(s report.Severity) string {
	switch s {
	case report.Critical:
		return "Critical"
	case report.Warning:
		return "Warning"
	}
	return "For information"
}

// cache is what is reserved and not allocated, in a table.
func cache(m report.Moment) string {
	if lacks := view.Lacks(&m); lacks != "" {
		return "none: " + lacks
	}
	return units.Bytes(m.CacheBytes)
}
