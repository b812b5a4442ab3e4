package sniff

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Compression is the container that a file's first four bytes are of: "gzip",
// "zstd", "zip", or "" for none that is known. What is in a zstd file may come
// after a frame to be skipped, of which there are sixteen kinds.
func Compression(magic []byte) string {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}),
		len(magic) >= 4 && magic[0]>>4 == 5 && bytes.HasPrefix(magic[1:], []byte{0x2a, 0x4d, 0x18}):
		return "zstd"
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return "zip"
	}
	return ""
}

// Files are those of a zip less folders and what macOS notes of files.
func Files(z *zip.Reader) []*zip.File {
	return slices.DeleteFunc(slices.Clone(z.File), func(f *zip.File) bool { return beside(f.Name) })
}

func beside(name string) bool {
	return strings.HasSuffix(name, "/") || strings.HasPrefix(name, "__MACOSX/")
}

// isTar tells a tar archive by the mark of its first member, in any file system's form.
func isTar(head []byte) bool { return len(head) > 262 && string(head[257:262]) == "ustar" }

// tarNames are the members whose beginning a tar's beginning shows.
func tarNames(head []byte) (names []string) {
	t := tar.NewReader(bytes.NewReader(head))
	for {
		h, err := t.Next()
		if err != nil {
			return names
		}
		if h.Typeflag == tar.TypeReg && !beside(h.Name) {
			names = append(names, h.Name)
		}
	}
}

// Several says what a zip is of which not one file alone can be read.
func Several(files []*zip.File) string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return fmt.Sprintf("a zip of %d files%s", len(files), listed(names))
}

const (
	namesShown = 3
	nameShown  = 60
)

// listed are the first of an archive's names, as they may be shown.
func listed(names []string) string {
	var shown []string
	for _, name := range names[:min(len(names), namesShown)] {
		shown = append(shown, strconv.Quote(name[:min(len(name), nameShown)]))
	}
	if len(names) > namesShown {
		shown = append(shown, "…")
	}
	if shown == nil {
		return ""
	}
	return " (" + strings.Join(shown, ", ") + ")"
}
