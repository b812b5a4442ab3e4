package budget

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

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
	sort.Slice(ts, func(i, j int) bool { return ts[i].Name < ts[j].Name })
	return ts, nil
}

// wrappers are keys under which training scripts put the weights; beside
// them lie optimizer states and counters.
var wrappers = []string{"state_dict", "model_state_dict", "model", "module"}

// collect walks dictionaries down to tensors.
func collect(ts []Tensor, prefix string, v any, depth int) ([]Tensor, error) {
	if depth > 6 || len(ts) > maxTensors {
		return ts, nil
	}
	var err error
	each := func(k, x any) {
		name, ok := k.(string)
		if !ok || err != nil {
			return
		}
		switch x := x.(type) {
		case inertTensor:
			var t Tensor
			if t, err = tensorOf(prefix+name, x.shape, x.dtype); err == nil {
				ts = append(ts, t)
			}
		case *types.Dict, *types.OrderedDict:
			if depth == 0 && contains(wrappers, name) {
				ts, err = collect(ts, "", x, depth+1)
			} else if name != "optimizer" && name != "optimizer_state_dict" && name != "_metadata" {
				ts, err = collect(ts, prefix+name+".", x, depth+1)
			}
		}
	}
	switch d := v.(type) {
	case *types.Dict:
		for _, e := range *d {
			each(e.Key, e.Value)
		}
	case *types.OrderedDict:
		for e := d.List.Front(); e != nil; e = e.Next() {
			if p, ok := e.Value.(*types.OrderedDictEntry); ok {
				each(p.Key, p.Value)
			}
		}
	}
	return ts, err
}

func contains(l []string, s string) bool {
	for _, x := range l {
		if x == s {
			return true
		}
	}
	return false
}

// scanPickle checks the lengths that opcodes announce before anything is
// allocated for them.
func scanPickle(data []byte) error {
	for i := 0; i < len(data); {
		op := data[i]
		at := i
		i++
		var n uint64
		need := func(k int) bool { return len(data)-i >= k }
		switch op {
		case 'X', 'B', 'T', 0x8b: // BINUNICODE BINBYTES BINSTRING LONG4
			if !need(4) {
				return fmt.Errorf("offset %d: the pickle ends inside an opcode", at)
			}
			n = uint64(binary.LittleEndian.Uint32(data[i:]))
			i += 4
		case 0x8d, 0x8e, 0x96: // BINUNICODE8 BINBYTES8 BYTEARRAY8
			if !need(8) {
				return fmt.Errorf("offset %d: the pickle ends inside an opcode", at)
			}
			n = binary.LittleEndian.Uint64(data[i:])
			i += 8
		case 'U', 'C', 0x8c, 0x8a: // SHORT_BINSTRING SHORT_BINBYTES SHORT_BINUNICODE LONG1
			if !need(1) {
				return fmt.Errorf("offset %d: the pickle ends inside an opcode", at)
			}
			n = uint64(data[i])
			i++
		case 0x95: // FRAME: a length whose bytes are opcodes again
			if !need(8) {
				return fmt.Errorf("offset %d: the pickle ends inside an opcode", at)
			}
			frame := binary.LittleEndian.Uint64(data[i:])
			i += 8
			if frame > uint64(len(data)-i) {
				return fmt.Errorf("offset %d: a frame of %d bytes, %d are left", at, frame, len(data)-i)
			}
		case 'G': // BINFLOAT
			n = 8
		case 'J', 'j', 'r', 0x84: // BININT LONG_BINGET LONG_BINPUT EXT4
			n = 4
		case 'M', 0x83: // BININT2 EXT2
			n = 2
		case 'K', 'h', 'q', 0x80, 0x82: // BININT1 BINGET BINPUT PROTO EXT1
			n = 1
		case 'c', 'i': // GLOBAL INST: two lines
			for range 2 {
				k := bytes.IndexByte(data[i:], '\n')
				if k < 0 {
					return fmt.Errorf("offset %d: a name without an end", at)
				}
				i += k + 1
			}
		case 'I', 'L', 'F', 'S', 'V', 'P', 'g', 'p':
			k := bytes.IndexByte(data[i:], '\n')
			if k < 0 {
				return fmt.Errorf("offset %d: a line without an end", at)
			}
			i += k + 1
		case '.':
			return nil
		}
		if n > uint64(len(data)-i) {
			return fmt.Errorf("offset %d: opcode 0x%02x announces %d bytes, %d are left", at, op, n, len(data)-i)
		}
		i += int(n)
	}
	return fmt.Errorf("offset %d: the pickle has no end", len(data))
}
