package sniff

import (
	"archive/zip"
	"bytes"
	"slices"
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
