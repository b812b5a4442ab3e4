package fakes3

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/vramscope/vramscope/store"
)

// Contents are the files of a place, a folder or a URL, by name.
func Contents(t *testing.T, name string) map[string]string {
	t.Helper()
	ctx := context.Background()
	p, err := store.Open(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	files := map[string]string{}
	for f, err := range p.List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Read(ctx, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		files[f.Name] = string(data)
	}
	return files
}

// Meter counts the bytes of answers, in Server.Before.
type Meter struct {
	http.ResponseWriter
	N *atomic.Int64
}

func (m *Meter) Write(b []byte) (int, error) {
	m.N.Add(int64(len(b)))
	return m.ResponseWriter.Write(b)
}
