package budget

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// quantization is how a configuration or a checkpoint packs weights: which of
// them, and into how many bytes.
type quantization struct {
	method  string
	bits    int64
	matrix  func(rows, columns int64) int64 // bytes of a packed matrix with its scales, nil: not known
	skip    []string                        // modules that stay as they are
	head    bool                            // the head is packed like the blocks
	experts bool                            // nothing but the experts is packed
	linears bool                            // only nn.Linear is: Transformers 5 keeps experts in one tensor
	direct  string                          // products read the packed form on such GPUs: nothing is unpacked for them
	frozen  bool                            // no adapters are trained on it
	except  []*regexp.Regexp                // modules that stay as they are, by expressions
	file    map[*parameter]share            // what a checkpoint's tensors give each weight
}

// share is a weight's part of a checkpoint's packed bytes.
type share struct{ bytes, elements int64 }

// packing is the configuration's quantization_config, nil without one.
func (c *Config) packing() *Config {
	m, _ := c.fields["quantization_config"].(map[string]any)
	if t, ok := c.fields["text_config"].(map[string]any); ok && m == nil {
		m, _ = t["quantization_config"].(map[string]any)
	}
	if m == nil {
		return nil
	}
	return &Config{fields: m}
}

// quantization reads the configuration's quantization_config, nil without one.
// Layouts are those of Transformers' quantizers (quantizers/, integrations/).
func (c *Config) quantization() *quantization {
	f := c.packing()
	if f == nil {
		return nil
	}
	z := &quantization{method: f.Str("quant_method"), bits: f.IntOr("bits", 16)}
	if z.method == "" && (f.Bool("load_in_4bit") || f.Bool("load_in_8bit")) { // before the methods had names
		z.method = "bitsandbytes"
	}
	skipped := "modules_to_not_convert"
	switch z.method {
	case "bitsandbytes":
		skipped = "llm_int8_skip_modules"
		z.bitsAndBytes(f)
	case "gptq":
		z.head = f.Bool("lm_head")
		if slices.Contains([]int64{2, 3, 4, 8}, z.bits) && f.get("dynamic") == nil &&
			f.get("modules_in_block_to_quantize") == nil {
			z.groups(f.IntOr("group_size", 128), 4) // with the order of the columns, 4 bytes each
		}
	case "awq":
		if z.bits = f.IntOr("bits", f.IntOr("w_bit", 4)); z.bits == 4 {
			z.groups(f.IntOr("group_size", f.IntOr("q_group_size", 128)), 0)
		}
	case "compressed-tensors":
		z.compressed(f)
		skipped = "ignore"
	case "modelopt":
		z.modelOpt(f)
		skipped = "ignore"
	case "fp8", "fbgemm_fp8":
		z.float8(f)
	case "mxfp4":
		z.bits = 4
		if z.experts = c.Type == "gpt_oss"; z.experts {
			z.direct, z.frozen = "with MXFP4 kernels (the kernels package and Triton 3.4)", true
			z.matrix = func(rows, columns int64) int64 { return rows*columns/2 + rows*columns/32 }
		}
	}
	for _, s := range f.list(skipped) {
		if s, ok := s.(string); ok && s != "" {
			z.leave(s)
		}
	}
	// These leave the head alone by themselves only as long as no list is given.
	if z.method == "bitsandbytes" || z.method == "fp8" || z.method == "fbgemm_fp8" {
		z.head = f.get(skipped) != nil
	}
	return z
}

