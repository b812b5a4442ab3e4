package settings

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRefusalsNameFields: what stands in braces in a refusal is a field, and each flag that it names is one.
func TestRefusalsNameFields(t *testing.T) {
	known := func(name string) bool {
		return name == "same" || slices.ContainsFunc(Fields, func(f Field) bool { return f.Name == name })
	}
	for _, x := range refusals {
		for _, m := range regexp.MustCompile(`\{([a-z0-9-]+)\}|--([a-z0-9-]+)`).FindAllStringSubmatch(x.text, -1) {
			if !known(m[1] + m[2]) {
				t.Errorf("%q: %s is no field", x.text, m[1]+m[2])
			}
		}
	}
}

// TestPlansTellAll: what a setting says beside what plans search stands on their command line.
func TestPlansTellAll(t *testing.T) {
	s := Setting{Copies: 1, Liger: true, FSDP: "full", FSDPVersion: 1, GPUs: 8, CP: 2, Torch: "2.8", Allocator: "expandable", Shards: 4}.Defaults()
	const want = "--precision bf16 --batch 1 --seq 1024 --gpus 8 --fsdp full --cp 2 --copies 1 --liger --fsdp-version 1 --fsdp-shards 4 " +
		"--host-ahead=false --torch 2.8 --allocator expandable"
	if got := s.Flags(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if n := strings.Count(fieldsText, " | ") / 5; n != len(Fields) {
		t.Errorf("%d fields of %d lines", len(Fields), n)
	}
	for _, f := range Fields {
		if strings.ToLower(f.Name) != f.Name || f.Help == "" || f.At(&s) == nil {
			t.Errorf("%+v", f)
		}
	}
}
