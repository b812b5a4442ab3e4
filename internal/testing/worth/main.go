// Command worth measures what each case of the classification is worth: every rule, every
// signal of phases and every heuristic among their helpers.
//
//	go run ./internal/testing/worth -corpus FOLDER
//	go run ./internal/testing/worth -only ID
//
// FOLDER has the labelled recordings below labelled/; without it no table is written, and
// single cases are measured on the shipped recordings. Helpers get their switches in copies of the sources that only this command
// compiles (go test -overlay); the program itself has none.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	corpus := flag.String("corpus", "", "folder with the labelled recordings")
	only := flag.String("only", "", "regular expression: measure cases of these names alone, print what they cost and write nothing")
	flag.Parse()
	if err := measure(*corpus, *only); err != nil {
		fmt.Fprintln(os.Stderr, "worth:", err)
		os.Exit(2)
	}
}

func measure(corpus, only string) error {
	switch {
	case corpus != "":
		var err error
		if corpus, err = filepath.Abs(corpus); err != nil {
			return err
		}
		if found, err := filepath.Glob(filepath.Join(corpus, "labelled", "*", "truth.json.gz")); err != nil || len(found) == 0 {
			return fmt.Errorf("%s has no labelled recordings", corpus)
		}
	case only == "":
		return fmt.Errorf("-corpus FOLDER is missing: the table is written from all labelled recordings or not at all")
	}
	work, err := os.MkdirTemp("", "worth")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	overlay, err := writeOverlay("classify", work)
	if err != nil {
		return err
	}
	test := exec.Command("go", "test", "-count=1", "-timeout=6h", "-overlay", overlay, "-v", "./classify", "-run", "^TestWorth$",
		"-ablate", "-only", only)
	test.Env = append(os.Environ(), "VRAMSCOPE_CORPUS="+corpus)
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	return test.Run()
}

// writeOverlay writes sources with switches below a folder and the file for go's -overlay.
func writeOverlay(root, folder string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	all, err := heuristics(root)
	if err != nil {
		return "", err
	}
	sources, ids, err := switched(all)
	if err != nil {
		return "", err
	}
	sources[filepath.Join(filepath.Dir(root), "internal", "testing", "worth", "off", "ids.go")] = ids
	replace := map[string]string{}
	for name, source := range sources {
		copied := filepath.Join(folder, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(copied, []byte(source), 0o644); err != nil {
			return "", err
		}
		replace[name] = copied
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}
