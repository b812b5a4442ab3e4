package modelfile

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Packing is how a configuration packs weights: which of them, and into how
// many bytes.
type Packing struct {
	Method  string
	Bits    int64
	Matrix  func(rows, columns int64) int64 // bytes of a packed matrix with its scales, nil: not known
	Linears bool                            // only nn.Linear is packed: Transformers 5 keeps experts in one tensor
	Direct  string                          // products read the packed form on such GPUs: nothing is unpacked for them
	Frozen  bool                            // no adapters are trained on it
	head    bool                            // the head is packed like the blocks
	experts bool                            // nothing but the experts is packed
	skip    []string                        // modules that stay as they are
	except  []*regexp.Regexp                // and those by expressions
}

// packer reads what a method's configuration says.
type packer struct {
	read    func(z *Packing, f *Config)
	skipped string // the field that lists modules which stay as they are
	bare    bool   // the head stays by itself, as long as no list is given
}

const notConverted = "modules_to_not_convert"

// packers are the methods that are known. Layouts are those of Transformers' quantizers (quantizers/, integrations/).
var packers = map[string]packer{
	"bitsandbytes":       {(*Packing).bitsAndBytes, "llm_int8_skip_modules", true},
	"gptq":               {(*Packing).gptq, notConverted, false},
	"awq":                {(*Packing).awq, notConverted, false},
	"compressed-tensors": {(*Packing).compressed, "ignore", false},
	"modelopt":           {(*Packing).modelOpt, "ignore", false},
	"fp8":                {(*Packing).float8, notConverted, true},
	"fbgemm_fp8":         {(*Packing).float8, notConverted, true},
	"mxfp4":              {(*Packing).mxfp4, notConverted, false},
	"":                   {func(*Packing, *Config) {}, notConverted, false},
}

// Packing reads the configuration's quantization_config, nil without one.
func (c *Config) Packing() *Packing {
	m := c.Map("quantization_config")
	if m == nil {
		m = (&Config{fields: c.Map(textConfig)}).Map("quantization_config")
	}
	if m == nil {
		return nil
	}
	f := &Config{Type: c.Type, fields: m}
	z := &Packing{Method: f.Str("quant_method"), Bits: f.IntOr("bits", 16)}
	if z.Method == "" && (f.Bool("load_in_4bit") || f.Bool("load_in_8bit")) { // before the methods had names
		z.Method = "bitsandbytes"
	}
	by, known := packers[z.Method]
	if !known {
		by = packers[""]
	}
	by.read(z, f)
	for _, s := range f.List(by.skipped) {
		if s, ok := s.(string); ok && s != "" {
			z.leave(s)
		}
	}
	if by.bare {
		z.head = f.Get(by.skipped) != nil
	}
	return z
}

func (z *Packing) gptq(f *Config) {
	z.head = f.Bool("lm_head")
	if slices.Contains([]int64{2, 3, 4, 8}, z.Bits) && f.Get("dynamic") == nil && f.Get("modules_in_block_to_quantize") == nil {
		z.groups(f.IntOr("group_size", 128), 4) // with the order of the columns, 4 bytes each
	}
}

func (z *Packing) awq(f *Config) {
	if z.Bits = f.IntOr("bits", f.IntOr("w_bit", 4)); z.Bits == 4 {
		z.groups(f.IntOr("group_size", f.IntOr("q_group_size", 128)), 0)
	}
}

// mxfp4 packs gpt-oss's experts.
func (z *Packing) mxfp4(f *Config) {
	z.Bits = 4
	if z.experts = f.Type == "gpt_oss"; z.experts {
		z.Direct, z.Frozen = "with MXFP4 kernels (the kernels package and Triton 3.4)", true
		z.Matrix = func(rows, columns int64) int64 { return rows*columns/2 + rows*columns/32 }
	}
}

// leave notes a module that stays as it is, by its name or by an expression.
func (z *Packing) leave(s string) {
	by, is := strings.CutPrefix(s, "re:")
	if re, err := regexp.Compile("^(?:" + by + ")"); is && err == nil && len(by) <= maxPattern {
		z.except = append(z.except, re)
	} else if !is {
		z.skip = append(z.skip, s)
	}
}

// maxPattern bounds the expressions of a configuration.
const maxPattern = 300

