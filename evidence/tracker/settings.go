package tracker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
)

// Settings are what names and values say of how a training was set.
type Settings struct {
	p       evidence.Parameters
	accum   int64
	lengths []length
	models  []string // above whose settings
}

// NewSettings are none yet, by whoever tells them.
func NewSettings(tracker string) Settings { return Settings{p: evidence.Parameters{Tracker: tracker}} }

// maxText bounds what is kept of a parameter that is text.
const maxText = 200

// Told are they, nil without any.
func (s *Settings) Told() *evidence.Parameters {
	s.sequence()
	if s.accum > 1 {
		s.p.Accumulation = &s.accum
	}
	if !s.p.Told() {
		return nil
	}
	s.p.SetTokens()
	return &s.p
}

// length is a length of sequences that may be a model's limit, or that of what it writes.
type length struct{ above, key, value string }

// maxLengths bounds how many of those, and of models, a file may have.
const maxLengths = 64

// sequence is the length of the training's sequences, where no setting says so by its name
// alone: what stands among a model's own is its limit, but for max_length, where the trainer's
// stands in place of the model's, and where 20 is what Transformers writes if nobody says another.
func (s *Settings) sequence() {
	for _, l := range s.lengths {
		v, err := strconv.ParseFloat(l.value, 64)
		if err == nil && v >= 1 && v < 1<<40 && s.p.SequenceLength == nil &&
			(l.key == "max_length" && v != 20 || l.key != "max_length" && !slices.Contains(s.models, l.above)) {
			s.p.SequenceLength = new(int64(v))
		}
	}
}

// settings are what a setting's last name says it is, names with blanks between them.
var settings = byName(map[string]func(s *Settings, key, value string){
	"per_device_train_batch_size micro_batch_size train_micro_batch_size_per_gpu batch_size train_batch_size " +
		"micro_batch_size_per_gpu local_batch_size bs bsz batchsize batch_size_per_device": func(s *Settings, _, v string) {
		count(&s.p.BatchSize, v)
	},
	"max_seq_length max_seq_len seq_len sequence_length cutoff_len sequence_len": func(s *Settings, _, v string) {
		count(&s.p.SequenceLength, v)
	},
	"world_size num_gpus n_gpus n_gpu num_devices gpu_count num_gpus_used": func(s *Settings, _, v string) {
		count(&s.p.GPUs, v)
	},
	"gradient_accumulation_steps accumulate_grad_batches grad_accum_steps": func(s *Settings, _, v string) {
		if n, err := strconv.ParseInt(v, 10, 32); err == nil && n > 0 {
			s.accum = n
		}
	},
	"model_name_or_path _name_or_path model_name base_model model pretrained_model_name_or_path model_path arch architecture " +
		"backbone": func(s *Settings, _, v string) { text(&s.p.Model, v) },
	"optim optimizer optimizer_type optimizer_name": func(s *Settings, _, v string) { text(&s.p.Optimizer, v) },
	"bf16 fp16": func(s *Settings, key, v string) {
		if strings.EqualFold(v, "true") {
			text(&s.p.Precision, key+"-mixed")
		}
	},
	"mixed_precision precision torch_dtype dtype": func(s *Settings, _, v string) {
		if v != "no" && v != "auto" {
			text(&s.p.Precision, strings.TrimPrefix(v, "torch."))
		}
	},
})

func byName[T any](lists map[string]T) map[string]T {
	each := map[string]T{}
	for list, v := range lists {
		for _, name := range strings.Fields(list) {
			each[name] = v
		}
	}
	return each
}

// count takes a number, and text a text that is no structure, where none came before.
func count(to **int64, value string) {
	if v, err := strconv.ParseFloat(value, 64); err == nil && v >= 1 && v < 1<<40 && *to == nil {
		*to = new(int64(v))
	}
}

func text(to **string, value string) {
	if !strings.ContainsAny(value, "{}\n") && *to == nil {
		*to = &value
	}
}

// Set takes a setting by its name, however deep it lay.
func (s *Settings) Set(name, value string) {
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	if value == "" || value == "null" || value == "None" || len(value) > maxText {
		return
	}
	lower := strings.ToLower(name)
	key := lower[strings.LastIndexAny(lower, "./")+1:]
	if take := settings[key]; take != nil {
		take(s, key, value)
		return
	}
	s.ofModel(lower[:len(lower)-len(key)], key, value)
}

// ofModel keeps what may be a model's own.
func (s *Settings) ofModel(above, key, value string) {
	switch key {
	case "seq_length", "max_length", "block_size", "context_length":
		if len(s.lengths) < maxLengths {
			s.lengths = append(s.lengths, length{above, key, value})
		}
	case "model_type", "transformers_version":
		if len(s.models) < maxLengths {
			s.models = append(s.models, above)
		}
	}
}

// Argument takes --batch_size 8 and --batch-size=8.
func (s *Settings) Argument(name, value string) {
	option, ok := strings.CutPrefix(name, "--")
	if !ok {
		return
	}
	if key, inline, ok := strings.Cut(option, "="); ok {
		option, value = key, inline
	}
	if !strings.HasPrefix(value, "--") {
		s.Set(strings.ReplaceAll(option, "-", "_"), value)
	}
}
