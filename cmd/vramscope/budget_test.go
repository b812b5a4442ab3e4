package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// budgetRun runs the command and returns what it printed.
func budgetRun(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append([]string{"budget"}, args...), strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

func llamaFile(t *testing.T, extra string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.json")
	text := `{"model_type":"llama","num_hidden_layers":4,"hidden_size":512,"num_attention_heads":8,"intermediate_size":1024,"vocab_size":1000` + extra + `}`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestBudgetJSON(t *testing.T) {
	for name, args := range map[string][]string{
		"training": {"--batch", "2", "--seq", "256", "--gpu", "H100 80GB", "--vocab", "500"},
		"serving":  {"--inference", "--context", "512", "--gpu", "24GiB"},
		"solved":   {"--solve", "batch", "--gpu", "4GiB", "--seq", "512"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := budgetRun(t, append(args, "--config", llamaFile(t, ""), "--format", "json")...)
			if code != exitFine {
				t.Fatal(code, errs)
			}
			var d map[string]any
			if err := json.Unmarshal([]byte(out), &d); err != nil {
				t.Fatal(err)
			}
			for _, k := range []string{"schema", "model", "setting", "categories", "phases", "peak_bytes", "peak_phase", "first_step_peak_bytes", "reserved_bytes", "total_device_bytes", "fits", "notes"} {
				if _, ok := d[k]; !ok {
					t.Errorf("no field %s", k)
				}
			}
			for _, k := range []string{"phases", "fits", "ladder", "notes"} {
				if _, ok := d[k].([]any); !ok {
					t.Errorf("%s is no list: %v", k, d[k])
				}
			}
			if d["schema"] != "vramscope.budget/1" {
				t.Errorf("schema %v", d["schema"])
			}
			var sum float64
			for _, v := range d["categories"].(map[string]any) {
				sum += v.(float64)
			}
			if sum != d["peak_bytes"].(float64) {
				t.Errorf("categories sum to %.0f, the peak is %.0f", sum, d["peak_bytes"])
			}
			fit := d["fits"].([]any)[0].(map[string]any)
			for _, k := range []string{"gpu", "capacity_bytes", "fits", "max_batch", "max_sequence"} {
				if _, ok := fit[k]; !ok {
					t.Errorf("fits without %s", k)
				}
			}
			if name == "solved" && fit["fits"] != true {
				t.Error("the solved batch does not fit")
			}
		})
	}
}

// A solution fits and the next larger one does not.
func TestBudgetSolves(t *testing.T) {
	file := llamaFile(t, "")
	at := func(n string) string {
		out, errs, code := budgetRun(t, "--config", file, "--seq", "512", "--gpu", "2GiB", "--batch", n, "--no-ladder")
		if code != exitFine {
			t.Fatal(errs)
		}
		return out
	}
	out, errs, _ := budgetRun(t, "--config", file, "--seq", "512", "--gpu", "2GiB", "--solve", "batch", "--format", "json")
	var d struct {
		Solved struct{ Value int } `json:"solved"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Solved.Value < 1 {
		t.Fatal(out, errs, err)
	}
	n := d.Solved.Value
	if s := at(strconv.Itoa(n)); !strings.HasPrefix(s, "FITS") {
		t.Errorf("batch %d: %s", n, s[:60])
	}
	if s := at(strconv.Itoa(n + 1)); !strings.HasPrefix(s, "DOES NOT FIT") {
		t.Errorf("batch %d: %s", n+1, s[:60])
	}
}

// TestBudgetQuiet: -q is --quiet, as of the other commands.
func TestBudgetQuiet(t *testing.T) {
	file := llamaFile(t, "")
	long, _, _ := budgetRun(t, "--config", file, "--quiet")
	short, errs, code := budgetRun(t, "--config", file, "-q")
	if code != exitFine || short != long || strings.Count(short, "\n") != 1 {
		t.Errorf("code %d, %q, %q, with --quiet %q", code, short, errs, long)
	}
}

// Bad flags get one sentence and exit code 2.
func TestBudgetRefusals(t *testing.T) {
	good := llamaFile(t, "")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no model":        {nil, "--config FILE, --model FILE or --params"},
		"two models":      {[]string{"--config", good, "--params", "8B"}, "one of"},
		"unknown family":  {[]string{"--config", llamaFile(t, `,"model_type":"quantum"`)}, "quantum"},
		"missing file":    {[]string{"--config", "nowhere.json"}, "nowhere.json"},
		"no JSON":         {[]string{"--config", "budget_test.go"}, "budget_test.go"},
		"batch 0":         {[]string{"--config", good, "--batch", "0"}, "--batch 0"},
		"ZeRO on one GPU": {[]string{"--config", good, "--zero", "3"}, "at least two"},
		"heads":           {[]string{"--config", good, "--tp", "3"}, "does not divide"},
		"overflow":        {[]string{"--config", good, "--batch", "999999999999", "--seq", "999999999999"}, "2^62"},
		"format":          {[]string{"--config", good, "--format", "pdf"}, "pdf"},
		"output":          {[]string{"--config", good, "-o", "x.pdf"}, "x.pdf"},
		"device":          {[]string{"--config", good, "--gpu", "toaster"}, `vramscope: --gpu: "toaster" is neither`},
		"solve":           {[]string{"--config", good, "--gpu", "H100", "--solve", "world"}, "world"},
		"size":            {[]string{"--params", "8Q"}, "8Q"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := budgetRun(t, tt.args...)
			if code != exitUnusable || !strings.Contains(errs, tt.want) || strings.Count(strings.TrimSpace(errs), "\n") > 0 || out != "" {
				t.Errorf("code %d, %q, %q", code, out, errs)
			}
		})
	}
}

// Files are written in the format of their name, and the page is safe with a
// hostile name in it.
func TestBudgetFiles(t *testing.T) {
	dir := t.TempDir()
	var args []string
	for _, f := range []string{"a.html", "a.json", "a.md", "a.txt", "B.HTM"} {
		args = append(args, "-o", filepath.Join(dir, f))
	}
	_, errs, code := budgetRun(t, append(args, "--config", llamaFile(t, ""), "--gpu", "24GiB")...)
	if code != exitFine {
		t.Fatal(errs)
	}
	page, err := os.ReadFile(filepath.Join(dir, "a.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"default-src &#39;none&#39;", `class="stackbar"`, "24GiB", "</html>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"http://", "https://", "<script src", "src="} {
		if strings.Contains(strings.ReplaceAll(string(page), "default-src=", ""), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("temporary files left: %v", left)
	}
	out, errs, _ := budgetRun(t, "--config", llamaFile(t, `,"model_type":"<script>alert(1)</script>"`), "--format", "html")
	if strings.Contains(out+errs, "<script>alert(1)</script>") && out != "" {
		t.Error("a name ran")
	}
}

// What a configuration says steers neither a terminal nor a page, and is no markup.
func TestBudgetNamesDontSteer(t *testing.T) {
	file := llamaFile(t, `,"quantization_config":{"quant_method":"x\u001b[31mEVIL\u202e @user <b>[l](http://e)","bits":4}`)
	for format, bad := range map[string]string{"text": "\x1b \u202e", "markdown": "\x1b \u202e <b> @user [l](", "html": "\u202e <b>[l]"} {
		out, errs, code := budgetRun(t, "--config", file, "--format", format)
		if code != exitFine || !strings.Contains(out, "EVIL\uFFFD") && !strings.Contains(out, `EVIL\u202e`) && !strings.Contains(out, `EVIL\\u202e`) {
			t.Errorf("%s: code %d, %q: the name isn't there", format, code, errs)
		}
		for _, s := range strings.Fields(bad) {
			if strings.Contains(out, s) {
				t.Errorf("%s has %q", format, s)
			}
		}
	}
}

// That nothing fits is said in every format.
func TestBudgetSolvesNothing(t *testing.T) {
	for _, format := range []string{"text", "markdown", "html"} {
		out, errs, code := budgetRun(t, "--params", "70B", "--gpu", "24GiB", "--solve", "batch", "--format", format)
		if code != exitFine || !strings.Contains(out, "No batch fits 24GiB; the setting below is the one given.") {
			t.Errorf("%s: code %d, %q, %.300s", format, code, errs, out)
		}
	}
}

// A quantised checkpoint has its bytes from its tensors and everything else
// from the config.json beside it; a precision that is asked for unpacks it.
func TestBudgetQuantized(t *testing.T) {
	const hidden, layers, words = 512, 4, 1000
	header := map[string]any{"model.embed_tokens.weight": tensor("BF16", words, hidden), "lm_head.weight": tensor("BF16", words, hidden), "model.norm.weight": tensor("BF16", hidden)}
	want := 2 * (2*words*hidden + hidden)
	for i := range layers {
		at := "model.layers." + strconv.Itoa(i) + "."
		for _, n := range []string{"input_layernorm", "post_attention_layernorm"} {
			header[at+n+".weight"] = tensor("BF16", hidden)
			want += 2 * hidden
		}
		for n, shape := range map[string][2]int{"self_attn.q_proj": {hidden, hidden}, "self_attn.k_proj": {hidden, hidden}, "self_attn.v_proj": {hidden, hidden}, "self_attn.o_proj": {hidden, hidden},
			"mlp.gate_proj": {1024, hidden}, "mlp.up_proj": {1024, hidden}, "mlp.down_proj": {hidden, 1024}} {
			out, in := shape[0], shape[1]
			header[at+n+".qweight"], header[at+n+".qzeros"], header[at+n+".scales"] = tensor("I32", in, out/8), tensor("I32", in/128, out/8), tensor("F16", in/128, out)
			want += in*out/2 + in/128*out/2 + in/128*out*2
		}
	}
	data, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	config := llamaFile(t, `,"quantization_config":{"quant_method":"awq","bits":4}`)
	file := filepath.Join(filepath.Dir(config), "model.safetensors")
	data = append(binary.LittleEndian.AppendUint64(nil, uint64(len(data))), data...)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "alone.safetensors")
	if err := os.WriteFile(alone, data, 0o600); err != nil {
		t.Fatal(err)
	}
	const parameters = 2*words*hidden + hidden + layers*(2*hidden+4*hidden*hidden+3*hidden*1024)
	for name, tt := range map[string]struct {
		args    []string
		weights int
		note    string
	}{
		"checkpoint":                  {[]string{"--model", file}, want, "AWQ"},
		"configuration":               {[]string{"--config", config}, want, "(awq, 4 bits)"},
		"checkpoint, precision given": {[]string{"--model", file, "--precision", "bf16"}, 2 * parameters, ""},
		"precision given":             {[]string{"--config", config, "--precision", "bf16"}, 2 * parameters, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := budgetRun(t, append(tt.args, "--inference", "--seq", "64", "--format", "json")...)
			var d struct {
				Model   struct{ Parameters int }
				Weights int `json:"weights_bytes"`
				Notes   []string
			}
			if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitFine {
				t.Fatal(code, errs, err)
			}
			if d.Model.Parameters != parameters || d.Weights != tt.weights || !strings.Contains(strings.Join(d.Notes, "\n"), tt.note) {
				t.Errorf("%d parameters in %d bytes, want %d in %d; %q", d.Model.Parameters, d.Weights, parameters, tt.weights, d.Notes)
			}
		})
	}
	if out, errs, code := budgetRun(t, "--model", alone, "--inference"); code != exitUnusable || out != "" || !strings.Contains(errs, "packed shapes do not tell the model") {
		t.Errorf("without a configuration: code %d, %q, %q", code, out, errs)
	}
}

// A config.json that can't be used is told of, not passed over; a checkpoint in
// a store is refused by name.
func TestBudgetBesideBrokenConfig(t *testing.T) {
	header, err := json.Marshal(map[string]any{"model.embed_tokens.weight": tensor("BF16", 1000, 512), "model.norm.weight": tensor("BF16", 512),
		"model.layers.0.self_attn.q_proj.weight": tensor("BF16", 512, 512), "model.layers.0.mlp.up_proj.weight": tensor("BF16", 1024, 512)})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(file, append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{ // the first time there is none
		{"", ""}, {`{"model_type":`, "config.json: offset 14: not a model configuration"}, {`{"model_type":"nonesuch-v3"}`, "nonesuch-v3"},
	} {
		config, want := c[0], c[1]
		if config != "" {
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), "config.json"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, errs, code := budgetRun(t, "--model", file, "--seq", "64", "--format", "json")
		var d struct{ Notes []string }
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitFine {
			t.Fatal(code, errs, err)
		}
		if told := strings.Join(d.Notes, "\n"); !strings.Contains(told, want) || strings.Contains(told, "config.json") != (want != "") {
			t.Errorf("beside %q: %q, want %q", config, told, want)
		}
	}
	if out, errs, code := budgetRun(t, "--model", "file://"+file, "--seq", "64", "--quiet"); code != exitFine || out == "" {
		t.Errorf("by its URL: code %d, %q", code, errs)
	}
	if _, errs, code := budgetRun(t, "--model", "s3://bucket/model.safetensors"); code != exitUnusable || !strings.Contains(errs, "s3://bucket/model.safetensors: a checkpoint must be a file here") {
		t.Errorf("in a store: code %d, %q", code, errs)
	}
}

// Learned positions end the default sequence, what is solved for and the
// table's column, and that is said; more tokens that are asked for are refused.
func TestBudgetLearnedPositions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"model_type":"bert"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"default": nil, "solved": {"--solve", "seq"}, "serving": {"--inference"}} {
		out, errs, code := budgetRun(t, append(args, "--config", file, "--gpu", "H100 80GB", "--format", "json")...)
		var d struct {
			Setting struct{ Sequence int }
			Fits    []struct {
				Longest int `json:"max_sequence"`
			}
			Notes []string
		}
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitFine {
			t.Fatal(name, code, errs, err)
		}
		if d.Setting.Sequence != 512 || d.Fits[0].Longest != 512 || !strings.Contains(strings.Join(d.Notes, "\n"), "512 learned positions") {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if out, errs, code := budgetRun(t, "--config", file, "--seq", "513"); code != exitUnusable || out != "" || !strings.Contains(errs, "--seq 513") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
}

// A length that is asked of a model of pictures is said to be nothing.
func TestBudgetPicturesHaveNoLength(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"model_type":"swinv2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const note = "--seq 512 changes nothing"
	if out, errs, code := budgetRun(t, "--config", file, "--seq", "512"); code != exitFine || !strings.Contains(out, note) {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
	if out, _, _ := budgetRun(t, "--config", file); strings.Contains(out, "changes nothing") {
		t.Error(out)
	}
}

// tensor is an entry of a .safetensors header.
func tensor(dtype string, shape ...int) map[string]any {
	return map[string]any{"dtype": dtype, "shape": shape}
}

// TestBudgetAbove: what the user says stands in every format, as text, and goes
// with --redact, as do the folders of files.
func TestBudgetAbove(t *testing.T) {
	config := llamaFile(t, "")
	for format, want := range map[string][]string{
		"text":     {"Run <4>\n", "\njob: a*b\n"},
		"json":     {`"title": "Run <4>"`, `"key": "job"`, `"value": "a*b"`, `"tool": "vramscope `},
		"markdown": {"# Run &lt;4&gt;\n", "- job: a\\*b\n"},
		"html":     {"<title>Run &lt;4&gt; · Memory budget</title>", ">Run &lt;4&gt;</p>", "<dt>job</dt><dd>a*b</dd>"},
	} {
		out, errs, code := budgetRun(t, "--config", config, "--title", "Run <4>", "--note", "job=a*b", "--format", format)
		if code != exitFine {
			t.Fatal(code, errs)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %q in\n%s", format, text, out)
			}
		}
		out, errs, code = budgetRun(t, "--config", config, "--title", "Secret", "--redact-title", "--note", "job=Secret", "--redact", "--format", format)
		if code != exitFine || strings.Contains(out, "Secret") || !strings.Contains(strings.ReplaceAll(out, `\_`, "_"), "text_") {
			t.Errorf("%s: %d %s\n%s", format, code, errs, out)
		}
	}
	if _, errs, code := budgetRun(t, "--config", config, "--note", "job"); code != exitUnusable || !strings.Contains(errs, "KEY=VALUE") {
		t.Error(code, errs)
	}
	missing := filepath.Join(filepath.Dir(config), "acme.json")
	if _, errs, code := budgetRun(t, "--config", missing, "--redact"); code != exitUnusable || strings.Contains(errs, "acme") {
		t.Error(code, errs)
	}
}

// TestRedactedRecipe: what becomes of a recipe is said with --redact, too, without names.
func TestRedactedRecipe(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	at := filepath.Join(filepath.Dir(config), "acme.sh")
	for name, text := range map[string]string{
		config: `{"model_type": "bert", "architectures": ["AcmeForMaskedLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, ` +
			`"intermediate_size": 128, "vocab_size": 1000, "max_position_embeddings": 512}`,
		at: "python run_qa.py --model_name_or_path acme/bert --per_device_train_batch_size 12 --deepspeed acme_zero2.json --quantize_acme acme",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := budgetRun(t, "--config", config, "--recipe", at, "--redact")
	out = strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"how long sequences are no file says", "weights are float32", "the head is one for QuestionAnswering",
		"a file names another: with --recipe", "though the peak may depend on it: 1 field"} {
		if code != exitFine || !strings.Contains(out, want) {
			t.Errorf("%d %s: no %q in\n%s", code, errs, want, out)
		}
	}
	if strings.Contains(strings.ToLower(out), "acme") {
		t.Error(out)
	}
	if _, errs, code := budgetRun(t, "--recipe", at, "--redact"); code == exitFine || strings.Contains(errs, "acme") || strings.Contains(errs, at) {
		t.Errorf("a refusal, %d: %s", code, errs)
	}
	if _, errs, code := budgetRun(t, "--config", config, "--recipe", at, "-o", at); code == exitFine || !strings.Contains(errs, "is an input") {
		t.Errorf("an output over its recipe, %d: %s", code, errs)
	}
}

// TestPlansAreATable: plans are compared column by column, and the first is not said to be
// the reader's own setting.
func TestPlansAreATable(t *testing.T) {
	out, errs, code := budgetRun(t, "--params", "8B", "--plan", "--gpu", "24GiB", "--seq", "2048", "--format", "markdown")
	if code != exitFine {
		t.Fatal(errs)
	}
	for _, want := range []string{"| plan | GPU memory | host memory | micro-batch | time | recomputed | sent | command line |", "| x1.00 |", "--precision bf16 ", "plans for 24GiB. The first, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "FITS") {
		t.Error("a plan is called what was asked for")
	}
	host := false
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "--offload") {
			host = true
			if !strings.Contains(line, "| about ") {
				t.Errorf("nothing tells of the host memory of %s", line)
			}
		}
	}
	if !host {
		t.Error("no plan uses host memory, so this shows nothing")
	}
}
