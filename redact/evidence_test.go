package redact

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

// Whatever text a reader of evidence takes from a file is redacted, that of fields added later
// too: every text of all evidence is planted, and only those below come through.
func TestNoTextOfEvidenceComesThrough(t *testing.T) {
	const word = "moonshot"
	var ev evidence.Evidence
	plantEach(reflect.ValueOf(&ev).Elem(), word)
	New("").Evidence(&ev)
	var left []string
	comesThrough(reflect.ValueOf(ev), "", word, &left)
	slices.Sort(left)
	want := []string{ // words of the program's own, which readers choose among
		"GPUs.Partition", "GPUs.Tool", "Logs.Ending.How", "Logs.Engine.Name", "Logs.HostFailures.By", "Logs.Servers.Name", "Logs.Workers.Name",
		"OOMMessages.Backend", "OOMMessages.By", "OOMMessages.Fix", "OOMMessages.Phase", "OOMMessages.Scene.Doing", "OOMMessages.Scene.Server",
		"OOMMessages.Verdict", "Parameters.Tracker",
	}
	if left = slices.Compact(left); !slices.Equal(left, want) {
		t.Errorf("left: %s", strings.Join(left, "\n"))
	}
}

func plantEach(v reflect.Value, word string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(word)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		plantEach(v.Elem(), word)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				plantEach(v.Field(i), word)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		plantEach(v.Index(0), word)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		plantEach(key, word)
		plantEach(value, word)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

func comesThrough(v reflect.Value, path, word string, left *[]string) {
	switch v.Kind() {
	case reflect.String:
		if strings.Contains(v.String(), word) {
			*left = append(*left, path)
		}
	case reflect.Pointer:
		comesThrough(v.Elem(), path, word, left)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				comesThrough(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), word, left)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			comesThrough(v.Index(i), path, word, left)
		}
	case reflect.Map:
		if strings.Contains(fmt.Sprint(v.Interface()), word) {
			*left = append(*left, path)
		}
	}
}

// What everybody's tools write stays.
func TestUsualEvidenceStays(t *testing.T) {
	keep := func(s string) *string { return &s }
	for _, c := range [][2]string{{"2.9.1+cu128", "paged_adamw_8bit"}, {"2.4.0a0+git1a2b3c", "adamw_torch_fused"},
		{"13.2", "AdamW"}, {"570.86.15", "torch.optim.AdamW"}, {"3.11.7", "deepspeed_cpu_adam"}} {
		ev := evidence.Evidence{Parameters: []evidence.Parameters{{Optimizer: keep(c[1]), Precision: keep("bf16-mixed"),
			Machine: &evidence.Machine{Torch: keep(c[0]),
				Settings: keep("expandable_segments:True,max_split_size_mb:128 PYTORCH_ALLOC_CONF=x")}}},
			OOMMessages: []evidence.OOMMessage{{By: "CUBLAS_STATUS_ALLOC_FAILED"},
				{By: "MOONSHOT_STATUS_ALLOC_FAILED"}},
			Logs: []evidence.Log{{Phases: []evidence.PhaseReading{{When: "before vllm offload in sharding manager"},
				{When: "after update_weights"}, {When: "before moonshot offload"}}}}}
		New("").Evidence(&ev)
		p, log := &ev.Parameters[0], &ev.Logs[0]
		got := strings.Join([]string{*p.Machine.Torch, *p.Optimizer, *p.Precision, shape(*p.Machine.Settings), ev.OOMMessages[0].By,
			ev.OOMMessages[1].By[:4], log.Phases[0].When, log.Phases[1].When, log.Phases[2].When[:13]}, "|")
		want := c[0] + "|" + c[1] + "|bf16-mixed|expandable_segments:True,max_split_size_mb:128 PYTORCH_ALLOC_CONF=value|" +
			"CUBLAS_STATUS_ALLOC_FAILED|libr|before vllm offload in sharding manager|after update_weights|before phase_"
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
