package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/explain"
	"github.com/vramscope/vramscope/internal/answers"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/report"
)

// largest are the ten largest recordings at hand.
func largest(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../testdata/recordings/*/*.pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, corpus.Glob(t, "snapshots/*")...)
	size := map[string]int64{}
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			size[f] = st.Size()
		}
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a, b)) })
	return files[:10]
}

// printed is what a command line prints.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, strings.NewReader(""), &stdout, &stderr); code == exitUnusable {
		t.Fatalf("%v: %s", args, stderr.String())
	}
	return stdout.Bytes()
}

// TestSizes: no answer about a recording, however long, is more than somebody reads.
func TestSizes(t *testing.T) {
	for _, file := range largest(t) {
		size := func(most int, args ...string) []byte {
			t.Helper()
			out := printed(t, args...)
			if len(out) > most {
				t.Errorf("%v: %d bytes, more than %d", args, len(out), most)
			}
			return out
		}
		var doc report.Document
		if err := json.Unmarshal(printed(t, "analyze", file, "--format", "json"), &doc); err != nil {
			t.Fatal(err)
		}
		size(answers.DeviceBytes*len(doc.Devices), "analyze", file, "--format", "json")
		size(6_000*len(doc.Devices), "analyze", file)
		size(1_000, "analyze", file, "-q")
		for _, format := range []string{"text", "json", "markdown"} {
			size(2_000, "analyze", file, "--format", format, "-v", "--max-bytes", "2000")
		}
		asked := []string{"--category=activations", "--category=temporary", "--rule=temporary-in-forward", "--event=100",
			"--allocation=100", "--finding=logits_dominate"}
		for i := range doc.Devices[0].Steps {
			asked = append(asked, fmt.Sprintf("--step=%d", doc.Devices[0].Steps[i].Step))
		}
		for _, q := range asked[max(0, len(asked)-4):] {
			var answer explain.Document
			if err := json.Unmarshal(size(30_000, "explain", file, "--format=json", q), &answer); err != nil {
				t.Fatal(err)
			}
			size(10_000, "explain", file, q)
		}
	}
}

// TestSummaryOfManySteps bounds a report of a run that took a while, and keeps it whole
// where that is asked for.
func TestSummaryOfManySteps(t *testing.T) {
	doc := &report.Document{Schema: report.Schema, Devices: []report.Device{{Device: 0}}}
	d := &doc.Devices[0]
	for i := range 20_000 {
		d.Steps = append(d.Steps, report.Step{Step: i, Phases: []report.Phase{{Phase: "forward"}, {Phase: "backward"}}})
	}
	for i := range 2_000 {
		line := i
		d.Sites = append(d.Sites, report.Site{Function: "f", File: "train.py", Line: &line})
	}
	var short bytes.Buffer
	if err := answers.JSON(&short, doc); err != nil || short.Len() > answers.DeviceBytes || short.Len() < answers.DeviceBytes/2 {
		t.Fatalf("%d bytes, %v", short.Len(), err)
	}
	var got struct {
		report.Document
		LeftOut []struct {
			Path  string
			Items int
		} `json:"left_out"`
	}
	if err := json.Unmarshal(short.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Devices[0].Steps) + got.Devices[0].StepsLeftOut; n != 20_000 {
		t.Errorf("%d steps are there or counted", n)
	}
	if len(got.LeftOut) != 1 || got.LeftOut[0].Path != "devices[].sites" ||
		got.LeftOut[0].Items+len(got.Devices[0].Sites) != 2_000 {
		t.Errorf("%+v, %d sites are there", got.LeftOut, len(got.Devices[0].Sites))
	}
}
