package budget

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/optimizers"
)

var update = flag.Bool("update", false, "write golden files and documents anew")

// Sizes as the guides write them: GB is 1e9 here, GiB 2^30.
func gb(n float64) string      { return fmt.Sprintf("%.2f GB", n/1e9) }
func gib2(n float64) string    { return fmt.Sprintf("%.2f GiB", n/(1<<30)) }
func num(n float64) string     { return fmt.Sprintf("%.2f", n/1e9) }
func percent(f float64) string { return fmt.Sprintf("%.1f%%", 100*f) }
func whole(f float64) string   { return fmt.Sprintf("%.0f", f) }
func one(f float64) string     { return fmt.Sprintf("%.1f", f) }
func countDigits(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Models that the guides speak of.
var (
	llama2   = map[string]any{"model_type": "llama"}
	llama31  = map[string]any{"model_type": "llama", "num_key_value_heads": 8.0, "intermediate_size": 14336.0, "vocab_size": 128256.0}
	llama70  = map[string]any{"model_type": "llama", "hidden_size": 8192.0, "num_hidden_layers": 80.0, "num_attention_heads": 64.0, "num_key_value_heads": 8.0, "intermediate_size": 28672.0, "vocab_size": 128256.0}
	llama405 = map[string]any{"model_type": "llama", "hidden_size": 16384.0, "num_hidden_layers": 126.0, "num_attention_heads": 128.0, "num_key_value_heads": 8.0, "intermediate_size": 53248.0, "vocab_size": 128256.0}
)

// elleci is the size of the model in two guides: 5.05 GB of float32.
const elleci = 1.2625e9

func must(fields map[string]any, s Setting) *Budget {
	c, err := newConfig(fields)
	if err != nil {
		panic(err)
	}
	b, err := Compute(c, s)
	if err != nil {
		panic(err)
	}
	return b
}

// state is an optimizer's state for n parameters in one large matrix.
func state(name string, n, width int64, master bool) float64 {
	s, _ := optimizers.Of(name).Bytes([]optimizers.Tensor{{N: n, Rows: 1 << 10, Cols: n >> 10, Width: width, Hidden: true}}, 0, master, false)
	return float64(s)
}

// perLayer is what one more layer keeps for backward.
func perLayer(fields map[string]any, s Setting) float64 {
	s.Loss, s.Optimizer = "chunked", "none"
	end := func(layers float64) int64 {
		f := map[string]any{"num_hidden_layers": layers}
		for k, v := range fields {
			f[k] = v
		}
		b := must(f, s)
		return b.Phase(Forward).End - b.WeightsBytes
	}
	return float64(end(3) - end(2))
}

// logitsBytes are those of n tokens and v words at b bytes each.
func logitsBytes(b, s, v, width float64) float64 { return b * s * v * width }

// cePeak is the loss and its backward, in bytes per logit of a float32 model.
func cePeak(logits float64) float64 {
	c, _ := newConfig(map[string]any{"model_type": "gpt2", "n_layer": 1.0, "n_embd": 64.0, "n_head": 1.0, "vocab_size": 32768.0})
	b, _ := Compute(c, Setting{Batch: 8, Sequence: 512, Precision: "fp32", Optimizer: "none"})
	per := float64(b.Phase(Backward).Categories[Logits]) / (8 * 512 * 32768 * 4)
	return logits * per
}

// zeroState is weights, gradients and optimizer on one of n ranks.
func zeroState(params float64, stage int, n int64, master bool) float64 {
	p := setup{Setting: Setting{Zero: stage}, dp: n}
	w := 2 * params
	if stage == 3 {
		w = float64(p.share(int64(w), 3, false))
	}
	return w + float64(p.share(int64(2*params), 2, false)) + float64(p.share(int64(state("adamw", int64(params), 2, master)), 1, false))
}

func newllm(b, v float64) []string {
	n := logitsBytes(b, 256, v, 4)
	return []string{gib2(n), gb(n), strings.TrimSuffix(gib2(cePeak(n)), "")}
}

// guideChecks compute the figures that the table states; each must occur in
// the row whose claim starts with the key.
var guideChecks = map[string]func() []string{
	"1.5B params x 32 bit":   func() []string { return []string{gb(4 * 1.5e9), gib2(4 * 1.5e9)} },
	"BF16 weights ~3 GB":     func() []string { return []string{gb(2 * 1.5e9), gib2(2 * 1.5e9)} },
	"Model weights ~5 GB":    func() []string { return []string{gb(2 * 1.5e9), gb(4 * 1.5e9), num(4*elleci) + " GB"} },
	"Gradients ~5 GB (FP32)": func() []string { return []string{gb(4 * elleci)} },
	"Optimizer 8-bit ~2.5 GB": func() []string {
		return []string{gb(state("adamw-8bit", elleci, 4, false)), gb(state("adamw-8bit", 1.5e9, 4, false))}
	},
	"Activations ~0.1 GB with": func() []string {
		n := 24.0 * 4 * 256 * 2048 * 2
		return []string{fmt.Sprintf("%.1f MB", n/1e6), fmt.Sprintf("%.1f MB", 2*n/1e6)}
	},
	"Total ~12.6 GB":             func() []string { return []string{one(5 + 5 + 2.5 + 0.1), "0.46 GB"} },
	"Embedding out [4,256,2048]": func() []string { return []string{countDigits(4 * 256 * 2048 * 4), "8.00 MiB"} },
	"LM head [4,256,32128]": func() []string {
		return []string{countDigits(4 * 256 * 32128 * 4), whole(14.0*4*256*32128/1e6) + " MB"}
	},
	"optimizer.step allocates": func() []string { return []string{num(state("momentum", elleci, 4, false))} },
	"\"with 8-bit AdamW": func() []string {
		return []string{num(state("lion-8bit", elleci, 4, false)), num(state("adamw-8bit", elleci, 4, false))}
	},
	"8-bit AdamW reduces": func() []string {
		return []string{percent(1 - state("adamw-8bit", 1<<30, 4, false)/state("adamw", 1<<30, 4, false))}
	},
	"PCIe ~32 GB/s":         func() []string { return []string{one(504.2 / 31.5), one(500.0 / 48)} },
	"PyTorch cache ~1-3 GB": func() []string { return []string{"reserved-allocated"} },
	"Gradient accumulation 0-15": func() []string {
		b := must(llama2, Setting{Accumulate: 16, Precision: "fp32", Sequence: 128})
		if b.Phase(FirstOptimizer).Categories[OptimizerState] == 0 || b.FirstStep >= b.PeakBytes+1 {
			return []string{"the state does not appear at the first step"}
		}
		return []string{"first step()"}
	},
	"VRAM 12.88 GB":   func() []string { return []string{countDigits(12282 << 20), gb(12282 << 20), gib2(12282 << 20)} },
	"Weights 5.05 GB": func() []string { return []string{"1.2625B"} },
	"Optimizer (LION)": func() []string {
		return []string{gb(state("lion", elleci, 4, false)), "2.52", num(state("lion-8bit", elleci, 4, false)) + " GB"}
	},
	"Activations (ckpt) 0.02": func() []string {
		return []string{fmt.Sprintf("%.3f GB", 24*2*256*2048*2/1e9), fmt.Sprintf("%.3f GB", 24*2*1024*2048*2/1e9)}
	},
	"Total ~11.4 GB":      func() []string { return []string{num(5.05e9 + 5.05e9 + 1.25e9 + 0.02e9), "15.20 GB"} },
	"Shared memory grows": func() []string { return []string{gb(state("lion", elleci, 4, false)), one(5.9-1.0) + " GB"} },
	"LION -50%": func() []string {
		return []string{fmt.Sprintf("%.0f vs %.0f B/param", state("lion", 1<<20, 4, false)/(1<<20), state("adamw", 1<<20, 4, false)/(1<<20))}
	},
	"Checkpointing ~90%": func() []string { return []string{"88%"} },
	"BF16 -50% weights": func() []string {
		b := must(llama2, Setting{Precision: "bf16-mixed", Sequence: 128})
		if b.Phase(Load).Categories[Weights] != 4*b.Model.Parameters || b.Phase(Loss).Categories[AutocastCopies] == 0 {
			return []string{"autocast halves the weights"}
		}
		return []string{"weights stay fp32"}
	},
	"batch 2 x accum 32": func() []string { return []string{fmt.Sprint((32043 + 127) / 128 * 128)} },
	"4 s/it = 128":       func() []string { return []string{fmt.Sprint(512 / 4), one(512.0 / 15), one(512.0 / 19)} },
	"VRAM over-allocation": func() []string {
		return []string{num(state("adamw-8bit", elleci, 4, false)), fmt.Sprintf("%.2f", 24.0*16*256*2048*2/1e9)}
	},
	"7B FP32: params 28": func() []string {
		b := must(llama2, Setting{Precision: "fp32"})
		n := float64(b.Model.Parameters)
		return []string{num(4 * n), num(8 * n), num(16*n) + " GB", gib2(16 * n)}
	},
	"does not fit one 80GB":        func() []string { return []string{"85.90 GB", num(81920 << 20)} },
	"FP32 28 / BF16 14":            func() []string { return []string{"7e9 x 4/2/1"} },
	"bf16 example uses GradScaler": func() []string { return []string{"fp32 grads"} },
	"checkpoint 100%": func() []string {
		layer, kept := perLayer(llama2, Setting{Sequence: 4096}), perLayer(llama2, Setting{Sequence: 4096, Checkpointing: "full"})
		plain, full, half := 32*layer, 32*kept+layer, 16*layer+16*kept+layer
		return []string{fmt.Sprintf("%.2f -> %.2f GiB", plain/(1<<30), full/(1<<30)), fmt.Sprintf("(%.0f%%)", 100*(full/plain-1)), gib2(half)}
	},
	"INT8 activations": func() []string { return []string{"2 -> 1 B"} },
	"AdamW 12 bytes/param": func() []string {
		return []string{fmt.Sprintf("%.0f states + 4", state("adamw", 1<<20, 4, false)/(1<<20))}
	},
	"Adam-mini 6 bytes":        func() []string { return []string{"= " + whole(state("adam-mini", 1<<30, 4, false)/(1<<30))} },
	"8-bit Adam 8 bytes":       func() []string { return []string{fmt.Sprintf("%.2f", state("adamw-8bit", 1<<30, 4, false)/(1<<30))} },
	"Lion 8 bytes/param":       func() []string { return []string{whole(state("lion", 1<<20, 4, false)/(1<<20)) + " (+4 master"} },
	"7B, 8 GPU, BF16: No ZeRO": func() []string { return []string{num(zeroState(7e9, 0, 8, false))} },
	"7B, 8 GPU, BF16: ZeRO-1":  func() []string { return []string{num(zeroState(7e9, 1, 8, false))} },
	"7B, 8 GPU, BF16: ZeRO-2":  func() []string { return []string{num(zeroState(7e9, 2, 8, false))} },
	"7B, 8 GPU, BF16: ZeRO-3":  func() []string { return []string{num(zeroState(7e9, 3, 8, false))} },
	"(same, standard mixed": func() []string {
		return []string{num(zeroState(7e9, 0, 8, true)), num(zeroState(7e9, 1, 8, true)), num(zeroState(7e9, 2, 8, true)), num(zeroState(7e9, 3, 8, true))}
	},
	"s=8192 scores": func() []string { return []string{whole(8192.0*8192*4/mib) + " MiB", gib2(8192.0 * 8192 * 4 * 32)} },
	"Flash: ~100 MB per layer": func() []string {
		kept := func(f map[string]any) float64 { // q, k, v, output and statistics of one layer
			c, _ := newConfig(f)
			m, _ := c.build()
			a := m.First()
			return float64(8192 * (2*(2*a.Heads*a.Width+2*a.KV*a.Width) + 4*a.Heads))
		}
		return []string{whole(kept(llama2)/mib) + " MiB", whole(kept(llama31)/mib) + " MiB"}
	},
	"7B on one 24 GB GPU": func() []string {
		n := float64(must(llama2, Setting{Sequence: 16}).Model.Parameters)
		s := state("adamw-8bit", int64(n), 2, false)
		return []string{num(2 * n), num(s), num(4*n+s) + " GB"}
	},
	"70B on 8x80GB": func() []string {
		n := float64(must(llama70, Setting{Sequence: 16, Optimizer: "none"}).Model.Parameters)
		return []string{num(16*n/8) + " GB", num(8 * n / 8), num((4*n + state("adamw-8bit", int64(n), 2, false)) / 8), num(4 * n / 8)}
	},
	"405B on 128 H100": func() []string {
		n := float64(must(llama405, Setting{Sequence: 16, Optimizer: "none"}).Model.Parameters) / 32
		return []string{num(n) + "B", num(2 * n), num(12 * n / 4), num(4*n+3*n) + " GB"}
	},
	"CPU offload 50-80%": func() []string { return []string{"75%"} },
	"NVMe 90%+":          func() []string { return []string{"largest layer"} },
	"Llama-3.1-8B params 14 GB": func() []string {
		n := float64(must(llama31, Setting{Sequence: 16}).Model.Parameters)
		return []string{gb(2 * n), gib2(2 * n), countDigits(int64(n))}
	},
	"Adam 28 GB": func() []string {
		n := must(llama31, Setting{Sequence: 16}).Model.Parameters
		return []string{gb(state("adamw", n, 2, false)), gb(state("adamw", n, 4, false))}
	},
	"Gradients 14 GB": func() []string {
		n := float64(must(llama31, Setting{Sequence: 16}).Model.Parameters)
		return []string{gb(2*n) + " bf16", gb(4*n) + " fp32"}
	},
	"CUDA overhead 2 GB": func() []string { return []string{"32 MiB"} },
	"Total fixed 60 GB": func() []string {
		n := float64(must(llama31, Setting{Sequence: 16}).Model.Parameters)
		return []string{num(8*n+4e9) + " GB", num(18*n) + " GB"}
	},
	"Activations ~0.5-1 GB": func() []string {
		layer := perLayer(llama31, Setting{Sequence: 512})
		return []string{fmt.Sprintf("%.3f GB", 32*perLayer(llama31, Setting{Sequence: 512, Checkpointing: "full"})/1e9), fmt.Sprintf("%.3f GB", layer/1e9), gb(32 * layer)}
	},
	"Attention maps ~0.3 GB": func() []string { return []string{gb(6 * 32 * 512 * 512 * 32)} },
	"Logits ~0.2 GB": func() []string {
		return []string{fmt.Sprintf("%.3f GB", logitsBytes(1, 512, 128256, 4)/1e9), fmt.Sprintf("%.3f GB", logitsBytes(1, 512, 128256, 14)/1e9)}
	},
	"Total ~1 GB per sample": func() []string { return []string{"1.0..1.5"} },
	"H100 80GB: 80-60": func() []string {
		n := float64(must(llama31, Setting{Sequence: 16}).Model.Parameters)
		sample := 32*perLayer(llama31, Setting{Sequence: 512}) + logitsBytes(1, 512, 128256, 14)
		return []string{num(81559<<20) + " GB", num(float64(81559<<20)-(8*n+4e9)) + " GB", gb(sample)}
	},
	"A100 40GB: 40-60": func() []string {
		n := float64(must(llama31, Setting{Sequence: 16}).Model.Parameters)
		return []string{num(float64(40960<<20) - (8*n + 4e9)), "-33.88"}
	},
	"Adafactor 0.5x": func() []string {
		c, _ := newConfig(llama31)
		m, _ := c.build()
		s, _ := optimizers.Of("adafactor").Bytes((&holding{setup: setup{kept: 4}}).optTensors(m.Params), 0, false, false)
		return []string{fmt.Sprintf("%.1f MB", float64(s)/1e6)}
	},
	"SGD 0x, Adam/AdamW 2x": func() []string { return []string{"state dtype = param dtype"} },
	"Checkpointing ~50%": func() []string {
		layer, kept := perLayer(llama31, Setting{Sequence: 512}), perLayer(llama31, Setting{Sequence: 512, Checkpointing: "full"})
		return []string{fmt.Sprintf("%.0f%%", 100*((32*kept+layer)/(32*layer)-1))}
	},
	"80-14-4 = 62": func() []string { return []string{fmt.Sprintf("%d; %d; %d", 80-14-4, 80-14-28-14-2-2, 20*4)} },
	"logits 512x512x50257": func() []string {
		n := logitsBytes(512, 512, 50257, 4)
		return []string{countDigits(int64(n)), gib2(n), gb(n), gib2(cePeak(n))}
	},
	"logits 256x256x50257":      func() []string { return newllm(256, 50257) },
	"logits 128x256x50257":      func() []string { return newllm(128, 50257) },
	"logits 64x256x50257":       func() []string { return newllm(64, 50257) },
	"logits 32x256x50257":       func() []string { return newllm(32, 50257) },
	"\"Fits T4 (22GB)":          func() []string { return []string{gb(15360 << 20)} },
	"Model parameters ~2-3 GiB": func() []string { return []string{fmt.Sprintf("%.3f GiB", 4*40e6/(1<<30))} },
	"Adam ~2x = 4-6":            func() []string { return []string{fmt.Sprintf("%.3f GiB", state("adamw", 40e6, 4, false)/(1<<30))} },
	"context trajectory":        func() []string { return []string{whole(256.0*256*512*4/mib) + " MiB"} },
	"T4: b=32 3-5 GiB": func() []string {
		var s []string
		for _, b := range []float64{32, 64, 128} {
			s = append(s, fmt.Sprintf("%.2f", cePeak(logitsBytes(b, 256, 50257, 4))/(1<<30)))
		}
		return s
	},
	"L4: b=256 15-18": func() []string {
		n := logitsBytes(256, 256, 50257, 4)
		return []string{fmt.Sprintf("%.2f", n/(1<<30)), fmt.Sprintf("%.2f", cePeak(n)/(1<<30)), fmt.Sprintf("%.2f", cePeak(2*n)/(1<<30))}
	},
	"vocab 10,000: 2.4": func() []string {
		return []string{gib2(logitsBytes(256, 256, 10000, 4)), fmt.Sprintf("%.2fx", 50257.0/10000)}
	},
	"b=64 s=256 V=10000": func() []string {
		return []string{fmt.Sprintf("%.2f", logitsBytes(64, 256, 10000, 4)/(1<<30)), fmt.Sprintf("%.2f", logitsBytes(64, 256, 50257, 4)/(1<<30))}
	},
	"FP16: 12.3 -> 6.15": func() []string {
		n := logitsBytes(256, 256, 50257, 1)
		return []string{gib2(2 * n), fmt.Sprintf("%.2f vs %.2f GiB", 14*n/(1<<30), 16*n/(1<<30))}
	},
	"torch.stack copy":  func() []string { return []string{"2 -> 1"} },
	".detach() saves":   func() []string { return []string{"50..75%"} },
	"debug code prints": func() []string { n := logitsBytes(256, 256, 50257, 4); return []string{num(n), gib2(n)} },
	"L4 24 GB, A100":    func() []string { return []string{gib2(23034 << 20), whole(40960.0/1024) + " GiB"} },
}

type guideRow struct{ class, guide, claim, computed, verdict string }

func readGuides(t *testing.T) []guideRow {
	data, err := os.ReadFile("testdata/guides.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []guideRow
	for _, l := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		f := strings.Split(l, "\t")
		if len(f) != 5 {
			t.Fatalf("row with %d fields: %s", len(f), l)
		}
		rows = append(rows, guideRow{f[0], f[1], f[2], f[3], f[4]})
	}
	return rows
}

// Every claim of the guides is computed again, and the table that says where
// they are right is made of the same rows.
func TestGuides(t *testing.T) {
	rows := readGuides(t)
	if len(rows) != 82 {
		t.Errorf("%d claims, not 82", len(rows))
	}
	var guides []string
	claims := map[string]*[2]strings.Builder{} // by guide: what is wrong, and what holds
	for _, r := range rows {
		var check func() []string
		for k, f := range guideChecks {
			if strings.HasPrefix(r.claim, k) {
				check = f
			}
		}
		if check == nil {
			t.Errorf("no computation for %s: %s", r.guide, r.claim)
			continue
		}
		for _, want := range check() {
			if !strings.Contains(r.computed, want) && !strings.Contains(r.verdict, want) {
				t.Errorf("%s: %q: we compute %q, the table says %q (%s)", r.guide, r.claim, want, r.computed, r.verdict)
			}
		}
		if claims[r.guide] == nil {
			guides, claims[r.guide] = append(guides, r.guide), new([2]strings.Builder)
		}
		holds := 1
		if strings.Contains(r.verdict, "corrected") {
			holds = 0
		}
		text := "- " + mdText(r.claim)
		if holds == 0 {
			text = fmt.Sprintf("- **%s**\n  %s.", mdText(r.claim), mdText(r.computed))
			_, why, _ := strings.Cut(r.verdict, "corrected")
			if why = strings.TrimLeft(why, ": "); why != "" && !strings.HasPrefix(why, "to ") { // the figure again
				text += " " + mdText(strings.ToUpper(why[:1])+why[1:]) + "."
			}
		}
		fmt.Fprintln(&claims[r.guide][holds], text)
	}
	var doc strings.Builder
	doc.WriteString(guideHead)
	for _, g := range guides {
		for i, heading := range []string{"Wrong", "Right"} {
			if claims[g][i].Len() > 0 {
				fmt.Fprintf(&doc, "\n## %s in %s\n\n%s", heading, g, claims[g][i].String())
			}
		}
	}
	path := filepath.Join("..", "doc", "guides.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != doc.String() {
		t.Error("doc/guides.md is not what the rows say: run the test with -update")
	}
}

func mdText(s string) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;", "*", "\\*", "_", "\\_").Replace(strings.TrimSuffix(s, "."))
}

const guideHead = `# What the memory guides say, and what is so

Five guides to training memory make 82 claims with numbers, which the budget package's tests compute again. Of each guide, what is wrong stands
first, with what is so. GB is 10^9 bytes and GiB 2^30: mixing the two is the commonest error (7.4 %). The others are: adding up what is never
alive at once, one copy of the logits where the loss holds three or four, optimizer state before the first step, and 8-bit state counted once.
`
