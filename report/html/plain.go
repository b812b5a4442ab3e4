package html

import (
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/templates"
)

// Sheet writes a sheet as one page that needs nothing else.
func Sheet(w io.Writer, s *view.Sheet) error {
	return sheetPage(w, s, "", "", templates.LightScript())
}

// sheetPage writes a sheet, with what a script draws above its parts.
func sheetPage(w io.Writer, s *view.Sheet, compared template.JS, style, script string) error {
	scripts := inline(script)
	p := plainPage{Sheet: s, Policy: scripts.policy, Style: template.CSS(templates.Style() + style), Compared: compared,
		Markdown: ticket(s)}
	p.fill(s.Parts)
	if err := plainTemplate().Execute(shown{w}, p); err != nil {
		return err
	}
	_, err := io.WriteString(w, scripts.elements)
	return err
}

// ticket is a sheet as Markdown, to copy.
func ticket(s *view.Sheet) string {
	var b strings.Builder
	_ = markdown.Write(&b, s) // which only fails where writing does
	return b.String()
}

// plainPage is what the template of sheets sees.
type plainPage struct {
	*view.Sheet
	Policy   string
	Style    template.CSS
	Markdown string
	About    []string // below the verdict
	Cards    []card
	Compared template.JS // of a comparison that can be looked at moment by moment
}

// card is a heading with the parts below it.
type card struct {
	ID, Name, Sub string
	Short         string // in the page's navigation
	Parts         []view.Part
}

// fill puts parts into cards; texts before the first heading belong to the verdict.
func (p *plainPage) fill(parts []view.Part) {
	for _, x := range parts {
		switch {
		case len(p.Cards) == 0 && x.Heading == "" && len(x.Rows)+len(x.Facts) == 0:
			p.About = append(p.About, x.Text...)
			continue
		case len(p.Cards) == 0 || x.Heading != "":
			c := card{ID: "part-" + strconv.Itoa(len(p.Cards)+1)}
			c.Name, c.Sub, _ = strings.Cut(x.Heading, ": ")
			c.Short = c.Name
			if end := strings.IndexAny(c.Name, ",("); end > 0 {
				c.Short = strings.TrimSpace(c.Name[:end])
			}
			p.Cards, x.Heading = append(p.Cards, c), ""
		}
		c := &p.Cards[len(p.Cards)-1]
		c.Parts = append(c.Parts, x)
	}
}

var plainTemplate = sync.OnceValue(func() *template.Template {
	t := template.Must(template.New("sheet.html").Funcs(functions).ParseFS(templates.Pages, "parts.tmpl"))
	return template.Must(t.ParseFS(templates.Plain, "plain/sheet.html"))
})

// hasHead reports whether columns have names.
func hasHead(columns []view.Column) bool {
	return slices.ContainsFunc(columns, func(c view.Column) bool { return c.Name != "" })
}

// order are the places of a table's columns as a page has them: first the one that names its rows.
func order(columns []view.Column) (places []int) {
	lead := max(0, slices.IndexFunc(columns, func(c view.Column) bool { return c.Leads }))
	for i := range columns {
		switch {
		case columns[i].Bar:
		case i == lead:
			places = slices.Insert(places, 0, i)
		default:
			places = append(places, i)
		}
	}
	return places
}

// names reports whether a column names the rows, in a page's first place.
func names(c view.Column, place int) bool { return place == 0 && (c.Leads || !c.Number) }

// hasSigns reports whether a column holds differences.
func hasSigns(columns []view.Column) bool {
	return slices.ContainsFunc(columns, func(c view.Column) bool { return c.Signed })
}

// cellAt is a row's cell in a column, nil where the row ends before.
func cellAt(r view.Row, column int) view.Cell {
	if column < len(r.Cells) {
		return r.Cells[column]
	}
	return nil
}

// dot is the colour of a row's category, in its first column of words.
func dot(r view.Row, columns []view.Column, at int) template.HTML {
	first := slices.IndexFunc(columns, func(c view.Column) bool { return !c.Number })
	if at != first || !slices.Contains(report.Categories, r.Category) {
		return ""
	}
	return template.HTML(`<span class="dot c-` + r.Category + `"></span>`)
}

// class is that of a table's cell.
func class(column view.Column, cell view.Cell) string {
	switch text := cell.String(); {
	case !column.Number:
		return "left"
	case column.Signed && strings.HasPrefix(text, "+"):
		return "n more"
	case column.Signed && strings.HasPrefix(text, "-"):
		return "n less"
	}
	return "n"
}
