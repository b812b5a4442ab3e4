package recipe

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/source"
)

// A program may have a training loop of its own, which calls backward. Its calls say the batch, the optimizer and what is
// computed in; the order of its words tells what stays from step to step.

var ofOptimizers = pattern.Of(`(^|\.)(\w*Adam(W|Mini)?\w*|SGD|\w*Lion\w*|Adafactor|RMSprop|Adagrad|LAMB|Muon)$`)

type loopArgument struct {
	named          func() *regexp.Regexp
	field, keyword string
	place          int
	unsaid         string
}

// loopArguments are what calls say: the value of a field stands behind a keyword, or in a place, or is the one unsaid. The
// first call of a kind counts.
var loopArguments = []loopArgument{
	{pattern.Of(`(^|\.)DataLoader$`), "per_device_train_batch_size", "batch_size", 1, "1"},
	{pattern.Of(`^(torch\.(cuda\.)?(amp\.)?|amp\.)?autocast$`), "autocast", "dtype", 1, "torch.float16"},
	{pattern.Of(`(^|\.)Accelerator$`), "accelerator", "", -1, "true"},
	{pattern.Of(`(^|\.)Accelerator$`), "mixed_precision", "mixed_precision", -1, ""},
	{pattern.Of(`(^|\.)Accelerator$`), "gradient_accumulation_steps", "gradient_accumulation_steps", -1, ""},
	{pattern.Of(`(^|\.)Accelerator$`), "sharding", "fsdp_plugin", -1, ""},
	{pattern.Of(`(^|\.)Accelerator$`), "sharding", "deepspeed_plugin", -1, ""},
	{ofOptimizers, "optim", "", -1, "$"},
	{pattern.Of(`(^|\.)\w*AdamW?$`), "fused", "fused", -1, ""},
	{pattern.Of(`(^|\.)SGD$`), "momentum", "momentum", 2, ""},
	{pattern.Of(`(^|\.)zero_grad$`), "set_to_none", "set_to_none", 0, ""},
	{pattern.Of(`^(\w+\.)*(FSDP|FullyShardedDataParallel|fully_shard|deepspeed\.initialize)$`), "sharding", "", -1, "own"},
	{pattern.Of(`(^|\.)(DistributedDataParallel|DDP)$`), "sharding", "", -1, "own"},
	{pattern.Of(`^torch\.compile$`), "torch_compile", "", -1, "true"},
}

// of is the argument's value, of no text where the call says none.
func (x *loopArgument) of(c *pyCall) pyValue {
	if v, ok := c.by[x.keyword]; ok {
		return v
	}
	if x.place >= 0 && x.place < len(c.plain) {
		return c.plain[x.place]
	}
	return pyValue{text: strings.Replace(x.unsaid, "$", c.name[strings.LastIndexByte(c.name, '.')+1:], 1), constant: true}
}

// says reports whether a call says something of the training: no autocast that is switched off or the processor's, no loader
// whose batches something else makes.
func (x *loopArgument) says(c *pyCall) bool {
	switch x.field {
	case "autocast":
		host := len(c.plain) > 0 && c.plain[0].text == "cpu" || c.by["device_type"].text == "cpu"
		return c.by["enabled"].text != "False" && !host
	case "per_device_train_batch_size":
		_, sampled := c.by["batch_sampler"]
		return !sampled
	}
	return true
}

// doubtful reports whether a call may be made in some runs alone, or says what only a run knows.
func (c *pyCall) doubtful() bool {
	v, ok := c.by["enabled"]
	return c.maybe || ok && v.text != "True"
}

// note takes the first value of a field that a loop says something of.
func (f *fields) note(said *pyCall, field string, v pyValue, doubtful bool) {
	before, ok := said.by[field]
	switch {
	case v.constant && v.text == "":
	case ok && before.text != v.text:
		f.doubt(field, "the first of several")
	case !ok && !f.has(field):
		if said.give(field, v); doubtful {
			f.doubt(field, "in some runs")
		}
	}
}

