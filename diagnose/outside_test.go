package diagnose

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// input is one file of a run: a text, or a shipped recording.
type input struct {
	name, text string
	snapshot   *snapshot.Snapshot
}

// judged is the report on a run that left these files behind.
func judged(t *testing.T, files ...input) *report.Document {
	t.Helper()
	ev := evidence.New()
	var sources []Source
	for i, f := range files {
		if f.snapshot != nil {
			sources = append(sources, Source{Path: f.name, Kind: "snapshot", Snapshot: f.snapshot})
			continue
		}
		kinds, found, err := read.Evidence(strings.NewReader(f.text), f.name, i)
		if err != nil {
			t.Fatal(err)
		}
		ev.Add(found)
		sources = append(sources, Source{Path: f.name, Kind: kinds[0], Contains: kinds})
	}
	doc, err := Run(sources, ev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// fileInput is a text that lies in a file.
func fileInput(t *testing.T, name string) input {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return input{name: name, text: string(text)}
}

// recording reads a shipped recording.
func recording(t *testing.T, name string) *snapshot.Snapshot {
	t.Helper()
	in, err := snapshot.OpenInput(filepath.Join("..", "testdata", "recordings", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, err := in.Snapshot(snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// found is the finding with an id, wherever it stands.
func found(doc *report.Document, id string) *report.Finding {
	all := slices.Clone(doc.Findings)
	for i := range doc.Devices {
		all = append(all, doc.Devices[i].Findings...)
	}
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// TestOutsidePyTorch takes what PyTorch reserved from what the GPU had in use.
func TestOutsidePyTorch(t *testing.T) {
	const gib = 1 << 30
	message, err := filepath.Abs("../testdata/recordings/frag_oom__pairwise_docs/log.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := recording(t, "mlp_regression__script/snapshot_all.pickle.gz")
	reserved := judged(t, input{name: "s", snapshot: s}).Devices[0].Peaks.Reserved.Bytes
	mib := func(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
	gpu := func(used int64) string {
		return fmt.Sprintf("index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA H100 80GB HBM3, %d MiB, 81559 MiB\n",
			mib(used))
	}
	tests := []struct {
		name                         string
		files                        []input
		context, others, unaccounted int64 // -1: null; in MiB
		severity                     report.Severity
	}{
		{"the message says it all", []input{{name: "s", snapshot: recording(t, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")},
			fileInput(t, message)}, 522, 0, 0, report.Info},
		{"as much as a context", []input{{name: "s", snapshot: s}, {name: "gpu.csv", text: gpu(reserved + gib/2)}}, 512, -1, 0,
			report.Info},
		{"more than a context", []input{{name: "s", snapshot: s}, {name: "gpu.csv", text: gpu(reserved + 9*gib)}}, -1, -1, 9216,
			report.Warning},
		{"the process list divides it", []input{{name: "s", snapshot: s}, {name: "smi.txt", text: logtext.SMI(mib(reserved+9*gib),
			fmt.Sprintf("4711 %d", mib(reserved+gib/2)), "4712 8192")}}, 512, 8192, 512, report.Warning},
		{"less than PyTorch had: another moment", []input{{name: "s", snapshot: s}, {name: "gpu.csv", text: gpu(gib / 4)}}, -1,
			-1, -1, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, test.files...)
			m := doc.Devices[0].AtPeak
			for i, want := range []int64{test.context, test.others, test.unaccounted} {
				bytes := []*int64{m.CUDAContext, m.OtherProcesses, m.Unaccounted}[i]
				if want < 0 && bytes != nil || want >= 0 && (bytes == nil || *bytes>>20 > want+1 || *bytes>>20 < want-1) {
					t.Errorf("part %d: %v, want %d MiB", i, bytes, want)
				}
			}
			f := found(doc, "outside_pytorch")
			if test.severity == "" && f != nil || test.severity != "" && (f == nil || f.Severity != test.severity) {
				t.Errorf("finding %+v", f)
			}
		})
	}
}
