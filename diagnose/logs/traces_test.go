package logs_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	writer "github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// TestTraceAlone finds what grows from step to step in a profiler's trace.
func TestTraceAlone(t *testing.T) {
	trace := func(kept int) string {
		var b strings.Builder
		b.WriteString(`{"traceEvents": [`)
		for step := range 10 {
			start := 1e6 * float64(step)
			fmt.Fprintf(&b, `{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","ts":%f,"dur":900000},`, step, start)
			level := 2<<30 + step*kept
			for k := range 100 { // up and down again
				bytes := 64 << 20
				if k >= 50 {
					bytes = -bytes
				}
				level += bytes
				if k == 99 {
					level += kept
				}
				fmt.Fprintf(&b, `{"ph":"i","cat":"cpu_instant_event","name":"[memory]","ts":%f,"args":{"Device Type":1,`+
					`"Device Id":0,"Addr":1,"Bytes":%d,"Total Allocated":%d,"Total Reserved":%d}},`,
					start+1000+8000*float64(k), bytes, level, 8<<30)
			}
		}
		return strings.TrimSuffix(b.String(), ",") + `]}`
	}
	if f := found(judged(t, input{name: "trace.json", text: trace(100 << 20)}), "memory_grows"); f == nil ||
		!strings.Contains(f.Title, "100.00 MiB a step") {
		t.Errorf("found %+v", f)
	}
	doc := judged(t, input{name: "trace.json", text: trace(0)})
	if len(doc.Findings) > 0 || !strings.Contains(doc.Verdict.Text, "ProfilerStep#") {
		t.Errorf("found %+v, verdict %q", doc.Findings, doc.Verdict.Text)
	}
}

// TestTraceWithoutTotals: traces of old name no totals, which is said in words.
func TestTraceWithoutTotals(t *testing.T) {
	event := `{"ph":"i","cat":"Memory","name":"[memory]","ts":%d,"args":{"Device Type":1,"Device Id":0,"Bytes":%d}}`
	doc := judged(t, input{name: "trace.json", text: `{"traceEvents": [` + fmt.Sprintf(event, 1, 4096) + "," + fmt.Sprintf(event,
		2, -4096) + `]}`})
	var text bytes.Buffer
	if err := writer.Write(&text, view.Document(doc, view.Terminal), writer.Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "2 memory events, without totals of a GPU"); n != 2 || strings.Contains(text.String(),
		"?") {
		t.Errorf("%d times in\n%s", n, text.String())
	}
}

// TestTraceOfFailure tells of a request that failed in a trace, as far as its figures go.
func TestTraceOfFailure(t *testing.T) {
	trace := func(asked, allocated, reserved int64) string {
		event := func(name string, bytes, allocated, reserved int64) string {
			return fmt.Sprintf(`{"ph":"i","name":"[%s]","ts":1,"args":{"Device Type":1,"Device Id":0,"Bytes":%d,`+
				`"Total Allocated":%d,"Total Reserved":%d}}`, name, bytes, allocated, reserved)
		}
		return `{"deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42949672960}], "traceEvents": [` +
			event("memory", 1024, 1024, 2<<20) + "," + event("OutOfMemory", asked, allocated, reserved) + `]}`
	}
	tests := []struct {
		asked, allocated, reserved int64
		id, says                   string
	}{
		{4 << 30, 38 << 30, 39 << 30, "oom_true_shortage",
			"4.00 GiB asked for; with the 38.00 GiB in use it exceeds the GPU's 40.00 GiB by 2.00 GiB"},
		{4 << 30, 30 << 30, 38 << 30, "oom_fragmentation", "8.00 GiB were free in PyTorch's cache"},
		{4 << 30, 10 << 30, 11 << 30, "oom_unclear", "the trace doesn't say what was free"},
	}
	for _, test := range tests {
		doc := judged(t, input{name: "trace.json", text: trace(test.asked, test.allocated, test.reserved)})
		if f := found(doc, test.id); f == nil || !strings.Contains(f.Title, test.says) || doc.Verdict.Text != f.Title {
			t.Errorf("%+v, want %q", doc.Findings, test.says)
		}
	}
}
