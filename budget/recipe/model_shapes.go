package recipe

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/pattern"
)

//go:embed models.json
var modelsJSON []byte

// known is a published model: its names, and its configuration.
type known struct {
	Name       string         `json:"name"`
	Pattern    string         `json:"pattern"`
	Parameters int64          `json:"parameters"`
	Config     map[string]any `json:"config"`

	re *regexp.Regexp
}

var models = sync.OnceValue(func() []known {
	var ms []known
	if err := json.Unmarshal(modelsJSON, &ms); err != nil {
		panic("recipe: models.json: " + err.Error()) // a broken build, found by any test
	}
	for i := range ms {
		ms[i].re = regexp.MustCompile(`(^|-)(` + ms[i].Pattern + `)(-|$)`)
	}
	return ms
})

// SizeInName is a model's size as its name tells it, else an example of one.
func SizeInName(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	if m := sizeInName().FindStringSubmatch(name); m != nil && !ofExperts().MatchString(name) {
		return strings.ReplaceAll(m[2], "_", ".") + strings.ToUpper(m[3])
	}
	return "8B"
}

// Other says how large the model is that a file names, "" where that may be one of so many parameters.
func (r *Recipe) Other(parameters int64) string {
	if r.Shape != nil || r.Model == "" {
		return ""
	}
	said, tolerance := 0.0, 0.01
	if _, called := r.Config(); called != "" {
		for _, m := range models() {
			if m.Name == called {
				said = float64(m.Parameters)
			}
		}
	} else if m := sizeInName().FindStringSubmatch(r.Model); m != nil && !ofExperts().MatchString(r.Model) {
		said, _ = strconv.ParseFloat(strings.ReplaceAll(m[2], "_", "."), 64)
		said, tolerance = said*map[string]float64{"B": 1e9, "M": 1e6}[strings.ToUpper(m[3])], 0.4
	}
	if off := float64(parameters)/max(said, 1) - 1; said == 0 || math.Abs(off) <= tolerance {
		return ""
	}
	return fmt.Sprintf("%.3g billion parameters", said/1e9)
}

// ofExperts tells names that count the parameters of some experts only: 17B-16E.
var ofExperts = pattern.Of(`\d[bB]-\d+[eE]`)

var sizeInName = pattern.Of(`(^|[-_ ])(\d{1,4}(?:[._]\d{1,2})?)([bBmM])([-_. ]|$)`)

// Config is the configuration of the model that a recipe describes, or names by a name that
// published models have; called is the latter's usual name, "" where the recipe describes it.
func (r *Recipe) Config() (fields map[string]any, called string) {
	if r.Shape != nil {
		return maps.Clone(r.Shape), ""
	}
	name := strings.ToLower(strings.TrimRight(r.Model, "/"))
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.NewReplacer("_", "-", ".", "-", " ", "-").Replace(name)
	for _, m := range models() {
		if m.re.MatchString(name) {
			return maps.Clone(m.Config), m.Name
		}
	}
	return nil, ""
}
