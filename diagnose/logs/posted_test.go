package logs_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/report"
)

// TestPosted: what people post is told right: how the run ended, what a figure is of, whose advice it is.
func TestPosted(t *testing.T) {
	data, err := os.ReadFile("testdata/posted.txtar")
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(data)
	text := map[string]string{}
	for _, f := range archive.Files {
		text[f.Name] = string(f.Data)
	}
	for line := range strings.Lines(string(archive.Comment)) {
		want := strings.Split(strings.TrimSpace(line), "\t")
		if len(want) < 2 {
			continue
		}
		t.Run(want[0], func(t *testing.T) {
			file, ok := text[want[0]]
			if !ok {
				t.Fatal("no such file")
			}
			if want[1] == "nothing" {
				if _, _, err := read.Evidence(strings.NewReader(file), want[0], 0); !errors.Is(err, read.ErrNothingKnown) {
					t.Errorf("something is read of it: %v", err)
				}
				return
			}
			doc := judged(t, input{name: want[0], text: file})
			said, failed := told(doc)
			if failed != (want[1] == "true") {
				t.Errorf("failed: %v, want %s: %s", failed, want[1], said)
			}
			must := true
			for _, expression := range want[2:] {
				if expression == "but" {
					must = false
				} else if regexp.MustCompile("(?i)"+expression).MatchString(said) != must {
					t.Errorf("%s is there: %v: %s", expression, !must, said)
				}
			}
		})
	}
}

// told is all that a report says, and whether it tells of a failure of memory.
func told(doc *report.Document) (said string, failed bool) {
	said = doc.Verdict.Text
	if doc.Verdict.Fix != nil {
		said += " " + *doc.Verdict.Fix
	}
	for _, f := range doc.Findings {
		fix := ""
		if f.Fix != nil {
			fix = *f.Fix
		}
		said += fmt.Sprint(" ", f.ID, " ", f.Title, " ", strings.Join(f.Evidence, " "), " ", fix)
		failed = failed || strings.HasPrefix(f.ID, "oom_") || f.ID == "host_out_of_memory"
	}
	return strings.Join(strings.Fields(said), " "), failed
}
