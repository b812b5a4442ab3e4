package recipe

import (
	"runtime"
	"strings"
	"testing"
)

// TestBombs: a small file whose decoding would take memory by a power of its size costs no
// more than its size; so does a large one, whether it is read or refused.
func TestBombs(t *testing.T) {
	again := strings.Repeat
	for name, text := range map[string]string{
		"dotted.toml":        again("a.", 20_000) + "a = 1\n",
		"dotted in file":     again("a.", 20_000) + "a = 1\n",
		"dotted lines.toml":  again(again("a.", 14)+"a = 1\n", 2_000),
		"table.toml":         "[" + again("a.", 20_000) + "a]\n",
		"tables.toml":        again("[["+again("a.", 15)+"b]]\n", 1_900),
		"inline.toml":        again("a = {", 20_000),
		"quoted.toml":        again("\"a\".", 20_000) + "a = 1\n",
		"hidden.toml":        "b = \"\"\"\"\"\"\n" + again("a.", 20_000) + "a = 1\n",
		"brackets.toml":      "a = " + again("[", 60_000),
		"keys.toml":          again("k = 1\n", 200_000),
		"flow.yaml":          again("[", 500_000),
		"flow closed.yaml":   again("[", 9_000) + again("]", 9_000),
		"dashes.yaml":        again("- ", 250_000),
		"questions.yaml":     again("? ", 250_000),
		"flow keys.yaml":     "{" + again("a,", 250_000) + "}",
		"aliases.yaml":       "a: &a [x,x]\n" + again("b: [*a,*a,*a,*a,*a,*a,*a,*a]\n", 10_000),
		"containers.yaml":    "image: x\nb: " + again("[", 500_000),
		"long.yaml":          again("k: v\n", 250_000),
		"objects.json":       again(`{"a":`, 200_000),
		"lists.json":         again("[", 1_000_000),
		"empty objects.json": `{"a":[` + again("{},", 340_000) + "{}]}",
		"words.sh":           "torchrun train.py " + again("--x y ", 170_000),
		"quotes.sh":          again("'", 1_000_000),
		"subshells.sh":       again("$(", 60_000),
		"ifs.sh":             again("if ", 40_000),
		"sums.sh":            "x $((" + again("(", 100_000),
		"defaults.sh":        "x " + again("${A:-", 20_000),
		"blocks.sh":          again("{ ", 60_000),
		"errors.sh":          again("x )\n", 30_000),
		"doubled.sh":         "A=" + again("y", 4_000) + again("\nA=$A$A", 10_000),
		"too long":           again("a = 1\n", 1<<20),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(name, strings.NewReader(text))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s is read", name)
		}
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+700*len(text)); took > most {
			t.Errorf("%s: %d bytes took %d, more than %d: %v", name, len(text), took, most, err)
		}
	}
}
