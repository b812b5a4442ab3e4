// Command house lists what breaks the limits that keep the rooms of this
// project small enough to be taken over by a stranger.
//
//	go run ./internal/testing/house
//
// It reads the Go files below the working folder, tests and what they alone need aside:
// packages of too many files or lines, types of too many methods, functions of
// too many branches without a reason beside them, and lines too wide to read.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a room. A package named in roomy holds one subject that falls apart
// when it is divided, and is ordered by prefixes of its files instead.
const (
	maxFiles      = 35
	maxLines      = 5000
	maxMethods    = 60
	maxComplexity = 15
	maxColumns    = 130
	tabWidth      = 4
)

var roomy = map[string]bool{"budget": true}

// reason begins the line of a doc comment that says why a function has more
// branches than the limit.
const reason = "complexity: "

func main() {
	files, err := product(".")
	if err == nil {
		var found []offence
		if found, err = inspect(files); err == nil && len(found) == 0 {
			return
		}
		for _, o := range found {
			fmt.Println(o.text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// product are the Go files below a folder that tests alone don't need.
func product(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		slashed := filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || strings.HasSuffix(slashed, "internal/testing")):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

// room is what is counted of one package.
type room struct {
	files, lines int
	methods      map[string]int
}

// offence is what breaks a limit: its name without numbers that every change moves,
// and what a person reads.
type offence struct{ name, text string }

func inspect(files []string) ([]offence, error) {
	var found []offence
	rooms := map[string]*room{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		folder := filepath.Dir(name)
		if rooms[folder] == nil {
			rooms[folder] = &room{methods: map[string]int{}}
		}
		r := rooms[folder]
		r.files++
		r.lines += bytes.Count(text, []byte("\n"))
		found = append(found, wide(name, string(text))...)
		complex, err := r.read(name, text)
		if err != nil {
			return nil, err
		}
		found = append(found, complex...)
	}
	var all room
	for _, folder := range slices.Sorted(maps.Keys(rooms)) {
		r := rooms[folder]
		all.files += r.files
		all.lines += r.lines
		if roomy[folder] {
			continue
		}
		if r.files > maxFiles || r.lines > maxLines {
			found = append(found, offence{"size " + folder, fmt.Sprintf("%s: %d files, %d lines", folder, r.files, r.lines)})
		}
		for _, receiver := range slices.Sorted(maps.Keys(r.methods)) {
			if n := r.methods[receiver]; n > maxMethods {
				found = append(found, offence{"methods " + folder + " " + receiver, fmt.Sprintf("%s: %d methods on %s", folder, n, receiver)})
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%d files, %d lines, %d over the limits\n", all.files, all.lines, len(found))
	return found, nil
}

// wide are the lines that are wider than the limit.
func wide(name, text string) []offence {
	var found []offence
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		columns := utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
		if columns > maxColumns {
			found = append(found, offence{"width " + name, fmt.Sprintf("%s:%d: %d columns", name, n, columns)})
		}
	}
	return found
}

// read counts a file's methods and returns its functions of too many branches.
func (r *room) read(name string, text []byte) ([]offence, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []offence
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		function := f.Name.Name
		if f.Recv != nil {
			of := receiver(f.Recv.List[0].Type)
			r.methods[of]++
			function = of + "." + function
		}
		if n := complexity(f); n > maxComplexity && !strings.Contains(f.Doc.Text(), reason) {
			found = append(found, offence{"complexity " + filepath.Dir(name) + " " + function,
				fmt.Sprintf("%s: %s has a complexity of %d", set.Position(f.Pos()), function, n)})
		}
	}
	return found, nil
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// complexity is the cyclomatic one: the branches of a function, and one.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			n += cmp.Compare(len(x.List), 0)
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
