package budget

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// TestPythonJSON: Python writes floats that JSON has no words for, and editors marks
// of byte order.
func TestPythonJSON(t *testing.T) {
	const config = `{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000`
	want, err := ReadConfig(strings.NewReader(config + "}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		config + `, "time_step_limit": [0.0, Infinity], "low": -Infinity, "no": NaN}`,
		config + `, "name": "Infinity \" NaN", "at": Infinity}`,
		"\ufeff" + config + "}",
	} {
		got, err := ReadConfig(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		a, errA := Compute(want, Setting{})
		b, errB := Compute(got, Setting{})
		if errA != nil || errB != nil || a.PeakBytes != b.PeakBytes {
			t.Errorf("%s: %v, %v", text, errA, errB)
		}
	}
	if _, err := ReadConfig(strings.NewReader(config + `, "x": Infinit}`)); err == nil || !strings.Contains(err.Error(), "offset") {
		t.Errorf("a word that is none: %v", err)
	}
}

// TestDiffusion: models of diffusers are refused by name, and not taken for a decoder of some size.
func TestDiffusion(t *testing.T) {
	for _, config := range []string{`{"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30.0", "in_channels": 4}`,
		`{"_class_name": "FluxTransformer2DModel"}`} {
		if _, err := ReadConfig(strings.NewReader(config)); err == nil || !strings.Contains(err.Error(), "diffusion isn't counted") {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// A size alone becomes a model of exactly that size.
func TestSizes(t *testing.T) {
	for _, s := range []string{"1M", "125M", "350M", "1B", "8B", "70B", "405B", "1e12"} {
		n, err := ParseParams(s)
		if err != nil {
			t.Fatal(err)
		}
		c, err := FromParams(n)
		if err != nil {
			t.Fatal(s, err)
		}
		got, err := Count(c)
		if err != nil || got.Total != n {
			t.Errorf("%s: %d parameters, want %d (%v)", s, got.Total, n, err)
		}
		if rest := float64(c.extra) / float64(n); n > 1e8 && rest > 0.25 {
			t.Errorf("%s: %.0f %% of the parameters are outside the assumed shape (%s)", s, 100*rest, c.assumed)
		}
	}
	for _, s := range []string{"", "-1B", "8Q", "NaN", "1e30"} {
		if _, err := ParseParams(s); err == nil {
			t.Errorf("%q is taken for a size", s)
		}
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":100}`))
	f.Add([]byte(`{"model_type":"gemma3","text_config":{"hidden_size":64},"vision_config":null}`))
	f.Add([]byte(`{"model_type":"nemotron_h","hybrid_override_pattern":"M*E-"}`))
	if seeds, err := os.ReadFile("testdata/odd_models.json"); err == nil {
		f.Add(seeds[:min(len(seeds), 400)])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadConfig(bytes.NewReader(data))
		if err != nil {
			return
		}
		b, err := Compute(c, Setting{Sequence: 8})
		if err == nil && b.PeakBytes < b.WeightsBytes {
			t.Errorf("a peak of %d with weights of %d", b.PeakBytes, b.WeightsBytes)
		}
	})
}

// TestFromTensors: a checkpoint without a configuration is a model of exactly its size.
func TestFromTensors(t *testing.T) {
	ts, err := modelfile.ReadCheckpoint("modelfile/testdata/checkpoints/tiny.pt")
	if err != nil {
		t.Fatal(err)
	}
	c, err := FromTensors(ts)
	if err != nil {
		t.Fatal(err)
	}
	const want = 2*96*32 + 2*32*32 + 2*16*32 + 3*64*32 + 32
	if n, err := Count(c); err != nil || n.Total != want {
		t.Errorf("the made configuration has %d parameters, %v", n.Total, err)
	}
	if b, err := Compute(c, Setting{Sequence: 16}); err != nil || b.WeightsBytes != 2*want || len(b.Notes) == 0 {
		t.Errorf("weights %d, notes %v, %v", b.WeightsBytes, b.Notes, err)
	}
}
