package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/corpus"
)

// readCorpus reads a file that is not part of the project.
func readCorpus(t *testing.T, path string) ([]string, *evidence.Evidence) {
	t.Helper()
	data, err := os.ReadFile(corpus.Path(t, path))
	if err != nil {
		t.Fatal(err)
	}
	var in io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		if in, err = gzip.NewReader(in); err != nil {
			t.Fatal(err)
		}
	}
	kinds, ev, err := Evidence(in, filepath.Base(path), 0)
	if err != nil {
		t.Fatal(err)
	}
	return kinds, ev
}

// kindByManifest says what the manifest's names of kinds mean here.
var kindByManifest = map[string]string{
	"dmon": "nvidia_smi_dmon", "pmon": "nvidia_smi_pmon", "smi-q": "nvidia_smi_query", "smi-xml": "nvidia_smi_xml",
	"smi-csv": "nvidia_smi_csv", "smi-csv-noheader": "nvidia_smi_csv", "smi-csv-power": "nvidia_smi_csv",
	"smi-csv-utf16": "nvidia_smi_csv", "smi-csv-wrapped": "nvidia_smi_csv", "smi-custom": "nvidia_smi_csv",
	"smi-csv-compute-apps": "nvidia_smi_apps_csv", "smi-captures-all": "nvidia_smi_table", "smi-table-loop": "nvidia_smi_table",
	"smi-table-single": "nvidia_smi_table", "smi-table-in-log": "nvidia_smi_table", "memory-summary": "memory_summary",
	"oom": "oom_message", "oom-hip": "oom_message", "oom-titan": "oom_message", "steps-hf": "training_log",
	"steps-hf-ds": "training_log", "steps-megatron": "training_log", "steps-megatron-ds": "training_log",
	"steps-modded": "training_log", "steps-nanochat": "training_log", "steps-nanogpt": "training_log",
	"steps-torchtitan": "training_log", "steps-vllm": "training_log",
}

