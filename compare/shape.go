package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// tokens is batch x sequence: from the ids of the batch, which are eight
// bytes a token, or from logits, which are a row of the vocabulary a token.
// In an encoder-decoder the logits are the decoder's, which is the second result.
func (o *observed) tokens(width int64) (tokens, decoder int64, how string) {
	logits, ids := o.batch()
	rows := rowsOf(logits, o.config.Int("vocab_size"), ids, width)
	if o.ranks > 1 && rows > 0 && rows*o.ranks <= ids { // a part of the vocabulary for each token
		rows *= o.ranks
	}
	source := fmt.Sprintf("logits of %d bytes", logits)
	switch {
	case o.seq2seq() && rows > 0:
		return max(ids, 0), rows, "the batch's ids, " + source
	case rows > 0 && !o.training && ids > rows: // logits of each sequence's last token
		return ids, 0, fmt.Sprintf("ids of %d bytes", 8*ids)
	case rows > 0:
		return rows, 0, source
	case ids > 0:
		return ids, 0, fmt.Sprintf("ids of %d bytes", 8*ids)
	}
	return 0, 0, ""
}

// rowsOf is how many tokens logits are of, which are numbers of a width, or of 2 or 4 bytes.
func rowsOf(logits, vocabulary, ids, width int64) (rows int64) {
	for _, w := range []int64{width, 2, 4} {
		if n := vocabulary * w; n > 0 && logits >= n && logits%n == 0 {
			if r := logits / n; rows == 0 || r == ids {
				rows = r
			}
		}
	}
	return rows
}

// batch are the bytes of the first logits, before wider copies are made, and the
// number of ids in the largest input.
func (o *observed) batch() (logits, ids int64) {
	o.within(func(id timeline.AllocationID) {
		bytes := o.t.Requested(id)
		switch {
		case o.c.Category[id] == classify.Inputs && bytes%8 == 0 && o.c.Phase[id] != classify.Setup:
			ids = max(ids, bytes/8)
		case o.c.Category[id] == classify.Logits && o.c.Phase[id] != classify.Backward && (logits == 0 || logits == 2*bytes):
			logits = bytes
		}
	})
	return logits, ids
}

func (o *observed) seq2seq() bool {
	return o.config.Type == "t5" || o.config.Type == "mt5" || o.config.Type == "bart" || o.config.Type == "mbart" ||
		o.config.Bool("is_encoder_decoder")
}

// lengths are what a sequence may be long: position ids made with arange, the longest
// first, then rows of embeddings that are fewer than the tokens.
func (o *observed) lengths(tokens, element int64) []int64 {
	width, most := cmp.Or(o.config.Int("hidden_size"), o.config.Int("n_embd")), o.longest(tokens)
	if o.config.Type == "electra" {
		width = cmp.Or(o.config.Int("embedding_size"), width)
	}
	var ids, rows []int64
	o.within(func(id timeline.AllocationID) {
		stack := o.t.Stack(id)
		if stack == 0 || o.c.Phase[id] != classify.Forward && o.c.Phase[id] != classify.Generate {
			return
		}
		n, row, out := int64(0), width*element, &rows
		switch bytes := o.t.Requested(id); {
		case strings.HasPrefix(o.v.Site(stack).Op, "aten::arange"):
			n, out = bytes/8, &ids
		case row > 0 && bytes%row == 0 && bytes < tokens*row && o.embeds(stack):
			n = bytes / row // of positions: the words have a row for each token
		}
		if n > 1 && n <= most && !slices.Contains(*out, n) {
			*out = append(*out, n)
		}
	})
	for _, list := range [][]int64{ids, rows} {
		slices.SortFunc(list, func(a, b int64) int { return cmp.Compare(b, a) })
	}
	return append(ids, rows...)
}

// longest is how many of some tokens one sequence can have.
func (o *observed) longest(tokens int64) int64 {
	if n := o.config.Positions(); n > 0 {
		return min(n, tokens)
	}
	return tokens
}

// firstPositions is the length of the position ids by their place and size: what a
// decoder makes between the vectors of its words, which are the first thing as large
// as the stream, and its first layer. 0 without.
func (o *observed) firstPositions(tokens int64) int64 {
	hidden, most := o.config.Int("hidden_size"), o.longest(tokens)
	streams, length := 0, int64(0)
	words := 1 // as large as the stream before the positions
	if strings.HasPrefix(o.config.Type, "gemma") || o.config.Float("embedding_multiplier") > 0 {
		words = 2 // they are scaled
	}
	o.within(func(id timeline.AllocationID) {
		bytes := o.t.Requested(id)
		switch n := bytes / 8; {
		case o.c.Phase[id] != classify.Forward || length > 0 || streams > words:
		case bytes == 2*tokens*hidden || bytes == 4*tokens*hidden:
			streams++
		case streams > 0 && bytes%8 == 0 && n > 1 && n <= most && tokens%n == 0:
			length = n
		}
	})
	return length
}

// layered tells, where no stacks do, whether as many layers as there are make so many
// numbers of 2 or 4 bytes for each token, which no other part of the model makes.
func (o *observed) layered(s *budget.Setting, row int64) bool {
	c := o.config
	heads, layers, hidden, inner := c.Int("num_attention_heads"), c.Int("num_hidden_layers"), c.Int("hidden_size"),
		c.Int("intermediate_size")
	tokens := s.Batch * s.Sequence
	if o.shows(stacks) || heads == 0 || layers == 0 || tokens < 2 {
		return false
	}
	head := cmp.Or(c.Int("head_dim"), hidden/heads)
	for _, other := range []int64{hidden, 2 * hidden, 3 * hidden, 4 * hidden, inner, 2 * inner, heads * head,
		c.Int("num_key_value_heads") * head, c.Int("vocab_size")} {
		if row == other || row == 2*other || 2*row == other {
			return false
		}
	}
	var found int64
	o.within(func(id timeline.AllocationID) {
		life := o.t.Life(id)
		if n := o.t.Requested(id); life.Freed > life.Born+2 && // unlike a workspace's
			o.c.Phase[id] == classify.Forward && (n == 2*row*tokens || n == 4*row*tokens) {
			found++
		}
	})
	return found >= layers
}

