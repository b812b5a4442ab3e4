package modelfile

import (
	"bytes"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	gopickle "github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"

	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// inertTensor is what a tensor's rebuild call becomes: its shape and type.
type inertTensor struct {
	shape []int64
	dtype string
}

// storageTypes are the types of PyTorch's storages, as safetensors calls them.
var storageTypes = map[string]string{"torch.FloatStorage": "F32", "torch.HalfStorage": "F16", "torch.BFloat16Storage": "BF16",
	"torch.DoubleStorage": "F64", "torch.LongStorage": "I64",
	"torch.IntStorage": "I32", "torch.ShortStorage": "I16", "torch.CharStorage": "I8", "torch.ByteStorage": "U8",
	"torch.BoolStorage": "BOOL"}

// inertStorage is what a storage becomes: a tensor of its type. It is named
// ("storage", type, key, device, size).
func inertStorage(id any) (any, error) {
	if l, ok := id.(*types.Tuple); ok && l.Len() > 1 {
		if r, ok := l.Get(1).(rebuild); ok {
			return inertTensor{dtype: storageTypes[r.name]}, nil
		}
	}
	return inertTensor{}, nil
}

// rebuild is an allowed name of a checkpoint's pickle. Nothing is called but
// this descriptor, and storages are never read.
type rebuild struct{ name string }

// Call turns the arguments of a rebuild function into a shape.
func (r rebuild) Call(args ...any) (any, error) {
	at := -1
	switch r.name {
	case "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor", "torch._utils._rebuild_qtensor":
		at = 2
	case "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state":
		if len(args) > 0 {
			return args[0], nil
		}
		return nil, fmt.Errorf("%s without a tensor", r.name)
	}
	if at < 0 || at >= len(args) {
		return inertTensor{}, nil
	}
	l, ok := args[at].(*types.Tuple)
	if !ok || l.Len() > maxDims {
		return nil, fmt.Errorf("%s without a shape", r.name)
	}
	t, _ := args[0].(inertTensor) // the storage
	t.shape = nil
	for i := range l.Len() {
		n, ok := l.Get(i).(int)
		if !ok || n < 0 {
			return nil, fmt.Errorf("%s: dimension %v", r.name, l.Get(i))
		}
		t.shape = append(t.shape, int64(n))
	}
	return t, nil
}

// PyNew lets storage types and sizes be constructed as nothing.
func (r rebuild) PyNew(args ...any) (any, error) { return inertTensor{}, nil }

// rebuilders are the names that a checkpoint of tensors needs beside its storages'.
var rebuilders = pattern.Of(`^torch\.(_utils\._rebuild_(tensor(_v2)?|qtensor|parameter(_with_state)?)|` +
	`storage\.UntypedStorage|Size|device|b?float16|float(32|64)|int64|float8_e4m3fn)$`)

// readTorchPickle lists the tensors in the data.pkl of a .pt archive. Any
// name outside the list of tensor rebuilding is refused.
func readTorchPickle(data []byte) (ts []Tensor, err error) {
	cost, err := pickle.Scan(data, pickle.Foreign)
	if err != nil {
		return nil, err
	}
	if most := debug.SetMemoryLimit(-1); cost > most { // of the whole program
		return nil, fmt.Errorf("its objects take %d bytes, more than memory allows (--max-memory)", cost)
	}
	defer func() {
		if e := recover(); e != nil {
			ts, err = nil, fmt.Errorf("malformed pickle: %v", e)
		}
	}()
	u := gopickle.NewUnpickler(bytes.NewReader(data))
	u.FindClass = func(module, name string) (any, error) {
		full := module + "." + name
		if full == "collections.OrderedDict" {
			return &types.OrderedDictClass{}, nil
		}
		if storageTypes[full] == "" && !rebuilders().MatchString(full) {
			return nil, fmt.Errorf("the pickle asks for %s, which a checkpoint of tensors does not need: refused", short(full))
		}
		return rebuild{full}, nil
	}
	u.PersistentLoad = inertStorage
	top, err := u.Load()
	if err != nil {
		return nil, err
	}
	ts, err = collect(ts, "", top, 0)
	if err != nil {
		return nil, err
	}
	if len(ts) == 0 {
		return nil, fmt.Errorf("no tensors in the checkpoint")
	}
	slices.SortFunc(ts, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return ts, nil
}

// wrappers are keys under which training scripts put the weights; beside
// them lie optimizer states and counters.
var wrappers = []string{"state_dict", "model_state_dict", "model", "module"}

// others are keys of states that aren't the model's.
var others = []string{"optimizer", "optimizer_state_dict", "_metadata"}

// collect walks dictionaries down to tensors.
func collect(ts []Tensor, prefix string, dict any, depth int) ([]Tensor, error) {
	if depth > 6 || len(ts) > maxTensors {
		return ts, nil
	}
	for k, v := range entries(dict) {
		name, ok := k.(string)
		if !ok {
			continue
		}
		var err error
		if x, ok := v.(inertTensor); ok {
			var t Tensor
			t, err = tensorOf(prefix+name, x.shape, x.dtype)
			ts = append(ts, t)
		} else if depth == 0 && slices.Contains(wrappers, name) {
			ts, err = collect(ts, "", v, depth+1)
		} else if !slices.Contains(others, name) {
			ts, err = collect(ts, prefix+name+".", v, depth+1)
		}
		if err != nil {
			return nil, err
		}
	}
	return ts, nil
}

// entries are those of a dictionary; anything else has none.
func entries(v any) iter.Seq2[any, any] {
	return func(yield func(k, v any) bool) {
		switch d := v.(type) {
		case *types.Dict:
			for _, e := range *d {
				if !yield(e.Key, e.Value) {
					return
				}
			}
		case *types.OrderedDict:
			for e := d.List.Front(); e != nil; e = e.Next() {
				if p, ok := e.Value.(*types.OrderedDictEntry); ok && !yield(p.Key, p.Value) {
					return
				}
			}
		}
	}
}
