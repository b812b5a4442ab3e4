package runlog

import "bytes"

// Engine is what vLLM said at its start to take of a GPU, in bytes, the most
// of any worker; 0: not said.
type Engine struct{ Weights, Cache, Graphs int64 }

// line reads
//
//	Model loading took 39.8101 GiB and 14.0 seconds
//	Loading model weights took 2.2160 GB
//	Available KV cache memory: 38.96 GiB
//	Graph capturing finished in 36 secs, took 2.89 GiB
//
// Older versions print GB for what they divided by 2**30 (vllm/worker/model_runner.py).
func (e *Engine) line(line []byte) {
	for _, m := range [...]struct {
		words, before string
		bytes         *int64
	}{
		{"Model loading", " took ", &e.Weights}, {"Loading model weights", " took ", &e.Weights},
		{"Available KV cache", " memory: ", &e.Cache}, {"Graph capturing finished", " took ", &e.Graphs},
	} {
		if _, rest, ok := bytes.Cut(line, []byte(m.words)); ok {
			if _, rest, ok = bytes.Cut(rest, []byte(m.before)); ok {
				v, _ := size(compact(rest, 24))
				*m.bytes = max(*m.bytes, v)
			}
			return
		}
	}
}
