package recipe

import (
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

type loopArgument struct {
	named          func() *regexp.Regexp
	field, keyword string
	place          int
	unsaid         string
}

// loopArguments are what calls say: the value of a field stands behind a keyword, or in a place, or is the one unsaid. The
// first call of a kind counts, as a loader of what is evaluated comes behind that of what is trained.
var loopArguments = []loopArgument{
	{pattern.Of(`(^|\.)DataLoader$`), "per_device_train_batch_size", "batch_size", 1, "1"},
	{pattern.Of(`^(torch\.(cuda\.)?(amp\.)?|amp\.)?autocast$`), "autocast", "dtype", 1, "torch.float16"},
	{pattern.Of(`(^|\.)Accelerator$`), "accelerator", "", -1, "true"},
	{pattern.Of(`(^|\.)Accelerator$`), "mixed_precision", "mixed_precision", -1, ""},
	{pattern.Of(`(^|\.)Accelerator$`), "gradient_accumulation_steps", "gradient_accumulation_steps", -1, ""},
	{pattern.Of(`(^|\.)(\w*Adam(W|Mini)?\w*|SGD|\w*Lion\w*|Adafactor|RMSprop|Adagrad|LAMB|Muon)$`), "optim", "", -1, "$"},
	{pattern.Of(`(^|\.)\w*AdamW?$`), "fused", "fused", -1, ""},
	{pattern.Of(`(^|\.)SGD$`), "momentum", "momentum", -1, ""},
	{pattern.Of(`(^|\.)zero_grad$`), "set_to_none", "set_to_none", 0, ""},
	{pattern.Of(`^(\w+\.)*(FSDP|FullyShardedDataParallel|fully_shard|deepspeed\.initialize)$`), "sharding", "", -1, "own"},
	{pattern.Of(`(^|\.)gradient_checkpointing_enable$`), "gradient_checkpointing", "", -1, "true"},
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

// loop notes what a program says of its own loop.
func (f *fields) loop(p *python) {
	said := &pyCall{by: map[string]pyValue{}}
	note := func(field string, v pyValue) {
		if _, ok := said.by[field]; !ok && !f.has(field) && !(v.constant && v.text == "") {
			said.give(field, v)
		}
	}
	for _, c := range p.calls {
		for i := range loopArguments {
			if x := &loopArguments[i]; x.named().MatchString(c.name) {
				note(x.field, x.of(c))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.constants)) {
		if strings.HasSuffix(name, "config.use_cache") {
			note("use_cache", p.constants[name])
		}
	}
	passes, stay, late := p.order()
	for _, x := range [][2]string{{"own_loop", "true"}, {"outputs_stay", strconv.FormatBool(stay)},
		{"zeroed_late", strconv.FormatBool(late)}, {"passes_per_loss", strconv.Itoa(max(passes, 1))}} {
		note(x[0], pyValue{text: x[1], constant: true})
	}
	f.keywords(said, nil)
}

// order is what the order of words tells of the loop, or the function, that calls backward: how many forward passes one loss is
// of, whether a name keeps their outputs through the optimizer's step, and whether gradients go behind them.
func (p *python) order() (passes int, stay, late bool) {
	models, steps, before := p.runners(), false, true
	trains := func(s source.Statement) bool { return wordIn(s.Words, "backward") >= 0 }
	from, to := p.around(slices.IndexFunc(p.statements, trains))
	for i := from; i < to; i++ {
		s := &p.statements[i]
		back := wordIn(s.Words, "backward")
		for k, w := range s.Words {
			switch before = before && k != back; {
			case before && models[w.Text] && k+1 < len(s.Words) && s.Words[k+1].Text == "(":
				passes++
				stay = stay || p.keeps(s, k)
			case w.Text == "zero_grad":
				late = late || passes > 0 && before
			case w.Text == "step":
				steps = true
			}
		}
	}
	return passes, stay && steps, late
}

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
	for to = head + 1; to < len(p.statements) && p.statements[to].Parent >= head; to++ {
	}
	return head + 1, to
}

// modelMethods are those that tell a model by its name.
var modelMethods = map[string]bool{"parameters": true, "train": true, "named_parameters": true}

// runners are the names of what runs a model forward: of models, known by their methods, and of functions that call one.
func (p *python) runners() map[string]bool {
	names := map[string]bool{}
	for _, s := range p.statements {
		for i, w := range s.Words {
			if i > 1 && s.Words[i-1].Text == "." && modelMethods[w.Text] {
				names[s.Words[i-2].Text] = true
			}
		}
	}
	for i := range p.statements {
		s, def := &p.statements[i], p.head(i, "def")
		for k := range s.Words[1:] {
			if names[s.Words[k].Text] && s.Words[k+1].Text == "(" && def >= 0 && len(p.statements[def].Bound) > 0 {
				names[p.statements[def].Bound[0]] = true
			}
		}
	}
	return names
}

// keeps says whether the outputs of a model that is called there get a name of their own, and no line deletes one.
func (p *python) keeps(s *source.Statement, call int) bool {
	return call == s.Value && call == 2 && s.Words[len(s.Words)-1].Text != "loss" &&
		!slices.ContainsFunc(p.statements, func(s source.Statement) bool { return s.Words[0].Text == "del" })
}

// lengthNames are what programs call lengths, by the field that they are; the longest counts where no other field says one.
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

// lengths are those that a program's names tell.
func (f *fields) lengths(p *python) {
	for _, x := range lengthNames {
		longest := int64(0)
		for name, v := range p.constants {
			if x.named().MatchString(strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])) {
				longest = max(longest, whole(v.text))
			}
		}
		if longest > 0 && !slices.ContainsFunc(x.unless, f.has) {
			f.add(x.field, strconv.FormatInt(longest, 10))
		}
	}
}
