package recipe

import (
	_ "embed"
	"maps"
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// rowsText are what fields mean, below the name of a format or of rows that several have: by the flag that a field's number,
// word or share is for, by flags that it turns on ("when") or off ("unless"), or by a meaning's name. wordsText are meanings by
// the words of values, formatsText are the formats.
//
//go:embed rows.txt
var rowsText string

//go:embed words.txt
var wordsText string

//go:embed formats.txt
var formatsText string

// words are the meanings of words.txt, meanings those and others that rows name.
var (
	words    = tables()
	meanings = merged(words, map[string]meaning{
		"anyValue": anyValue, "axolotlPlugins": axolotlPlugins, "fused": fused, "fusedAdam": fusedAdam,
		"inPasses": inPasses, "lastBlocks": lastBlocks,
		"liger": when(Flag{"liger", "true"}, Flag{"loss", "fused"}), "litgptModel": litgptModel, "litgptTargets": litgptTargets,
		"loaded": loaded, "moduleList": moduleList, "none": none, "optimizerArguments": optimizerArguments, "prefetch": prefetch,
		"swiftFrozen": swiftFrozen, "swiftRatio": swiftRatio, "swiftTrained": swiftTrained,
		"tensorParallel": tensorParallel, "titanCheckpointing": titanCheckpointing, "titanConfig": titanConfig,
		"titanModel": titanModel, "torchtuneModel": torchtuneModel, "torchtuneTargets": torchtuneTargets})
)

var (
	makers = map[string]func(string) meaning{"number": number, "word": word, "share": share, "atLeastNone": atLeastNone,
		"bucket": bucket, "expressions": expressions, "factoryPrecision": factoryPrecision,
		"shape": func(name string) meaning { return number(shapeFlag + name) }}
	wrappers = map[string]func(meaning) meaning{"adapted": adapted, "unpacked": unpacked, "autocast": autocast,
		"wholly": wholly, "inFloat8": inFloat8, "byTensor": byTensor}
	ofFlags = map[string]func(...Flag) meaning{"when": when, "unless": unless, "aboveOne": aboveOne}
)

// tables are the meanings of words.txt.
func tables() map[string]meaning {
	all := map[string]meaning{}
	for section := range strings.SplitSeq(wordsText, "\n[") {
		name, rows, ok := strings.Cut(section, "]\n")
		if !ok {
			continue
		}
		var words []func() *regexp.Regexp
		var flags [][]Flag
		for line := range strings.Lines(rows) {
			if re, says, ok := strings.Cut(line, " ="); ok && line[0] != '#' {
				words, flags = append(words, pattern.Of(re)), append(flags, flagsOf(strings.Fields(says)))
			}
		}
		all[name] = func(v string, _ *fields) ([]Flag, bool) {
			for i, re := range words {
				if re().MatchString(strings.ToLower(v)) {
					return flags[i], true
				}
			}
			return nil, false
		}
	}
	return all
}

func merged(all, more map[string]meaning) map[string]meaning {
	all = maps.Clone(all)
	maps.Copy(all, more)
	return all
}

// flagsOf are flags as rows have them.
func flagsOf(words []string) (flags []Flag) {
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		flags = append(flags, Flag{name, value})
	}
	return flags
}

// readFormats reads the formats, whose faults any test finds.
func readFormats() (all []format) {
	for block := range strings.SplitSeq(formatsText, "\n\n") {
		name, lines, _ := strings.Cut(block, "\n")
		x := format{name: name}
		for line := range strings.Lines(lines) {
			words := strings.Fields(line)
			switch rest := words[1:]; words[0] {
			case "all":
				x.all = rest
			case "any":
				x.any = rest
			case "beside":
				x.beside = rest
			case "computes":
				x.computes = true
			case "always":
				x.always = flagsOf(rest)
			case "settle":
				x.settle = settles[rest[0]]
			case "rows":
				for _, section := range rest {
					at, section := cutLast(section, ":")
					x.rows = append(x.rows, rowsOf(section, at)...)
				}
			}
		}
		if len(x.rows) > 0 {
			all = append(all, x)
		}
	}
	return all
}

// cutLast cuts what stands before a sign, which may be nothing.
func cutLast(s, sign string) (before, after string) {
	i := strings.LastIndex(s, sign)
	return s[:max(i, 0)], s[i+1:]
}

// rowsOf are those of a section, of fields below a name.
func rowsOf(section, at string) (rows []row) {
	_, text, _ := strings.Cut(rowsText, "\n["+section+"]\n")
	text, _, _ = strings.Cut(text, "\n[")
	for line := range strings.Lines(text) {
		if field, says, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			rows = append(rows, row{at + field, meant(strings.Fields(says))})
		}
	}
	return rows
}

// meant is the meaning that words say.
func meant(words []string) meaning {
	head, rest := words[0], words[1:]
	switch {
	case head == "beside" || head == "where" || head == "except": // another field's value
		re, m := pattern.Of(rest[1]), meant(rest[2:])
		return func(v string, f *fields) ([]Flag, bool) {
			if fits := re().MatchString(strings.ToLower(f.values[rest[0]])); fits == (head == "except") {
				return nil, head != "beside"
			}
			return m(v, f)
		}
	case ofFlags[head] != nil:
		return ofFlags[head](flagsOf(rest)...)
	case wrappers[head] != nil:
		return wrappers[head](meant(rest))
	case makers[head] != nil && rest[0] == "MODEL":
		return makers[head](modelFlag)
	case makers[head] != nil:
		return makers[head](strings.TrimPrefix(rest[0], "-"))
	}
	return meanings[head]
}
