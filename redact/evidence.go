package redact

import (
	"path"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Evidence redacts in place what logs, nvidia-smi and traces brought in.
func (r *Redactor) Evidence(ev *evidence.Evidence) {
	for i := range ev.GPUs {
		g := &ev.GPUs[i]
		pointed(g.Name, r.gpu)
		g.Driver, g.CUDA = r.unless(released, "version", g.Driver), r.unless(released, "version", g.CUDA)
		g.BusID, g.UUID = r.name("bus", g.BusID), r.name("uuid", g.UUID)
		for k := range g.Processes {
			pointed(g.Processes[k].Name, r.process)
		}
	}
	for i := range ev.OOMMessages {
		m := &ev.OOMMessages[i]
		if m.UserFile != nil && m.UserFunction != nil {
			*m.UserFunction = r.function(*m.UserFunction, *m.UserFile)
		}
		pointed(m.UserFile, r.source)
		m.OwnFile, m.Quote = r.source(m.OwnFile), ""
		if strings.Contains(m.By, "_STATUS_") { // else one of the program's own words
			m.By = r.unless(status, "library", m.By)
		}
	}
	for _, s := range ev.Steps {
		s.Printed = printed().FindString(s.Printed)
	}
	for i := range ev.Logs {
		if s := ev.Logs[i].Steps; s != nil {
			s.Printed = printed().FindString(s.Printed)
		}
		for k := range ev.Logs[i].HostFailures {
			pointed(&ev.Logs[i].HostFailures[k].UserFile, r.source)
		}
		end := &ev.Logs[i].Ending
		end.UserFile, end.Text = r.source(end.UserFile), exception().FindString(end.Text)
		for k := range ev.Logs[i].Phases {
			when := &ev.Logs[i].Phases[k].When
			*when = anyWord().ReplaceAllStringFunc(*when, func(w string) string { return r.unless(phaseWord, "phase", w) })
		}
	}
	for i := range ev.Parameters {
		p := &ev.Parameters[i]
		p.Command = nil
		if p.Machine != nil {
			r.machine(p.Machine)
		}
		pointed(p.Optimizer, func(name string) string { return r.unless(optimizer, "optimizer", name) })
		pointed(p.Precision, func(name string) string { return r.unless(precision, "precision", name) })
		pointed(p.Model, func(name string) string { return r.name("model", name) })
		pointed(p.GPU, r.gpu)
	}
	for i := range ev.Traces {
		r.trace(&ev.Traces[i])
	}
}

// printed is a size as a log writes it.
var printed = pattern.Of(`^[0-9][0-9.,]{0,20} ?[KkMGT]?i?[Bb]?$`)

// exception is the kind of what a program ended in, without what it said, or the code.
var exception = pattern.Of(`^([A-Z][A-Za-z]{2,40}(Error|Exception|Interrupt|Exit)|exit code -?[0-9]{1,3})\b`)

// machine keeps versions that have been released, and the allocator's own settings.
func (r *Redactor) machine(m *evidence.Machine) {
	m.GitCommit = nil
	for _, version := range []*string{m.Torch, m.CUDA, m.Driver, m.Python} {
		pointed(version, func(v string) string { return r.unless(released, "version", v) })
	}
	pointed(m.Settings, r.options)
	if s := m.Simulated; s != nil {
		s.GPU, s.Device = r.gpu(s.GPU), r.gpu(s.Device)
		s.Capability, s.Sizes = r.unless(released, "version", s.Capability), r.unless(assumption, "assumption", s.Sizes)
		s.Uncounted, s.Unknown, s.Ended = map[string]int{}, map[string]int{}, nil
		for i := range s.Assumptions {
			a := &s.Assumptions[i]
			a.What, a.Taken = r.unless(sizesOf, "operator", a.What), r.unless(taken, "value", a.Taken)
			a.File, _ = r.file(a.File)
			a.Function = r.name("function", a.Function)
		}
	}
}

// sizesOf are operators whose results have sizes that depend on data, assumption what --assume says of those, and taken what a
// condition was taken to be.
var (
	sizesOf = pattern.Of(`^(nonzero|masked_select|unique|unique_dim|unique_consecutive|repeat_interleave|bincount|nms|item|` +
		`a condition)$`)
	assumption = pattern.Of(`^(|even|most|none|[01](\.[0-9]{1,9})?)$`)
	taken      = pattern.Of(`^(|True|False|0|0\.0)$`)
)

// released are versions, perhaps of a build for some device.
var released = pattern.Of(`^$|^[0-9]+(\.[0-9]+)*((a|b|rc|\.dev|\.post|t)[0-9]*)?(\+((cu|rocm|xpu|cpu|git|nv)[0-9a-f.]*))?$`)

// status are what libraries of vendors return.
var status = pattern.Of(`^(CU|HIP|ROC|MU|ACL|MIOPEN)(BLAS|BLASLT|DNN|SPARSE|SOLVER|FFT|RAND)?_STATUS_ALLOC_FAILED$`)

// precision are the names of types of numbers, as trainers say them.
var precision = pattern.Of(`^(?i)(torch\.)?(bf16|fp16|fp32|tf32|fp8|float|half|double|bfloat16|` +
	`float16|float32|float64|int8|int4|nf4|fp4|16|32|64|no|none|amp|o[0-3]|` +
	`8bit|4bit)([-_ ]?(mixed|true|transformer-engine|e4m3|e5m2|hybrid))?$`)

// phaseWord are words for what trainers do between their readings of a GPU.
var phaseWord = pattern.Of(`^(?i)(before|after|during|vllm|sglang|fsdp|megatron|offload|onload|reload|load|loading|save|` +
	`saving|init|initialize|build|in|of|to|the|a|and|from|for|on|sharding|manager|update|updated|weights?|models?|actor|critic|` +
	`ref|reference|reward|policy|rollout|generate|generation|sequences|optimizer|params?|parameters|gradients?|grads?|` +
	`states?|dict|resume|wake|up|sleep|sync|cache|kv|empty|engine|worker|train|training|compute|log|probs?|step|backward|` +
	`forward|checkpoint|cpu|gpu|memory|free|all|module|create|creation|setup|pause|clear|[0-9]+)$`)

var anyWord = pattern.Of(`[\pL\pN]+`)

// optimizer are the names of optimizers that libraries have, however trainers write them.
var optimizer = pattern.Of(`^(?i)((torch|optim|fused|deepspeed|paged|apex|bnb|hf|xla|npu|cpu|anyprecision|distributed|8bit|` +
	`32bit|4bit|schedule[-_]?free|adamw?|sgd|adafactor|lion|muon|lamb|lomo|adalomo|galore|rmsprop|adagrad|adamax|nadam|radam|` +
	`shampoo|soap|dion|sophia|grokadamw|came)[-_. ]*)+$`)

func pointed(s *string, rewrite func(string) string) {
	if s != nil {
		*s = rewrite(*s)
	}
}

func (r *Redactor) trace(x *evidence.Trace) {
	for i := range x.Devices {
		x.Devices[i].Name = r.gpu(x.Devices[i].Name)
	}
	for _, spans := range [][]evidence.Span{x.Steps, x.Annotations} {
		for i := range spans {
			spans[i].Name = r.Annotation(spans[i].Name)
			spans[i].Category = r.unless(spanCategory, "category", spans[i].Category)
		}
	}
}

var spanCategory = pattern.Of(`^(user_annotation|gpu_user_annotation|cpu_op|python_function|kernel|gpu_memcpy|gpu_memset|` +
	`cuda_runtime|overhead|Operator)?$`)

func (r *Redactor) source(file string) string {
	to, _ := r.file(file)
	return to
}

// function redacts that of a file, as those of stacks.
func (r *Redactor) function(name, file string) string {
	if _, known := r.file(file); known || commonFunction(name) || name == "" {
		return name
	}
	return r.name("fn", name)
}

// gpu keeps what vendors call their products.
func (r *Redactor) gpu(name string) string {
	if isGPU(name) {
		return name
	}
	return r.name("gpu", name)
}

// process keeps the names of programs that everybody has, without their folder.
func (r *Redactor) process(name string) string {
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	if processName().MatchString(base) {
		return base
	}
	return r.name("process", name)
}

var processName = pattern.Of(`^((?i:python)[0-9.]*(\.exe)?|\[Not Found\]|\[N/A\]|N/A|-|\[?Insufficient Permissions\]?|Xorg|` +
	`gnome-shell|kwin_x11|nvidia-cuda-mps-server|nv-hostengine|dcgmi|torchrun|ray|vllm|jupyter-lab|ipython|firefox|chrome)$`)
