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

// table lists the functions that are heuristics, below the folder that holds them: package and function, with @ and a number where
// they were written with a round of recordings, and what they do when they are off. They return what stands there, nothing where
// they have no results, or do what stands in braces, which must return.
//
//	helper	off
//	logits.twoScalars	false
//	logits.Heads@3	{ a.Heads = make([]bool, len(a.Stacks)); return }
const table = "testdata/switches.tsv"

// heuristic is a function that can be left out.
type heuristic struct {
	id   string // package and function, and @ with a round where one is given
	file string
	at   int    // offset right behind the brace that opens the body
	does string // in place of its body, in braces
}

// heuristics are the functions of a folder's table, by their ids.
func heuristics(root string) ([]heuristic, error) {
	text, err := os.ReadFile(filepath.Join(root, table))
	if err != nil {
		return nil, err
	}
	does, ids := map[string]string{}, map[string]string{} // by package and function
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		id, off, _ := strings.Cut(line, "\t")
		name, _, _ := strings.Cut(id, "@")
		does[name], ids[name] = off, id
	}
	var found []heuristic
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		in, err := heuristicsOf(name, does)
		found = append(found, in...)
		return err
	})
	slices.SortFunc(found, func(a, b heuristic) int { return strings.Compare(a.id, b.id) })
	for k := range found {
		name := found[k].id
		if k > 0 && name == found[k-1].id {
			return nil, fmt.Errorf("%s: %s has the name of a heuristic in %s", found[k].file, name, found[k-1].file)
		}
		found[k].id = ids[name]
		delete(ids, name)
	}
	for name := range ids {
		if err == nil {
			err = fmt.Errorf("%s: there is no function %s", table, name)
		}
	}
	return found, err
}

func heuristicsOf(name string, off map[string]string) (found []heuristic, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		id := file.Name.Name + "." + f.Name.Name
		does, ok := off[id]
		if !ok {
			continue
		}
		if braced := strings.HasPrefix(does, "{"); !braced && (f.Type.Results != nil) != (does != "") {
			return nil, fmt.Errorf("%s: %s must say what %s returns when it is off, if anything", name, table, f.Name.Name)
		} else if !braced {
			does = "{ return " + does + " }"
		}
		found = append(found, heuristic{id, name, set.Position(f.Body.Lbrace).Offset + 1, does})
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
