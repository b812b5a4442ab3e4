package html

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/templates"
)

// plainHead is the beginning of a page without scripts, up to its title. The policy
// allows our style sheet by its hash, and nothing else.
type plainHead struct {
	Title  string
	Policy string
	CSS    template.CSS
}

func newPlainHead(title string) plainHead {
	sum := sha256.Sum256([]byte(templates.PlainStyle))
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(
		sum[:]) + "'"
	return plainHead{title, policy, template.CSS(templates.PlainStyle)}
}

// Sheet writes a sheet as one page that loads nothing and runs nothing.
func Sheet(w io.Writer, s *view.Sheet) error {
	return plainTemplate().Execute(shown{w}, plainPage{s, newPlainHead(cmp.Or(s.Title, s.Heading)), nil})
}

// plainPage is what the template of sheets sees.
type plainPage struct {
	*view.Sheet
	Head     plainHead
	Compared *compared // of a comparison that can be looked at moment by moment
}

var plainTemplate = sync.OnceValue(func() *template.Template {
	funcs := template.FuncMap{"printable": view.Printable, "class": class, "cell": func(r view.Row, column int) view.Cell {
		if column < len(r.Cells) {
			return r.Cells[column]
		}
		return nil
	}}
	return template.Must(template.New("sheet.html").Funcs(funcs).ParseFS(templates.Plain, "plain/head.html", "plain/sheet.html"))
})

// class is that of a table's cell.
func class(column view.Column, cell view.Cell) string {
	switch text := cell.String(); {
	case !column.Number:
		return "words"
	case column.Signed && strings.HasPrefix(text, "+"):
		return "n more"
	case column.Signed && strings.HasPrefix(text, "-"):
		return "n less"
	}
	return "n"
}
