package read

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence/labels"
)

// TestBombs: a file of each form that is nested, or has more things, than any real one takes
// memory by its size at most, whether it is read or refused.
func TestBombs(t *testing.T) {
	again := strings.Repeat
	gpustat := `{"query_time": "2026-01-01T00:00:00", "gpus": [{"index": 0, "memory.used": 1.0, "memory.total": 2.0, "x": `
	wandb := func(record string) string {
		out := []byte(":W&B\xe1\xbe\x00")
		for kind := byte(2); record != ""; kind = 3 {
			n := min(len(record), 32<<10-len(out)%(32<<10)-7)
			if n == len(record) {
				kind = 4
			}
			out = append(out, 0, 0, 0, 0, byte(n), byte(n>>8), kind)
			out = append(out, record[:n]...)
			record = record[n:]
		}
		return string(out)
	}
	message := func(field byte, text string) string {
		return string(append(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(text))), text...))
	}
	item := func(key, value string) string { return message(1, message(1, key)+"\x82\x01"+message(0, value)[1:]) }
	deep := message(5, item("a", again(`{"a":`, 200_000)+"1"+again("}", 200_000)))
	var keys strings.Builder
	for i := range 40_000 {
		keys.WriteString(item(fmt.Sprint("key", i), "1"))
	}
	for _, tt := range []struct{ name, text, refused string }{
		{"all_results.json", `{"train_loss": 1, "a": ` + again("[", 500_000), "deeper than 64 levels"},
		{"wandb-summary.json", `{"_step": 1, "a": ` + again(`{"a":`, 500_000), "deeper than 64 levels"},
		{"wandb-summary.json", `{"_step": 1, "a": "` + again("x", 17<<20) + `"}`, "more than 16 MiB"},
		{"wandb-metadata.json", `{"program": "a", "args": ["` + again(`","`, 2<<20), "more than 4 MiB"},
		{"wandb-metadata.json", `{"program": "a", "x": ` + again("[", 500_000), "deeper than 64 levels"},
		{"trainer_state.json", `{"best_metric": 1, "best_model_checkpoint": 1, "global_step": 1, "log_history": [{"step": 1, "loss": ` +
			again("[", 500_000), "deeper than 64 levels"},
		{"trainer_state.json", `{"best_metric": 1, "best_model_checkpoint": 1, "global_step": 1, "log_history": [{"step": 1, "loss": "` +
			again("x", 17<<20) + `"}]}`, "more than 16 MiB"},
		{"run.json", `{"schema": "vramscope.run/1", "command": ["a"], "environment": {"gpu": ` + again("[", 500_000), "deeper than 64 levels"},
		{"gpustat.json", gpustat + again("[", 500_000), "deeper than 64 levels"},
		{"gpustat.json", gpustat + `"` + again("x", 5<<20) + `"}]}`, "more than 4 MiB"},
		{"a.wandb", wandb(deep), "without steps"},
		{"b.wandb", wandb(message(2, keys.String())), ""},
		{"c.wandb", wandb(again("\x12\x80\x80\x80\x80", 200_000)), "no message"},
		{"events.out.tfevents.1", "\x18" + again("\x00", 11) + "\x09" + again("\x00", 8) + "\x1a\x0dbrain.Event:2" + again("\xff", 1<<20), "bytes"},
		{"trace.json", `{"traceEvents": [` + again(`{"args":`, 500_000), "trace"},
		{"timeline.json", again("[", 1_000_000), ""},
		{"a.ipynb", `{"cells": [` + again(`{"outputs":[`, 200_000) + `"loss"`, "no line"},
		{"b.ipynb", `{"cells": [{"outputs": [{"text": ["` + again(`\u000a`, 200_000) + `"]}]}]}`, "no line"},
		{"smi.xml", "<nvidia_smi_log>" + again("<gpu id=\"0\"><a>", 100_000), ""},
		{"smi one.xml", "<nvidia_smi_log>\n" + again("<gpu id=\"00000000:01:00.0\">\n", 100_000), ""},
		{"docker.log", "a\n" + `{"log":"` + again("[", 500_000) + `"}` + "\n" + `{"log":` + again("[", 500_000), "no line"},
	} {
		took, said := allocated(func() error {
			_, _, err := Evidence(strings.NewReader(tt.text), tt.name, 0)
			return err
		})
		if most := uint64(4<<20 + 100*len(tt.text)); took > most {
			t.Errorf("%s: %d bytes took %d, more than %d: %v", tt.name, len(tt.text), took, most, said)
		}
		if tt.refused != "" && (said == nil || !strings.Contains(said.Error(), tt.refused)) {
			t.Errorf("%s, %.60q: %.200v, want %q", tt.name, tt.text, said, tt.refused)
		}
	}
	for _, text := range []string{again("[", 4<<20), `{"x": ` + again("[", 4<<20), `{"x": ` + again(`{"x":`, 1<<20)} {
		for what, read := range map[string]func() error{
			"labels":  func() error { _, err := labels.Read(strings.NewReader(text)); return err },
			"holders": func() error { _, err := labels.ReadHolders(bytes.NewReader([]byte(text))); return err },
		} {
			if took, err := allocated(read); err == nil || took > 10<<20 {
				t.Errorf("%s %.20q took %d: %v", what, text, took, err)
			}
		}
	}
}

// allocated is how much memory a function took from the heap, all together.
func allocated(f func() error) (bytes uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}
