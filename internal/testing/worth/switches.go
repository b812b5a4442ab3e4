package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// directive is the last line of the comment of a function that is a heuristic. With it off,
// the function returns what follows, nothing where it has no results, or does what stands
// in braces, which must return. A round of recordings that it was written with may come first.
//
//	//worth:off false
//	//worth:off { a.Heads = make([]bool, len(a.Stacks)); return }
//	//worth:off @3 nil
const directive = "//worth:off"

// heuristic is a function that can be left out.
type heuristic struct {
	id   string // package and function, and @ with a round where one is given
	file string
	at   int    // offset right behind the brace that opens the body
	does string // in place of its body, in braces
}

// heuristics are the marked functions below a folder, by their ids.
func heuristics(root string) ([]heuristic, error) {
	var found []heuristic
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		in, err := heuristicsOf(name)
		found = append(found, in...)
		return err
	})
	slices.SortFunc(found, func(a, b heuristic) int { return strings.Compare(a.id, b.id) })
	for k := 1; k < len(found); k++ {
		if found[k].id == found[k-1].id {
			return nil, fmt.Errorf("%s: %s has the name of a heuristic in %s", found[k].file, found[k].id, found[k-1].file)
		}
	}
	return found, err
}

func heuristicsOf(name string) (found []heuristic, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Doc == nil {
			continue
		}
		for _, line := range f.Doc.List {
			returns, ok := strings.CutPrefix(line.Text, directive)
			if !ok {
				continue
			}
			id, does := file.Name.Name+"."+f.Name.Name, strings.TrimSpace(returns)
			if strings.HasPrefix(does, "@") {
				round, rest, _ := strings.Cut(does, " ")
				id, does = id+round, strings.TrimSpace(rest)
			}
			if braced := strings.HasPrefix(does, "{"); !braced && (f.Type.Results != nil) != (does != "") {
				return nil, fmt.Errorf("%s: %s must name what %s returns when it is off, if anything", name, directive, f.Name.Name)
			} else if !braced {
				does = "{ return " + does + " }"
			}
			found = append(found, heuristic{id, name, set.Position(f.Body.Lbrace).Offset + 1, does})
		}
	}
	return found, nil
}

// switched are the sources of files with a switch at the beginning of each heuristic, on
// the same lines, and the source that names them.
func switched(all []heuristic) (sources map[string]string, ids string, err error) {
	sources = map[string]string{}
	var b strings.Builder
	b.WriteString("package off\n\nfunc init() {\n\tIDs = []string{\n")
	of := map[string][]int{}
	for n, h := range all {
		fmt.Fprintf(&b, "\t\t%q,\n", h.id)
		of[h.file] = append(of[h.file], n)
	}
	b.WriteString("\t}\n}\n")
	for name, numbers := range of {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, "", err
		}
		slices.SortFunc(numbers, func(x, y int) int { return all[y].at - all[x].at })
		source := string(text)
		for _, n := range numbers {
			h := all[n]
			source = source[:h.at] + fmt.Sprintf(" if off.At(%d) %s;", n, h.does) + source[h.at:]
		}
		clause := source[:strings.Index(source, "\npackage ")+1]
		if strings.HasPrefix(source, "package ") {
			clause = ""
		}
		rest := source[len(clause):]
		end := strings.IndexByte(rest, '\n')
		sources[name] = clause + rest[:end] + `; import "github.com/vramscope/vramscope/internal/testing/worth/off"` + rest[end:]
	}
	return sources, b.String(), nil
}
