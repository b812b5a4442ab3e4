package budget

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
)

type expectedModel struct {
	Name   string         `json:"name"`
	Config map[string]any `json:"config"`
	Total  int64          `json:"total"`
	Active int64          `json:"active"`
}

func readExpected(t *testing.T, path string) []expectedModel {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ms []expectedModel
	if err := json.Unmarshal(data, &ms); err != nil {
		t.Fatal(err)
	}
	return ms
}

func checkExpected(t *testing.T, ms []expectedModel) {
	for _, m := range ms {
		t.Run(m.Name, func(t *testing.T) {
			c, err := newConfig(m.Config)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Count(c)
			if err != nil {
				t.Fatal(err)
			}
			if n.Total != m.Total {
				t.Errorf("total %d, want %d (off by %d): %v", n.Total, m.Total, n.Total-m.Total, n.ByRole)
			}
			if n.Active != m.Active {
				t.Errorf("active %d, want %d", n.Active, m.Active)
			}
		})
	}
}

// Every published model counts to the parameter.
func TestParametersOfPublishedModels(t *testing.T) {
	ms := readExpected(t, "testdata/models.json")
	if len(ms) < 80 {
		t.Fatalf("only %d models", len(ms))
	}
	checkExpected(t, ms)
}

func TestParametersOfTheReferenceList(t *testing.T) {
	ms := readExpected(t, corpus.Path(t, "budget/expected.json"))
	if len(ms) < 86 {
		t.Fatalf("only %d models", len(ms))
	}
	for i := range ms {
		// The list has DeepSeek-V3's e_score_correction_bias among the parameters: 256 in each of 58 layers. It is a buffer.
		if strings.Contains(ms[i].Name, "(+e_score bias)") {
			ms[i].Total -= 58 * 256
			ms[i].Active -= 58 * 256
		}
	}
	checkExpected(t, ms)
}

// Real configuration files are all understood.
func TestRealConfigurations(t *testing.T) {
	corpus.Path(t, "budget/configs")
	for _, f := range corpus.Glob(t, "budget/configs/*.json") {
		if filepath.Base(f) == "SOURCES.json" {
			continue
		}
		t.Run(filepath.Base(f), func(t *testing.T) {
			r, err := os.Open(f)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			c, err := ReadConfig(r)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Count(c)
			if err != nil || n.Total == 0 {
				t.Fatalf("%d parameters, %v", n.Total, err)
			}
			t.Log(n.Total)
		})
	}
}
