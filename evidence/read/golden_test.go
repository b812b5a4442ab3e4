package read

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

var update = flag.Bool("update", false, "write the expected evidence anew")

// golden is what is expected of an input: its kinds and its evidence, or the
// beginning of the error.
type golden struct {
	Kinds    []string           `json:"kinds"`
	Evidence *evidence.Evidence `json:"evidence"`
	Error    string             `json:"error,omitempty"`
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files in testdata: %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "README.md" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kinds, ev, err := Evidence(bytes.NewReader(data), name, 0)
			found := golden{Kinds: kinds, Evidence: ev}
			if err != nil {
				found.Error = err.Error()
			}
			text, err := json.MarshalIndent(found, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", "golden", name+".json"), append(text, '\n'))
		})
	}
}

func compare(t *testing.T, file string, found []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, found, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(found, want) {
		t.Errorf("%s differs; found\n%s", file, found)
	}
}

// TestInOnePiece reads every input byte by byte: what is found must not depend
// on how the bytes arrive.
func TestInOnePiece(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.*")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		whole, wholeEv, _ := Evidence(bytes.NewReader(data), "x", 0)
		parts, partsEv, _ := Evidence(&dripping{data}, "x", 0)
		if strings.Join(whole, " ") != strings.Join(parts, " ") {
			t.Errorf("%s: %v in one piece, %v in many", file, whole, parts)
		}
		a, _ := json.Marshal(wholeEv)
		b, _ := json.Marshal(partsEv)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: in one piece\n%s\nin many\n%s", file, a, b)
		}
	}
}

// dripping hands out three bytes at a time.
type dripping struct{ rest []byte }

func (d *dripping) Read(p []byte) (int, error) {
	n := copy(p, d.rest[:min(3, len(d.rest))])
	d.rest = d.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
