// Package advice is the one catalogue of what helps: texts and code to paste, each
// with an id and the kinds of work that it applies to.
//
//	a := advice.Find("checkpointing")
//	fmt.Println(a.Text, a.Code)
//
// A text may hold placeholders in braces, which With fills in:
//
//	advice.Find("leak.growing_list").With("where", " (train.py:14)").Text
package advice

import (
	"cmp"
	"slices"
	"strings"
)

// Work is what a program does, several kinds of it together.
type Work uint8

const (
	Training Work = 1 << iota
	Inference
	Evaluation
	Saving
)

// Any is all kinds of work.
const Any = Training | Inference | Evaluation | Saving

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
	For  Work
	// Price is what it asks for, "" for nothing, and Name what it is called beside that.
	Price, Name string
}

// With is the advice with its placeholders filled in: names, each followed by what
// takes the place of it and its braces.
func (a Advice) With(pairs ...string) Advice {
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

// Find is the advice with an id. It is empty where there is none.
func Find(id string) Advice { return catalogue[id] }

// All are all of them, by id.
func All() []Advice {
	all := make([]Advice, 0, len(catalogue))
	for _, a := range catalogue {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Advice) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// catalogue holds all advice by id.
var catalogue = join(memory, causes, changes, leaks, peak)

// join makes one catalogue of several lists.
func join(lists ...[]Advice) map[string]Advice {
	all := map[string]Advice{}
	for _, list := range lists {
		for _, a := range list {
			if _, twice := all[a.ID]; twice {
				panic("advice: " + a.ID + " is given twice")
			}
			all[a.ID] = a
		}
	}
	return all
}