// scores reports whether attention writes its scores out.
func (o *observed) scores(s *budget.Setting) bool {
	return o.layered(s, o.config.Int("num_attention_heads")*s.Sequence)
}

// masks reports whether each layer's kernel is given a mask, whose rows are padded.
func (o *observed) masks(s *budget.Setting) bool { return o.layered(s, (s.Sequence+7)/8*8) }

// embeds reports whether a lookup in an embedding is on a stack.
func (o *observed) embeds(stack snapshot.StackID) bool {
	for _, f := range o.t.Snapshot.Stack(stack) {
		if l := o.v.Line(f); l.Function == "embedding" && strings.HasSuffix(l.File, "functional.py") {
			return true
		}
	}
	return false
}

// shortest is the least length that a row of numbers tells where files fit the tokens, too.
const shortest = 64

// leastLength is shortest where batch and sequence of files are all tokens, else none.
func (theory *Theory) leastLength(s *budget.Setting, tokens int64) int64 {
	if theory.Claimed["batch"] && theory.Claimed["seq"] && s.Batch*s.Sequence == tokens {
		return shortest
	}
	return 0
}

// batchFits reports whether tokens divide into the batch of files, with no sequence that is longer
// than they say.
func (theory *Theory) batchFits(s *budget.Setting, tokens int64) bool {
	return theory.Claimed["batch"] && s.Batch > 0 && tokens%s.Batch == 0 && tokens/s.Batch <= s.Sequence
}

// split tells batch and sequence apart.
func (o *observed) split(s *budget.Setting, tokens, decoder, element int64, theory Theory) string {
	switch {
	case theory.Given["seq"]:
		s.Batch = max(1, tokens/s.Sequence)
		return ""
	case theory.Given["batch"]:
		s.Sequence = max(1, tokens/s.Batch)
		return ""
	}
	lengths := o.lengths(max(tokens, decoder), element)
	if decoder > 0 {
		return o.splitPair(s, tokens, decoder, lengths)
	}
	least := theory.leastLength(s, tokens)
	for _, n := range lengths {
		if n >= least && tokens%n == 0 {
			s.Batch, s.Sequence = tokens/n, n
			return "the length from the position ids"
		}
	}
	if n := o.firstPositions(tokens); n > 0 {
		s.Batch, s.Sequence = tokens/n, n
		return "the length from the size of the position ids"
	}
	if theory.batchFits(s, tokens) {
		s.Sequence = tokens / s.Batch
		return "as many sequences as " + theory.By + " says"
	}
	s.Batch, s.Sequence = 1, tokens
	if limit := o.limit(); limit > 0 && tokens > limit && tokens%limit == 0 {
		s.Batch, s.Sequence = tokens/limit, limit
		return "taken as long as the model allows: give --seq if they are shorter"
	}
	if s.Batch, s.Sequence = o.apart(tokens); s.Batch > 1 {
		return "no sequence has more tokens than the model has learned positions: give --seq if they are shorter"
	}
	return "taken as one sequence: give --seq if there are more"
}

// apart divides tokens into as few sequences as learned positions allow, alike
// ones if nearly as few do.
func (o *observed) apart(tokens int64) (batch, length int64) {
	most := o.config.Positions()
	if most <= 0 || tokens <= most {
		return 1, tokens
	}
	few := (tokens + most - 1) / most
	for n := few; n < 2*few; n++ {
		if tokens%n == 0 {
			return n, tokens / n
		}
	}
	return few, tokens / few
}

// limit is the longest sequence that the model knows positions for.
func (o *observed) limit() int64 {
	c := o.config
	return cmp.Or(max(c.Positions(), 0), max(c.Int("max_position_embeddings"), 0), c.Int("n_positions"))
}

// splitPair finds the lengths of source and target that give the same batch.
func (o *observed) splitPair(s *budget.Setting, tokens, decoder int64, lengths []int64) string {
	for _, source := range lengths {
		for _, target := range lengths {
			if tokens%source == 0 && decoder%target == 0 && tokens/source == decoder/target {
				s.Batch, s.Sequence, s.DecoderSeq = tokens/source, source, target
				return fmt.Sprintf("and %d target tokens each, the lengths from the position ids", target)
			}
		}
	}
	if limit := o.limit(); limit > 0 && tokens > 0 && tokens%limit == 0 && decoder%(tokens/limit) == 0 {
		s.Batch, s.Sequence, s.DecoderSeq = tokens/limit, limit, decoder/(tokens/limit)
		return fmt.Sprintf("and %d target tokens each, taken as long as the model allows: give --batch, --seq and --decoder-seq",
			s.DecoderSeq)
	}
	n, _ := o.apart(max(tokens, decoder, 1))
	s.Batch, s.Sequence, s.DecoderSeq = n, max(tokens/n, 1), max(decoder/n, 1)
	if n > 1 {
		return fmt.Sprintf("and %d target tokens each, no more than the model has learned positions: give --batch, --seq and "+
			"--decoder-seq", s.DecoderSeq)
	}
	return fmt.Sprintf("and %d target tokens, taken as one sequence: give --batch, --seq and --decoder-seq", decoder)
}