func TestCorpusManifest(t *testing.T) {
	manifest, err := os.ReadFile(corpus.Path(t, "logs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range strings.Split(strings.TrimSpace(string(manifest)), "\n")[1:] {
		cells := strings.Split(row, "\t")
		t.Run(cells[0], func(t *testing.T) {
			kinds, _ := readCorpus(t, "logs/"+cells[0])
			want, ok := kindByManifest[cells[1]]
			if !ok {
				t.Fatalf("the manifest has a new kind %q", cells[1])
			}
			if !strings.Contains(" "+strings.Join(kinds, " ")+" ", " "+want+" ") {
				t.Errorf("kinds %v, want %s among them", kinds, want)
			}
		})
	}
}

func TestCorpusTraces(t *testing.T) {
	manifest, err := os.ReadFile(corpus.Path(t, "kineto.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range strings.Split(strings.TrimSpace(string(manifest)), "\n")[1:] {
		cells := strings.Split(row, "\t")
		t.Run(cells[0], func(t *testing.T) {
			kinds, ev := readCorpus(t, "kineto/"+cells[0])
			events, _ := strconv.Atoi(cells[5])
			if cells[6] == "" {
				if kinds[0] != evidence.KindTimeline || ev.Timelines[0].Rows != events {
					t.Errorf("kinds %v, %+v, want a timeline of %d rows", kinds, ev.Timelines[0], events)
				}
				return
			}
			memory, _ := strconv.Atoi(cells[6])
			if kinds[0] != evidence.KindTrace || ev.Traces[0].MemoryEvents != memory || ev.Traces[0].Events != events {
				t.Errorf("kinds %v, %d memory events of %d, want %d of %d", kinds, ev.Traces[0].MemoryEvents, ev.Traces[0].Events,
					memory, events)
			}
		})
	}
}

// example is a file with values checked by hand.
type example struct {
	File     string   `json:"file"`
	Kind     string   `json:"kind"`
	Contains []string `json:"contains"`
	Checks   []check  `json:"checks"`
}

type check struct {
	Path  string  `json:"path"`
	Op    string  `json:"op"`
	Value any     `json:"value"`
	Rel   float64 `json:"rel"`
}

func runExamples(t *testing.T, examples []example) {
	for _, ex := range examples {
		t.Run(ex.File, func(t *testing.T) {
			folder := "logs"
			if strings.Contains(ex.File, "json") {
				folder = "kineto"
			}
			kinds, ev := readCorpus(t, folder+"/"+ex.File)
			if kinds[0] != ex.Kind || strings.Join(kinds, " ") != strings.Join(ex.Contains, " ") {
				t.Errorf("kinds %v, want %s first of %v", kinds, ex.Kind, ex.Contains)
			}
			text, err := json.Marshal(map[string]any{"evidence": ev})
			if err != nil {
				t.Fatal(err)
			}
			var doc any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			for _, c := range ex.Checks {
				if message := c.failure(selectPath(doc, c.Path)); message != "" {
					t.Errorf("%s %s %v: %s", c.Path, c.Op, c.Value, message)
				}
			}
		})
	}
}

var pathStep = regexp.MustCompile(`[^.\[\]]+|\[[0-9*]+\]`)

// selectPath follows a path such as evidence.gpus[*].processes[*].pid.
func selectPath(doc any, path string) []any {
	found := []any{doc}
	for _, step := range pathStep.FindAllString(path, -1) {
		var next []any
		for _, v := range found {
			switch {
			case step == "[*]":
				next = append(next, v.([]any)...)
			case step[0] == '[':
				i, _ := strconv.Atoi(step[1 : len(step)-1])
				if list := v.([]any); i < len(list) {
					next = append(next, list[i])
				}
			default:
				next = append(next, v.(map[string]any)[step])
			}
		}
		found = next
	}
	return found
}

// failure tells how the selected values miss the check, "" when they meet it.
func (c *check) failure(found []any) string {
	if strings.HasPrefix(c.Op, "len") && !strings.Contains(c.Path, "*") {
		if len(found) != 1 {
			return "no such list"
		}
		found = found[0].([]any)
	}
	want, _ := c.Value.(float64)
	sum, largest := 0.0, math.Inf(-1)
	for _, v := range found {
		if n, ok := v.(float64); ok {
			sum, largest = sum+n, max(largest, n)
		}
	}
	ok := len(found) > 0
	switch c.Op {
	case "len==":
		ok = len(found) == int(want)
	case "len>=":
		ok = len(found) >= int(want)
	case "max==":
		ok = largest == want
	case "sum==":
		ok = sum == want
	case "==":
		for _, v := range found {
			ok = ok && v == c.Value
		}
	case "≈":
		for _, v := range found {
			n, number := v.(float64)
			ok = ok && number && math.Abs(n-want) <= c.Rel*math.Abs(want)
		}
	case "contains":
		ok = false
		for _, v := range found {
			list, isList := v.([]any)
			if !isList {
				list = []any{v}
			}
			for _, w := range list {
				ok = ok || w == c.Value
			}
		}
	default:
		return "unknown operation"
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("found %v", found)
}

func TestCorpusExamples(t *testing.T) {
	text, err := os.ReadFile(corpus.Path(t, "evidence_examples.json"))
	if err != nil {
		t.Fatal(err)
	}
	var examples []example
	if err := json.Unmarshal(text, &examples); err != nil {
		t.Fatal(err)
	}
	runExamples(t, examples)
}

// TestCorpusByEye checks figures that were read in the files by a person.
func TestCorpusByEye(t *testing.T) {
	text, err := os.ReadFile("testdata/by_eye/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var examples []example
	if err := json.Unmarshal(text, &examples); err != nil {
		t.Fatal(err)
	}
	checks := 0
	for _, ex := range examples {
		checks += len(ex.Checks)
	}
	if checks < 30 {
		t.Fatalf("only %d figures", checks)
	}
	runExamples(t, examples)
}
