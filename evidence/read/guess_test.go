package read

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/guess"
)

// toldOf is what is read of a text, in few words.
func toldOf(text string) string {
	_, ev, err := Evidence(strings.NewReader(text), "in.txt", 0)
	if err != nil {
		return ""
	}
	var said []string
	for i := range ev.GPUs {
		g := &ev.GPUs[i]
		said = append(said, fmt.Sprintf("GPU %d: %d of %d MiB", g.GPU, evidence.Or(g.PeakUsedBytes, 0)>>20, evidence.Or(g.TotalBytes, 0)>>20))
	}
	for _, s := range ev.Steps {
		said = append(said, fmt.Sprintf("%d steps", s.Count))
		if s.MaxMemoryBytes != nil {
			said = append(said, fmt.Sprintf("at most %d MiB", *s.MaxMemoryBytes>>20))
		}
	}
	for i := range ev.OOMMessages {
		said = append(said, ev.OOMMessages[i].Quote)
	}
	return strings.Join(said, ", ")
}

// TestGuesses: every case of a guess is told right with it, and wrong without. The score of each is kept.
func TestGuesses(t *testing.T) {
	score := "guess      cases  right with  right without\n"
	for _, g := range guess.All {
		with, without := 0, 0
		for _, c := range g.Cases {
			if got := toldOf(c.Text); got == c.Told {
				with++
			} else {
				t.Errorf("%s: %q: %q, want %q", g.Name, c.Text, got, c.Told)
			}
			g.Without(func() {
				if toldOf(c.Text) == c.Told {
					without++
					t.Errorf("%s: %q needs no guess", g.Name, c.Text)
				}
			})
		}
		score += fmt.Sprintf("%-10s %5d %11d %14d\n", g.Name, len(g.Cases), with, without)
	}
	const file = "../guess/testdata/score.txt"
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(file, []byte(score), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != score {
		t.Errorf("%v: %s differs from\n%s", err, file, score)
	}
}
