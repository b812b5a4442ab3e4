package runlog

import (
	"bytes"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/tracker"
	"github.com/vramscope/vramscope/internal/pattern"
)

// nearby is how far in front of a setting is looked for what it is of.
const nearby = 512

// setting is one as trainers print it: "micro_batch_size .......... 2", "Batch size per device = 2 | …",
// "train_micro_batch_size_per_gpu  4", "  \"sequence_len\": 8192,", "Namespace(batch_size=8, …".
var setting = pattern.Of(`(?i)(?:^|[\s"'(,|\]])(?:instantaneous )?(batch size per device|(?:per_device_train_|` +
	`train_micro_|micro_)?batch_size(?:_per_gpu)?|` +
	`gradient[_ ]accumulation[_ ]steps|grad_accum_steps|accumulate_grad_batches|max_seq_len(?:gth)?|` +
	`seq_length|sequence_len|cutoff_len|world_size|num gpus used)["']?(?: /[^:=]{1,60})?(\s*[:=]\s*|\s+\.{2,}\s*|\s{2,})` +
	`(\d{1,9})\s*(?:$|[,;)}|])`)

// maxSettings is the longest line that is looked at: all arguments of a program may stand in one.
const maxSettings = 16 << 10

// commandLines are those in which a log says by which command it came to be; further on, commands stand in programs' texts.
const commandLines = 64

// settingLine takes what a program prints of its settings before its first step.
func (p *Parser) settingLine(number int, line []byte, _ features) bool {
	if p.told > 0 || len(line) > maxSettings || bytes.Contains(line, []byte("LLM engine")) { // which says what it can take
		return false
	}
	if p.settings == nil {
		p.settings = new(tracker.NewSettings(evidence.FromLog))
	}
	if isCommand(line) {
		if number > commandLines {
			return false
		}
		words := append(strings.Fields(string(line)), "")
		for i, next := range words[1:] {
			p.settings.Argument(words[i], next)
		}
		return false
	}
	for _, at := range setting().FindAllSubmatchIndex(line, 64) {
		if !evaluations().Match(line[max(at[0]-nearby, 0):at[0]]) {
			p.setTo(line, at)
		}
	}
	return false
}

// evaluations are what settings in brackets are of that aren't the training's: an evaluation's, or a model's limits.
var evaluations = pattern.Of(`(?i)(?:val|eval\w*|test|predict|infer)(?:[_-]\w+)?["']?\s*[:=]\s*\w*[({]|ModelArgs\(`)

// setTo takes a setting where its name alone says what it is of.
func (p *Parser) setTo(line []byte, at []int) {
	name := strings.ReplaceAll(strings.ToLower(string(line[at[2]:at[3]])), " ", "_")
	between := line[at[4]:at[5]]
	inTable := bytes.Contains(between, []byte("..")) || bytes.Contains(between, []byte("  "))
	// of a batch without another word, one that begins a line or stands among all of a program's counts
	outer := at[0] == at[2] || bytes.Contains(line[:at[0]+1], []byte("Namespace(")) ||
		strings.IndexByte(`"'`, line[at[0]]) >= 0 && bytes.IndexByte(line[:at[0]], '{') >= 0
	switch {
	case (name == "seq_length" || name == "world_size") && !inTable: // a model's, or some code's
	case name == "batch_size" && !outer: // perhaps of an evaluation
	default:
		p.settings.Set(name, string(line[at[6]:at[7]]))
	}
}
