package report

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"

	"github.com/vramscope/vramscope/internal/units"
)

//go:embed diff.html
var diffPage string

// DiffHTML writes a comparison as one page that loads nothing and runs nothing.
func DiffHTML(w io.Writer, d *Diff) error {
	page, err := plainPage(diffPage, template.FuncMap{"bytes": units.Bytes, "signed": Signed, "count": units.Count,
		"known": bytesOr, "category": categoryTitleOf, "plural": units.Plural})
	if err != nil {
		return err
	}
	return page.Execute(Shown{w}, newDiffView(d))
}

func categoryTitleOf(category *string) string {
	if category == nil {
		return ""
	}
	return CategoryTitle(*category)
}

// diffView is a comparison as the page's template reads it.
type diffView struct {
	*Diff
	Head       plainHead
	Heading    string
	Sides      []diffSideView
	PeakRows   []diffRow
	Categories []diffRow
	Sites      []diffSiteView
	Others     int
	Rest       DiffSize
	Same       string
	Steps      []diffStepView
}

type diffSideView struct {
	Name, What string
	*DiffSide
}

type diffSiteView struct {
	*DiffSite
	Detail string
}

type diffStepView struct {
	DiffStep
	Label, Change string
	Gap           bool // steps are left out before this one
}

// newDiffView works out what the template shows.
func newDiffView(d *Diff) *diffView {
	v := &diffView{Diff: d, Head: newPlainHead(cmp.Or(d.Title, "What grew")), Heading: d.heading(), PeakRows: d.peakRows(),
		Categories: d.categoryRows(),
		Sides:      []diffSideView{{"Before", d.Before.what(), &d.Before}, {"After", d.After.what(), &d.After}}}
	var shown []DiffSite
	shown, v.Others, v.Rest = d.changedSites()
	for i := range shown {
		v.Sites = append(v.Sites, diffSiteView{&shown[i], shown[i].detail()})
	}
	v.Same = d.sameText()
	head, tail := d.stepRows()
	for _, s := range head {
		v.Steps = append(v.Steps, diffStepView{s, s.label(), s.change(), false})
	}
	for i, s := range tail {
		v.Steps = append(v.Steps, diffStepView{s, s.label(), s.change(), i == 0})
	}
	return v
}
