// Command collect gathers the licences of all that is linked into vramscope, on any platform and with any
// tags, from the modules as they were downloaded:
//
//	go run ./internal/licenses/collect
//
// rewrites texts.json.gz in the package above. Of a program that was built,
//
//	go run ./internal/licenses/collect -of vramscope -texts LICENSES.txt -sbom vramscope.cdx.json
//
// writes what it contains. A module without a licence is an error.
package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/licenses"
)

func main() {
	of := flag.String("of", "", "a `PROGRAM` that was built, of which -texts and -sbom are written")
	texts := flag.String("texts", "LICENSES.txt", "the `FILE` for the texts")
	sbom := flag.String("sbom", "vramscope.cdx.json", "the `FILE` for the list of components")
	version := flag.String("version", "devel", "the `VERSION` of the program")
	flag.Parse()
	var err error
	if *of != "" {
		err = built(*of, *texts, *sbom, *version)
	} else {
		err = collect("internal/licenses/texts.json.gz")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// built writes what a program contains.
func built(program, texts, sbom, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	l, missing := licenses.All().In(info)
	if len(missing) > 0 {
		return fmt.Errorf("no licence is known of %s: go run ./internal/licenses/collect", strings.Join(missing, ", "))
	}
	return errors.Join(write(texts, l.WriteText), write(sbom, func(w io.Writer) error { return l.WriteSBOM(w, version) }))
}

func write(name string, to func(io.Writer) error) error {
	var b bytes.Buffer
	if err := to(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// module is one that is linked, with the folders of its packages that are.
type module struct {
	path, version, dir string
	packages           []string
}

// systems and tags are what the program may be built for.
var (
	systems = []string{"linux", "darwin", "windows"}
	tags    = []string{"", "gs,s3"}
)

// linked are the modules of the program, on any system and with any tags.
func linked() ([]*module, error) {
	found := map[string]*module{}
	for _, system := range systems {
		for _, with := range tags {
			c := exec.Command("go", "list", "-deps", "-tags", with, "-f",
				"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", "./cmd/vramscope")
			c.Env, c.Stderr = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"), os.Stderr
			out, err := c.Output()
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(out)) {
				f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
				if len(f) != 4 {
					continue
				}
				if found[f[0]] == nil {
					found[f[0]] = &module{path: f[0], version: f[1], dir: f[2]}
				}
				found[f[0]].packages = append(found[f[0]].packages, f[3])
			}
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	all := []*module{{path: licenses.Standard, dir: strings.TrimSpace(string(root))}}
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense|notice|patents)([.-].*)?$`)

// files are the texts in a module's folder, and in those above its packages that are linked.
func (m *module) files() (names []string, err error) {
	folders := []string{m.dir}
	for _, p := range m.packages {
		for ; len(p) > len(m.dir); p = filepath.Dir(p) {
			folders = append(folders, p)
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && licenceFile.MatchString(e.Name()) {
				names = append(names, filepath.Join(folder, e.Name()))
			}
		}
	}
	if len(names) == 0 {
		names = []string{filepath.Join(m.dir, "README.md")} // a part of which it may be
	}
	return names, nil
}

// collector makes a list in which no text comes twice.
type collector struct {
	licenses.List
	place map[string]int
}

func (c *collector) add(kind, name, version, dir string, files []string) error {
	x := licenses.Component{Kind: kind, Name: name, Version: version}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		base := filepath.Base(file)
		plain := strings.ReplaceAll(string(text), "\r\n", "\n")
		if base == "README.md" {
			_, below, _ := strings.Cut(plain, "\nMIT License\n")
			plain = "MIT License\n" + below
		}
		if upper := strings.ToUpper(base); !strings.HasPrefix(upper, "NOTICE") && !strings.HasPrefix(upper, "PATENTS") {
			x.Licenses = append(x.Licenses, idsOf(plain)...)
		}
		at, ok := c.place[plain]
		if !ok {
			at = len(c.Texts)
			c.place[plain] = at
			c.Texts = append(c.Texts, plain)
		}
		shown, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		x.Files = append(x.Files, licenses.File{Name: filepath.ToSlash(shown), Text: at})
	}
	slices.Sort(x.Licenses)
	if x.Licenses = slices.Compact(x.Licenses); len(x.Licenses) == 0 {
		return fmt.Errorf("%s %s has no licence that is known: it can't be linked", name, version)
	}
	c.Components = append(c.Components, x)
	return nil
}

// known are licences by what stands in each, and in no other.
var known = []struct{ id, words, without string }{
	{"Apache-2.0", "apache license version 2.0", ""},
	{"Apache-2.0", "licensed under the apache license, version 2.0", ""},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy", ""},
	{"BSD-3-Clause", "or promote products derived from this software without specific prior written permission", ""},
	{"BSD-2-Clause", "redistribution and use in source and binary forms", "promote products derived from"},
	{"ISC", "distribute this software for any purpose with or without fee is hereby granted, provided that", ""},
	{"0BSD", "distribute this software for any purpose with or without fee is hereby granted.", ""},
	{"BSL-1.0", "boost software license - version 1.0", ""},
	{"MPL-2.0", "mozilla public license", ""},
	{"Zlib", "this software is provided 'as-is', without any express or implied warranty", ""},
	{"CC0-1.0", "cc0 1.0 universal", ""},
	{"Unlicense", "this is free and unencumbered software released into the public domain", ""},
}

// idsOf are the licences in a text, as SPDX calls them.
func idsOf(text string) (ids []string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, l := range known {
		if strings.Contains(text, l.words) && (l.without == "" || !strings.Contains(text, l.without)) {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// collect writes the list of all modules, and of the scripts in templates/echarts.
func collect(to string) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	c := collector{place: map[string]int{}}
	for _, m := range modules {
		files, err := m.files()
		if err == nil {
			err = c.add("golang", m.path, m.version, m.dir, files)
		}
		if err != nil {
			return err
		}
	}
	if err := c.scripts("templates/echarts"); err != nil {
		return err
	}
	return write(to, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(json.NewEncoder(z).Encode(c.List), z.Close())
	})
}

// scripts adds what a script is made of, whose texts lie beside it.
func (c *collector) scripts(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev              bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return err
	}
	var names []string
	for name, p := range lock.Packages {
		if name != "" && !p.Dev {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		p := lock.Packages[name]
		files := []string{filepath.Join(dir, "LICENSE"), filepath.Join(dir, "NOTICE")}
		if err := c.add("npm", strings.TrimPrefix(name, "node_modules/"), p.Version, dir, files); err != nil {
			return err
		}
		c.Components[len(c.Components)-1].Licenses = []string{p.License}
	}
	return nil
}