// leave notes a module that stays as it is, by its name or by an expression.
func (z *quantization) leave(s string) {
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
func (z *quantization) compressed(f *Config) {
	z.head = true // unless it is among those that stay
	groups, _ := f.fields["config_groups"].(map[string]any)
	for _, g := range groups {
		group, _ := g.(map[string]any)
		x := &Config{fields: group}
		w, _ := group["weights"].(map[string]any)
		of := &Config{fields: w}
		bits := of.IntOr("num_bits", 16)
		if z.matrix != nil && bits != z.bits || !slices.Contains(x.list("targets"), any("Linear")) || bits != 4 && bits != 8 {
			z.matrix, z.bits = nil, 16
			return
		}
		z.bits = bits
		z.direct, z.frozen = "that vLLM and compressed-tensors have kernels for", true
		size, zero, scale := of.IntOr("group_size", 0), int64(0), int64(2)
		switch {
		case of.Str("type") == "float" && bits == 4: // NVFP4 and MXFP4: a byte for each group
			scale = 1
		case of.get("symmetric") == false:
			zero = 1
		}
		block := of.list("block_structure")
		z.matrix = func(rows, columns int64) int64 {
			scales := rows // one for each channel
			switch {
			case of.Str("strategy") == "tensor":
				scales = 1
			case len(block) == 2 && asInt(block[0]) > 0 && asInt(block[1]) > 0:
				scales = parts(rows, asInt(block[0])) * parts(columns, asInt(block[1]))
			case size > 0:
				scales = rows * parts(columns, size)
			}
			return rows*columns*bits/8 + scales*scale + zero*scales*bits/8
		}
	}
}

// modelOpt: NVIDIA's, of FP8 with a scale for a matrix or NVFP4 with a byte for sixteen weights.
func (z *quantization) modelOpt(f *Config) {
	z.head, z.frozen, z.direct = true, true, "with FP8 (compute capability 8.9) or FP4 (10.0)"
	switch algo := strings.ToUpper(f.Str("quant_algo")); {
	case strings.HasPrefix(algo, "FP8"):
		z.bits, z.matrix = 8, func(rows, columns int64) int64 { return rows*columns + 4 }
	case strings.HasSuffix(algo, "NVFP4"):
		z.bits, z.matrix = 4, func(rows, columns int64) int64 { return rows*columns/2 + rows*parts(columns, 16) + 8 }
	}
}

// bitsAndBytes: NF4 or FP4 with a scale per 64 weights, or int8 with a scale per row.
func (z *quantization) bitsAndBytes(f *Config) {
	z.linears = true
	switch {
	case f.Bool("load_in_4bit") && f.Bool("bnb_4bit_use_double_quant"):
		z.bits, z.matrix = 4, func(rows, columns int64) int64 { return quantisedBytes("int4", rows*columns, false) }
	case f.Bool("load_in_4bit"):
		z.bits, z.matrix = 4, func(rows, columns int64) int64 { return quantisedBytes("int4", rows*columns, true) }
	case f.Bool("load_in_8bit"):
		z.bits, z.matrix = 8, func(rows, columns int64) int64 { return rows*columns + 4*rows }
	}
}

// groups: along a row every group of weights has a 16-bit scale and a packed
// zero; GPTQ also keeps the order of the columns.
func (z *quantization) groups(size, order int64) {
	bits := z.bits
	z.matrix = func(rows, columns int64) int64 {
		groups := int64(1)
		if size > 0 {
			groups = parts(columns, size)
		}
		return rows*columns*bits/8 + groups*rows*2 + groups*rows*bits/8 + order*columns
	}
}

// float8: a float32 scale per block, per row (fbgemm) or for the whole matrix.
func (z *quantization) float8(f *Config) {
	z.bits, z.direct, z.frozen = 8, "with FP8 (compute capability 8.9)", true
	block := f.list("weight_block_size")
	switch {
	case z.method == "fbgemm_fp8":
		z.matrix = func(rows, columns int64) int64 { return rows*columns + 4*rows }
	case len(block) == 2 && asInt(block[0]) > 0 && asInt(block[1]) > 0:
		a, b := asInt(block[0]), asInt(block[1])
		z.matrix = func(rows, columns int64) int64 { return rows*columns + 4*parts(rows, a)*parts(columns, b) }
	case len(block) == 0:
		z.matrix = func(rows, columns int64) int64 { return rows*columns + 4 }
	}
}

// parts is how many pieces of a size n is cut into.
func parts(n, size int64) int64 { return 1 + (n-1)/size }

// packs says whether a weight is packed: those of linear layers and experts
// are, embeddings, norms and routers are not.
func (z *quantization) packs(q *parameter) bool {
	if z == nil {
		return false
	}
	linear := len(q.Shape) == 2 && strings.HasSuffix(q.Name, ".weight") && !z.experts
	switch q.Role {
	case RoleEmbedding, RolePosition, RoleNorm, RoleRouter:
		return false
	case RoleHead:
		linear = linear && z.head
	case RoleExpert:
		linear = linear || len(q.Shape) == 3 && !z.linears
	}
	return linear && !slices.ContainsFunc(z.skip, func(s string) bool { return strings.Contains("."+q.Name, "."+s+".") }) &&
		!slices.ContainsFunc(z.except, func(re *regexp.Regexp) bool {
			return re.MatchString(strings.TrimSuffix(q.Name, ".weight"))
		})
}

// bytes of a packed weight.
func (z *quantization) bytes(q *parameter) int64 {
	if s, ok := z.file[q]; ok { // a rank's part of it may be smaller than the whole
		return int64(float64(s.bytes) * (float64(q.Elements()) / float64(s.elements)))
	}
	n := len(q.Shape)
	rows, columns := q.Shape[n-2], q.Shape[n-1]
	return q.Elements() / (rows * columns) * z.matrix(rows, columns)
}

// packing is how this plan's weights are packed: as the configuration says,
// unless the precision says otherwise or they have to be trained.
func (p *plan) packing() *quantization {
	z := p.model.quant
	if z == nil || z.matrix == nil && z.file == nil || p.Precision != "bf16" && p.Precision != "fp16" || !p.Inference &&
		(!p.adapts() || z.frozen) {
		return nil
	}
	return z
}

// packingNote says what became of the configuration's quantization.
func (b *Budget) packingNote(p *plan) {
	z := p.model.quant
	if z == nil || p.Precision == "int8" || p.Precision == "int4" {
		return
	}
	method := short(z.method)
	if method == "" {
		method = "a method without a name"
	}
	switch {
	case p.packing() != nil && z.file != nil:
		b.note("the packed weights take the bytes of the checkpoint's tensors, the others %s; --precision bf16 takes all of "+
			"them unpacked", p.Precision)
	case p.packing() != nil:
		b.note("quantization_config (%s, %d bits) packs the blocks' matrices, the other weights are %s; --precision bf16 "+
			"takes all of them unpacked", method, z.bits, p.Precision)
	case z.matrix == nil && z.file == nil:
		b.note("quantization_config: how %s packs these weights is not known here, they are taken as %s; --precision int8 or "+
			"int4 takes the blocks' matrices in 8 or 4 bits, --model FILE the bytes of a checkpoint", method, p.Precision)
	default:
		b.note("the weights are packed (%s), and packed they cannot be trained like this: they are taken as %s", method,
			p.Precision)
	}
	if p.packing() != nil && z.linears && slices.ContainsFunc(p.model.params,
		func(q *parameter) bool { return q.Role == RoleExpert }) {
		b.note("%s packs nn.Linear alone: the experts, which Transformers 5 keeps in one tensor for all, stay %s", method,
			p.Precision)
	}
	if p.packing() != nil && z.direct != "" {
		b.note("such weights stay packed on GPUs %s; elsewhere Transformers unpacks them, which --precision bf16 shows", z.direct)
	}
}

// IsPacked says whether the configuration or its checkpoint says how weights are packed.
func (c *Config) IsPacked() bool { return c.packedBits() < 16 }

// packedBits is the width of the packed weights, 16 when none are.
func (c *Config) packedBits() int64 {
	switch z := c.quantization(); {
	case c.file != nil:
		return c.file.bits
	case z != nil && z.matrix != nil:
		return z.bits
	}
	return 16
}

// Unpacked is the configuration without its quantization.
func (c *Config) Unpacked() *Config {
	if c.file == nil && c.quantization() == nil {
		return c
	}
	d := c.with("quantization_config", nil)
	if t, ok := c.fields["text_config"].(map[string]any); ok {
		d = d.with("text_config", (&Config{fields: t}).with("quantization_config", nil).fields)
	}
	d.file = nil
	return d
}

// Packed are the sums of a quantised checkpoint's tensors.
type Packed struct {
	Kind    string // what packs them, in words
	Bytes   int64  // of packed weights, with scales, zeros and tables
	Plain   int64  // elements of the other parameters
	Weights int64  // elements that are packed, 0 when the shapes do not tell
	bits    int64
	shaped  bool // every packed tensor has its weight's shape
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
	w := &Packed{shaped: true}
	counted := true
	for _, t := range ts {
		switch n := t.Elements(); {
		case isPacked(t.Name, t.Dtype, len(t.Shape)):
			w.Bytes += n * dtypes[t.Dtype]
			kind, per := packedKind(t, shapes)
			w.Kind = kind
			w.Weights += int64(float64(n) * per)
			if per > 0 {
				w.bits = max(w.bits, int64(8*float64(dtypes[t.Dtype])/per))
			}
			counted, w.shaped = counted && per > 0, w.shaped && per == 1
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

// Store is the configuration with its packed weights as a checkpoint has them.
func (c *Config) Store(w *Packed) (*Config, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	n := m.counts().Total
	if k := w.Weights + w.Plain; w.Weights > 0 && max(k, n)-min(k, n) > n/10 {
		return nil, fmt.Errorf("the configuration describes %d parameters and the checkpoint's packed tensors hold %d: they "+
			"are not the same model", n, k)
	}
	own := *w
	own.Bytes += 2 * (w.Plain - (n - m.packed())) // what only one of the two calls packed: 16 bits in the other
	if m.packed() == 0 || own.Bytes <= 0 {
		return nil, fmt.Errorf("the checkpoint's packed tensors (%s, %d bytes) are not those of a model with %d parameters in "+
			"its blocks' matrices", w.Kind, w.Bytes, m.packed())
	}
	d := c.with("model_type", c.Type)
	d.file = &own
	return d, nil
}

// packed is the elements of the weights that a checkpoint of the model packs.
func (m *model) packed() int64 {
	var n int64
	for _, q := range m.params {
		if m.quant.orMatrices().packs(q) {
			n += q.Elements()
		}
	}
	return n
}

// orMatrices stands in for a configuration that does not say what is packed; a
// checkpoint's experts are as packed as the rest.
func (z *quantization) orMatrices() *quantization {
	if z == nil {
		z = &quantization{}
	}
	z.linears = false
	return z
}

// store divides the checkpoint's bytes among the packed weights: each gets as
// much as its elements are of all, and all together make what the file has.
func (m *model) store(w *Packed) {
	left, rest := w.Bytes, m.packed()
	z := m.quant.orMatrices()
	z.method, z.bits, z.file = w.Kind, w.bits, map[*parameter]share{}
	for _, q := range m.params {
		if !z.packs(q) {
			continue
		}
		n := q.Elements()
		s := share{left, n}
		if n < rest {
			s.bytes = int64(float64(left) * (float64(n) / float64(rest)))
		}
		z.file[q] = s
		left, rest = left-s.bytes, rest-n
	}
	m.quant = z
}
