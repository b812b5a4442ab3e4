package budget

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
)

// Bounds of the names that tell what is trained; a real list has ten.
const (
	maxNames    = 256
	maxNameText = 4096
)

// freezeNamed leaves weights as they are by their names: those that one list has, and those that another has not.
func freezeNamed(s Setting, mod *network.Model) error {
	if s.Frozen == "" && s.Trained == "" {
		return nil
	}
	if s.Inference || s.Adapts() {
		return fmt.Errorf("--set frozen and trained are for training a part of the model: leave --inference and --lora out")
	}
	frozen, err := named("frozen", s.Frozen, mod)
	if err != nil {
		return err
	}
	trained, err := named("trained", s.Trained, mod)
	if err != nil {
		return err
	}
	some := false
	for _, q := range mod.Params {
		q.Trainable = q.Trainable && !frozen(q) && (s.Trained == "" || trained(q))
		some = some || q.Trainable
	}
	if !some {
		return fmt.Errorf("--set frozen %q and trained %q leave nothing to train", network.Short(s.Frozen),
			network.Short(s.Trained))
	}
	return nil
}

// named tells the weights of a list of expressions and numbers of blocks.
func named(key, list string, mod *network.Model) (func(q *parameter) bool, error) {
	words := strings.Split(list, ",")
	if len(list) > maxNameText || len(words) > maxNames {
		return nil, fmt.Errorf("--set %s: at most %d names in %d letters", key, maxNames, maxNameText)
	}
	var names []*regexp.Regexp
	blocks := map[*parameter]bool{}
	for _, word := range words {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		if n, err := strconv.Atoi(word); err == nil {
			of := mod.Blocks
			first, last := max(len(of)+n, 0), len(of)
			if n > 0 {
				first, last = 0, min(n, len(of))
			}
			for q := range network.ParamsOf(of[first:last]) {
				blocks[q] = true
			}
			continue
		}
		re, err := regexp.Compile(`^(?:` + word + `)`)
		if err != nil {
			return nil, fmt.Errorf("--set %s: %q is no expression", key, network.Short(word))
		}
		names = append(names, re)
	}
	is := func(q *parameter) bool {
		return blocks[q] || slices.ContainsFunc(names, func(re *regexp.Regexp) bool { return re.MatchString(q.Name) })
	}
	if list != "" && !slices.ContainsFunc(mod.Params, is) { // one of several may be a head that shares its weight
		return nil, fmt.Errorf("--set %s: %q names none of this model's weights, as %q would", key, network.Short(list),
			network.Short(mod.Params[len(mod.Params)-1].Name))
	}
	return is, nil
}
