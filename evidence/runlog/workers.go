package runlog

import (
	"bytes"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
)

// workers are the ranks or GPUs by which lines name whose memory they tell, each with its most.
type workers struct {
	list  []evidence.Worker
	place map[string]int
}

// maxWorkers bounds them.
const maxWorkers = 4096

var ofWorker = pattern.Of(`(?i)\b(?:local_|global_)?(rank)[ :=-]{0,2}(\d{1,4})\b|\[default(\d{1,4})\]|` +
	`\b(?:GPU|cuda)[ :]?(\d{1,2})\b`)

// nameOf is whose a line is, "" where it names none, or several.
func nameOf(line []byte) string {
	line, name := line[:min(len(line), maxProse)], ""
	if !mayName(line) {
		return ""
	}
	for _, m := range ofWorker().FindAllSubmatch(line, 4) {
		found := "GPU " + string(m[4])
		if len(m[4]) == 0 {
			return "rank " + string(m[2]) + string(m[3])
		}
		if name != "" && name != found {
			return ""
		}
		name = found
	}
	return name
}

// mayName reports whether a number stands behind the last letter of rank, default, GPU or cuda, which few lines have: steps
// are read by the million.
func mayName(line []byte) bool {
	for i := 1; i < len(line); i++ {
		if !units.IsDigit(line[i]) || units.IsDigit(line[i-1]) {
			continue
		}
		k := i - 1
		for k > 0 && i-k <= 2 && bytes.IndexByte([]byte(" :=-"), line[k]) >= 0 {
			k--
		}
		if bytes.IndexByte([]byte("ktua"), line[k]|0x20) >= 0 {
			return true
		}
	}
	return false
}

// note takes what a line tells of one's memory.
func (w *workers) note(line []byte, f *facts) {
	held := f.allocated
	if held == unknown {
		held = f.reserved
	}
	if held <= 0 {
		return
	}
	name := nameOf(line)
	if name == "" {
		return
	}
	if w.place == nil {
		w.place = map[string]int{}
	}
	i, ok := w.place[name]
	if !ok {
		if i = len(w.list); i >= maxWorkers {
			return
		}
		w.place[name] = i
		w.list = append(w.list, evidence.Worker{Name: name})
	}
	w.list[i].MaxBytes = max(w.list[i].MaxBytes, held)
}

// finish is all of one kind, nil for less than two.
func (w *workers) finish() []evidence.Worker {
	if len(w.list) < 2 {
		return nil
	}
	kind, _, _ := strings.Cut(w.list[0].Name, " ")
	if slices.ContainsFunc(w.list, func(x evidence.Worker) bool { return !strings.HasPrefix(x.Name, kind) }) {
		return nil
	}
	return w.list
}
