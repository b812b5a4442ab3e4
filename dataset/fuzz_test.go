package dataset

import (
	"bytes"
	"io"
	"testing"
)

// FuzzOpenPart: whatever the file holds, it is read or refused, and what was
// read can be written.
func FuzzOpenPart(f *testing.F) {
	for _, table := range RunTables() {
		var b bytes.Buffer
		a, err := NewAppender(&b, Parquet, table)
		if err != nil {
			f.Fatal(err)
		}
		for i := range 3 {
			if err := a.Document(runName(i), someReport(i)); err != nil {
				f.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, table := range RunTables() {
			p, err := OpenPart(table, bytes.NewReader(data))
			if err != nil {
				continue
			}
			a, err := NewAppender(io.Discard, Parquet, table)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range p.Runs() {
				if err := a.Part(p, run); err != nil {
					return
				}
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
