package budget

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
)

// Bounds of the names that tell what is trained; a real list has ten.
const (
	maxNames    = 64
	maxNameText = 4096
	maxNameSize = 500  // letters and choices of an expression, its repetitions written out
	maxAllSizes = 4096 // and of all of a list
)

// freezeNamed leaves weights as they are by their names: those that one list has, and those that another has not. It notes names
// that no weight has. Where a file's lists leave nothing to train, all is trained.
func freezeNamed(s Setting, mod *network.Model) (notes []string, err error) {
	switch aside := s.Inference || s.Adapts(); {
	case s.Frozen == "" && s.Trained == "", aside && s.NamesByFile:
		return nil, nil
	case aside:
		return nil, fmt.Errorf("--set frozen and trained are for training a part of the model: leave --inference and --lora out")
	}
	frozen, err := named("frozen", s.Frozen, s.NamesByFile, mod)
	if err != nil {
		return nil, err
	}
	trained, err := named("trained", s.Trained, s.NamesByFile, mod)
	if err != nil {
		return nil, err
	}
	if none := slices.Concat(frozen.none, trained.none); len(none) > 0 {
		notes = append(notes, fmt.Sprintf("no weight of this model is called %s; names are like %q: the peak may depend on it",
			strings.Join(none, ", "), mod.Params[len(mod.Params)-1].Name))
	}
	still := func(q *parameter) bool {
		return q.Trainable && !frozen.of[q] && (s.Trained == "" || trained.of[q])
	}
	if slices.ContainsFunc(mod.Params, still) {
		for _, q := range mod.Params {
			q.Trainable = still(q)
		}
		return notes, nil
	}
	if !s.NamesByFile {
		return nil, fmt.Errorf("--set frozen %q and trained %q leave nothing to train", network.Short(s.Frozen),
			network.Short(s.Trained))
	}
	return append(notes, "what is named as trained leaves nothing to train: all of the model is counted as trained"), nil
}

// weightsNamed are the weights of a list, and its words that none is called.
type weightsNamed struct {
	of   map[*parameter]bool
	none []string
}

// named tells the weights of a list of expressions and numbers of blocks. A user's that names none is a mistake.
func named(key, list string, byFile bool, mod *network.Model) (weightsNamed, error) {
	w := weightsNamed{of: map[*parameter]bool{}}
	words, err := Names(list)
	if err != nil {
		return w, fmt.Errorf("--set %s: %w", key, err)
	}
	for _, word := range words {
		if n, err := strconv.Atoi(word); err == nil {
			of := mod.Blocks
			first, last := max(len(of)+n, 0), len(of)
			if n > 0 {
				first, last = 0, min(n, len(of))
			}
			for q := range network.ParamsOf(of[first:last]) {
				w.of[q] = true
			}
			continue
		}
		re, names := regexp.MustCompile(`^(?:`+word+`)`), false
		for _, q := range mod.Params {
			if re.MatchString(q.Name) {
				w.of[q], names = true, true
			}
		}
		if !names { // may be a head that shares its weight
			w.none = append(w.none, strconv.Quote(network.Short(word)))
		}
	}
	if words != nil && len(w.of) == 0 && !byFile {
		return w, fmt.Errorf("--set %s: %q names none of this model's weights, as %q would", key, network.Short(list),
			network.Short(mod.Params[len(mod.Params)-1].Name))
	}
	return w, nil
}

// Names are the words of a list of expressions and numbers of blocks, with commas outside of all brackets. None of them is no
// expression by itself, or a large one.
func Names(list string) (words []string, err error) {
	if len(list) > maxNameText {
		return nil, fmt.Errorf("at most %d names in %d letters", maxNames, maxNameText)
	}
	all := 0
	for _, word := range atCommas(list) {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		re, err := syntax.Parse(word, syntax.Perl)
		if err != nil {
			return nil, fmt.Errorf("%q is no expression", network.Short(word))
		}
		size := expressionSize(re)
		if all += size; size > maxNameSize || all > maxAllSizes {
			return nil, fmt.Errorf("%q is too large an expression", network.Short(word))
		}
		if words = append(words, word); len(words) > maxNames {
			return nil, fmt.Errorf("at most %d names in %d letters", maxNames, maxNameText)
		}
	}
	return words, nil
}

// expressionSize is how large a program for an expression is, without one being made.
func expressionSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, x := range re.Sub {
		n += expressionSize(x)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// atCommas takes a list apart at commas outside of brackets.
func atCommas(list string) (words []string) {
	var open []byte
	start := 0
	for i := 0; i < len(list); i++ {
		c := list[i]
		class := len(open) > 0 && open[len(open)-1] == ']'
		switch {
		case c == '\\':
			i++
		case len(open) > 0 && c == open[len(open)-1]:
			open = open[:len(open)-1]
		case class:
		case c == '[':
			open = append(open, ']')
		case c == '(':
			open = append(open, ')')
		case c == '{':
			open = append(open, '}')
		case c == ',' && len(open) == 0:
			words, start = append(words, list[start:i]), i+1
		}
	}
	return append(words, list[start:])
}
