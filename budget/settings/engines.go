package settings

import (
	"cmp"
	"strings"

	"github.com/vramscope/vramscope/gpus"
)

// Engine is a server that keeps its cache in a pool: what is left of its share of the GPU beside weights and activations.
type Engine struct {
	Share        float64 // of the GPU
	Seqs, Tokens int64   // at most at once, and of their prompts in one piece
	Outside      bool    // activations and the CUDA context lie beside the share, not in it
}

// engines have the defaults of their servers; on GPUs from 70 GiB on more tokens and requests go through vLLM at once.
var engines = map[string]Engine{
	"vllm":   {Share: 0.92, Seqs: 256, Tokens: 2048},
	"sglang": {Share: 0.88, Seqs: 256, Tokens: 8192, Outside: true},
}

const manyTokens, manySequences, largeGPU = 8192, 1024, 70 << 30

// Served is the setting's engine, with what it says otherwise; ok is false without one.
func (s Setting) Served() (e Engine, ok bool) {
	e, ok = engines[s.Engine]
	if g := s.Device(); s.Engine == "vllm" && g.Capacity >= largeGPU && !strings.Contains(g.Name, "A100") {
		e.Tokens, e.Seqs = manyTokens, manySequences
	}
	e.Share, e.Tokens = cmp.Or(s.Share, e.Share), cmp.Or(s.Tokens, e.Tokens)
	return e, ok
}

// Device is the GPU that a setting is for; an H100 when none is named.
func (s Setting) Device() gpus.GPU {
	if s.GPU != "" {
		if g, err := gpus.Find(s.GPU); err == nil {
			return g
		}
	}
	return gpus.Usual()
}
