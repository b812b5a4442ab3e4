package recipe

import (
	_ "embed"
	"strings"
)

// rowsText are what fields mean, below the name of a format or of rows that several have: by the flag that a field's number,
// word or share is for, by flags that it turns on ("when") or off ("unless"), or by a meaning's name. A star stands for a
// meaning that is said where the rows are asked for.
//
//go:embed rows.txt
var rowsText string

var meanings = map[string]meaning{
	"anyValue": anyValue, "attention": attention, "averaged": averaged, "axolotlPlugins": axolotlPlugins,
	"axolotlTargets": axolotlTargets,
	"cacheType":      cacheType, "compiledModel": compiledModel, "compileMode": compileMode, "float8": float8,
	"fused": fused, "lastBlocks": lastBlocks, "optimizerArguments": optimizerArguments, "swiftRatio": swiftRatio,
	"swiftFrozen": swiftFrozen, "swiftTrained": swiftTrained, "implementation": implementation, "liger": liger,
	"litgptModel":   litgptModel,
	"litgptTargets": litgptTargets, "loaded": loaded, "moduleList": moduleList, "none": none, "optimizer": optimizer,
	"packedAs": packedAs, "peftKind": peftKind, "preferences": preferences, "prefetch": prefetch,
	"recompute": recompute, "resharded": resharded, "schedule": schedule, "served": served, "shardings": shardings,
	"splitSequences": splitSequences, "stageInName": stageInName, "tensorParallel": tensorParallel,
	"titanCheckpointing": titanCheckpointing, "titanConfig": titanConfig, "torchtuneModel": torchtuneModel,
	"torchtuneTargets": torchtuneTargets, "unsloth": unsloth}

var (
	makers = map[string]func(string) meaning{"number": number, "word": word, "share": share, "atLeastNone": atLeastNone,
		"offloaded": offloaded, "bucket": bucket, "expressions": expressions,
		"shape": func(name string) meaning { return number(shapeFlag + name) }}
	wrappers = map[string]func(meaning) meaning{"adapted": adapted, "unpacked": unpacked, "autocast": autocast,
		"wholly": wholly}
)

// rowsOf are those of a format; what stars mean is given, in their order.
func rowsOf(format string, given ...meaning) (rows []row) {
	_, text, _ := strings.Cut(rowsText, "\n["+format+"]\n")
	text, _, _ = strings.Cut(text, "\n[")
	for line := range strings.Lines(text) {
		field, says, ok := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !ok:
		case says == "*":
			rows, given = append(rows, row{field, given[0]}), given[1:]
		default:
			rows = append(rows, row{field, meant(strings.Fields(says))})
		}
	}
	return rows
}

// meant is the meaning that words say.
func meant(words []string) meaning {
	head, rest := words[0], words[1:]
	var flags []Flag
	for _, w := range rest {
		name, value, _ := strings.Cut(w, "=")
		flags = append(flags, Flag{name, value})
	}
	switch {
	case head == "when":
		return when(flags...)
	case head == "unless":
		return unless(flags...)
	case wrappers[head] != nil:
		return wrappers[head](meant(rest))
	case makers[head] != nil && rest[0] == "MODEL":
		return makers[head](modelFlag)
	case makers[head] != nil:
		return makers[head](strings.TrimPrefix(rest[0], "-"))
	}
	return meanings[head]
}
