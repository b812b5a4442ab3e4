package html_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/view"
)

// Not every query of nvidia-smi asks for the memory in use: without any there
// is no curve to draw.
func TestNoCurveWithoutMemory(t *testing.T) {
	samples := []evidence.Sample{{UsedBytes: -1}, {UsedBytes: -1}, {UsedBytes: -1}}
	page := func() string {
		ev := evidence.New()
		ev.GPUs = []evidence.GPU{{Samples: len(samples), Series: evidence.Series{Samples: samples}}}
		return string(written(t, &report.Document{Inputs: []report.Input{{Path: "smi.csv"}}, Evidence: ev}))
	}
	if p := page(); strings.Contains(p, `data-plot="smi"`) || !strings.Contains(p, "<dd>no memory figure, 3 readings</dd>") {
		t.Error("without readings of the memory there is a chart, or a figure")
	}
	samples[0].UsedBytes, samples[2].UsedBytes = 1<<30, 2<<30
	if p := page(); !strings.Contains(p, `data-plot="smi"`) || !strings.Contains(p, `[[0,1073741824],[2,2147483648]]`) {
		t.Error("two readings of three make no curve")
	}
}

func TestMemoryTimelineAlone(t *testing.T) {
	ev := evidence.New()
	timeline := evidence.Timeline{PeakBytes: 4 << 30}
	timeline.AtPeak[evidence.Activation], timeline.PeakByCategory[evidence.Activation] = 3<<30, 3<<30
	timeline.AtPeak[evidence.OptimizerState], timeline.PeakByCategory[evidence.OptimizerState] = 1<<30, 2<<30
	ev.Timelines = []evidence.Timeline{timeline}
	text := textOf(written(t, &report.Document{Inputs: []report.Input{{Path: "memory.raw"}}, Evidence: ev}))
	for _, want := range []string{"memory.raw: 4.00 GiB at its peak", "activation 3.00 GiB 75.0 % 3.00 GiB\noptimizer state 1.00 GiB 25.0 % 2.00 GiB"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "of the host") {
		t.Error("a GPU's timeline is called the host's")
	}
	ev.Timelines[0].Host = true
	if text := textOf(written(t, &report.Document{Inputs: []report.Input{{Path: "memory.raw"}}, Evidence: ev})); !strings.Contains(text, "The profiler's memory timeline of the host") {
		t.Errorf("a host's timeline isn't called so:\n%s", text)
	}
	if strings.Contains(text, "None was given") {
		t.Error("the page says that nothing was given")
	}
}

// TestMonitors: readings stand beside the names of what printed them.
func TestMonitors(t *testing.T) {
	ev := evidence.New()
	ev.GPUs = []evidence.GPU{{Samples: 1}, {Samples: 1, GPU: 1}, {Samples: 1, Tool: "gpustat"}}
	doc := &report.Document{Inputs: []report.Input{{Path: "smi.csv"}}, Evidence: ev}
	var page, ticket bytes.Buffer
	if err := errors.Join(html.Document(&page, doc), markdown.Write(&ticket, view.Document(doc, view.Ticket))); err != nil {
		t.Fatal(err)
	}
	for _, gpu := range []string{"nvidia-smi GPU 0", "nvidia-smi GPU 1", "gpustat GPU 0"} {
		if !strings.Contains(page.String(), "<dt>"+gpu+"</dt><dd>") || !strings.Contains(ticket.String(), "\n- "+gpu+": ") {
			t.Errorf("no line of %s in a page or ticket: %s", gpu, ticket.String())
		}
	}
}
