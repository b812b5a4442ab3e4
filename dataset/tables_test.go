package dataset

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// shipped is the first GPU of one of the project's own recordings.
func shipped(t testing.TB, name string) Recording {
	t.Helper()
	s, err := snapshot.Open("../testdata/recordings/"+name, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tl := timeline.New(s, &s.Devices[0])
	return Recording{Timeline: tl, View: frames.New(s), Classes: classify.New(tl, classify.Options{})}
}

// written is a table of a recording in one format.
func written(t testing.TB, f Format, table *Table, r Recording, event int) []byte {
	t.Helper()
	var b bytes.Buffer
	sink, err := NewSink(&b, f, table)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(sink, table, event); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readers read a table back as JSON lines, with the schema that was found.
var readers = map[Format]func(t *testing.T, data []byte) (*arrow.Schema, []byte){
	Parquet: func(t *testing.T, data []byte) (*arrow.Schema, []byte) {
		f, err := file.NewParquetReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 1000}, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		schema, err := r.Schema()
		if err != nil {
			t.Fatal(err)
		}
		var lines []byte
		for g := range f.NumRowGroups() {
			records, err := r.GetRecordReader(t.Context(), nil, []int{g})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, linesOf(t, schema, records)...)
		}
		return schema, lines
	},
	Arrow: func(t *testing.T, data []byte) (*arrow.Schema, []byte) {
		r, err := ipc.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return r.Schema(), linesOf(t, r.Schema(), r)
	},
}

