package mcp

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

// TestLines: whatever a line holds, the server answers it and the next one.
func TestLines(t *testing.T) {
	s, err := New(Options{Roots: []string{t.TempDir()}, Timeout: time.Minute, MaxBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	in, client := io.Pipe()
	server, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), Lines(in, out)) }()
	answers := bufio.NewReader(server)
	ask := func(line string) (id any, code int) {
		t.Helper()
		go io.WriteString(client, line+"\n") // the answer may come before all of it was read
		text, err := answers.ReadBytes('\n')
		var answer struct {
			ID    any
			Error struct{ Code int }
		}
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			t.Fatalf("%.60q: %s, %v", line, text, err)
		}
		return answer.ID, answer.Error.Code
	}
	good := `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	if id, code := ask(`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); id != 7.0 || code != 0 {
		t.Fatal(id, code)
	}
	for _, c := range []struct {
		line string
		code int
	}{
		{"{", -32700},
		{"\xff", -32700},
		{"\x00", -32700},
		{"nothing", -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, -32700},
		{strings.Repeat("[", 100_000), -32700},
		{strings.Repeat("x", 2_000_000), -32600},
		{"null", -32600},
		{"[]", -32600},
		{"[" + good + "]", -32600},
		{`"x"`, -32600},
		{"{}", -32600},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":3}`, -32600},
	} {
		if id, code := ask(c.line); id != nil || code != c.code {
			t.Errorf("%.60q: id %v, code %d, want %d", c.line, id, code, c.code)
		}
		if id, code := ask("  \n\r\n" + good); id != 7.0 || code != 0 {
			t.Errorf("after %.60q: id %v, code %d", c.line, id, code)
		}
	}
	client.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// FuzzLines: a line is either taken by the SDK's decoder, or it has a code.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"method":"ping"}`))
	f.Add([]byte("{}\n[]\n\n\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var said strings.Builder
		w := &writer{out: &said}
		r := &reader{in: strings.NewReader(""), lines: bufio.NewReaderSize(strings.NewReader(string(text)), 64), out: w}
		passed, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(passed)) {
			if code, why := refusal([]byte(line)); code != 0 {
				t.Errorf("%q was passed on: %s", line, why)
			}
		}
		for line := range strings.Lines(said.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("answered %q", line)
			}
		}
	})
}
