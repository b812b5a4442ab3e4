package doc

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDependencies: doc/dependencies.md speaks of every module that the program asks for.
func TestDependencies(t *testing.T) {
	text, err := os.ReadFile("dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, direct, _ := strings.Cut(string(mod), "require (\n")
	direct, _, _ = strings.Cut(direct, "\n)")
	for line := range strings.Lines(direct) {
		module, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := strings.TrimPrefix(module, "github.com/")
		short := strings.TrimPrefix(name, "aws/aws-sdk-go-v2/") // told beside the module it is of
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), "`"+short+"`") {
			t.Errorf("no word of %s", module)
		}
	}
}

// TestArrowIsConfined to the room that writes tables, and to writing.
func TestArrowIsConfined(t *testing.T) {
	const arrow = "github.com/apache/arrow/go/v15/"
	reads := []string{"parquet/pqarrow", "arrow/csv", "arrow/flight", "parquet/internal"}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "beam" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "..") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			below, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), arrow)
			if !ok {
				continue
			}
			if filepath.Dir(name) != filepath.Join("..", "dataset") {
				t.Errorf("%s imports %s", name, below)
			}
			for _, r := range reads {
				if strings.HasPrefix(below, r) {
					t.Errorf("%s imports %s, which reads", name, below)
				}
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, reader := range []string{"ipc.NewReader(", "file.NewParquetReader(", "file.OpenParquetFile("} {
			if strings.Contains(string(text), reader) {
				t.Errorf("%s reads: %s", name, reader)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
