package dataset

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/vramscope/vramscope/internal/testing/pagetext"
)

var update = flag.Bool("update", false, "rewrite the tables of doc/tables.md")

// generated begins the part of doc/tables.md that is made from the definitions.
const generated = "<!-- From here on made from the definitions: go test ./dataset -run TestDoc -update -->\n"

// TestDoc keeps doc/tables.md true.
func TestDoc(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n## Of one recording\n")
	for _, table := range RecordingTables() {
		describe(&b, table)
	}
	b.WriteString("\n## Of runs\n\nA batch writes all of these; `export` gives those of one recording, but for the categories at two moments.\n")
	for _, table := range RunTables() {
		describe(&b, table)
	}
	pagetext.Keep(t, "../doc/tables.md", generated, b.String(), *update)
}

func describe(b *strings.Builder, t *Table) {
	fmt.Fprintf(b, "\n### %s\n\n`%s`: %s.\n\n| column | type | unit | meaning |\n|---|---|---|---|\n", t.Name, t.Version, t.Doc)
	for _, c := range t.Columns {
		null := ""
		if c.Null {
			null = " or null"
		}
		fmt.Fprintf(b, "| `%s` | %s%s | %s | %s |\n", c.Name, typeText(c.Type), null, c.Unit, c.Doc)
	}
}

func typeText(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.DictionaryType, *arrow.StringType:
		return "text"
	case *arrow.ListType:
		return "list of " + typeText(t.Elem())
	case *arrow.StructType:
		var members []string
		for _, f := range t.Fields() {
			members = append(members, "`"+f.Name+"` "+typeText(f.Type))
		}
		return "(" + strings.Join(members, ", ") + ")"
	}
	return t.Name()
}

// TestDefinitions: every column has a meaning, sizes are in bytes and times in
// microseconds, and no two tables or columns of a table have the same name.
func TestDefinitions(t *testing.T) {
	versions := map[string]bool{}
	for _, table := range append(RecordingTables(), RunTables()...) {
		if versions[table.Version] || table.Doc == "" {
			t.Errorf("%s: twice, or without a meaning", table.Version)
		}
		versions[table.Version] = true
		names := map[string]bool{}
		for _, c := range table.Columns {
			want := c.Unit
			switch {
			case strings.HasSuffix(c.Name, "bytes") || strings.HasSuffix(c.Name, "bytes_per_step"):
				want = "bytes"
			case strings.HasSuffix(c.Name, "_us"):
				want = "us"
			}
			if names[c.Name] || c.Doc == "" || c.Unit != want {
				t.Errorf("%s.%s: twice, without a meaning, or not in %q: %+v", table.Name, c.Name, want, c)
			}
			names[c.Name] = true
		}
	}
}
