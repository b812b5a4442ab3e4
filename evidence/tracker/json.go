package tracker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/limit"
	"github.com/vramscope/vramscope/internal/secrets"
)

// maxHistory bounds a Trainer's state, which is read value by value.
const maxHistory = 512 << 20

// isTrainerState tells transformers' trainer_state.json (trainer_callback.py,
// TrainerState) by its keys.
func isTrainerState(_ string, head []byte) bool {
	return firstByte(head) == '{' && bytes.Contains(head, []byte(`"log_history"`)) && bytes.Contains(head,
		[]byte(`"global_step"`)) ||
		firstByte(head) == '{' && bytes.Contains(head[:min(len(head), 400)], []byte(`"best_metric"`)) &&
			bytes.Contains(head, []byte(`"best_model_checkpoint"`))
}

// readTrainerState reads the history one entry at a time.
func readTrainerState(r *run, in io.Reader) error {
	bounded := limit.Reader(limit.History, io.LimitReader(in, maxHistory))
	d := json.NewDecoder(bounded)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return broken(d, err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return broken(d, err)
		}
		bounded.Next()
		if key != "log_history" {
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return broken(d, err)
			}
			name, _ := key.(string)
			r.flat(name, value, 0)
			continue
		}
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return broken(d, err)
		}
		for d.More() {
			var entry map[string]any
			bounded.Next()
			if err := d.Decode(&entry); err != nil {
				return broken(d, err)
			}
			r.entry(entry)
		}
		if _, err := d.Token(); err != nil {
			return broken(d, err)
		}
	}
	return nil
}

// entry takes an entry of a history: {"epoch": 0.5, "loss": 2.1, "step": 10}.
func (r *run) entry(entry map[string]any) {
	number := int64(-1)
	if step, ok := entry["step"].(float64); ok && step >= 0 && step < 1<<50 {
		number = int64(step)
	}
	if _, total := entry["train_runtime"]; total { // the totals at the end stand with the last step
		number = -1
	}
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		if v, ok := entry[name].(float64); ok {
			r.scalar(number, name, v)
		}
	}
}

func broken(d *json.Decoder, err error) error {
	if err == nil {
		err = fmt.Errorf("JSON of another form")
	}
	return fmt.Errorf("offset %d: %w", d.InputOffset(), err)
}

// isResults tells all_results.json, train_results.json.
func isResults(name string, head []byte) bool {
	base := path.Base(slashed(name))
	return firstByte(head) == '{' && (base == "all_results.json" || base == "train_results.json") &&
		bytes.Contains(head, []byte(`"train_`))
}

// readSummary takes a flat JSON object: figures and texts.
func readSummary(r *run, in io.Reader) error {
	d := json.NewDecoder(limit.Reader(limit.Summary, in))
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return broken(d, err)
	}
	number := int64(-1)
	for _, key := range []string{"_step", "train/global_step", "global_step", "step"} {
		if v, ok := all[key].(float64); ok && number < 0 && v >= 0 && v < 1<<50 {
			number = int64(v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch v := all[name].(type) {
		case float64:
			r.scalar(number, name, v)
		case string:
			r.Set(name, v)
		}
	}
	return nil
}

// maxDepth is how deep parameters may lie.
const maxDepth = 6

// flat takes all parameters below a name.
func (r *run) flat(name string, value json.RawMessage, depth int) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || depth > maxDepth {
		return
	}
	switch value[0] {
	case '{':
		var below map[string]json.RawMessage
		if json.Unmarshal(value, &below) != nil {
			return
		}
		if inner, ok := below["value"]; ok && len(below) <= 2 { // W&B's {"desc": …, "value": …}
			r.flat(name, inner, depth+1)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(below)) {
			r.flat(name+"."+key, below[key], depth+1)
		}
	case '[':
	default:
		r.Set(name, string(value))
	}
}

// readMetadata reads the command and the GPUs (wandb-metadata.json).
func readMetadata(r *run, in io.Reader) error {
	d := json.NewDecoder(limit.Reader(limit.Metadata, in))
	var m struct {
		Program   string   `json:"program"`
		Args      []string `json:"args"`
		GPU       string   `json:"gpu"`
		GPUCount  int64    `json:"gpu_count"`
		GPUNvidia []gpuOf  `json:"gpu_nvidia"`
		GPUAMD    []gpuOf  `json:"gpu_amd"`
	}
	if err := d.Decode(&m); err != nil {
		return broken(d, err)
	}
	r.command(m.Program, m.Args)
	for i, g := range append(m.GPUNvidia, m.GPUAMD...) {
		r.reading(i, -1, g.total(), -1, evidence.Stamp{})
		if gpu := r.gpus[i]; gpu != nil && g.Name != "" {
			gpu.Name = &g.Name
		}
	}
	if m.GPU != "" && len(m.GPU) < maxText {
		r.p.GPU = &m.GPU
	}
	if m.GPUCount > 0 && m.GPUCount < 1<<20 {
		r.p.GPUs = &m.GPUCount
	}
	return nil
}

// command takes the command and the settings among its arguments.
func (r *run) command(program string, args []string) {
	if program == "" {
		return
	}
	command := program + " " + strings.Join(secrets.Words(args), " ")
	command = strings.TrimSpace(strings.ToValidUTF8(command[:min(len(command), 1000)], ""))
	r.p.Command = &command
	for i := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		r.Argument(args[i], next)
	}
}

// gpuOf is a GPU of such a file, whose memory some versions write as text.
type gpuOf struct {
	Name        string `json:"name"`
	MemoryTotal any    `json:"memory_total"`
	MemoryCamel any    `json:"memoryTotal"`
}

func (g *gpuOf) total() int64 {
	for _, v := range []any{g.MemoryTotal, g.MemoryCamel} {
		switch v := v.(type) {
		case float64:
			if v > 0 && v < 1<<52 {
				return int64(v)
			}
		case string:
			if n, err := strconv.ParseInt(v, 10, 52); err == nil {
				return n
			}
		}
	}
	return -1
}
