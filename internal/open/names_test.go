package open

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A configuration or a labels file is read from the containers that
// recordings are read from, whatever its name.
func TestCompressedText(t *testing.T) {
	const config = `{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}`
	const labels = `{"schema": "vramscope.labels/1", "device": 0, "labels": [{"address": 512, "event": null, "category": "weights", "name": "w"}]}`
	for name, pack := range map[string]func(w io.Writer) (io.Writer, io.Closer, error){
		"plain": func(w io.Writer) (io.Writer, io.Closer, error) { return w, io.NopCloser(nil), nil },
		"gzip":  func(w io.Writer) (io.Writer, io.Closer, error) { z := gzip.NewWriter(w); return z, z, nil },
		"zstd": func(w io.Writer) (io.Writer, io.Closer, error) {
			z, err := zstd.NewWriter(w)
			return z, z, err
		},
		"zip": func(w io.Writer) (io.Writer, io.Closer, error) {
			z := zip.NewWriter(w)
			part, err := z.Create("text.json")
			return part, z, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := func(text string) (string, []byte) {
				var b bytes.Buffer
				w, c, err := pack(&b)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(w, text); err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return path, b.Bytes()
			}
			path, packed := file(config)
			if _, err := ReadConfig(path); err != nil {
				t.Error(err)
			}
			if _, err := ConfigFrom(bytes.NewReader(packed)); err != nil {
				t.Error(err)
			}
			path, _ = file(labels)
			var names Names
			if err := names.Labels(path); err != nil {
				t.Error(err)
			}
		})
	}
}
