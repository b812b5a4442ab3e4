package main

import (
	"fmt"
	"strconv"
	"strings"
)

// readOwed reads the list of what is known to break the limits: a name and its
// figure on each line.
func readOwed(text string) ([]offence, error) {
	var owed []offence
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		cut := strings.LastIndexByte(line, ' ')
		if cut < 1 {
			return nil, fmt.Errorf("%q is no name with its figure", line)
		}
		name := line[:cut]
		figure, err := strconv.Atoi(line[cut+1:])
		switch {
		case err != nil || figure <= 0:
			return nil, fmt.Errorf("%q is no name with its figure", line)
		case seen[name]:
			return nil, fmt.Errorf("%q is there twice", name)
		}
		seen[name] = true
		owed = append(owed, offence{name: name, figure: figure})
	}
	return owed, nil
}

func writeOwed(list []offence) string {
	var b strings.Builder
	for _, o := range list {
		fmt.Fprintf(&b, "%s %d\n", o.name, o.figure)
	}
	return b.String()
}

// lowered is the list after what has become smaller: it takes no new name in, and
// raises no figure.
func lowered(owed, found []offence) []offence {
	now := figures(found)
	var less []offence
	for _, o := range owed {
		if n, still := now[o.name]; still {
			less = append(less, offence{name: o.name, figure: min(o.figure, n)})
		}
	}
	return less
}

// against says what differs between the list and what was found.
func against(owed, found []offence) (wrong []string) {
	known, now := figures(owed), figures(found)
	for _, o := range found {
		switch n, listed := known[o.name]; {
		case !listed:
			wrong = append(wrong, o.text+": make it smaller")
		case o.figure > n:
			wrong = append(wrong, fmt.Sprintf("%s: it was %d, and may only become less", o.text, n))
		}
	}
	for _, o := range owed {
		if now[o.name] < o.figure {
			wrong = append(wrong, fmt.Sprintf("%s is less than the %d of owed.txt: go test ./internal/testing/house -update takes that down",
				o.name, o.figure))
		}
	}
	return wrong
}

func figures(list []offence) map[string]int {
	by := map[string]int{}
	for _, o := range list {
		by[o.name] = o.figure
	}
	return by
}
