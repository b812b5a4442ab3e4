package recipe

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// A checkpoint's configuration names the class that it was saved from. What a program trains has the head of the program's
// own class: BERT is saved with words to guess, and trained with two labels.

// headOf is the head that a class of Transformers puts on a model, where it isn't the usual one of generation.
var headOf = pattern.Of(`For(SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|MaskedLM|` +
	`ImageClassification)\.from_pretrained$`)

// headed notes the head of the class that a call makes a model of. One in a branch is named, where another is there.
func (f *fields) headed(c *pyCall) {
	if m := headOf().FindStringSubmatch(c.name); m != nil && c.maybe && f.head != "" {
		f.add("trainable class", c.name+" (in a branch)")
	} else if m != nil {
		f.head, f.labels = m[1], whole(c.by["num_labels"].text)
	}
}

// programs are Transformers' example scripts, by their names: the head that each puts on a model, and whether its collator
// pads sentences to one length, so that attention has a mask.
var programs = []struct {
	named func() *regexp.Regexp
	head  string
	pads  bool
}{
	{pattern.Of(`^run_(glue|classification|xnli|\w*(text|sequence)_classification)`), "SequenceClassification", true},
	{pattern.Of(`^run_(ner|token_classification)`), "TokenClassification", true},
	{pattern.Of(`^run_(qa|squad)`), "QuestionAnswering", true},
	{pattern.Of(`^run_swag`), "MultipleChoice", true},
	{pattern.Of(`^run_speech_recognition_ctc`), "", true},
	{pattern.Of(`^run_(summarization|translation|seq2seq)`), "", true},
	{pattern.Of(`^run_mlm`), "MaskedLM", false},
	{pattern.Of(`^run_image_classification`), "ImageClassification", false},
}

// trains says whether a program is one of them.
func trains(program string) bool {
	program = strings.ToLower(program)
	for i := range programs {
		if programs[i].named().MatchString(program) {
			return true
		}
	}
	return false
}

// putOn takes the head that a file's class or script names into the recipe, and what else the script does.
func (r *Recipe) putOn(f *fields) {
	r.Head, r.Labels = f.head, f.labels
	for i := range programs {
		if p := &programs[i]; p.named().MatchString(strings.ToLower(f.program)) {
			if r.Head == "" {
				r.Head = p.head
			}
			if p.pads {
				r.unasked(Flag{"padding", "true"})
			}
			if strings.Contains(f.program, "speech_recognition_ctc") { // it reads sound by the sample
				seconds, err := strconv.ParseFloat(f.values["max_duration_in_seconds"], 64)
				if err != nil || !(seconds > 0 && seconds < 1e6) {
					seconds = 20
				}
				r.unasked(Flag{"seq", strconv.FormatInt(int64(16_000*seconds), 10)})
			}
			return
		}
	}
}
