package open

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPipelineFolder: a folder is read by its index of parts or, without one, by its config.json.
func TestPipelineFolder(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", `{"model_type": "gpt2"}`)
	c, err := ReadConfig(folder)
	if err != nil || c.Type != "gpt2" {
		t.Fatal(c, err)
	}
	write("model_index.json", `{"_class_name": "StableDiffusionXLPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}`)
	if _, err := ReadConfig(folder); err == nil || !strings.Contains(err.Error(), filepath.Join("unet", "config.json")) {
		t.Errorf("without its UNet: %v", err)
	}
	write("unet/config.json", `{"_class_name": "UNet2DConditionModel", "block_out_channels": [32, 64], "cross_attention_dim": 40,
		"down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
		"use_linear_projection": true, "attention_head_dim": 4, "norm_num_groups": 8}`)
	for _, path := range []string{folder, filepath.Join(folder, "model_index.json")} {
		if c, err := ReadConfig(path); err != nil || c.Type != "UNet2DConditionModel" {
			t.Errorf("%s: %v, %v", path, c, err)
		}
	}
}
