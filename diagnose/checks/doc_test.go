package checks_test

import (
	"flag"
	"fmt"
	"os"
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
	const name = "../../doc/findings.md"
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(old), generated)
	if !found {
		t.Fatalf("%s: no line %q", name, generated)
	}
	var b strings.Builder
	b.WriteString(head + generated)
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
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != string(old) {
		t.Errorf("%s isn't what the checks say; look at go test ./diagnose/checks -run TestDoc -update", name)
	}
}

func describe(b *strings.Builder, c *checks.Check) {
	severity := strings.ToUpper(c.Severity[:1]) + c.Severity[1:]
	fmt.Fprintf(b, "\n### `%s`\n\n%s", c.ID, pagetext.Fill("*"+severity+".* "+c.Doc))
	if c.Saves != "" {
		b.WriteString("\n" + pagetext.Fill("**The saving:** "+c.Saves))
	}
}
