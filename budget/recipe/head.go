package recipe

import (
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// A checkpoint's configuration names the class that it was saved from. What a program trains has the head of the program's
// own class: BERT is saved with words to guess, and trained with two labels.

// headOf is the head that a class of Transformers puts on a model, where it isn't the usual one of generation.
var headOf = pattern.Of(`For(SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|MaskedLM|` +
	`ImageClassification)\.from_pretrained$`)

// headed notes the head of the class that a call makes a model of.
func (f *fields) headed(c *pyCall) {
	if m := headOf().FindStringSubmatch(c.name); m != nil {
		f.head, f.labels = m[1], whole(c.by["num_labels"].text)
	}
}

// programHeads are those of Transformers' example scripts, by the script's name.
var programHeads = []struct {
	named func() *regexp.Regexp
	head  string
}{
	{pattern.Of(`^run_(glue|classification|xnli|\w*(text|sequence)_classification)`), "SequenceClassification"},
	{pattern.Of(`^run_(ner|token_classification)`), "TokenClassification"},
	{pattern.Of(`^run_(qa|squad)`), "QuestionAnswering"},
	{pattern.Of(`^run_mlm`), "MaskedLM"},
	{pattern.Of(`^run_swag`), "MultipleChoice"},
	{pattern.Of(`^run_image_classification`), "ImageClassification"},
}

// putOn takes the head that a file's class or script names into the recipe.
func (r *Recipe) putOn(f *fields) {
	if r.Head, r.Labels = f.head, f.labels; r.Head != "" {
		return
	}
	for i := range programHeads {
		if programHeads[i].named().MatchString(strings.ToLower(f.program)) {
			r.Head = programHeads[i].head
			return
		}
	}
}
