// Command site builds the project's site: the start page with the engine for the browser, the documents and a gallery.
// It needs the sources, Go and nothing else, and writes the same bytes each time.
//
//	go run ./site -o public
//
// The folder can lie below any path of any server of static files; public/vramscope.html works alone, from a disk.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	var b builder
	flag.StringVar(&b.out, "o", "public", "the `FOLDER` to write")
	flag.StringVar(&b.version, "version", "", "the version that the pages show (default: the Python package's)")
	flag.Parse()
	if err := b.build(); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// builder writes the site's files.
type builder struct {
	out, version string
	entries      []entry // of the search
}

func (b *builder) build() error {
	if b.version == "" {
		var err error
		if b.version, err = packageVersion(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		make func() error
	}{{"documents", b.documents}, {"gallery", b.gallery}, {"engine", b.engine}, {"start page", b.start}} {
		began := time.Now()
		if err := part.make(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Printf("%-12s %5.1f s\n", part.name, time.Since(began).Seconds())
	}
	return nil
}

func (b *builder) write(name string, content []byte) error {
	path := filepath.Join(b.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func (b *builder) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(b.out, filepath.FromSlash(name)))
}

var versionLine = regexp.MustCompile(`(?m)^__version__ = "([^"]+)"$`)

// packageVersion is the one that wheels have, too.
func packageVersion() (string, error) {
	text, err := os.ReadFile("python/vramscope/__init__.py")
	if err != nil {
		return "", err
	}
	found := versionLine.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("python/vramscope/__init__.py says no __version__")
	}
	return string(found[1]), nil
}
