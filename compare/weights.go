package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// stored is how the model's parameters lie on the device.
type stored struct {
	element int64           // bytes of a parameter, 0: not known
	bits    int64           // of the layers' matrices, where these are packed: 4 or 8
	part    float64         // of the model's parameters that are here
	copies  float64         // of those that are here
	shards  int64           // ranks that share each parameter, 1: none
	bytes   int64           // of all weights but buffers
	extra   int64           // bytes of weights that are none of the model's
	missing int             // tensors of the model that are not here
	sizes   map[int64]int64 // how many of the weights have so many bytes
}

// foreign reports whether there are weights, and none that the model has, or few and others beside.
func (w stored) foreign() bool {
	return w.bytes > 0 && (w.element == 0 || w.part < 0.5 && 10*w.extra > w.bytes)
}

// whole reports whether the model lies here with every tensor, uncut.
func (w stored) whole() bool {
	return w.element > 0 && w.shards == 1 && w.part > 0.95 && w.missing == 0
}

// unpacked reports whether most of the model is here as plain numbers, whatever
// its configuration says of quantization: libraries unpack what a GPU has no
// kernels for.
func (w stored) unpacked() bool { return w.element >= 2 && w.bits == 0 && w.part > 0.5 }

// storedWeights compares the sizes of the weights with those of the model's
// tensors in every width, and takes the width that explains most of them.
func (o *observed) storedWeights() stored {
	sizes := map[int64]int64{}
	best := stored{shards: 1, part: 1, copies: 1, sizes: sizes}
	at, _ := o.compared()
	if at == timeline.NoEvent || !o.training {
		at = o.t.Peaks.Allocated.Event
	}
	for i, category := range o.c.Category {
		id := timeline.AllocationID(i)
		if category == classify.Weights && o.c.Detail[i] != classify.Buffer && o.t.AliveAt(id, at) {
			sizes[o.t.Requested(id)]++
			best.bytes += o.t.Requested(id)
		}
	}
	if o.parameters == 0 || best.bytes == 0 {
		return best
	}
	most := int64(0)
	for _, shards := range o.shardings(best.bytes) {
		for _, width := range []int64{4, 2, 1, 8} {
			once, all, missing := o.explained(sizes, width, shards)
			if once*width <= most {
				continue
			}
			most = once * width
			best.element, best.shards = width, shards
			best.part = float64(once*shards) / float64(o.parameters)
			best.copies = float64(all) / float64(max(once, 1))
			best.missing = missing
			best.extra = max(0, best.bytes-all*width)
		}
	}
	if best.part < 0.5 && best.pack(o.tensors) {
		return best
	}
	return best.summed(most, o.parameters)
}

// divided are the weights of one of some tensor-parallel ranks, where they are those and
// not the whole model's: of as many as are said, and of usual numbers.
func (n *notes) divided(o *observed, s *budget.Setting, w stored) stored {
	for _, ranks := range []int64{s.TP, 2, 4, 8} {
		part := budget.Setting{TP: ranks, Inference: true}
		tensors, _, err := budget.RankTensors(o.config, part)
		if ranks < 2 || err != nil || n.given["tp"] && ranks != s.TP {
			continue
		}
		one := *o
		one.tensors, one.parameters, one.ranks = tensors, 0, ranks
		for _, x := range tensors {
			if !x.Buffer {
				one.parameters += x.Elements()
			}
		}
		if found := one.storedWeights(); !found.foreign() && found.whole() {
			d := s.Defaults()
			*o, s.TP, s.GPUs = one, ranks, d.GPUs/d.TP*ranks
			n.note("tp", fmt.Sprintf("tensor parallelism: the model's tensors are here as one of %d ranks has them", ranks))
			return found
		}
	}
	return w
}

// summed are weights of which little is found by its size: flattened, packed or converted.
func (w stored) summed(most, parameters int64) stored {
	if most*2 < w.bytes && most*2 < parameters {
		w.element, w.part, w.copies, w.shards, w.extra, w.missing = elementBySum(w.bytes, parameters), 1, 1, 1, 0, 0
	}
	return w
}

// pack reports whether a model's layers have matrices of 4 or 8 bits for each number, as
// bitsandbytes packs them, and all else 2 or 4 bytes, and takes that.
func (w *stored) pack(tensors []modelfile.Tensor) bool {
	for _, bits := range []int64{4, 8} {
		for _, width := range []int64{4, 2} {
			if w.packs(tensors, bits, width) {
				return true
			}
		}
	}
	return false
}

func (w *stored) packs(tensors []modelfile.Tensor, bits, width int64) bool {
	left, missing := maps.Clone(w.sizes), 0
	var all, found, bytes int64
	for _, x := range tensors {
		n := x.Elements()
		size := n * width
		switch x.Role {
		case modelfile.RoleEmbedding, modelfile.RoleHead, modelfile.RolePosition:
		default:
			if len(x.Shape) == 2 {
				size = n * bits / 8
			}
		}
		if all += n; left[size] == 0 {
			missing++
			continue
		}
		left[size]--
		found, bytes = found+n, bytes+size
	}
	part := float64(found) / float64(max(all, 1))
	if part < 0.9 {
		return false
	}
	w.element, w.bits, w.part, w.copies, w.shards, w.missing, w.extra = width, bits, part, 1, 1, missing, w.bytes-bytes
	return true
}

// explained are the elements of the model's tensors that are found among the
// sizes in a width, each as often as the model has it and as often as it is there.
func (o *observed) explained(sizes map[int64]int64, width, shards int64) (once, all int64, missing int) {
	tensors := map[int64]int64{} // how many, by elements
	for _, x := range o.tensors {
		n := x.Elements()
		if shards > 1 && len(x.Shape) > 0 && x.Shape[0] > 0 { // FSDP2 cuts the first dimension
			n = (x.Shape[0] + shards - 1) / shards * (n / x.Shape[0])
		}
		tensors[n]++
	}
	for n, count := range tensors {
		found := sizes[n*width]
		once += min(found, count) * n
		all += found * n
		missing += int(max(0, count-found))
	}
	return once, all, missing
}

// shardings are the numbers of ranks that the sum of the weights allows.
func (o *observed) shardings(bytes int64) []int64 {
	if !o.detail(classify.GatheredShard) || o.shows(stacks) && !o.shows(fsdp) && !o.libraries["deepspeed"] {
		return []int64{1}
	}
	var out []int64 // before one: two shards of float32 take what whole weights of 16 bits take
	for _, width := range []float64{4, 2} {
		n := math.Round(float64(o.parameters) * width / float64(bytes))
		if n >= 2 && n <= 1<<16 && math.Abs(float64(o.parameters)*width/n/float64(bytes)-1) < 0.03 {
			out = append(out, int64(n))
		}
	}
	return append(out, 1)
}

// detail reports whether anything of a kind was allocated.
func (o *observed) detail(d classify.Detail) bool {
	return slices.Contains(o.c.Detail, d)
}

// elementBySum takes a width whose sum is right to a few per cent.
func elementBySum(bytes, parameters int64) int64 {
	for _, width := range []int64{4, 2, 1} {
		if per := float64(bytes) / float64(parameters*width); per > 0.97 && per < 1.06 {
			return width
		}
	}
	return 0
}
