package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/gates"
)

// Of the folders that were made for files that then couldn't be written, none stays.
func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	unmake, err := makeFolder(filepath.Join(dir, "a", "b") + "/")
	if err != nil {
		t.Fatal(err)
	}
	unmake()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if unmake, err = makeFolder(filepath.Join(dir, "c", "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unmake()
	if left, err := os.ReadDir(filepath.Join(dir, "c")); err != nil || len(left) != 1 || left[0].Name() != "file" {
		t.Errorf("left: %v, %v", left, err)
	}
	if unmake, err = makeFolder(dir); err != nil {
		t.Fatal(err)
	}
	unmake()
	if _, err := makeFolder(filepath.Join(dir, "c", "file", "e")); err == nil {
		t.Error("made a folder within a file")
	}
}

// A gate doesn't pass in silence for a GPU of unknown size beside one whose size is known.
func TestWarnUntold(t *testing.T) {
	size := int64(100)
	device := func(reserved int64, capacity *int64) report.Device {
		d := report.Device{CapacityBytes: capacity}
		d.Peaks.Reserved.Bytes = reserved
		return d
	}
	conditions, err := gates.Parse([]string{"reserved>95%"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		devices []report.Device
		want    string
	}{
		"known":               {[]report.Device{device(50, &size)}, ""},
		"unknown":             {[]report.Device{device(50, nil), device(0, nil)}, "the GPU's size isn't known (--gpu)"},
		"one unknown":         {[]report.Device{device(50, &size), device(50, nil)}, "the size of 1 of 2 GPUs isn't known (--gpu)"},
		"one empty":           {[]report.Device{device(50, &size), device(0, nil)}, ""},
		"exceeded by another": {[]report.Device{device(99, &size), device(50, nil)}, ""},
	} {
		got, want := "", ""
		if err := gates.Unjudged(conditions, &report.Document{Devices: tt.devices}); err != nil {
			got = err.Error()
		}
		if tt.want != "" {
			want = "--fail-on reserved>95% can't be judged: " + tt.want
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
