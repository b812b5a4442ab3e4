package budget

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
)

// measuredRow is one setting run through PyTorch's allocator, with the bytes
// at the moments of a step: [allocated, requested, reserved].
type measuredRow struct {
	ID      string           `json:"id"`
	Setting map[string]any   `json:"setting"`
	Config  map[string]any   `json:"config"`
	Class   string           `json:"model_class"`
	Load    []int64          `json:"load"`
	Steps   []map[string]any `json:"steps"`
	Start   []int64          `json:"start"`
	Prefill []int64          `json:"prefill_peak"`
}

func (r measuredRow) at(step int, moment string) float64 {
	if step >= len(r.Steps) {
		return 0
	}
	l, _ := r.Steps[step][moment].([]any)
	if len(l) < 2 {
		return 0
	}
	f, _ := l[1].(float64)
	return f
}

func readRows(t testing.TB, path string) []measuredRow {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 4<<20)
	var rows []measuredRow
	for sc.Scan() {
		var r measuredRow
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// setting turns a row's words into ours.
func (r measuredRow) setting() Setting {
	word := func(k string) string { s, _ := r.Setting[k].(string); return s }
	num := func(k string) int64 { f, _ := r.Setting[k].(float64); return int64(f) }
	flag := func(k string, def bool) bool {
		b, ok := r.Setting[k].(bool)
		if !ok {
			return def
		}
		return b
	}
	s := Setting{
		Batch: num("batch"), Sequence: num("seq"), DecoderSeq: num("dec_seq"), Precision: word("precision"), Attention: word("attn"),
		Optimizer: strings.ReplaceAll(word("optimizer"), "_", "-"), Padding: word("mask") == "padded", Accumulate: num("accum"),
		KeepGradients: !flag("set_to_none", true), DropOutputs: !flag("hold", true), Trainer: flag("trainer", false), UseCache: r.Setting["use_cache"] == nil,
		LoRA: num("lora"), LoRATargets: word("lora_targets"), LoRADtype: "fp32",
	}
	if word("lora_impl") == "hand" {
		s.LoRADtype = "model"
	}
	if word("ckpt") != "none" {
		s.Checkpointing = "full"
	}
	switch word("loss") {
	case "logits":
		s.Loss = "cross-entropy"
	case "chunked":
		s.Loss = "chunked"
	}
	if word("mode") == "infer" {
		s.Inference, s.UseCache, s.Cache, s.NewTokens = true, false, word("cache"), num("new_tokens")
		s.LastLogit = num("keep_logits") == 1
		s.Optimizer = ""
	}
	return s
}

// tolerance is what each folder of rows promises, as a share of the peak.
var tolerance = map[string]float64{
	"family": 0.005, "shape": 0.005, "loss": 0.005, "large": 0.005, "ckpt": 0.005, "padded": 0.005, "layers": 0.005, "reserved": 0.01,
	"others": 0.015, "optimizer": 0.01, "lora": 0.02, "infer": 0.01, "transient": 0.10,
}

func TestMeasuredSettings(t *testing.T) {
	checkRows(t, readRows(t, corpus.Path(t, "budget/measured.jsonl")))
}

// The project's own selection of rows says the same without the full list.
func TestMeasuredSelection(t *testing.T) {
	checkRows(t, readRows(t, "testdata/measured.jsonl"))
}

// Families that no published figure was at hand for, at small sizes: two
// layers each, so that a layer's own temporaries count for much.
func TestOtherFamilies(t *testing.T) {
	checkRows(t, readRows(t, "testdata/others.jsonl"))
}

func checkRows(t *testing.T, rows []measuredRow) {
	errs := map[string][]float64{}
	verbose := os.Getenv("BUDGET_ROWS")
	for _, r := range rows {
		folder := strings.SplitN(r.ID, "/", 2)[0]
		r.Config["architectures"] = []any{r.Class}
		c, err := newConfig(r.Config)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		b, err := Compute(c, r.setting())
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		var parts []string
		rel := func(name string, got int64, want float64) float64 {
			if want == 0 {
				return 0
			}
			e := float64(got)/want - 1
			parts = append(parts, fmt.Sprintf("%s %+.2f%%", name, 100*e))
			return e
		}
		var worst float64
		if r.Setting["mode"] == "infer" {
			want := float64(0)
			if len(r.Prefill) > 1 {
				want = float64(r.Prefill[1])
			}
			worst = math.Abs(rel("prefill", b.Phase(Prefill).Peak, want))
		} else {
			m := func(k string) float64 { return r.at(1, k) }
			rel("forward", b.Phase(Forward).End, m("forward"))
			rel("loss", max(b.Phase(Loss).Peak, b.Phase(Forward).Peak), max(m("loss_peak"), m("forward_peak")))
			rel("backward", b.Phase(Backward).Peak, m("backward_peak"))
			rel("optimizer", b.Phase(Optimizer).Peak, m("optimizer_peak"))
			first := func(k string) float64 { return r.at(0, k) }
			f := rel("first", b.FirstStep, max(first("forward_peak"), first("loss_peak"), first("backward_peak"), first("optimizer_peak")))
			worst = math.Abs(rel("peak", b.PeakBytes, max(m("loss_peak"), m("forward_peak"), m("backward_peak"), m("optimizer_peak"))))
			_ = f
		}
		errs[folder] = append(errs[folder], worst)
		limit := tolerance[folder]
		if folder == "infer" && strings.Contains(r.ID, "gpt2") {
			limit = 0.03
		}
		if worst > limit {
			t.Errorf("%s: %s", r.ID, strings.Join(parts, "  "))
		} else if verbose != "" && strings.Contains(r.ID, verbose) {
			t.Logf("%s: %s", r.ID, strings.Join(parts, "  "))
		}
	}
	for _, folder := range slices.Sorted(func(yield func(string) bool) {
		for k := range errs {
			if !yield(k) {
				return
			}
		}
	}) {
		e := errs[folder]
		slices.Sort(e)
		t.Logf("%-10s %4d rows  median %.3f%%  p90 %.3f%%  max %.3f%%", folder, len(e), 100*e[len(e)/2], 100*e[len(e)*9/10], 100*e[len(e)-1])
	}
}
