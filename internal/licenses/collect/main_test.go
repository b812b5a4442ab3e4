package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModule: the licences of a module's own folder and of those above its linked packages; none is an error.
func TestModule(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const mit = "Permission is hereby granted, free of charge,\nto any person obtaining a copy"
	put("plain/LICENSE", mit)
	put("plain/NOTICE.txt", "a notice\r\n")
	put("plain/license_test.go", "")
	put("plain/in/COPYING", "Apache License\n  Version 2.0, January 2004")
	put("plain/in/deep/x.go", "")
	put("plain/other/LICENSE", "Mozilla Public License")
	put("readme/README.md", "# x\n\nMIT License\n\n"+mit)
	put("none/README.md", "all rights reserved")
	put("none/LICENSE", "all rights reserved")
	for _, c := range []struct{ name, packages, want, files string }{
		{"plain", "plain/in/deep", "Apache-2.0 MIT", "LICENSE NOTICE.txt in/COPYING"},
		{"plain", "plain", "MIT", "LICENSE NOTICE.txt"},
		{"readme", "readme", "MIT", "README.md"},
		{"none", "none", "", ""},
	} {
		m := &module{path: c.name, dir: filepath.Join(dir, c.name), packages: []string{filepath.Join(dir, c.packages)}}
		files, err := m.files()
		if err != nil {
			t.Fatal(err)
		}
		all := collector{place: map[string]int{}}
		if err := all.add("golang", m.path, "v1", m.dir, files); c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "no licence that is known") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range all.Components[0].Files {
			names = append(names, f.Name)
		}
		if got := strings.Join(all.Components[0].Licenses, " "); got != c.want || strings.Join(names, " ") != c.files {
			t.Errorf("%s: %s of %v, want %s of %s", c.name, got, names, c.want, c.files)
		}
	}
}
