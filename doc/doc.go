// Package doc is what users look up, carried within the program.
//
//	text, err := doc.Topic("findings", "logits_dominate")
package doc

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.md
var files embed.FS

// made begins the parts of classification.md that are made from the signals of phases and from the rules.
const made = "<!-- From here on made from the"

// Topics are what can be looked up, those that reports name first.
func Topics() []string {
	topics := []string{"findings", "categories", "rules", "json", "signals"}
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".md"); name != "classification" && !slices.Contains(topics, name) {
			topics = append(topics, name)
		}
	}
	return topics
}

// Topic is a document, or of it the sections and rows of tables about a word; "" asks
// for all of it.
func Topic(name, word string) (string, error) {
	if !slices.Contains(Topics(), name) {
		return "", fmt.Errorf("no topic %q: there are %s", name, strings.Join(Topics(), ", "))
	}
	text := ""
	switch parts := strings.Split(read("classification"), made); name {
	case "categories":
		text = parts[0]
	case "signals":
		text = "# Signals\n\nEach is one way to tell what a program was doing. The first that speaks decides.\n" + body(parts[1])
	case "rules":
		text = "# Rules\n\nEach is one reason to say what an allocation is for. The surest claim decides.\n" + body(parts[2])
	default:
		text = read(name)
	}
	if word == "" {
		return text, nil
	}
	if found := about(text, word); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("nothing about %q among %s: there are %s", word, name, strings.Join(headings(text), ", "))
}

// Findings are the ids that a report's findings may have.
func Findings() (ids []string) {
	for line := range strings.Lines(read("findings")) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "### `"); ok {
			ids = append(ids, strings.TrimSuffix(id, "`"))
		}
	}
	return ids
}

// body is a text without its first line.
func body(text string) string {
	_, text, _ = strings.Cut(text, "\n")
	return text
}

func read(name string) string {
	b, err := files.ReadFile(name + ".md")
	if err != nil {
		panic(err) // they are part of the program
	}
	return string(b)
}

// level is that of a heading, 0 for other lines.
func level(line string) int {
	n := len(line) - len(strings.TrimLeft(line, "#"))
	if n > 0 && strings.HasPrefix(line[n:], " ") {
		return n
	}
	return 0
}

// title is a heading's text without marks.
func title(line string) string {
	return strings.Trim(strings.TrimSpace(strings.TrimLeft(line, "#")), "`")
}

// headings are the innermost of a text, which can be asked for.
func headings(text string) (out []string) {
	for line := range strings.Lines(text) {
		if level(line) > 1 {
			out = append(out, title(line))
		}
	}
	return out
}

// about are the sections whose heading is a word, else has it, else the rows of tables
// that begin with it.
func about(text, word string) string {
	for _, is := range []func(string) bool{
		func(heading string) bool { return strings.EqualFold(heading, word) },
		func(heading string) bool { return strings.Contains(strings.ToLower(heading), strings.ToLower(word)) },
	} {
		if found := sections(text, is); found != "" {
			return found
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| `"+word+"` |") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// sections are those with such a heading, each up to the next one that isn't within it.
func sections(text string, is func(heading string) bool) string {
	var b strings.Builder
	within := 0
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if n := level(line); n > 0 && !fenced {
			switch {
			case within > 0 && n > within:
			case n > 1 && is(title(line)):
				within = n
			default:
				within = 0
			}
		}
		if within > 0 {
			b.WriteString(line)
		}
	}
	return strings.TrimRight(b.String(), "\n") + strings.Repeat("\n", min(1, b.Len()))
}