// compressed: vLLM's format, of groups that say how wide weights are and what has a scale. Groups of other layers than all
// linear ones aren't known here.
func (z *Packing) compressed(f *Config) {
	z.head = true // unless it is among those that stay
	groups := f.Map("config_groups")
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		group, _ := groups[name].(map[string]any)
		x := &Config{fields: group}
		of := &Config{fields: x.Map("weights")}
		bits := of.IntOr("num_bits", 16)
		if z.Matrix != nil && bits != z.Bits || !slices.Contains(x.List("targets"), any("Linear")) || bits != 4 && bits != 8 {
			z.Matrix, z.Bits = nil, 16
			return
		}
		z.Bits = bits
		z.Direct, z.Frozen = "that vLLM and compressed-tensors have kernels for", true
		size, zero, scale := of.IntOr("group_size", 0), int64(0), int64(2)
		switch {
		case of.Str("type") == "float" && bits == 4: // NVFP4 and MXFP4: a byte for each group
			scale = 1
		case of.Get("symmetric") == false:
			zero = 1
		}
		block := of.List("block_structure")
		z.Matrix = func(rows, columns int64) int64 {
			scales := rows // one for each channel
			switch {
			case of.Str("strategy") == "tensor":
				scales = 1
			case len(block) == 2 && AsInt(block[0]) > 0 && AsInt(block[1]) > 0:
				scales = parts(rows, AsInt(block[0])) * parts(columns, AsInt(block[1]))
			case size > 0:
				scales = rows * parts(columns, size)
			}
			return rows*columns*bits/8 + scales*scale + zero*scales*bits/8
		}
	}
}

// modelOpt: NVIDIA's, of FP8 with a scale for a matrix or NVFP4 with a byte for sixteen weights.
func (z *Packing) modelOpt(f *Config) {
	z.head, z.Frozen, z.Direct = true, true, "with FP8 (compute capability 8.9) or FP4 (10.0)"
	switch algo := strings.ToUpper(f.Str("quant_algo")); {
	case strings.HasPrefix(algo, "FP8"):
		z.Bits, z.Matrix = 8, func(rows, columns int64) int64 { return rows*columns + 4 }
	case strings.HasSuffix(algo, "NVFP4"):
		z.Bits, z.Matrix = 4, func(rows, columns int64) int64 { return rows*columns/2 + rows*parts(columns, 16) + 8 }
	}
}

// bitsAndBytes: NF4 or FP4 with a scale per 64 weights, or int8 with a scale per row.
func (z *Packing) bitsAndBytes(f *Config) {
	z.Linears = true
	switch {
	case f.Bool("load_in_4bit") && f.Bool("bnb_4bit_use_double_quant"):
		z.Bits, z.Matrix = 4, func(rows, columns int64) int64 { return PackedBytes("int4", rows*columns, false) }
	case f.Bool("load_in_4bit"):
		z.Bits, z.Matrix = 4, func(rows, columns int64) int64 { return PackedBytes("int4", rows*columns, true) }
	case f.Bool("load_in_8bit"):
		z.Bits, z.Matrix = 8, func(rows, columns int64) int64 { return rows*columns + 4*rows }
	}
}

// groups: along a row every group of weights has a 16-bit scale and a packed
// zero; GPTQ also keeps the order of the columns.
func (z *Packing) groups(size, order int64) {
	bits := z.Bits
	z.Matrix = func(rows, columns int64) int64 {
		groups := int64(1)
		if size > 0 {
			groups = parts(columns, size)
		}
		return rows*columns*bits/8 + groups*rows*2 + groups*rows*bits/8 + order*columns
	}
}

// float8: a float32 scale per block, per row (fbgemm) or for the whole matrix.
func (z *Packing) float8(f *Config) {
	z.Bits, z.Direct, z.Frozen = 8, "with FP8 (compute capability 8.9)", true
	block := f.List("weight_block_size")
	switch {
	case z.Method == "fbgemm_fp8":
		z.Matrix = func(rows, columns int64) int64 { return rows*columns + 4*rows }
	case len(block) == 2 && AsInt(block[0]) > 0 && AsInt(block[1]) > 0:
		a, b := AsInt(block[0]), AsInt(block[1])
		z.Matrix = func(rows, columns int64) int64 { return rows*columns + 4*parts(rows, a)*parts(columns, b) }
	case len(block) == 0:
		z.Matrix = func(rows, columns int64) int64 { return rows*columns + 4 }
	}
}

// parts is how many pieces of a size n is cut into.
func parts(n, size int64) int64 { return 1 + (n-1)/size }

// Packs says whether a weight is packed: those of linear layers and experts
// are, embeddings, norms and routers are not.
func (z *Packing) Packs(q Tensor) bool {
	linear := len(q.Shape) == 2 && strings.HasSuffix(q.Name, ".weight") && !z.experts
	switch q.Role {
	case RoleEmbedding, RolePosition, RoleNorm, RoleRouter:
		return false
	case RoleHead:
		linear = linear && z.head
	case RoleExpert:
		linear = linear || len(q.Shape) == 3 && !z.Linears
	}
	return linear && !slices.ContainsFunc(z.skip, func(s string) bool { return strings.Contains("."+q.Name, "."+s+".") }) &&
		!slices.ContainsFunc(z.except, func(re *regexp.Regexp) bool {
			return re.MatchString(strings.TrimSuffix(q.Name, ".weight"))
		})
}

