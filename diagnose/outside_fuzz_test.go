package diagnose

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/report/markdown"
	writer "github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// FuzzEvidenceAlone judges whatever was read from any text, and writes it in
// every form but the page.
func FuzzEvidenceAlone(f *testing.F) {
	files, _ := filepath.Glob("../evidence/read/testdata/*.*")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && len(data) < 4<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kinds, ev, err := read.Evidence(bytes.NewReader(data), "x", 0)
		if err != nil {
			return
		}
		doc, err := Run([]Source{{Path: "x", Kind: kinds[0], Contains: kinds}}, ev, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if doc.Verdict.Text == "" {
			t.Error("no verdict")
		}
		for _, g := range doc.Findings {
			if g.Title == "" || g.Confidence <= 0 || g.Confidence > 1 || g.SavesBytes != nil && *g.SavesBytes <= 0 {
				t.Errorf("%+v", g)
			}
		}
		if _, err := json.Marshal(doc); err != nil {
			t.Error(err)
		}
		if err := writer.Write(io.Discard, view.Document(doc, view.Terminal), writer.Style{}); err != nil {
			t.Error(err)
		}
		if err := markdown.Write(io.Discard, view.Document(doc, view.Ticket)); err != nil {
			t.Error(err)
		}
	})
}
