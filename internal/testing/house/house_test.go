package main

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write owed.txt anew")

// TestLimits compares what breaks the limits with what is known to: owed.txt has a
// name on each line and can only shrink.
func TestLimits(t *testing.T) {
	t.Chdir("../../..")
	files, err := product(".")
	if err != nil {
		t.Fatal(err)
	}
	found, err := inspect(files)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range found {
		names = append(names, filepath.ToSlash(o.name))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	const list = "internal/testing/house/owed.txt"
	if *update {
		if err := os.WriteFile(list, []byte(strings.Join(append(names, ""), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	owed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, o := range found {
		if !slices.Contains(owed, filepath.ToSlash(o.name)) {
			t.Errorf("%s: make it smaller (or, for a function, say why not: a line %q in its doc comment)", o.text, reason+"…")
		}
	}
	for _, name := range owed {
		if name != "" && !slices.Contains(names, name) {
			t.Errorf("%q keeps the limits now: take the line out of owed.txt", name)
		}
	}
}

// TestFindsWhatIsTooMuch breaks each limit.
func TestFindsWhatIsTooMuch(t *testing.T) {
	t.Chdir(t.TempDir())
	var text strings.Builder
	text.WriteString("package big\n\ntype t struct{}\n\n// " + strings.Repeat("wide ", 30) + "\n")
	for i := range maxMethods + 1 {
		text.WriteString("func (*t) f" + strconv.Itoa(i) + "() {}\n")
	}
	branches := "() {\n" + strings.Repeat("\tif true {\n\t}\n", maxComplexity) + "}\n"
	text.WriteString("func branched" + branches + "\n// A table.\n//\n// complexity: one case for each form.\nfunc reasoned" + branches)
	text.WriteString(strings.Repeat("\n", maxLines))
	if err := os.WriteFile("big.go", []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := inspect([]string{"big.go"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range found {
		names = append(names, o.name)
	}
	if want := []string{"width big.go", "complexity . branched", "size .", "methods . t"}; !slices.Equal(names, want) {
		t.Errorf("found %q, want %q", names, want)
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