// loop notes what a program says of its own loop.
func (f *fields) loop(p *python, models map[string]bool) {
	said := &pyCall{by: map[string]pyValue{}}
	for _, c := range p.calls {
		for i := range loopArguments {
			if x := &loopArguments[i]; x.named().MatchString(c.name) && x.says(c) {
				f.note(said, x.field, x.of(c), c.doubtful())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.constants)) {
		if strings.HasSuffix(name, "config.use_cache") {
			f.note(said, "use_cache", p.constants[name], false)
		}
	}
	f.loads(p, models)
	passes, stay, late := p.order(models)
	for _, x := range [][2]string{{"own_loop", "true"}, {"outputs_stay", strconv.FormatBool(stay)},
		{"zeroed_late", strconv.FormatBool(late)}, {"passes_per_loss", strconv.Itoa(max(passes, 1))}} {
		f.note(said, x[0], pyValue{text: x[1], constant: true}, x[0] == "passes_per_loss" && passes > 1)
	}
	f.keywords(said, nil)
}

// loads notes that a program has several models, of which the last is taken, and converts what it has loaded.
func (f *fields) loads(p *python, models map[string]bool) {
	first := ""
	for _, c := range p.calls {
		text := ""
		if len(c.plain) > 0 {
			text = c.plain[0].text
		}
		switch of, method, _ := strings.Cut(c.name, "."); {
		case method == "from_pretrained" && !ofText().MatchString(of):
			if first = cmp.Or(first, text); first != text {
				f.doubt("model_name_or_path", "the last of several")
			}
		case models[of] && (narrower[method] || method == "to" && strings.HasPrefix(text, "torch.")):
			f.converted()
		}
	}
	f.convertedAsLoaded(p)
}

var ofText = pattern.Of(`Tokenizer|Processor`)

// convertedAsLoaded looks for conversions behind the call that loads.
func (f *fields) convertedAsLoaded(p *python) {
	for _, s := range p.statements {
		for i := 2; i < len(s.Words) && wordIn(s.Words, "from_pretrained") >= 0; i++ {
			if narrower[s.Words[i].Text] && s.Words[i-2].Text == ")" {
				f.converted()
			}
		}
	}
}

// converted notes that a line gives the model another type than it is loaded in.
func (f *fields) converted() {
	for _, name := range []string{"torch_dtype", "dtype"} {
		if f.has(name) {
			f.doubt(name, "a line converts it")
			return
		}
	}
	if !slices.Contains(f.workedOut, "dtype") {
		f.workedOut = append(f.workedOut, "dtype")
	}
}

// narrower are methods that give a model another type.
var narrower = map[string]bool{"float": true, "half": true, "bfloat16": true}

// order is what the order of words tells of the loop, or the function, that calls backward: how many forward passes one loss is
// of, whether a name keeps their outputs through the optimizer's step, and whether gradients go behind them.
func (p *python) order(models map[string]bool) (passes int, stay, late bool) {
	steps, before := false, true
	runners := p.runners(models)
	from, to := p.around(slices.IndexFunc(p.statements, callsBackward))
	for i := from; i < to; i++ {
		s := &p.statements[i]
		back := backward(s.Words)
		for k, w := range s.Words {
			switch before = before && k != back; {
			case before && runners[w.Text] && isCalled(s, k) && !p.aside(i, from):
				passes++
				stay = stay || models[w.Text] && p.keeps(s, k)
			case w.Text == "zero_grad" && before:
				late = late || passes > 0
			case w.Text == "step":
				steps = true
			}
		}
	}
	return passes, stay && steps, late
}

// isCalled says whether a word is a name that is called, and not a method of something else.
func isCalled(s *source.Statement, k int) bool {
	of := k > 1 && s.Words[k-1].Text == "." && s.Words[k-2].Text != "self"
	return s.Words[k].Kind == 'n' && !of && s.Word != "def" && k+1 < len(s.Words) && s.Words[k+1].Text == "("
}

// aside says whether a statement of a loop that begins there stands in a branch of it, or keeps no graph.
func (p *python) aside(i, from int) bool {
	for ; i >= from; i = p.statements[i].Parent {
		s := &p.statements[i]
		if conditions[s.Word] || s.Word == "with" && (wordIn(s.Words, "no_grad") > 0 || wordIn(s.Words, "inference_mode") > 0) {
			return true
		}
	}
	return false
}

// deletes says whether a line deletes a name.
func (p *python) deletes(name string) bool {
	if p.deleted == nil {
		p.deleted = map[string]bool{}
		for _, s := range p.statements {
			for _, w := range s.Words {
				p.deleted[w.Text] = p.deleted[w.Text] || s.Words[0].Text == "del"
			}
		}
	}
	return p.deleted[name]
}

// backward is where a method of that name is called, -1 for nowhere.
func backward(words []source.Word) int {
	if k := wordIn(words, "backward"); k > 0 && words[k-1].Text == "." {
		return k
	}
	return -1
}

func callsBackward(s source.Statement) bool { return backward(s.Words) > 0 }

// wordIn is where a word stands among some, -1 for nowhere.
func wordIn(words []source.Word, text string) int {
	return slices.IndexFunc(words, func(w source.Word) bool { return w.Kind == 'n' && w.Text == text })
}

// head is the nearest head around a statement that begins with one of some words, -1 for none.
func (p *python) head(of int, words ...string) int {
	for of = p.statements[of].Parent; of >= 0 && !slices.Contains(words, p.statements[of].Word); {
		of = p.statements[of].Parent
	}
	return of
}

// around are the statements of the innermost loop or function that one stands in, of all where it stands in none.
func (p *python) around(at int) (from, to int) {
	head := -1
	if at >= 0 {
		head = p.head(at, "for", "while", "def")
	}
	return head + 1, p.end(head)
}

// end is where a head's block ends; -1 is the program's.
func (p *python) end(head int) int {
	at := head + 1
	for at < len(p.statements) && p.statements[at].Parent >= head {
		at++
	}
	return at
}

// modelMethods are those that tell a model by its name.
var modelMethods = map[string]bool{"parameters": true, "train": true, "named_parameters": true}

// withParameters are the names of what has parameters that somebody asks for, as optimizers do.
func (p *python) withParameters() map[string]bool {
	names := map[string]bool{}
	for _, s := range p.statements {
		for i, w := range s.Words {
			if i > 1 && modelMethods[w.Text] && s.Words[i-1].Text == "." && s.Words[i-2].Kind == 'n' {
				names[s.Words[i-2].Text] = s.Words[i-2].Text != "self"
			}
		}
	}
	return names
}

// runners are models, and the functions that call one of them, or one of those before.
func (p *python) runners(models map[string]bool) map[string]bool {
	names := maps.Clone(models)
	for i := range p.statements {
		s, def := &p.statements[i], p.head(i, "def")
		for k, w := range s.Words {
			if names[w.Text] && isCalled(s, k) && def >= 0 && len(p.statements[def].Bound) > 0 {
				names[p.statements[def].Bound[0]] = true
			}
		}
	}
	return names
}

// keeps says whether the outputs of a model that is called there get a name of their own, which nobody deletes.
func (p *python) keeps(s *source.Statement, call int) bool {
	return call == s.Value && call == 2 && s.Words[call+1].Mate == len(s.Words)-1 && !p.deletes(s.Words[0].Text)
}

// lengthNames are what programs call lengths, by the field that they are, where no other field says one.
var lengthNames = []struct {
	field  string
	named  func() *regexp.Regexp
	unless []string
}{
	{"max_length", pattern.Of(`^max_len(gth)?$|^(max_)?(seq|sequence|context|input|source|cutoff)_?len(gth)?$|^block_size$`),
		[]string{"max_length", "max_seq_length", "max_source_length", "model_max_length", "block_size", "trl"}},
	{"max_target_length", pattern.Of(`^max_(target|label|output)s?_?len(gth)?$`), []string{"max_target_length", "trl"}},
	{"max_prompt_length", pattern.Of(`^max_prompt_len(gth)?$`), []string{"max_prompt_length"}},
}

// lengths are those that a program's names tell, where all that tell one agree; names of functions' arguments tell nothing.
func (f *fields) lengths(p *python) {
	for _, x := range lengthNames {
		var told []string
		for _, g := range p.functions {
			for _, s := range g.sets {
				if !s.usual && whole(s.value.text) > 0 && x.named().MatchString(strings.ToLower(s.name)) {
					told = append(told, s.value.text)
				}
			}
		}
		slices.Sort(told)
		if told = slices.Compact(told); len(told) == 1 && whole(told[0]) > 0 && !slices.ContainsFunc(x.unless, f.has) {
			f.add(x.field, told[0])
			f.doubt(x.field, "by a name")
		}
	}
}
