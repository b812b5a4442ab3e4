package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vramscope/vramscope/evidence"
)

const trace = `{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA \"H100\"", "totalGlobalMem": 85018279936}],
  "distributedInfo": {"backend": "nccl", "rank": 5},
  "baseTimeNanoseconds": 1700000000000000000,
  "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "a \"[memory]\" b", "ts": 1, "dur": 2, "args": {"x": "{[\\"}},
  {"ph": "i", "name": "[memory]", "tid": 7, "ts": 10.5, "args": {"Device Type": 1, "Device Id": 0, "Addr": 18446744073709551615, "Bytes": 512, "Total Allocated": 1024, "Total Reserved": 4096}},
  {"ph": "i", "name": "[memory]", "tid": 7, "ts": 11, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 99999, "Total Allocated": 99999}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 50},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 50},
  {"ph": "X", "cat": "user_annotation", "name": "## forward ##", "ts": 1, "dur": 20}
  ], "traceName": "x"}`

func TestTrace(t *testing.T) {
	result, err := Read(strings.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	r := result.Trace
	if r.Events != 6 || r.MemoryEvents != 2 || r.Rank != 5 || r.BaseNanoseconds != 1700000000000000000 {
		t.Errorf("%+v", r)
	}
	if a, b := *r.PeakAllocatedBytes, *r.PeakReservedBytes; a != 1024 || b != 4096 {
		t.Errorf("peaks %d and %d: the host's memory is not the device's", a, b)
	}
	if len(r.Steps) != 1 || r.Steps[0].Step != 3 || len(r.Annotations) != 1 {
		t.Errorf("steps %+v, annotations %+v", r.Steps, r.Annotations)
	}
	if d := r.Devices[1]; d.CapacityBytes != 85018279936 || d.Name != `NVIDIA "H100"` {
		t.Errorf("device %+v", d)
	}
}

// TestFailed keeps requests that failed apart from those that were met.
func TestFailed(t *testing.T) {
	const failed = `{"ph": "i", "name": "[OutOfMemory]", "tid": 7, "ts": 12, "args": {"Device Type": 1, "Device Id": 0, "Bytes": 8589934592, "Total Allocated": 1024, "Total Reserved": 4096}},`
	result, err := Read(strings.NewReader(strings.Replace(trace, `{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3"`, failed+`{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r := result.Trace
	want := evidence.MemoryEvent{Micros: 12, Bytes: 8 << 30, Type: 1, TotalAllocated: 1024, TotalReserved: 4096}
	if len(r.Failed) != 1 || r.Failed[0] != want || r.MemoryEvents != 2 {
		t.Errorf("%+v", r)
	}
}

func TestByteByByte(t *testing.T) {
	whole, _ := Read(strings.NewReader(trace))
	parts, err := Read(iotest.OneByteReader(strings.NewReader(trace)))
	if err != nil || !reflect.DeepEqual(whole.Trace, parts.Trace) {
		t.Errorf("%v\n%+v\n%+v", err, whole.Trace, parts.Trace)
	}
}

// TestCutAnywhere cuts the trace at every byte: an error that says where, and
// never a panic or a count of events that were not there.
func TestCutAnywhere(t *testing.T) {
	begin := strings.Index(trace, "traceEvents")
	for n := 1; n < len(trace)-1; n++ {
		result, err := Read(strings.NewReader(trace[:n]))
		if err == nil {
			t.Fatalf("no error at %d", n)
		}
		if !strings.Contains(err.Error(), "offset ") {
			t.Fatalf("error %q does not say where", err)
		}
		if n > begin+20 && (result.Trace == nil || result.Trace.Events > 6) {
			t.Fatalf("cut at %d: %+v", n, result.Trace)
		}
	}
}

func TestTimelines(t *testing.T) {
	tests := []struct {
		name, in string
		rows     int
		peak     int64
		atPeak   evidence.TimelineBytes
	}{
		{"raw", `[[-1,0,1000,0],[100,1,500,4],[110,1,300,4],[120,3,-500,4],[130,2,-300,4],[130,2,300,5]]`, 6, 1800,
			evidence.TimelineBytes{evidence.Parameter: 1000, evidence.Activation: 800}},
		{"cumulative", `[[100,110],[[0,1000,1000,1000,1000,1500,1500,1500,1500],[0,900,900,900,900,900,950,950,1000]]]`, 2, 1500,
			evidence.TimelineBytes{evidence.Parameter: 1000, evidence.Activation: 500}},
		{"one row", `[[-1,0,1000,0]]`, 1, 1000, evidence.TimelineBytes{evidence.Parameter: 1000}},
		{"blanks", " [ [-1 , 0 , 1000 , 0 ] , [ 100 , 1 , 500 , 4 ] ] ", 2, 1500, evidence.TimelineBytes{evidence.Parameter: 1000, evidence.Activation: 500}},
		{"one moment", `[[100],[[0,1,1,1,1,1,1,1,1]]]`, 1, 1, evidence.TimelineBytes{evidence.Parameter: 1}},
		{"four moments", `[[1,2,3,4],[[0,1,1,1,1,1,1,1,1],[0,2,2,2,2,2,2,2,2],[0,1,1,1,1,1,1,1,1],[0,1,1,1,1,1,1,1,1]]]`, 4, 2, evidence.TimelineBytes{evidence.Parameter: 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, err := Read(strings.NewReader(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if l := result.Timeline; l.Rows != test.rows || l.PeakBytes != test.peak || l.AtPeak != test.atPeak {
				t.Errorf("%+v", l)
			}
		})
	}
}

func TestNotTraces(t *testing.T) {
	for _, in := range []string{"", "x", "[", "{}", `{"a": [1, {"b": 2}]}`, `{"traceEvents": 5}`, "[]", "[1]", "[[]]", `[["a"]]`, "[[1,2],[3,4]]", `[{"a":1}]`,
		strings.Repeat("[", 100_000), `{"a":` + strings.Repeat("[", 100_000), `{` + strings.Repeat("a", 1<<20), `{"` + strings.Repeat("k", 1<<20) + `":1}`} {
		if _, err := Read(strings.NewReader(in)); !errors.Is(err, ErrNotTrace) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%.40q: %v", in, err)
		}
	}
}

// TestLongEvent passes over an event longer than is kept, and goes on.
func TestLongEvent(t *testing.T) {
	long := `{"traceEvents": [{"ph": "X", "name": "` + strings.Repeat("x", 3*maxValue) + `"}, {"ph": "i", "name": "[memory]", "args": {"Device Type": 1, "Device Id": 0, "Bytes": 1}}]}`
	result, err := Read(strings.NewReader(long))
	if err != nil || result.Trace.Events != 2 || result.Trace.MemoryEvents != 1 {
		t.Errorf("%v, %+v", err, result.Trace)
	}
}

// TestDevices: a list of devices has each id once, whatever their types.
func TestDevices(t *testing.T) {
	var events []string
	for _, device := range [][2]int{{1, 1}, {6, 0}, {1, 0}, {0, -1}} {
		events = append(events, fmt.Sprintf(`{"ph": "i", "name": "[memory]", "args": {"Device Type": %d, "Device Id": %d, "Bytes": 1}}`, device[0], device[1]))
	}
	result, err := Read(strings.NewReader(`{"traceEvents": [` + strings.Join(events, ",") + `]}`))
	if err != nil || !slices.Equal(result.Trace.Accelerators, []int{0, 1}) {
		t.Errorf("%v, %v", result.Trace.Accelerators, err)
	}
}

// TestBlanks: nothing is kept of white space.
func TestBlanks(t *testing.T) {
	const long = 32 << 20
	for _, parts := range [][2]string{{"[[1,1,1,1]", "]"}, {"[[1,1,1,1],", "[1,1,1,1]]"}, {"[[1,1,1,1],[", "[0,1,1,1,1,1,1,1,1]]]"}, {"[[1],", "[[0,1,1,1,1,1,1,1,1]]]"}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Read(io.MultiReader(strings.NewReader(parts[0]), io.LimitReader(blanks{}, long), strings.NewReader(parts[1])))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
			t.Errorf("%s: %d bytes for %d of white space", parts[0], n, long)
		}
	}
}

type blanks struct{}

func (blanks) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(trace))
	f.Add([]byte(`[[-1,0,1000,0],[100,1,500,4]]`))
	f.Add([]byte(`[[100,110],[[0,1,1,1,1,1,1,1,1],[0,9,9,9,9,9,9,9,9]]]`))
	f.Add([]byte(`[{"ph":"i","name":"[memory]","args":{"Bytes":-1e300}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := Read(bytes.NewReader(data))
		if err == nil && (result.Trace == nil) == (result.Timeline == nil) {
			t.Fatalf("neither or both: %+v", result)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	var text bytes.Buffer
	text.WriteString(`{"traceEvents": [`)
	for i := 0; text.Len() < 8<<20; i++ {
		fmt.Fprintf(&text, `{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 7, "ts": %d.5, "dur": 12, "args": {"External id": %d, "Input Dims": [[4, 4], [4, 4]]}},`, i, i)
		if i%20 == 0 {
			fmt.Fprintf(&text, `{"ph": "i", "name": "[memory]", "tid": 7, "ts": %d, "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Total Allocated": 1024, "Total Reserved": 4096}},`, i)
		}
	}
	text.WriteString(`{}]}`)
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCut gives what was read of a trace that ends too early, wherever it ends.
func TestCut(t *testing.T) {
	head := `{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": [`
	event := `{"ph": "i", "name": "[memory]", "ts": 5, "args": {"Bytes": 512, "Device Type": 1, "Device Id": 0, "Total Allocated": 512}}`
	whole := head + event + `], "traceName": "x"}`
	for n := strings.Index(whole, `[{`) + 1; n < len(whole); n++ {
		r, err := Read(strings.NewReader(whole[:n]))
		if !errors.Is(err, io.ErrUnexpectedEOF) || r.Trace == nil {
			t.Fatalf("%d bytes: %v, trace %v", n, err, r.Trace)
		}
		want := 0
		if n >= len(head+event) {
			want = 1
		}
		if r.Trace.MemoryEvents != want || len(r.Trace.Devices) != want {
			t.Errorf("%d bytes: %d events on %d devices, want %d", n, r.Trace.MemoryEvents, len(r.Trace.Devices), want)
		}
	}
}
