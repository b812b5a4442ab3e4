package runlog

import (
	"bytes"
	"slices"

	"github.com/vramscope/vramscope/evidence/figures"
)

// meaning is what the words before a number say about it. Logs repeat the same
// few words on every line, so each is worked out once and looked up from then on.
type meaning struct {
	raw      string // the text as written
	word     string // the last word, lower case
	empty    bool   // nothing but blanks and punctuation
	bare     bool   // nothing at all
	bracket  bool   // ends in an opening bracket
	opening  bool   // is just an opening bracket
	slash    bool   // is just a slash: what follows is a total
	train    bool   // "Train:", behind which the number of an epoch may stand
	epoch    bool
	step     bool // the number of a step
	strong   bool // …whatever else the line names
	allSteps bool // how many steps there are to be
	loss     bool
	eval     bool // of a validation
	rate     bool // learning rate
	runtime  bool // the Trainer's totals
	tokens   bool // per second
	total    bool // time since the start of training
	time     bool // of one step
	milli    bool // a time in ms unless a unit follows
	figures.Named
}

// memory tells words for what a GPU holds.
func (m *meaning) memory() bool { return m.What.Held() && m.What != figures.Active }

// dictionary looks meanings up by the text as written.
type dictionary struct {
	known map[string]*meaning
	lower []byte
}

// maxWords bounds the dictionary; a log with more distinct texts before
// numbers starts it anew.
const maxWords = 4096

// lookAgain tries the meaning that the line before had at the same place.
func (d *dictionary) lookAgain(last *meaning, raw []byte) *meaning {
	if len(raw) > keyBytes {
		raw = raw[len(raw)-keyBytes:]
	}
	if last != nil && last.raw == string(raw) {
		return last
	}
	return d.look(raw)
}

func (d *dictionary) look(raw []byte) *meaning {
	if m := d.known[string(raw)]; m != nil {
		return m
	}
	if d.known == nil || len(d.known) >= maxWords {
		d.known = make(map[string]*meaning, 64)
	}
	d.lower = append(d.lower[:0], raw...)
	for i, c := range d.lower {
		if c >= 'A' && c <= 'Z' {
			d.lower[i] = c | 0x20
		}
	}
	m := newMeaning(phrase(d.lower))
	m.raw = string(raw)
	d.known[m.raw] = m
	return m
}

// phrase is the text before a number, in lower case.
type phrase []byte

func newMeaning(p phrase) *meaning {
	word := figures.LastWord(p)
	m := &meaning{word: string(word), empty: len(word) == 0, bare: len(p) == 0,
		bracket: bytes.IndexByte(p, '[') >= 0, opening: string(p) == "[", slash: string(bytes.TrimSpace(p)) == "/"}
	if p.namesSource() {
		return m // bfc_allocator.cc:497
	}
	m.steps(p)
	m.losses(p)
	m.times(p)
	m.Named = figures.NameOf(p)
	return m
}

func (p phrase) has(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(p, []byte(w)) })
}

func (p phrase) hasOf(words []stopWord) bool {
	return slices.ContainsFunc(words, func(w stopWord) bool { return bytes.Contains(p, []byte(w.word)) })
}

// namesSource tells that the number is of a line of source text: its file
// stands right before it, whose name means nothing.
func (p phrase) namesSource() bool {
	return slices.ContainsFunc([]string{".py:", ".cc:", ".cpp:", ".cu:", ".h:", ".hpp:"}, func(end string) bool {
		return bytes.HasSuffix(p, []byte(end))
	})
}

func (m *meaning) steps(p phrase) {
	switch m.word {
	case "epoch", "ep":
		m.epoch = !p.has("per", "num", "total")
	case "global_step", "current_steps", "global_steps", "num_updates", "globalstep":
		m.step, m.strong = true, true
	case "step", "steps", "iter", "iters", "iteration", "batch", "update", "train_step", "train_iter", "batch_idx":
		m.step = p.numbersStep(m.word)
		m.allSteps = p.has("total optimization steps = ", "total steps = ") // the Trainer's, and Unsloth's
	case "doc", "it", "i": // words only at the beginning of a line
		m.step = p.numbersStep(m.word) && len(bytes.TrimSpace(p)) <= len(m.word)+1
	case "train":
		m.step = p.has("iter(train", "step(train")
		m.epoch = p.has("epoch(train")
		m.train = bytes.HasSuffix(bytes.TrimRight(p, " ["), []byte("train:")) && !p.has("loss train")
	}
}

// numbersStep refuses settings and totals ("total steps 10", "warmup steps"),
// and names that end in a number ("step-2.png").
func (p phrase) numbersStep(word string) bool {
	if p.has("total", "max", "num", "warm", "accum", "per ", "per_", "skip", "grad", "every", "eval", "val", "time", "remain",
		"at ", "of ") {
		return false
	}
	i := bytes.LastIndex(p, []byte(word)) + len(word)
	return len(bytes.Trim(p[i:], " \t:=#'\"([<>/")) == 0
}

func (m *meaning) losses(p phrase) {
	m.eval = p.evaluation()
	n := len(m.word)
	m.loss = n >= 4 && m.word[n-4:] == "loss" || m.word == "train" && p.has("loss train")
	m.rate = m.word == "lr" || m.word == "learning_rate"
	m.runtime = m.word == "train_runtime"
}

// evaluation tells val_loss, "val loss", eval_runtime, "Validation bpb".
func (p phrase) evaluation() bool {
	for _, w := range [...]string{"val", "eval", "test"} {
		i := bytes.Index(p, []byte(w))
		if i < 0 || i > 0 && p[i-1] >= 'a' && p[i-1] <= 'z' {
			continue
		}
		rest := p[i+len(w):]
		if len(rest) == 0 || rest[0] < 'a' || rest[0] > 'z' || bytes.HasPrefix(rest, []byte("uation")) ||
			bytes.HasPrefix(rest, []byte("id")) {
			return w != "test" || bytes.Contains(rest, []byte("loss"))
		}
	}
	return false
}

// times tells the time of one step from cumulative ones, totals and estimates.
func (m *meaning) times(p phrase) {
	m.tokens = p.has("tok/s", "tokens/s", "tps", "tokens_per_s", "tok_per_s", "tokens per second")
	m.milli = p.has("(ms)", "_ms", "ms/")
	m.total = p.has("train_time")
	if p.has("total", "eta", "left", "remain", "data", "avg", "average", "eval", "val", "load", "completion", "estimated",
		"wall", "forward", "backward", "generation", "size:") {
		return
	}
	switch m.word {
	case "dt", "time", "step_time", "iter_time", "batch_time", "step_time_sec", "step_time_s", "time_per_step", "time_per_iter",
		"time_per_iteration", "step_time_ms", "iteration_time", "dt_ms", "iter_time_ms", "sec_per_step":
		m.time = true
	case "ms", "s", "sec":
		m.time = p.has("time", "ms/step")
	case "step", "iter":
		m.time = p.has("ms/", "s/")
	}
}
