package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/corpus"
)

// read parses a log with or without templates.
func read(log []byte, templates bool) string {
	var p Parser
	var steps []string
	p.OnStep = func(s evidence.Step) { steps = append(steps, fmt.Sprintf("%+v", s)) }
	for i, line := range bytes.Split(log, []byte("\n")) {
		if !templates || !p.Again(i+1, line) {
			p.Line(i+1, line)
		}
	}
	return all(p.Finish()) + strings.Join(steps, "\n")
}

// all is everything that a log holds, without the addresses of its figures.
func all(r *Report) string {
	facts, err := json.Marshal([]any{r.OOMs, r.Summaries, r.Log, r.Known})
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s\n%+v\n", facts, r.Steps.Curve)
	for _, m := range r.OOMs {
		text += fmt.Sprintln(m.OwnFile, m.OwnLine, m.Scene, m.AfterStep, m.WentOn, m.UpToStep, m.Handled, m.Backend, m.By, m.OtherProcesses,
			evidence.Or(m.AllowedBytes, unknown), evidence.Or(m.BesideBytes, unknown), evidence.Or(m.PrivatePoolBytes, unknown))
	}
	return text
}

// TestTemplates reads logs with templates, which must change nothing.
func TestTemplates(t *testing.T) {
	files, err := filepath.Glob("../read/testdata/*.*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, corpus.Glob(t, "logs/*")...) {
		log, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if with, without := read(log, true), read(log, false); with != without {
			t.Errorf("%s: with templates\n%.2000s\nwithout\n%.2000s", filepath.Base(file), with, without)
		}
	}
}

// TestTemplatesMatch shows which lines are taken for the same again.
func TestTemplatesMatch(t *testing.T) {
	first := "step 10 | loss: 2.50 | dt: 12.5ms | mem 1.50 GiB"
	for _, test := range []struct {
		line  string
		again bool
	}{
		{"step 11 | loss: 2.49 | dt: 13.1ms | mem 1.50 GiB", true},
		{"step 1,100 | loss: 12 | dt: 9ms | mem 11.5 GiB", true},
		{"step 11 | loss: -2.49 | dt: 13.1ms | mem 1.50 GiB", false},
		{"step 11 | loss: nan | dt: 13.1ms | mem 1.50 GiB", false},
		{"step 11 | loss: 2.49 | dt: 13.1s | mem 1.50 GiB", true},
		{"step 11 | loss: 2.49 | dt: 13.1ms | mem 1.50 GiB | val_loss: 2", false},
		{"step 11 | loss: 2.49", false},
		{"step", false},
	} {
		var p Parser
		p.Line(1, []byte(first))
		if again := p.Again(2, []byte(test.line)); again != test.again {
			t.Errorf("%q: again %v", test.line, again)
		}
	}
}
