package redact

import (
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/snapshot"
)

// Snapshot redacts every text of a snapshot in place.
func (r *Redactor) Snapshot(s *snapshot.Snapshot) {
	v := frames.New(s)
	s.Rewrite(snapshot.Rewriter{
		Frame:          func(id snapshot.FrameID) (string, string) { return r.frame(s, v, id) },
		FX:             r.fx,
		Annotation:     r.Annotation,
		Metadata:       r.Metadata,
		CompileContext: func(text string) string { return r.unless(compileContext, "context", text) },
		Category:       func(text string) string { return r.unless(category, "category", text) },
		Action:         func(text string) string { return r.name("action", text) },
		Setting:        r.setting,
		Unknown:        r.unknown,
		Damage:         func(text string) string { return r.Error(text) },
	})
}

// unless keeps what is of a known form.
func (r *Redactor) unless(known func() *regexp.Regexp, kind, text string) string {
	if known().MatchString(text) {
		return text
	}
	return r.name(kind, text)
}

var (
	compileContext = pattern.Of(`^(Torch-Compiled Region: )?[0-9/_!]+$`)
	category       = pattern.Of(`^(PARAMETER|OPTIMIZER_STATE|INPUT|TEMPORARY|ACTIVATION|GRADIENT|AUTOGRAD_DETAIL|UNKNOWN|None|` +
		`unknown)$`)
	profilerStep = pattern.Of(`^(ProfilerStep#[0-9]+|[#:_ 0-9]*(?i:forward|backward|optimizer|optimizer_step|zero_grad|train|` +
		`eval|step|loss|data|data_loading|generate|generation|rollout|iteration|iter|train_step|training_step)[#:_ 0-9]*|` +
		`nccl:[a-z_]+|gloo:[a-z_]+|all_reduce|all_gather|` +
		`reduce_scatter|broadcast|DistributedDataParallel\.forward|DataParallel\.forward|Torch-Compiled Region: [0-9/_]+|` +
		`CompiledFunction(Backward)?|TorchDynamo Cache Lookup|PythonSubstitution)$`)
	optimizerRange = pattern.Of(`^(Optimizer\.(?:step|zero_grad)#)(\w+)(\.\w+)$`)
	loaderRange    = pattern.Of(`^enumerate\(DataLoader\)#_(SingleProcess|MultiProcessing)DataLoaderIter\.__next__$`)
	graphRange     = pattern.Of(`^(## Call CompiledFxGraph )(.*)( ##)$`) // the key of a cache, or whatever stands there
	fsdpRange      = pattern.Of(`^(FSDP::[a-z_]+(?: for)?)(?: (\(?)([^()]*)(\)?))?$`)
	timedRange     = pattern.Of(`^([\w.<>]+) \(dynamo_timed\)$`)
)

// Annotation is the name of a record_function range; torch's own are kept, less
// the names of a program's classes and modules in them.
func (r *Redactor) Annotation(name string) string {
	if profilerStep().MatchString(name) || loaderRange().MatchString(name) || timedRange().MatchString(name) {
		return name
	}
	if m := optimizerRange().FindStringSubmatch(name); m != nil {
		class, method := m[2], m[3]
		if !optimizers()[class] {
			class = r.name("class", class)
		}
		if method != ".step" && method != ".zero_grad" {
			method = "." + r.name("fn", method[1:])
		}
		return m[1] + class + method
	}
	for _, mark := range []string{"Optimizer.step#", "Optimizer.zero_grad#", "enumerate(DataLoader)#"} {
		if strings.HasPrefix(name, mark) {
			return mark + r.name("class", name[len(mark):])
		}
	}
	if m := graphRange().FindStringSubmatch(name); m != nil {
		return m[1] + r.name("graph", m[2]) + m[3]
	}
	if m := fsdpRange().FindStringSubmatch(name); m != nil {
		if m[2]+m[3]+m[4] == "" {
			return m[1]
		}
		return m[1] + " " + m[2] + r.Metadata(m[3]) + m[4]
	}
	return r.name("range", name)
}

// dotted is the name of a module or tensor.
var dotted = pattern.Of(`^[\w.]{1,256}$`)

// Metadata is what a program says of an allocation, often a module's or a
// tensor's name: words that models share are kept.
func (r *Redactor) Metadata(text string) string {
	if !dotted().MatchString(text) {
		return r.name("text", text)
	}
	words := strings.Split(text, ".")
	for i, w := range words {
		if !modelWords()[w] && !number().MatchString(w) {
			words[i] = r.name("name", w)
		}
	}
	return strings.Join(words, ".")
}

// variableWords are the parts of a variable's path: what is quoted, and names.
var variableWords = pattern.Of(`'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[^\s.,'"()\[\]{}*]+`)

// Variable is the path of a variable of the program, as main.trainer.losses[3]: its shape is kept, and
// the words that models share.
func (r *Redactor) Variable(path string) string {
	return variableWords().ReplaceAllStringFunc(path, func(w string) string {
		if modelWords()[w] || pathWords()[w] || number().MatchString(w) {
			return w
		}
		return r.name("name", w)
	})
}

// Label is the name of an allocation: a variable's path, of which the parts are told apart, or a tensor's own.
func (r *Redactor) Label(name string) string {
	if frames.IsVariable(name) {
		return r.Variable(name)
	}
	return r.Metadata(name)
}

var pathWords = wordSet("main self of __traceback__ grad __defaults__")

var (
	number      = pattern.Of(`^[0-9]*$`)
	plainValue  = pattern.Of(`^(True|False|None|true|false|-?[0-9.]+(e[-+]?[0-9]+)?)?$`)
	optionWords = pattern.Of(`[^,:=;\[\]> \t]+`)
)

// setting keeps the allocator's options with their numbers and words.
func (r *Redactor) setting(x snapshot.Setting) snapshot.Setting {
	head, tail, nested := strings.Cut(x.Key, ".")
	if !options()[head] {
		head = r.name("key", head)
	}
	if x.Key = head; nested {
		if !number().MatchString(tail) {
			tail = r.name("key", tail)
		}
		x.Key += "." + tail
	}
	x.Value = r.options(x.Value)
	return x
}

// options keeps the words and numbers of the allocator's settings.
func (r *Redactor) options(text string) string {
	return optionWords().ReplaceAllStringFunc(text, func(w string) string {
		if options()[w] || plainValue().MatchString(w) {
			return w
		}
		return r.name("value", w)
	})
}

// unknown keeps where a key stands; the value is gone.
func (r *Redactor) unknown(x snapshot.Unknown) snapshot.Unknown {
	kind := "key"
	if x.Where == "action" {
		kind = "action"
	}
	x.Key = r.name(kind, x.Key)
	if x.Example != "" {
		x.Example = "(redacted)"
	}
	return x
}
