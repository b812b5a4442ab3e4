// Package advice is the one catalogue of what helps: texts and code to paste, each
// with an id.
//
//	a := advice.Find("checkpointing=full", "at", " at train.py:14")
//	fmt.Println(a.Text, a.Code)
package advice

import (
	"cmp"
	_ "embed" // the catalogue
	"strings"
	"sync"
)

// Words for changes that recordings and logs lead to alike.
const (
	Expandable    = "expandable_segments:True" // helps most often against memory in pieces
	RaiseFraction = "memory_fraction"
	StopOthers    = "other_processes"
)

// Advice is one thing to change.
type Advice struct {
	ID   string
	Text string
	Code string // Python or a line for the shell, "" where there is nothing to paste
	// Price is in a list of costs what it does to the {peak} for what, "" for one without a price.
	Price string
}

// Find is the advice with an id, with its placeholders filled in: names, each followed by what takes the place of it and
// its braces. It is empty where there is none.
func Find(id string, pairs ...string) Advice {
	all, _ := catalogue()
	a := all[id]
	filled := make([]string, len(pairs))
	for i := range pairs {
		filled[i] = pairs[i]
		if i%2 == 0 {
			filled[i] = "{" + pairs[i] + "}"
		}
	}
	r := strings.NewReplacer(filled...)
	a.Text, a.Code = r.Replace(a.Text), r.Replace(a.Code)
	return a
}

// Text is the same for findings, without code.
func Text(id string, pairs ...string) *string { return new(Find(id, pairs...).Text) }

// Cost is free, compute or other: what a change asks for besides the change.
func Cost(id string) string {
	_, costs := catalogue()
	of, _, _ := strings.Cut(id, ".")
	return cmp.Or(costs[of], "free")
}

//go:embed catalogue.md
var text string

// catalogue holds all advice by id, and what those cost that aren't free, by the beginnings of ids.
var catalogue = sync.OnceValues(func() (all map[string]Advice, costs map[string]string) { return read(text) })

// read takes the catalogue apart; advice that refers to another is completed last.
func read(text string) (all map[string]Advice, costs map[string]string) {
	all, costs = map[string]Advice{}, map[string]string{}
	texts, codes := []string{}, []string{}
	for _, part := range strings.Split("\n"+text, "\n## ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		id, cost, _ := strings.Cut(strings.TrimSuffix(head, ")"), " (")
		if of, _, _ := strings.Cut(id, "."); cost != "" {
			costs[of] = cost
		}
		a := advice(id, body)
		texts, codes = append(texts, "{#"+id+"}", a.Text), append(codes, "{#"+id+"}", a.Code)
		all[id] = a
	}
	inTexts, inCodes := strings.NewReplacer(texts...), strings.NewReplacer(codes...)
	for id, a := range all {
		a.Text, a.Code = inTexts.Replace(a.Text), inCodes.Replace(a.Code)
		all[id] = a
	}
	return all, costs
}

// advice reads the lines below a heading.
func advice(id, body string) Advice {
	a := Advice{ID: id}
	body, _, _ = strings.Cut(body, "\n# ")
	for _, line := range strings.Split(body, "\n") {
		switch code, indented := strings.CutPrefix(line, "    "); {
		case indented:
			a.Code += "\n" + code
		case strings.HasPrefix(line, "> "):
			a.Price = line[2:]
		default:
			a.Text += " " + line
		}
	}
	a.Text, a.Code = strings.TrimSpace(a.Text), strings.TrimPrefix(a.Code, "\n")
	return a
}
