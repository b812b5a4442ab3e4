package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

// engineLine reads
//
//	Model loading took 39.8101 GiB and 14.0 seconds
//	Loading model weights took 2.2160 GB
//	Available KV cache memory: 38.96 GiB
//	Graph capturing finished in 36 secs, took 2.89 GiB
//
// Older versions print GB for what they divided by 2**30 (vllm/worker/model_runner.py).
func engineLine(e *evidence.Engine, line []byte) {
	for _, m := range [...]struct {
		words, before string
		bytes         *int64
	}{
		{"Model loading", " took ", &e.Weights}, {"Loading model weights", " took ", &e.Weights},
		{"Available KV cache", " memory: ", &e.Cache}, {"Graph capturing finished", " took ", &e.Graphs},
	} {
		if _, rest, ok := bytes.Cut(line, []byte(m.words)); ok {
			if _, rest, ok = bytes.Cut(rest, []byte(m.before)); ok {
				v, _ := figures.Size(figures.Compact(rest, 24))
				if *m.bytes = max(*m.bytes, v); v > 0 {
					e.Name = "vLLM"
				}
			}
			return
		}
	}
}

// sglangLine reads, and tells whether a line is one of
//
//	Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.40 GB, mem usage=15.15 GB.
//	KV Cache is allocated. #tokens: 443000, K size: 27.04 GB, V size: 27.04 GB
//	Capture cuda graph end. Time elapsed: 18.1 s. mem usage=1.20 GB. avail mem=7.12 GB.
//
// whose GB were divided by 2**30 (sglang/srt/utils/common.py).
func sglangLine(e *evidence.Engine, line []byte) bool {
	for _, m := range [...]struct {
		words string
		sizes []string
		bytes *int64
	}{
		{"Load weight end. ", []string{"memusage="}, &e.Weights}, {"KV Cache is allocated. ", []string{"Ksize:", "Vsize:"},
			&e.Cache},
		{"Capture cuda graph end. ", []string{"memusage="}, &e.Graphs},
	} {
		if _, rest, ok := bytes.Cut(line, []byte(m.words)); ok {
			text, sum := figures.Compact(rest, 512), int64(0)
			for _, words := range m.sizes {
				sum += max(0, figures.After(text, words))
			}
			if *m.bytes = max(*m.bytes, sum); sum > 0 {
				e.Name = "sglang"
			}
			return true
		}
	}
	return false
}