// Packed are the sums of a quantised checkpoint's tensors.
type Packed struct {
	Kind    string // what packs them, in words
	Bytes   int64  // of packed weights, with scales, zeros and tables
	Plain   int64  // elements of the other parameters
	Weights int64  // elements that are packed, 0 when the shapes do not tell
	Bits    int64  // of a packed weight
	Shaped  bool   // every packed tensor has its weight's shape
}

// dtypes are the bytes of an element of a safetensors type; 4-bit types are not
// whole bytes and stand as what their file says: packed in U8.
var dtypes = map[string]int64{"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
	"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1}

// beside are the endings of what lies beside a packed weight.
var beside = []string{".scales", ".qzeros", ".g_idx", ".absmax", ".nested_absmax", ".quant_map", ".nested_quant_map", ".SCB",
	".weight_format", ".weight_scale",
	".weight_scale_inv", "_proj_scale_inv", ".weight_scale_2", ".weight_global_scale", ".weight_zero_point", ".weight_shape",
	".weight_g_idx", ".input_scale", ".input_global_scale",
	".activation_scale", ".weight_scales", "_proj_scales", "_proj.scales"}

func isScale(name string) bool {
	return strings.Contains(name, ".quant_state.") ||
		slices.ContainsFunc(beside, func(s string) bool { return strings.HasSuffix(name, s) })
}

// isPacked knows a weight that is not stored as numbers of 16 bits or more.
// Integers of at least two dimensions are one, unless they are a mask.
func isPacked(name, dtype string, dims int) bool {
	if isScale(name) || isBuffer(name) || strings.HasSuffix(name, ".bias") {
		return false
	}
	return strings.HasPrefix(dtype, "F8_") || dims > 1 && isWhole(dtype) && dtype != "BOOL" && dtypes[dtype] < 8
}

// isWhole: a type of whole numbers, which are counters, positions and masks
// where they pack nothing.
func isWhole(dtype string) bool {
	return dtype == "BOOL" || strings.HasPrefix(dtype, "I") || strings.HasPrefix(dtype, "U")
}

// PackedIn sums a checkpoint's packed tensors up, nil when it has none.
func PackedIn(ts []Tensor) *Packed {
	shapes := map[string][]int64{}
	for _, t := range ts {
		if isScale(t.Name) {
			shapes[t.Name] = t.Shape
		}
	}
	w := &Packed{Shaped: true}
	counted := true
	for _, t := range ts {
		switch n := t.Elements(); {
		case isPacked(t.Name, t.Dtype, len(t.Shape)):
			w.Bytes += n * dtypes[t.Dtype]
			kind, per := packedKind(t, shapes)
			w.Kind = kind
			w.Weights += int64(float64(n) * per)
			if per > 0 {
				w.Bits = max(w.Bits, int64(8*float64(dtypes[t.Dtype])/per))
			}
			counted, w.Shaped = counted && per > 0, w.Shaped && per == 1
		case isScale(t.Name):
			w.Bytes += n * dtypes[t.Dtype]
		case !t.Buffer:
			w.Plain += n
		}
	}
	if w.Kind == "" {
		return nil
	}
	if !counted {
		w.Weights = 0
	}
	return w
}

// packedKind names a packed tensor's method, and the weights in one of its
// elements, 0 when the shapes around it do not tell.
func packedKind(t Tensor, shapes map[string][]int64) (kind string, per float64) {
	name, qweight := strings.CutSuffix(t.Name, ".qweight")
	scales, order := shapes[name+".scales"], shapes[name+".g_idx"]
	switch {
	case qweight && len(t.Shape) == 2 && len(scales) == 2 && scales[1] == 8*t.Shape[1]:
		return "AWQ, 4 bits in I32", 8
	case qweight && len(t.Shape) == 2 && len(order) == 1 && t.Shape[0] > 0:
		return "GPTQ, in I32", float64(order[0]) / float64(t.Shape[0])
	case qweight:
		return "packed in I32", 0
	case strings.HasPrefix(t.Dtype, "F8_"):
		return "FP8", 1
	case shapes[t.Name+".absmax"] != nil:
		return "bitsandbytes, 4 bits in U8", 2
	case t.Dtype == "I8" && shapes[strings.TrimSuffix(t.Name, "weight")+"SCB"] != nil:
		return "bitsandbytes, 8 bits", 1
	case strings.HasSuffix(t.Name, "blocks"):
		return "MXFP4, 4 bits in U8", 2
	}
	return "packed in " + t.Dtype, 0
}

// PackedBytes of n weights: int8 with a float32 scale per row of about 4,096, int4 as
// NF4 in blocks of 64 with a float32 scale each, 0.5625 bytes per element, or with double
// quantisation 0.515869.
func PackedBytes(precision string, n int64, plain bool) int64 {
	if precision == "int8" {
		return n + n/1024
	}
	blocks := (n + 63) / 64
	if plain {
		return (n+1)/2 + 4*blocks
	}
	return (n+1)/2 + blocks + 4*((blocks+255)/256)
}
