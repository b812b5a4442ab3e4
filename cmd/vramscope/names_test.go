package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
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
	"github.com/vramscope/vramscope/internal/testing/pagetext"
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
	b.WriteString("# Commands and flags\n\nExit codes: 0 fine, 1 a `--fail-on` condition holds, 2 unusable input or usage.\n\n" +
		"<!-- From here on made from the commands: go test ./cmd/vramscope -run TestCommandsDoc -update -->\n")
	var commands []*cobra.Command
	for _, cmd := range newRoot().Commands() {
		if !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion" {
			commands = append(commands, cmd)
		}
	}
	shared := sharedFlags(commands)
	for _, cmd := range commands {
		commandDoc(&b, cmd, shared)
	}
	for _, section := range []string{settingFlags, severalFlags} {
		fmt.Fprintf(&b, "\n## %s\n\n", section)
		for _, row := range slices.SortedFunc(maps.Keys(shared), func(a, b string) int {
			return strings.Compare(a[strings.Index(a, "`--"):], b[strings.Index(b, "`--"):])
		}) {
			if shared[row] == section {
				b.WriteString(row)
			}
		}
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

const (
	settingFlags = "A model's setting"         // those that analyze and budget have alone
	severalFlags = "Flags of several commands" // others
)

// sharedFlags are the rows of flags that several commands have, with the section that lists them: of each flag the commonest row.
func sharedFlags(commands []*cobra.Command) map[string]string {
	of := map[string][]string{} // commands, by row
	commonest := map[string]string{}
	for _, cmd := range commands {
		for _, f := range flagsOf(cmd) {
			row := flagRow(f)
			of[row] = append(of[row], cmd.Name())
			if len(of[row]) > len(of[commonest[f.Name]]) {
				commonest[f.Name] = row
			}
		}
	}
	shared := map[string]string{}
	for _, row := range commonest {
		switch {
		case slices.Equal(of[row], []string{"analyze", "budget"}):
			shared[row] = settingFlags
		case len(of[row]) > 1:
			shared[row] = severalFlags
		}
	}
	return shared
}

// flagsOf are the flags that a command's help shows.
func flagsOf(cmd *cobra.Command) (flags []*pflag.Flag) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			flags = append(flags, f)
		}
	})
	return flags
}

func flagRow(f *pflag.Flag) string {
	value, usage := pflag.UnquoteUsage(f)
	short := ""
	if f.Shorthand != "" {
		short = "`-" + f.Shorthand + "` "
	}
	flag := "--" + f.Name
	if value != "" {
		flag += " " + value
	}
	return fmt.Sprintf("- %s`%s`: %s\n", short, flag, strings.NewReplacer("<", "&lt;", "*", `\*`, "\n", " ").Replace(usage))
}

// commandDoc describes a command, and of its flags those that aren't listed for several.
func commandDoc(b *strings.Builder, cmd *cobra.Command, listed map[string]string) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", cmd.Name(), cmd.Short)
	fmt.Fprintf(b, "    %s\n", cmd.UseLine())
	for _, line := range strings.Split(cmd.Example, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	var own string
	var shared []string
	for _, f := range flagsOf(cmd) {
		switch row := flagRow(f); listed[row] {
		case "":
			own += row
		case severalFlags:
			shared = append(shared, "`--"+f.Name+"`")
		case settingFlags:
			if link := "those of [a model's setting](#a-models-setting)"; !slices.Contains(shared, link) {
				shared = slices.Insert(shared, 0, link)
			}
		}
	}
	if own != "" {
		b.WriteString("\n" + own)
	}
	if shared != nil {
		b.WriteString("\n" + pagetext.Fill("[Others](#flags-of-several-commands): "+strings.Join(shared, ", ")))
	}
	if cmd.Name() == "budget" {
		fmt.Fprintf(b, "\nKeys of `--set KEY=VALUE`, each of which is a flag, too:\n\n```text\n%s```\n", recipe.Keys())
	}
}
