package diagnose

import (
	"testing"

	"github.com/vramscope/vramscope/report"
)

func TestShortNames(t *testing.T) {
	for name, c := range map[string]struct {
		paths []string // the first is named
		want  string
	}{
		"the file's own":            {[]string{"/runs/a/one.pickle", "/runs/b/two.pickle"}, "one.pickle"},
		"with its folder":           {[]string{"/runs/a/one.pickle", "/runs/b/one.pickle"}, "a/one.pickle"},
		"with folders":              {[]string{"x/a/one.pickle", "y/a/one.pickle", "x/b/one.pickle"}, "x/a/one.pickle"},
		"one is the other's end":    {[]string{"one.pickle", "x/one.pickle"}, "one.pickle"},
		"the other's end":           {[]string{"x/one.pickle", "one.pickle"}, "x/one.pickle"},
		"at the root":               {[]string{"/one.pickle", "/x/one.pickle"}, "one.pickle"},
		"another's name ends alike": {[]string{"a/one.pickle", "b/twenty-one.pickle"}, "one.pickle"},
		"in a store":                {[]string{"s3://team/a/one.pickle", "s3://team/b/one.pickle"}, "a/one.pickle"},
	} {
		var inputs []report.Input
		for _, p := range c.paths {
			inputs = append(inputs, report.Input{Path: p})
		}
		if got := shortName(inputs, 0); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
