package dataset

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/stacks"
	"github.com/vramscope/vramscope/timeline"
)

// tables are all tables with what writes them.
var tables = []struct {
	table Table
	write func(*Writer, Recording, int)
}{
	{Events, func(x *Writer, r Recording, _ int) { WriteEvents(x, r) }},
	{Allocations, func(x *Writer, r Recording, _ int) { WriteAllocations(x, r) }},
	{Stacks, func(x *Writer, r Recording, _ int) { WriteStacks(x, r.Timeline.Snapshot, r.View) }},
	{Segments, WriteSegments},
	{Blocks, WriteBlocks},
}

func shipped(t *testing.T, name string) Recording {
	t.Helper()
	s, err := snapshot.Open("../testdata/recordings/"+name, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tl := timeline.New(s, &s.Devices[0])
	return Recording{Timeline: tl, View: stacks.New(s), Classes: classify.New(tl, classify.Options{})}
}

// TestFormatsAgree reads every table back in both formats: the same columns, as
// many rows, the same values.
func TestFormatsAgree(t *testing.T) {
	r := shipped(t, "mlp_regression__script/snapshot_all.pickle.gz")
	event := r.Timeline.Peaks.Allocated.Event
	for _, c := range tables {
		var lines, sheet bytes.Buffer
		for format, w := range map[Format]*bytes.Buffer{JSONL: &lines, CSV: &sheet} {
			x := NewWriter(w, format, c.table)
			c.write(x, r, event)
			if err := x.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := csv.NewReader(&sheet).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", c.table.Name, err)
		}
		if strings.Join(rows[0], ",") != strings.Join(c.table.Columns, ",") {
			t.Fatalf("%s: columns %v", c.table.Name, rows[0])
		}
		d := json.NewDecoder(&lines)
		for i, row := range rows[1:] {
			var object map[string]json.RawMessage
			if err := d.Decode(&object); err != nil {
				t.Fatalf("%s: row %d: %v", c.table.Name, i, err)
			}
			for k, column := range c.table.Columns {
				value := string(object[column])
				var text string
				if json.Unmarshal(object[column], &text) == nil {
					value = text // null unmarshals to ""
				}
				if value != row[k] {
					t.Fatalf("%s: row %d, %s: JSON %s, CSV %s", c.table.Name, i, column, value, row[k])
				}
			}
		}
		if d.More() {
			t.Errorf("%s: more JSON lines than CSV rows", c.table.Name)
		}
	}
}

// TestSums checks that the tables conserve bytes: blocks in use are what is
// active, categories what is allocated, segments what is reserved.
func TestSums(t *testing.T) {
	r := shipped(t, "side_stream__prefetcher/snapshot_all.pickle.gz")
	tl := r.Timeline
	event := tl.Peaks.Allocated.Event
	sum := func(table Table, write func(*Writer, Recording, int), column string, keep func(map[string]any) bool) (total int64) {
		var b bytes.Buffer
		x := NewWriter(&b, JSONL, table)
		write(x, r, event)
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		for d := json.NewDecoder(&b); d.More(); {
			var row map[string]any
			if err := d.Decode(&row); err != nil {
				t.Fatal(err)
			}
			if keep(row) {
				total += int64(row[column].(float64))
			}
		}
		return total
	}
	all := func(map[string]any) bool { return true }
	if got := sum(Segments, WriteSegments, "bytes", all); got != tl.AtPeak.Reserved {
		t.Errorf("segments hold %d bytes, reserved are %d", got, tl.AtPeak.Reserved)
	}
	if got := sum(Blocks, WriteBlocks, "bytes", all); got != tl.AtPeak.Reserved {
		t.Errorf("blocks hold %d bytes, reserved are %d", got, tl.AtPeak.Reserved)
	}
	used := func(row map[string]any) bool { return row["state"] != "inactive" }
	if got := sum(Blocks, WriteBlocks, "bytes", used); got != tl.AtPeak.Active {
		t.Errorf("blocks in use hold %d bytes, active are %d", got, tl.AtPeak.Active)
	}
	allocated := func(row map[string]any) bool { return row["state"] == "active_allocated" && row["category"] != nil }
	if got := sum(Blocks, WriteBlocks, "bytes", allocated); got != tl.AtPeak.Allocated {
		t.Errorf("categories hold %d bytes, allocated are %d", got, tl.AtPeak.Allocated)
	}
}

// TestText quotes what CSV and JSON would misread.
func TestText(t *testing.T) {
	for _, s := range []string{"plain", `say "hi"`, "a,b", "two\nlines", "tab\t", "ünïcode", "<script>", "", "\u2028"} {
		var b bytes.Buffer
		x := NewWriter(&b, CSV, Table{"t", []string{"a", "b"}})
		x.Text(s)
		x.Int(1)
		x.Flush()
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || rows[1][0] != s {
			t.Errorf("CSV of %q: %v %v", s, rows, err)
		}
		b.Reset()
		x = NewWriter(&b, JSONL, Table{"t", []string{"a", "b"}})
		x.Text(s)
		x.Null()
		x.Flush()
		var row struct{ A string }
		if err := json.Unmarshal(b.Bytes(), &row); err != nil || row.A != s {
			t.Errorf("JSON of %q: %s %v", s, b.String(), err)
		}
	}
}
