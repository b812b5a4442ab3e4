// Command house lists what breaks the limits that keep the rooms of this
// project small enough to be taken over by a stranger.
//
//	go run ./internal/testing/house
//
// It reads the Go files below the working folder, tests and what they alone need aside:
// packages of too many files or lines, types of too many methods, functions of
// too many branches, and lines too wide to read. owed.txt lists what is known to,
// with its figure, which may only become smaller; and the lines of all files
// together are as many as CHANGELOG.md says what they bought.
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
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a room.
const (
	maxFiles      = 35
	maxLines      = 5000
	maxMethods    = 60
	maxComplexity = 15
	maxColumns    = 130
	tabWidth      = 4
)

// A room of many small files, each of one thing of a kind, may have more of them:
// few of its files are longer than short lines.
const (
	maxSmallFiles = 60
	shortLines    = 150
	maxLong       = 10
)

func main() {
	found, all, err := inspect(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, o := range found {
		fmt.Println(o.text)
	}
	fmt.Printf("%d files, %d lines, %d over the limits\n", all.files, all.lines, len(found))
}

// product are the Go files of a folder that tests alone don't need.
func product(root fs.FS) ([]string, error) {
	var files []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || strings.HasSuffix(name, "internal/testing")):
			return fs.SkipDir
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
	long         int // files of more than the lines of a small one
	methods      map[string]int
}

// crowded tells a room of too many files.
func (r *room) crowded() bool {
	return r.files > maxSmallFiles || r.files > maxFiles && r.long > maxLong
}

// offence is what breaks a limit: its name, which no other change moves, by how
// much, and what a person reads.
type offence struct {
	name   string
	figure int
	text   string
}

// inspect returns what breaks the limits, by name, and what all rooms have together.
func inspect(root fs.FS) (found []offence, all room, err error) {
	files, err := product(root)
	if err != nil {
		return nil, all, err
	}
	rooms := map[string]*room{}
	for _, name := range files {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, all, err
		}
		folder := path.Dir(name)
		if rooms[folder] == nil {
			rooms[folder] = &room{methods: map[string]int{}}
		}
		r := rooms[folder]
		lines := bytes.Count(text, []byte("\n"))
		r.files++
		r.lines += lines
		if lines > shortLines {
			r.long++
		}
		found = append(found, wide(name, string(text))...)
		complex, err := r.read(name, text)
		if err != nil {
			return nil, all, err
		}
		found = append(found, complex...)
	}
	for folder, r := range rooms {
		all.files += r.files
		all.lines += r.lines
		found = append(found, r.offences(folder)...)
	}
	slices.SortFunc(found, func(a, b offence) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(b.figure, a.figure)) })
	// Files for different systems may have functions of the same name: the largest counts.
	return slices.CompactFunc(found, func(a, b offence) bool { return a.name == b.name }), all, nil
}

func (r *room) offences(folder string) (found []offence) {
	if r.crowded() {
		found = append(found, offence{"files " + folder, r.files,
			fmt.Sprintf("%s: %d files, %d of them of more than %d lines", folder, r.files, r.long, shortLines)})
	}
	if r.lines > maxLines {
		found = append(found, offence{"lines " + folder, r.lines, fmt.Sprintf("%s: %d lines", folder, r.lines)})
	}
	for _, receiver := range slices.Sorted(maps.Keys(r.methods)) {
		if n := r.methods[receiver]; n > maxMethods {
			found = append(found, offence{"methods " + folder + " " + receiver, n, fmt.Sprintf("%s: %d methods on %s", folder, n, receiver)})
		}
	}
	return found
}

// wide are the lines of a file that are wider than the limit, by the widest.
func wide(name, text string) []offence {
	widest, at, n := 0, 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if columns := utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t"); columns > widest {
			widest, at = columns, n
		}
	}
	if widest <= maxColumns {
		return nil
	}
	return []offence{{"width " + name, widest, fmt.Sprintf("%s:%d: %d columns", name, at, widest)}}
}

// read counts a file's methods and returns its functions of too many branches.
func (r *room) read(name string, text []byte) ([]offence, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
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
		if n := complexity(f); n > maxComplexity {
			found = append(found, offence{"complexity " + path.Dir(name) + " " + function, n,
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
	case *ast.IndexListExpr:
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
