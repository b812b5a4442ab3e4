package modelfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"
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

// allowed are the names that a checkpoint of tensors needs.
var allowed = map[string]bool{
	"torch._utils._rebuild_tensor_v2": true, "torch._utils._rebuild_tensor": true, "torch._utils._rebuild_qtensor": true,
	"torch._utils._rebuild_parameter": true, "torch._utils._rebuild_parameter_with_state": true,
	"torch.FloatStorage": true, "torch.HalfStorage": true, "torch.BFloat16Storage": true, "torch.DoubleStorage": true,
	"torch.LongStorage": true, "torch.IntStorage": true, "torch.ShortStorage": true, "torch.CharStorage": true,
	"torch.ByteStorage": true, "torch.BoolStorage": true, "torch.storage.UntypedStorage": true, "torch.Size": true,
	"torch.device": true, "torch.float32": true, "torch.float16": true, "torch.bfloat16": true, "torch.float64": true,
	"torch.int64": true, "torch.float8_e4m3fn": true,
}

// readTorchPickle lists the tensors in the data.pkl of a .pt archive. Any
// name outside the list of tensor rebuilding is refused.
func readTorchPickle(data []byte) (ts []Tensor, err error) {
	if err := scanPickle(data); err != nil {
		return nil, err
	}
	defer func() {
		if e := recover(); e != nil {
			ts, err = nil, fmt.Errorf("malformed pickle: %v", e)
		}
	}()
	u := pickle.NewUnpickler(bytes.NewReader(data))
	u.FindClass = func(module, name string) (any, error) {
		full := module + "." + name
		if full == "collections.OrderedDict" {
			return &types.OrderedDictClass{}, nil
		}
		if !allowed[full] {
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

// operandBytes are the fixed lengths that follow opcodes: BINFLOAT; BININT LONG_BINGET
// LONG_BINPUT EXT4; BININT2 EXT2; BININT1 BINGET BINPUT PROTO EXT1.
var operandBytes = [256]uint64{'G': 8, 'J': 4, 'j': 4, 'r': 4, 0x84: 4, 'M': 2, 0x83: 2, 'K': 1, 'h': 1, 'q': 1, 0x80: 1, 0x82: 1}

// lengthBytes are the bytes of the length that follows an opcode: BINUNICODE BINBYTES
// BINSTRING LONG4; BINUNICODE8 BINBYTES8 BYTEARRAY8, and FRAME, whose bytes are opcodes
// again; SHORT_BINSTRING SHORT_BINBYTES SHORT_BINUNICODE LONG1.
var lengthBytes = [256]int{'X': 4, 'B': 4, 'T': 4, 0x8b: 4, 0x8d: 8, 0x8e: 8, 0x96: 8, frameOpcode: 8,
	'U': 1, 'C': 1, 0x8c: 1, 0x8a: 1}

const frameOpcode = 0x95

// objectBytes is about what gopickle takes for an opcode: boxed, on the stack, in a list or
// dictionary that grows.
const objectBytes = 64

// scanPickle checks the lengths that opcodes announce, and that there is memory for what they
// make, before anything is allocated for them.
func scanPickle(data []byte) error {
	most := debug.SetMemoryLimit(-1) / objectBytes // of the whole program
	for i, ops := 0, int64(0); i < len(data); ops++ {
		op, at := data[i], i
		if i++; ops > most {
			return fmt.Errorf("offset %d: more than %d values, more than memory allows (--max-memory)", at, most)
		}
		n := operandBytes[op]
		if k := lengthBytes[op]; k > 0 {
			if len(data)-i < k {
				return fmt.Errorf("offset %d: the pickle ends inside an opcode", at)
			}
			var length [8]byte
			copy(length[:], data[i:i+k])
			n = binary.LittleEndian.Uint64(length[:])
			i += k
		}
		lines, what := 0, "line"
		switch op {
		case 'c', 'i': // GLOBAL INST
			lines, what = 2, "name"
		case 'I', 'L', 'F', 'S', 'V', 'P', 'g', 'p':
			lines = 1
		case '.':
			return nil
		}
		for range lines {
			k := bytes.IndexByte(data[i:], '\n')
			if k < 0 {
				return fmt.Errorf("offset %d: a %s without an end", at, what)
			}
			i += k + 1
		}
		switch {
		case op == frameOpcode && n > uint64(len(data)-i):
			return fmt.Errorf("offset %d: a frame of %d bytes, %d are left", at, n, len(data)-i)
		case op == frameOpcode:
			continue
		case n > uint64(len(data)-i):
			return fmt.Errorf("offset %d: opcode 0x%02x announces %d bytes, %d are left", at, op, n, len(data)-i)
		}
		i += int(n)
	}
	return fmt.Errorf("offset %d: the pickle has no end", len(data))
}
