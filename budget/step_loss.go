package budget

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
)

// castsLogits says whether the model makes its logits float32 by itself: torchtune's do (modules/transformer.py, unembed), and
// until 4.45 those of some of Transformers'.
func (p *holding) castsLogits() bool {
	return p.profile.CastsLogits && (!p.profile.LossInside || p.model.Task == network.TaskCausal &&
		slices.Contains(casting, p.model.Config.Type))
}

// casting are the families that did so in Transformers 4.45, those with images by their language models.
var casting = strings.Fields("chameleon codegen cohere falcon_mamba gemma gemma2 gpt_neo gptj granite granitemoe idefics2 " +
	"jamba jetmoe llama llava llava_next llava_onevision mamba mamba2 mistral mixtral mllama nemotron olmo olmoe paligemma " +
	"phi phi3 qwen2 qwen2_moe qwen2_vl recurrent_gemma starcoder2")

// outputPieces is into how many the outputs of torchtune's models are cut, litgptPiece how
// many positions are in each of litgpt's (lm_head_chunk_size).
const (
	outputPieces = 8
	litgptPiece  = 128
)

// outputsInPieces are torchtune's (modules/loss/ce_chunked_output_loss.py): the head makes
// the logits piece by piece, all of which stay, and each has a loss of its own.
func (r *run) outputsInPieces(h *value, batch network.Batch, n int64) *value {
	m, w := r.M, r.Model.WordWidth
	n = max(min(n, h.N/w), 1)
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = (h.N/w*int64(i+1)/n - h.N/w*int64(i)/n) * w
	}
	m.Phase = Forward
	pieces := m.Split(h, sizes...)
	logits := make([]*value, n)
	for i, x := range pieces {
		logits[i] = r.logits(x)
	}
	m.Drop(pieces...)
	r.rootDone(logits[n-1]) // backward comes to the last one first
	wide := make([]*value, n)
	for i, y := range logits {
		wide[i] = r.returned(m.Again(y))
	}
	m.Drop(logits...)
	logits = wide
	r.forgetOutputs()
	if r.shards != nil {
		m.Release(r.shards.flat)
		r.shards.flat = nil
	}
	m.Phase = Loss
	var total *value
	for _, y := range logits {
		total = r.loss.Sum(total, r.loss.Of(y, batch, false))
	}
	for _, y := range logits {
		if r.p.DropOutputs {
			m.Drop(y)
		} else {
			m.Cached = append(m.Cached, y.Mem)
		}
	}
	return total
}

// logits is the head on the stream.
func (r *run) logits(h *value) *value {
	if r.Model.Head == nil {
		return r.Project(h)
	}
	return r.Unit(r.Model.Head.Weight, h, func(h *value) *value {
		return r.fetched(r.p.headBytes(), r.Model.Head.Weight, func() *value { return r.Project(h) })
	})
}

// labelled are those of some tokens that have a label.
func (p *setup) labelled(tokens int64) int64 { return max(int64(float64(tokens)*p.Labelled), 1) }

// ofLabelled are the logits of the tokens that have labels.
func (r *run) ofLabelled(h *value) *value {
	if t := h.N / max(r.Model.WordWidth, 1); r.p.Labelled < 1 && r.Model.LanguageModel() {
		some := r.M.Gather(h, r.p.labelled(t)*r.Model.WordWidth)
		defer r.M.Drop(some)
		h = some
	}
	return r.logits(h)
}

// wholeLogits says whether each tensor-parallel rank has the logits of all words: Transformers'
// plans gather the head's results (colwise_gather_output).
func (p *setup) wholeLogits() bool { return p.TP > 1 && p.profile.WholeLogits }
