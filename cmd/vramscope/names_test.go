package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/doc"
	"github.com/vramscope/vramscope/explain"
	"github.com/vramscope/vramscope/report"
)

var release = flag.Bool("release", false, "put the names of this version into release/names.txt, as a release does")

// TestNamesStay: what the last release called something is called so still, and has its type. New names come in with a release
// (go test ./cmd/vramscope -run TestNamesStay -release); one that goes needs a line in release/gone.txt, which says since when it
// has been deprecated.
func TestNamesStay(t *testing.T) {
	now := publicNames()
	if *release {
		if err := os.WriteFile("../../release/names.txt", []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gone := linesOf(t, "../../release/gone.txt")
	before := linesOf(t, "../../release/names.txt")
	if len(before) < 500 {
		t.Fatalf("%d names", len(before))
	}
	for _, name := range before {
		if _, there := slices.BinarySearch(now, name); !there && !slices.ContainsFunc(gone, func(line string) bool {
			return strings.HasPrefix(line, name+"  since ")
		}) {
			t.Errorf("%s: the last release has it", name)
		}
	}
}

func linesOf(t *testing.T, name string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if line := s.Text(); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// publicNames are those that the promise is about, sorted.
func publicNames() (names []string) {
	add := func(format string, args ...any) { names = append(names, fmt.Sprintf(format, args...)) }
	root := newRoot()
	for _, cmd := range root.Commands() {
		if cmd.Hidden {
			continue
		}
		add("command %s", cmd.Name())
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden || cmd.Name() == "budget" || cmd.Flags().Lookup("set") != nil {
				add("flag %s --%s %s", cmd.Name(), f.Name, f.Value.Type())
			}
		})
	}
	for schema, v := range map[string]any{"report": report.Document{}, "diff": report.Diff{}, "budget": budgetDocument{}, "whatif": whatifDocument{},
		"explain": explain.Document{}} {
		jsonNames("json "+schema, reflect.TypeOf(v), nil, add)
	}
	for _, table := range exportTables() {
		for _, f := range table.Columns {
			add("table %s %s %s", table.Name, f.Name, f.Type)
		}
	}
	for _, id := range doc.Findings() {
		add("finding %s", id)
	}
	add("exit %d fine", exitFine)
	add("exit %d condition", exitCondition)
	add("exit %d unusable", exitUnusable)
	slices.Sort(names)
	return slices.Compact(names)
}

var number = regexp.MustCompile(`^u?(int|float)\d*$`)

// jsonNames are the members of a type's JSON, with their kinds.
func jsonNames(path string, t reflect.Type, above []reflect.Type, add func(string, ...any)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		if t.Kind() != reflect.Pointer {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		add("%s %s", path, number.ReplaceAllString(t.Kind().String(), "number"))
		return
	}
	if slices.Contains(above, t) || len(above) > 12 {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && tag == "":
			jsonNames(path, f.Type, append(above, t), add)
		case tag != "":
			jsonNames(path+"."+tag, f.Type, append(above, t), add)
		}
	}
}

// TestCommandsDoc writes and checks doc/commands.md, which is made from the commands.
func TestCommandsDoc(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands and flags\n\nMade from the commands: `go test ./cmd/vramscope -run TestCommandsDoc -update`. Exit codes: 0 fine, " +
		"1 a `--fail-on` condition holds, 2 input or usage that nothing can be made of.\n")
	for _, cmd := range newRoot().Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		commandDoc(&b, cmd)
	}
	const name = "../../doc/commands.md"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != b.String() {
		t.Errorf("%s isn't what the commands say (%v): go test ./cmd/vramscope -run TestCommandsDoc -update", name, err)
	}
}

func commandDoc(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", cmd.Name(), cmd.Short)
	fmt.Fprintf(b, "    %s\n", cmd.UseLine())
	for _, line := range strings.Split(cmd.Example, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	first := true
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if first {
			b.WriteString("\n| flag | |\n|---|---|\n")
			first = false
		}
		value, usage := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "`-" + f.Shorthand + "` "
		}
		flag := "--" + f.Name
		if value != "" {
			flag += " " + value
		}
		cell := strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ")
		fmt.Fprintf(b, "| %s`%s` | %s |\n", short, strings.ReplaceAll(flag, "|", `\|`), cell.Replace(usage))
	})
	if cmd.Name() == "budget" {
		fmt.Fprintf(b, "\nKeys of `--set KEY=VALUE`, each of which is a flag, too:\n\n```text\n%s```\n", recipe.Keys())
	}
}
