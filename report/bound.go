package report

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/units"
)

// What is longer than this is more than anybody reads, and comes of an input that was made to
// be so: items of a list, bytes of a sentence or name.
const (
	mostItems = 1000
	mostText  = 8000
)

// Omitted is what a list of a report lacks.
type Omitted struct {
	List  string `json:"list"` // as in devices[].findings
	Items int    `json:"items"`
}

// unbound are the items of lists that others refer to by place, that have a last item for all
// others, which summaries shorten, or that are no more than files were given.
var unbound = map[reflect.Type]bool{reflect.TypeFor[Device](): true, reflect.TypeFor[Input](): true,
	reflect.TypeFor[Rank](): true, reflect.TypeFor[Like](): true, reflect.TypeFor[Step](): true, reflect.TypeFor[Site](): true}

// Bound cuts the ends of lists and texts that are too long, whatever they are of, and counts
// in Omitted what is gone. Lists have what matters most in front.
func (d *Document) Bound() {
	if a := d.Verdict.About; a != nil && a.Device < 0 && a.Finding >= mostItems {
		d.Findings[mostItems-1], a.Finding = d.Findings[a.Finding], mostItems-1
	}
	b := bounder{gone: map[string]int{}}
	b.value(reflect.ValueOf(d).Elem(), "")
	d.Omitted = []Omitted{}
	for _, path := range b.order {
		d.Omitted = append(d.Omitted, Omitted{path, b.gone[path]})
	}
}

type bounder struct {
	gone  map[string]int
	order []string
}

// value cuts what lies below a value. Only what is written as JSON is looked at.
func (b *bounder) value(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > mostText && v.CanSet() {
			v.SetString(shortened(v.String()))
		}
	case reflect.Pointer:
		b.value(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && name != "-" {
				b.value(v.Field(i), strings.TrimPrefix(path+"."+name, "."))
			}
		}
	case reflect.Slice:
		b.list(v, path)
	}
}

func (b *bounder) list(v reflect.Value, path string) {
	item := v.Type().Elem()
	switch item.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.String:
	default:
		return // figures of a curve
	}
	if rest := v.Len() - mostItems; rest > 0 && !unbound[item] && v.CanSet() {
		if b.gone[path] == 0 {
			b.order = append(b.order, path)
		}
		b.gone[path] += rest
		v.Set(v.Slice3(0, mostItems, mostItems))
	}
	for i := range v.Len() {
		b.value(v.Index(i), path+"[]")
	}
}

// shortened is a text up to a whole character, with how much there was more.
func shortened(s string) string {
	n := cut.Whole(s, mostText)
	return fmt.Sprintf("%s… (%s more)", s[:n], units.Plural(len(s)-n, "byte"))
}

// OmittedText says in a sentence what lists lack, "" where nothing is gone.
func (d *Document) OmittedText() string {
	if lists := d.OmittedLists(); lists != "" {
		return "Left out, as these lists are too long to be read: " + lists + "."
	}
	return ""
}

// OmittedLists says which lists lack how much, "" where nothing is gone.
func (d *Document) OmittedLists() string {
	var parts []string
	for _, o := range d.Omitted {
		parts = append(parts, units.Count(o.Items)+" of "+o.List)
	}
	return strings.Join(parts, ", ")
}
