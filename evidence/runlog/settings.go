package runlog

import (
	"bytes"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/tracker"
	"github.com/vramscope/vramscope/internal/pattern"
)

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
	for _, m := range setting().FindAllSubmatch(line, 64) {
		p.setTo(line, m)
	}
	return false
}

// setTo takes a setting where its name alone says what it is of.
func (p *Parser) setTo(line []byte, m [][]byte) {
	name := strings.ReplaceAll(strings.ToLower(string(m[1])), " ", "_")
	inTable := bytes.Contains(m[2], []byte("..")) || bytes.Contains(m[2], []byte("  "))
	switch {
	case (name == "seq_length" || name == "world_size") && !inTable: // a model's, or some code's
	case name == "batch_size" && m[0][0] == ' ' && !bytes.Contains(line, []byte("Namespace(")): // perhaps of an evaluation
	default:
		p.settings.Set(name, string(m[3]))
	}
}
