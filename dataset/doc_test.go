package dataset

import (
	"flag"
	"fmt"
	"maps"
	"slices"
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
	times := map[string]int{}
	for _, table := range append(RecordingTables(), RunTables()...) {
		for _, c := range table.Columns {
			times[columnLine(c)]++
		}
	}
	b.WriteString("\n## Of one recording\n")
	for _, table := range RecordingTables() {
		describe(&b, table, times)
	}
	b.WriteString("\n## Of runs\n\nA batch writes all of these; `export` gives those of one recording, but for the categories at two moments.\n")
	for _, table := range RunTables() {
		describe(&b, table, times)
	}
	b.WriteString("\n## Columns of several tables\n\n")
	for _, line := range slices.Sorted(maps.Keys(times)) {
		if times[line] > 1 {
			b.WriteString(line)
		}
	}
	pagetext.Keep(t, "../doc/tables.md", generated, b.String(), *update)
}

// describe lists the columns of a table, those that it alone has with what they mean; neighbors that mean the same share a line.
func describe(b *strings.Builder, t *Table, times map[string]int) {
	fmt.Fprintf(b, "\n### %s\n\n`%s`: %s.\n\n", t.Name, t.Version, t.Doc)
	var others []string
	for i := 0; i < len(t.Columns); i++ {
		c := t.Columns[i]
		if times[columnLine(c)] > 1 {
			others = append(others, "`"+c.Name+"`")
			continue
		}
		names := []string{c.Name}
		for ; i+1 < len(t.Columns) && t.Columns[i+1].Doc == c.Doc && columnType(t.Columns[i+1]) == columnType(c); i++ {
			names = append(names, t.Columns[i+1].Name)
		}
		c.Name = strings.Join(names, "`, `")
		b.WriteString(columnLine(c))
	}
	if others != nil {
		b.WriteString("\n" + pagetext.Fill("[Others](#columns-of-several-tables): "+strings.Join(others, ", ")))
	}
}

func columnLine(c Column) string {
	return fmt.Sprintf("- `%s` (%s): %s\n", c.Name, columnType(c), c.Doc)
}

func columnType(c Column) string {
	if c.Null {
		return typeText(c.Type) + " or null"
	}
	return typeText(c.Type)
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