func linesOf(t *testing.T, schema *arrow.Schema, r array.RecordReader) []byte {
	var b bytes.Buffer
	x := newText(&b, JSONL, schema)
	for r.Next() {
		if err := x.Write(r.Record()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFormatsAgree reads every table back from every format: the same columns,
// the same units and meanings, the same values.
func TestFormatsAgree(t *testing.T) {
	for _, name := range []string{"mlp_regression__script/snapshot_all.pickle.gz", "qwen_vocab_oom__05b/snapshot_all.pickle.gz"} {
		r := shipped(t, name)
		event := r.Timeline.Peaks.Allocated.Event
		for _, table := range RecordingTables() {
			t.Run(name+"/"+table.Name, func(t *testing.T) {
				lines := written(t, JSONL, table, r, event)
				if len(lines) == 0 && table != Holders && table != Host {
					t.Fatal("no rows")
				}
				for _, f := range []Format{Parquet, Arrow} {
					schema, read := readers[f](t, written(t, f, table, r, event))
					checkSchema(t, f, table, schema)
					if !bytes.Equal(read, lines) {
						t.Errorf("%s: other values than in JSON lines", f)
					}
				}
				checkSheet(t, table, written(t, CSV, table, r, event), lines)
			})
		}
	}
}

func checkSchema(t *testing.T, f Format, table *Table, got *arrow.Schema) {
	t.Helper()
	if version, _ := got.Metadata().GetValue("vramscope.schema"); version != table.Version {
		t.Errorf("%s: schema %q, want %q", f, version, table.Version)
	}
	for i, c := range table.Columns {
		field := got.Field(i)
		unit, _ := field.Metadata.GetValue("unit")
		doc, _ := field.Metadata.GetValue("doc")
		if field.Name != c.Name || unit != c.Unit || doc != c.Doc || field.Nullable != c.Null || field.Type.ID() != c.Type.ID() {
			t.Errorf("%s: column %v, want %+v", f, field, c)
		}
	}
}

// checkSheet compares a CSV table with the same as JSON lines.
func checkSheet(t *testing.T, table *Table, sheet, lines []byte) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(sheet)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(lines))
	for i, row := range rows[1:] {
		var object map[string]json.RawMessage
		if err := d.Decode(&object); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		for k, c := range table.Columns {
			value := string(object[c.Name])
			var text string
			if json.Unmarshal(object[c.Name], &text) == nil {
				value = text // null unmarshals to ""
			}
			if value != row[k] || rows[0][k] != c.Name {
				t.Fatalf("row %d, %s: JSON %s, CSV %s %s", i, c.Name, value, rows[0][k], row[k])
			}
		}
	}
	if d.More() {
		t.Error("more JSON lines than CSV rows")
	}
}

// rowsOf are a table's rows as another program reads them.
func rowsOf(t *testing.T, table *Table, r Recording, event int) (rows []map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(written(t, JSONL, table, r, event)))
	for d.More() {
		var row map[string]any
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestSums checks that the tables conserve bytes: blocks in use are what is
// active, categories what is allocated, segments what is reserved.
func TestSums(t *testing.T) {
	r := shipped(t, "side_stream__prefetcher/snapshot_all.pickle.gz")
	tl := r.Timeline
	sum := func(table *Table, keep func(map[string]any) bool) (total int64) {
		for _, row := range rowsOf(t, table, r, tl.Peaks.Allocated.Event) {
			if keep(row) {
				total += int64(row["bytes"].(float64))
			}
		}
		return total
	}
	all := func(map[string]any) bool { return true }
	if got := sum(Segments, all); got != tl.AtPeak.Reserved {
		t.Errorf("segments hold %d bytes, reserved are %d", got, tl.AtPeak.Reserved)
	}
	if got := sum(Blocks, all); got != tl.AtPeak.Reserved {
		t.Errorf("blocks hold %d bytes, reserved are %d", got, tl.AtPeak.Reserved)
	}
	used := func(row map[string]any) bool { return row["state"] != "inactive" }
	if got := sum(Blocks, used); got != tl.AtPeak.Active {
		t.Errorf("blocks in use hold %d bytes, active are %d", got, tl.AtPeak.Active)
	}
	allocated := func(row map[string]any) bool { return row["state"] == "active_allocated" && row["category"] != nil }
	if got := sum(Blocks, allocated); got != tl.AtPeak.Allocated {
		t.Errorf("categories hold %d bytes, allocated are %d", got, tl.AtPeak.Allocated)
	}
}

// allocatedAt sums the rows of Allocations that are allocated right after an
// event, as the query in doc/tables.md does.
func allocatedAt(t *testing.T, r Recording, event int) (total int64) {
	t.Helper()
	for _, row := range rowsOf(t, Allocations, r, 0) {
		born, old := row["alloc_event"].(float64)
		freed, gone := row["free_event"].(float64)
		if (!old || int(born) <= event) && (!gone || int(freed) > event) && row["free_before_trace"] == false {
			total += int64(row["allocated_bytes"].(float64))
		}
	}
	return total
}

// TestAllocatedAtPeak sums the allocations at the peak of every recording.
func TestAllocatedAtPeak(t *testing.T) {
	files, err := filepath.Glob("../testdata/recordings/*/snapshot_*.pickle.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		s, err := snapshot.Open(file, snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Devices {
			tl := timeline.New(s, &s.Devices[i])
			r := Recording{Timeline: tl, View: frames.New(s), Classes: classify.New(tl, classify.Options{})}
			if got, peak := allocatedAt(t, r, tl.Peaks.Allocated.Event), tl.Peaks.Allocated; got != peak.Bytes {
				t.Errorf("%s, device %d: %d bytes at event %d, the peak is %d", file, i, got, peak.Event, peak.Bytes)
			}
		}
	}
}

// TestFreeBeforeTrace begins a recording between the request to free a block
// and its completion: within the window or, as where only the final state was
// recorded, beyond it.
func TestFreeBeforeTrace(t *testing.T) {
	pending := func(r Recording) Recording {
		tl := timeline.New(r.Timeline.Snapshot, r.Timeline.Device)
		if tl.Start.Active == tl.Start.Allocated {
			t.Fatal("no block is pending at the start")
		}
		return Recording{Timeline: tl, View: r.View, Classes: classify.New(tl, classify.Options{})}
	}
	whole := shipped(t, "side_stream__prefetcher/snapshot_all.pickle.gz")
	first := -1
	for id, asked := range whole.Timeline.FreeRequested {
		if done := whole.Timeline.Freed[id]; done < timeline.Before && done > asked+1 {
			first = int(asked) + 1
			break
		}
	}
	if first < 0 {
		t.Fatal("no free waits for another stream")
	}
	e := &whole.Timeline.Device.Events
	e.Action, e.Address, e.Size, e.Stack = e.Action[first:], e.Address[first:], e.Size[first:], e.Stack[first:]
	e.TimeUS, e.Stream, e.Pool = part(e.TimeUS, first, first+len(e.Action)), part(e.Stream, first, first+len(e.Action)), nil

	final := shipped(t, "mlp_regression__script/snapshot_state.pickle.gz")
	for i := range final.Timeline.Device.Segments {
		for j := range final.Timeline.Device.Segments[i].Blocks {
			if b := &final.Timeline.Device.Segments[i].Blocks[j]; b.State == snapshot.ActiveAllocated && b.Size > 1<<20 {
				b.State = snapshot.ActivePendingFree
			}
		}
	}
	for name, r := range map[string]Recording{"completed": pending(whole), "never completed": pending(final)} {
		if got, peak := allocatedAt(t, r, r.Timeline.Peaks.Allocated.Event), r.Timeline.Peaks.Allocated; got != peak.Bytes {
			t.Errorf("%s: %d bytes at event %d, the peak is %d", name, got, peak.Event, peak.Bytes)
		}
	}
}

// TestCurve follows the categories of every recording: they sum to what is
// allocated at every event, and a row is missing only where nothing changes.
func TestCurve(t *testing.T) {
	for _, name := range []string{"mlp_regression__script", "side_stream__prefetcher", "decode__hf_dynamic_cache",
		"frag_oom__pairwise_docs"} {
		t.Run(name, func(t *testing.T) {
			r := shipped(t, name+"/snapshot_all.pickle.gz")
			at := map[int]int64{}
			for _, row := range rowsOf(t, Categories, r, 0) {
				event := timeline.NoEvent
				if e, ok := row["event"].(float64); ok {
					event = int(e)
				}
				var total int64
				for k := range classify.NumCategories {
					bytes := row[classify.Category(k).String()].(float64)
					if bytes < 0 {
						t.Fatalf("event %d: %v", event, row)
					}
					total += int64(bytes)
				}
				at[event] = total
			}
			now := r.Timeline.Start.Allocated
			if at[timeline.NoEvent] != now {
				t.Errorf("%d bytes before the first event, want %d", at[timeline.NoEvent], now)
			}
			r.Timeline.Walk(func(event int, levels timeline.Levels) {
				total, changed := at[event]
				if changed {
					now = total
				}
				if now != levels.Allocated {
					t.Fatalf("event %d: categories hold %d bytes, allocated are %d", event, now, levels.Allocated)
				}
			})
		})
	}
}

// TestText quotes what CSV and JSON would misread.
func TestText(t *testing.T) {
	for _, s := range []string{"plain", `say "hi"`, "a,b", "two\nlines", "tab\t", "ünïcode", "<script>", "", "\u2028"} {
		var b bytes.Buffer
		x := textSink{format: CSV}
		b.Write(x.quote(nil, s))
		b.WriteString(",1\n")
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || rows[0][0] != s {
			t.Errorf("CSV of %q: %v %v", s, rows, err)
		}
		x.format = JSONL
		var read string
		if err := json.Unmarshal(x.quote(nil, s), &read); err != nil || read != s {
			t.Errorf("JSON of %q: %s %v", s, read, err)
		}
	}
	if strings.Contains(string((&textSink{format: JSONL}).quote(nil, "</script>")), "<") {
		t.Error("a page could be left")
	}
}

// What a program said of its memory, the forward stack of a backward allocation, the node
// that a generated line runs, and pinned memory: each is in its table, in every format.
func TestWhatRecordingsSay(t *testing.T) {
	r := shipped(t, "../said/said.pickle.gz")
	for _, table := range []*Table{Events, Allocations, Stacks, Host} {
		lines := written(t, JSONL, table, r, 0)
		for _, f := range []Format{Parquet, Arrow} {
			if _, read := readers[f](t, written(t, f, table, r, 0)); !bytes.Equal(read, lines) {
				t.Errorf("%s as %s differs", table.Name, f)
			}
		}
	}
	type frame struct {
		Function string  `json:"function"`
		File     string  `json:"file"`
		Line     int     `json:"line"`
		Name     *string `json:"fx_name"`
		Trace    *string `json:"fx_original_trace"`
	}
	stacks := map[int][]frame{}
	for _, s := range decoded[struct {
		Stack  int     `json:"stack"`
		Frames []frame `json:"frames"`
	}](t, written(t, JSONL, Stacks, r, 0)) {
		stacks[s.Stack] = s.Frames
	}
	said, forward, nodes := map[string]int{}, 0, 0
	for _, a := range decoded[struct {
		Metadata *string `json:"user_metadata"`
		Forward  *int    `json:"forward_stack"`
		Stack    *int    `json:"stack"`
	}](t, written(t, JSONL, Allocations, r, 0)) {
		if a.Metadata != nil {
			said[*a.Metadata]++
		}
		if a.Forward != nil {
			forward++
			if f := stacks[*a.Forward]; len(f) < 4 || f[len(f)-1] != (frame{Function: "<module>", File: "/home/user/said.py", Line: 59}) {
				t.Fatalf("forward stack %v: its outermost line is that of the program", f)
			}
		}
		if a.Stack != nil {
			if f := stacks[*a.Stack][0]; f.Name != nil && *f.Name == "linear" && strings.Contains(*f.Trace, `said.py", line 24, in forward`) {
				nodes++
			}
		}
	}
	if want := map[string]int{"model": 7, "forward 0": 8, "forward 1": 8, "forward 2": 8, "optimizer": 35,
		`{"part":"loss","step":0}`: 3, `{"part":"loss","step":1}`: 3, `{"part":"loss","step":2}`: 3}; !maps.Equal(said, want) {
		t.Errorf("user_metadata %v, want %v", said, want)
	}
	if forward != 117 || nodes != 6 {
		t.Errorf("%d allocations with a forward stack, want 117; %d of the node linear, want 6", forward, nodes)
	}
	host := decoded[struct {
		Born      *int  `json:"alloc_event"`
		Freed     *int  `json:"free_event"`
		Bytes     int64 `json:"allocated_bytes"`
		Requested int64 `json:"requested_bytes"`
		Stack     *int  `json:"stack"`
	}](t, written(t, JSONL, Host, r, 0))
	if len(host) != 6 {
		t.Fatalf("%d allocations of pinned memory, want 6", len(host))
	}
	if h := host[3]; *h.Born != 7 || *h.Freed != 8 || h.Bytes != 65536 || h.Requested != 65536 || stacks[*h.Stack][0].Function != "train" {
		t.Errorf("%+v", h)
	}
	if h := host[5]; *h.Born != 13 || *h.Freed != 14 {
		t.Errorf("%+v", h)
	}
}

// decoded reads JSON lines.
func decoded[T any](t *testing.T, lines []byte) (rows []T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(lines))
	for d.More() {
		var row T
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}
