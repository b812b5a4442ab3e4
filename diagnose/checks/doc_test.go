package checks_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/internal/testing/pagetext"
)

var update = flag.Bool("update", false, "rewrite the findings of doc/findings.md")

// generated begins the part of doc/findings.md that is made from the checks.
const generated = "<!-- From here on made from the checks: go test ./diagnose/checks -run TestDoc -update -->\n"

// TestDoc keeps doc/findings.md true.
func TestDoc(t *testing.T) {
	var b strings.Builder
	all := append(checks.Device(), checks.Elsewhere()...)
	for _, g := range checks.Groups {
		fmt.Fprintf(&b, "\n## %s\n", g.Title)
		if g.Doc != "" {
			b.WriteString("\n" + pagetext.Fill(g.Doc))
		}
		for i := range all {
			if c := &all[i]; c.Group == g {
				describe(&b, c)
			}
		}
	}
	pagetext.Keep(t, "../../doc/findings.md", generated, b.String(), *update)
}

func describe(b *strings.Builder, c *checks.Check) {
	severity := strings.ToUpper(c.Severity[:1]) + c.Severity[1:]
	if c.Severity == checks.ByDesign { // which the document's table tells
		severity = "Warning or info"
	}
	fmt.Fprintf(b, "\n### `%s`\n\n%s", c.ID, pagetext.Fill("*"+severity+".* "+c.Doc))
	if c.Saves != "" {
		b.WriteString("\n" + pagetext.Fill("**The saving:** "+c.Saves))
	}
}
