package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "take down what has become less in owed.txt and CHANGELOG.md")

// TestLimits compares what breaks the limits with owed.txt, and all lines with the
// newest row of CHANGELOG.md. -update takes figures down and names out, and raises
// nothing: who adds to either file does so by hand.
func TestLimits(t *testing.T) {
	for _, wrong := range inspected(t, "../../..", "owed.txt", "../../../CHANGELOG.md", *update) {
		t.Error(wrong)
	}
}

// inspected says what is wrong in a folder by its lists.
func inspected(t *testing.T, root, list, changelog string, update bool) []string {
	t.Helper()
	found, all, err := inspect(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(changelog)
	if err != nil {
		t.Fatal(err)
	}
	changes := string(text)
	text, err = os.ReadFile(list)
	first := update && errors.Is(err, fs.ErrNotExist)
	if err != nil && !first {
		return []string{err.Error()}
	}
	owed, err := readOwed(string(text))
	if err != nil {
		return []string{err.Error()}
	}
	lines, _, err := allowed(changes)
	if err != nil {
		return []string{err.Error()}
	}
	if update {
		if first {
			owed = found
		}
		owed, lines = lowered(owed, found), min(lines, all.lines)
		if changes, err = takenDown(changes, lines); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{list: writeOwed(owed), changelog: changes} {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	wrong := against(owed, found)
	if much := accounted(all.lines, lines); much != "" {
		wrong = append(wrong, much)
	}
	return wrong
}

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// source is a file of so many lines, which end with some of its own.
func source(lines int, last string) string {
	const head = "package p\n"
	return head + strings.Repeat("\n", lines-strings.Count(head+last, "\n")) + last
}

// function is one of so many branches.
func function(name string, complexity int) string {
	return "func " + name + "() {\n" + strings.Repeat("\tif true {\n\t}\n", complexity-1) + "}\n"
}

func methods(n int) string {
	var b strings.Builder
	b.WriteString("type t[K, V any] struct{}\n")
	for i := range n {
		fmt.Fprintf(&b, "func (*t[K, V]) f%d() {}\n", i)
	}
	return b.String()
}

// files are so many of so many lines in a folder.
func files(folder string, n, lines int) map[string]string {
	made := map[string]string{}
	for i := range n {
		made[fmt.Sprintf("%s/%d_%d.go", folder, lines, i)] = source(lines, "")
	}
	return made
}

// TestLimitsOfRooms stands on each limit and one beyond it.
func TestLimitsOfRooms(t *testing.T) {
	both := func(a, b map[string]string) map[string]string {
		for name, text := range b {
			a[name] = text
		}
		return a
	}
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"35 files":                      {files("a", 35, 142), ""},
		"36 files":                      {both(files("a", 25, 150), files("a", 11, 151)), "files a 36; lines a 5411"},
		"35 large files":                {files("a", 35, 151), "lines a 5285"},
		"36 files, ten of them long":    {both(files("a", 26, 100), files("a", 10, 151)), ""},
		"36 files, eleven of them long": {both(files("a", 25, 100), files("a", 11, 151)), "files a 36"},
		"60 small files":                {files("a", 60, 83), ""},
		"61 small files":                {files("a", 61, 10), "files a 61"},
		"a room named budget":           {files("budget", 61, 10), "files budget 61"},
		"two rooms":                     {both(files("a", 35, 10), files("a/b", 35, 10)), ""},
		"5,000 lines":                   {files("a", 2, 2500), ""},
		"5,001 lines":                   {both(files("a", 1, 5000), files("a", 1, 1)), "lines a 5001"},
		"tests aside": {map[string]string{"a/x_test.go": source(5001, ""), "a/testdata/x.go": source(5001, ""),
			"internal/testing/a/x.go": source(5001, "")}, ""},
		"60 methods":      {map[string]string{"a/x.go": source(100, methods(60))}, ""},
		"61 methods":      {map[string]string{"a/x.go": source(100, methods(61))}, "methods a t 61"},
		"15 branches":     {map[string]string{"a/x.go": source(100, function("f", 15))}, ""},
		"16 branches":     {map[string]string{"a/x.go": source(100, function("f", 16))}, "complexity a f 16"},
		"with an excuse":  {map[string]string{"a/x.go": source(100, "// complexity: a list.\n"+function("f", 16))}, "complexity a f 16"},
		"of a type":       {map[string]string{"a/x.go": source(100, function("(t) f", 16))}, "complexity a t.f 16"},
		"of two systems":  {map[string]string{"a/x.go": source(90, function("f", 16)), "a/y.go": source(90, function("f", 18))}, "complexity a f 18"},
		"130 columns":     {map[string]string{"x.go": source(9, "//"+strings.Repeat("ä", 128)+"\n")}, ""},
		"131 columns":     {map[string]string{"x.go": source(9, "//"+strings.Repeat("ä", 129)+"\n")}, "width x.go 131"},
		"a tab is four":   {map[string]string{"x.go": source(9, "\t//"+strings.Repeat("ä", 125)+"\n")}, "width x.go 131"},
		"the widest line": {map[string]string{"x.go": source(9, "//"+strings.Repeat("-", 140)+"\n//"+strings.Repeat("-", 131)+"\n")}, "width x.go 142"},
	} {
		found, _, err := inspect(os.DirFS(tree(t, test.files)))
		if err != nil {
			t.Fatal(name, err)
		}
		if got := strings.ReplaceAll(strings.TrimSpace(writeOwed(found)), "\n", "; "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if _, _, err := inspect(os.DirFS(tree(t, map[string]string{"x.go": "package"}))); err == nil {
		t.Error("a file that is no Go")
	}
}

const heads = "# Changes\n\nText.\n\n" + bought + "\n\nWhat a row is.\n\n| lines | capability |\n|---|---|\n"

// TestLists: what is owed may become less, and must then be taken down; nothing else passes.
func TestLists(t *testing.T) {
	for name, test := range map[string]struct {
		owed, changes string
		want          string // words of what is wrong, "" if nothing
		updated       string // the same after -update
		owes, counts  string // what the lists say then
	}{
		"as listed": {"complexity a f 20\nlines a 6000\n", heads + "| 6,000 | a first room |\n",
			"", "", "complexity a f 20\nlines a 6000\n", "6,000"},
		"larger than listed": {"complexity a f 19\nlines a 6000\n", heads + "| 6,000 | a first room |\n",
			"it was 19", "it was 19", "complexity a f 19\nlines a 6000\n", "6,000"},
		"not listed": {"lines a 6000\n", heads + "| 6,000 | a first room |\n",
			"make it smaller", "make it smaller", "lines a 6000\n", "6,000"},
		"smaller than listed": {"complexity a f 21\nlines a 6000\n", heads + "| 6,000 | a first room |\n",
			"less than the 21", "", "complexity a f 20\nlines a 6000\n", "6,000"},
		"listed, and gone": {"complexity a f 20\ncomplexity a g 20\nlines a 6000\n", heads + "| 6,000 | a first room |\n",
			"complexity a g is less", "", "complexity a f 20\nlines a 6000\n", "6,000"},
		"one larger, one smaller": {"complexity a f 19\nlines a 6001\n", heads + "| 6,000 | a first room |\n",
			"it was 19; lines a is less", "it was 19", "complexity a f 19\nlines a 6000\n", "6,000"},
		"no list yet": {"none", heads + "| 6,000 | a first room |\n",
			"no such file", "", "complexity a f 20\nlines a 6000\n", "6,000"},
		"nothing listed": {"", heads + "| 6,000 | a first room |\n",
			"make it smaller; make it smaller", "make it smaller; make it smaller", "", "6,000"},
		"more lines than bought": {"complexity a f 20\nlines a 6000\n", heads + "| 5999 | a second room |\n| 6000 | a first room |\n",
			"delete 1, or put a row", "delete 1, or put a row", "complexity a f 20\nlines a 6000\n", "5999"},
		"far fewer": {"complexity a f 20\nlines a 6000\n", heads + "| 6501 | a second room |\n| 6501 | a first room |\n",
			"takes that down", "", "complexity a f 20\nlines a 6000\n", "6000"},
		"a few fewer": {"complexity a f 20\nlines a 6000\n", heads + "| 6500 | a second room |\n",
			"", "", "complexity a f 20\nlines a 6000\n", "6000"},
	} {
		files := map[string]string{"tree/a/x.go": source(6000, function("f", 20)), "CHANGELOG.md": test.changes}
		if test.owed != "none" {
			files["owed.txt"] = test.owed
		}
		root := tree(t, files)
		at := func(name string) string { return filepath.Join(root, name) }
		look := func(update bool, want string) {
			wrong := inspected(t, at("tree"), at("owed.txt"), at("CHANGELOG.md"), update)
			words := strings.Split(want, "; ")
			if want == "" {
				words = nil
			}
			if len(wrong) != len(words) {
				t.Errorf("%s: %q, want %q", name, wrong, words)
				return
			}
			for i := range wrong {
				if !strings.Contains(wrong[i], words[i]) {
					t.Errorf("%s: %q doesn't say %q", name, wrong[i], words[i])
				}
			}
		}
		look(false, test.want)
		look(true, test.updated)
		look(false, test.updated)
		owed, _ := os.ReadFile(at("owed.txt"))
		changes, _ := os.ReadFile(at("CHANGELOG.md"))
		if _, counts, err := allowed(string(changes)); string(owed) != test.owes || counts != test.counts || err != nil {
			t.Errorf("%s: after -update %q and %s, want %q and %s", name, owed, counts, test.owes, test.counts)
		}
	}
}

// TestBadLists: a list that can't be read passes nothing.
func TestBadLists(t *testing.T) {
	for _, text := range []string{"complexity a f\n", "12\n", "complexity a f 0\n", "complexity a f -3\n", "lines a 5,100\n", "\n",
		"lines a 5100\nlines a 5200\n"} {
		if list, err := readOwed(text); err == nil {
			t.Errorf("%q is read as %v", text, list)
		}
	}
	for text, want := range map[string]string{
		"# Changes\n": "no list",
		"# Changes\n\n#" + bought + "\n| 5 | x |": "no list",
		heads: "no row",
		heads + "\n## Another list\n| 5 | five lines |\n": "no row",
		heads + "| many | a first room |\n":               "a number of lines",
		heads + "| 0 | a first room |\n":                  "a number of lines",
		heads + "| -5 | a first room |\n":                 "a number of lines",
		heads + "| | a first room |\n":                    "a number of lines",
		heads + "| 5 | |\n":                               "what the lines bought",
		heads + "| 5 | rooms |\n":                         "what the lines bought",
		heads + "| 5 |\n":                                 "two cells",
		heads + "| 5 | a first room | more |\n":           "two cells",
		heads + "| 5 | a first room\n":                    "two cells",
		heads + "| 6 | a second room |\n| 5 | |\n":        "what the lines bought",
	} {
		if lines, _, err := allowed(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d lines, %v, want %q", strings.TrimPrefix(text, heads), lines, err, want)
		}
	}
	if lines, written, err := allowed(heads + "| 1,234 | a second room |\n| 99999 | a first room |\n"); lines != 1234 || written != "1,234" || err != nil {
		t.Error("the newest row:", lines, written, err)
	}
}

// nothing are subjects of commits that don't say what came in.
func nothing(subject string) bool {
	s := strings.ToLower(subject)
	for _, begin := range [...]string{"bring in", "merge", "wip", "fixup!", "squash!", "amend!"} {
		if strings.HasPrefix(s, begin) {
			return true
		}
	}
	return len(strings.Fields(s)) < 3
}

// trial is what a service makes of a proposal and its target, to test them together.
var trial = regexp.MustCompile(`^Merge [0-9a-f]{40} into [0-9a-f]{40}$`)

// TestSubjects: the last commits say what came in.
func TestSubjects(t *testing.T) {
	for subject, want := range map[string]bool{"Bring in what others did": true, "WIP: budgets": true, "Fix": true, "Fix tests": true,
		"Merge branch 'x' into main": true, "fixup! Read a shifted loss": true, "Format a list": false, "Read a shifted loss from its copy": false} {
		if nothing(subject) != want {
			t.Errorf("%q: %t", subject, !want)
		}
	}
	git := func(args ...string) (string, bool) {
		out, err := exec.Command("git", append([]string{"-C", "../../.."}, args...)...).Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	if prefix, ok := git("rev-parse", "--show-prefix"); !ok || prefix != "" {
		t.Skip("not in a clone")
	}
	const since = "6ec2107f" // and what came before are as they are
	log, ok := git("log", "-50", "--format=%H%x00%s")
	if !ok {
		t.Skip("no commit")
	}
	for line := range strings.Lines(log) {
		hash, subject, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if strings.HasPrefix(hash, since) {
			break
		}
		if nothing(subject) && !trial.MatchString(subject) {
			t.Errorf("%.8s: %q doesn't say what came in", hash, subject)
		}
	}
}

// TestNothingBeside looks for paths in tests that lead out of the repository:
// what lies beside it on one machine isn't there on another.
func TestNothingBeside(t *testing.T) {
	t.Chdir("../../..")
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		ast.Inspect(file, func(n ast.Node) bool {
			if x, ok := n.(*ast.BasicLit); ok && x.Kind == token.STRING {
				if s, err := strconv.Unquote(x.Value); err == nil && strings.HasPrefix(s, "../") && strings.HasPrefix(path.Join(folder, s), "../") {
					t.Errorf("%s reads %s", name, s)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
