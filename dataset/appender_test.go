package dataset

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// someReport is a report with a value, or none, in every field that tables
// have; seed tells which.
func someReport(seed int) *report.Document {
	text := func(s string) *string {
		if seed%3 == 0 {
			return nil
		}
		s = fmt.Sprintf("%s %d, \"quoted\"", s, seed%7)
		return &s
	}
	bytes := func(n int64) *int64 {
		if seed%4 == 1 {
			return nil
		}
		n *= int64(seed)
		return &n
	}
	line := seed + 1
	d := &report.Document{
		Title:   strings.Repeat("t", seed%3),
		Notes:   []report.Note{{Key: "user", Value: fmt.Sprint("u", seed%2)}}[:seed%2],
		Inputs:  []report.Input{{Path: fmt.Sprintf("run%d/a.pickle", seed), Bytes: 1 << 40, Era: text("2.9"), Damage: []string{"cut"}[:seed%2]}},
		Verdict: report.Verdict{Severity: report.Warning, Text: "verdict", Fix: text("fix"), SavesBytes: bytes(5)},
	}
	if seed%2 == 1 {
		d.Budget = map[string]any{"model": map[string]any{"type": "gpt2", "parameters": 124_000_000},
			"setting":  map[string]any{"batch": 4, "sequence": 512, "precision": "bf16", "optimizer": "adamw", "checkpointing": "none"},
			"expected": map[string]any{"peak_bytes": 5 << 30}, "measured": map[string]any{"peak_bytes": 6 << 30}}
		d.WhatIf = map[string]any{"device": 0, "scenarios": []any{map[string]any{"name": "recorded"},
			map[string]any{"name": "expandable", "settings": "expandable_segments:True", "saves_bytes": seed, "complete": true, "changes": []any{}},
			map[string]any{"name": "8-bit", "saves_bytes": 1 << 40, "changes": []any{"optimizer=8bit"}}}}
	}
	if seed%5 == 4 { // no recording
		d.Evidence = &evidence.Evidence{OOMMessages: []evidence.OOMMessage{
			{GPU: &seed, RequestedBytes: bytes(2), AllocatedBytes: bytes(7), ReservedUnallocatedBytes: bytes(1), UserFile: text("train.py"), UserLine: &line}, {}}}
		return d
	}
	for k := range seed%3 + 1 {
		var rank *int
		if seed%2 == 0 {
			rank = &k
		}
		d.Devices = append(d.Devices, report.Device{
			Device: k, Rank: rank, CapacityBytes: bytes(80 << 30), Events: 10, Allocations: 4, History: "complete", Stacks: "all",
			FirstTime: bytes(1000), LastTime: bytes(2000), Steps: make([]report.Step, 3),
			Peaks:  report.Peaks{Allocated: report.Peak{Bytes: int64(seed + k)}, Reserved: report.Peak{Bytes: 1 << 50, Event: &line}},
			AtPeak: report.Moment{Event: &line, AllocatedBytes: 30, Categories: map[string]int64{"weights": 10, "unknown": 20}},
			AtEnd:  report.Moment{AllocatedBytes: 1, Categories: map[string]int64{"gradients": 1}},
			Sites: []report.Site{{Function: "h", File: "c.py", Line: &line, Category: text("inputs"), Bytes: 12, Blocks: 2,
				CalledFrom: &report.Place{Function: "main", File: "m.py"}}, {Op: "aten::mm", Bytes: 11}},
			OOMs: []report.OOM{{Event: 7, RequestedBytes: 99, Verdict: "fragmentation", Phase: text("forward"), Fingerprint: text("f"),
				LargestFreeBlock: bytes(3), Site: &report.Site{Function: "f", File: "a.py", Line: &line, Category: text("logits")},
				PinnedBy: []report.Pin{{Address: 1 << 63, Bytes: 5, File: text("p.py")}, {Address: 2, Bytes: 6, Line: &line}}[:seed%3]}},
			Leaks: []report.Leak{{Kind: "growing_list", Defect: k == 0, Category: text("weights"), Line: &line, BytesPerStep: bytes(8), TotalBytes: 80,
				Confidence: 0.1 + float64(seed)/3e5, Fix: "don't", Sites: []report.LeakSite{{File: "b.py", Function: "g", Bytes: 4}}}},
			Findings: []report.Finding{{ID: "oom_fragmentation", Severity: report.Critical, Title: "a title", Evidence: []string{"one", "two,\n"}[:seed%3],
				Fix: text("fix it"), SavesBytes: bytes(1), Confidence: 1.0 / 3, Code: strings.Repeat("code\n", seed%2)}},
		})
	}
	return d
}

func appended(t *testing.T, table *Table, f Format, fill func(a *Appender) error) []byte {
	t.Helper()
	var b bytes.Buffer
	a, err := NewAppender(&b, f, table)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(a); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func runName(i int) string { return fmt.Sprintf("exp%03d/run", i) }

// TestFromJSON writes the same runs from reports in memory and from reports that
// were read from JSON: the same bytes.
func TestFromJSON(t *testing.T) {
	const runs = 60
	for _, table := range RunTables() {
		t.Run(table.Name, func(t *testing.T) {
			one := func(a *Appender, i int) error {
				a.Called(fmt.Sprintf("run-%d", i), "exp")
				if i%20 == 19 {
					return a.Failed(runName(i), "the file ends early")
				}
				return a.Document(runName(i), someReport(i))
			}
			whole := appended(t, table, Parquet, func(a *Appender) error {
				for i := range runs {
					if err := one(a, i); err != nil {
						return err
					}
				}
				return nil
			})
			fromJSON := appended(t, table, Parquet, func(a *Appender) error {
				for i := range runs {
					if i%20 == 19 {
						if err := one(a, i); err != nil {
							return err
						}
						continue
					}
					text, err := json.Marshal(someReport(i))
					if err != nil {
						return err
					}
					var d report.Document
					if err := json.Unmarshal(text, &d); err != nil {
						return err
					}
					a.Called(fmt.Sprintf("run-%d", i), "exp")
					if err := a.Document(runName(i), &d); err != nil {
						return err
					}
				}
				return nil
			})
			if !bytes.Equal(whole, fromJSON) {
				t.Error("other bytes from reports that were read from JSON")
			}
		})
	}
}

// TestRunRow reads what a run's row takes from the budget and the replays.
func TestRunRow(t *testing.T) {
	var row map[string]any
	if err := json.Unmarshal(appended(t, Runs, JSONL, func(a *Appender) error { return a.Document("run", someReport(3)) }), &row); err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]any{"run": "run", "experiment": nil, "error": nil, "model": "gpt2", "parameters": 124e6,
		"setting": "4 x 512, bf16, adamw, checkpointing none", "budget_bytes": 5.0 * (1 << 30), "measured_bytes": 6.0 * (1 << 30),
		"best_setting": "expandable_segments:True", "best_setting_saves_bytes": 3.0, "unknown_bytes": 20.0, "defects": 1.0, "ooms": 1.0} {
		if row[column] != want {
			t.Errorf("%s: %v, want %v", column, row[column], want)
		}
	}
}

// TestServedSetting: what serves a model has no optimizer.
func TestServedSetting(t *testing.T) {
	doc := someReport(3)
	setting := doc.Budget.(map[string]any)["setting"].(map[string]any)
	setting["inference"], setting["optimizer"], setting["checkpointing"] = true, nil, nil
	var row map[string]any
	if err := json.Unmarshal(appended(t, Runs, JSONL, func(a *Appender) error { return a.Document("run", doc) }), &row); err != nil {
		t.Fatal(err)
	}
	if row["setting"] != "4 x 512, bf16, inference" {
		t.Errorf("%v", row["setting"])
	}
}

// TestReportFormatsAgree reads the tables of reports back from every format.
func TestReportFormatsAgree(t *testing.T) {
	for _, table := range RunTables() {
		t.Run(table.Name, func(t *testing.T) {
			fill := func(a *Appender) error {
				for i := range 12 {
					if err := a.Document(runName(i), someReport(i)); err != nil {
						return err
					}
				}
				long := someReport(2)
				long.Devices[0].Findings[0].Evidence = strings.Split(strings.Repeat("again,", 5000), ",")
				long.Devices[0].Leaks[0].Sites = make([]report.LeakSite, 5000)
				return a.Document("long lists", long)
			}
			lines := appended(t, table, JSONL, fill)
			for _, f := range []Format{Parquet, Arrow} {
				schema, read := readers[f](t, appended(t, table, f, fill))
				checkSchema(t, f, table, schema)
				if !bytes.Equal(read, lines) {
					t.Errorf("%s: other values than in JSON lines", f)
				}
			}
			checkSheet(t, table, appended(t, table, CSV, fill), lines)
		})
	}
}

// TestNoRows: a table without rows is a whole file, too.
func TestNoRows(t *testing.T) {
	for _, table := range RunTables() {
		for f, read := range readers {
			schema, lines := read(t, appended(t, table, f, func(*Appender) error { return nil }))
			checkSchema(t, f, table, schema)
			if len(lines) != 0 {
				t.Errorf("%s, %s: %s", table.Name, f, lines)
			}
		}
	}
}

// TestManyRows goes over the ends of records and row groups.
func TestManyRows(t *testing.T) {
	if testing.Short() {
		t.Skip("many rows")
	}
	d := someReport(8)
	d.Devices = d.Devices[:1]
	fill := func(a *Appender) error {
		for i := range rowsPerRecord/2 + 10 { // four rows each
			if err := a.Document(runName(i), d); err != nil {
				return err
			}
		}
		return nil
	}
	file := appended(t, RunCategories, Parquet, fill)
	if _, lines := readers[Parquet](t, file); !bytes.Equal(lines, appended(t, RunCategories, JSONL, fill)) {
		t.Error("other values than in JSON lines")
	}
}

// full is a disk that has room for so many bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// TestFullDisk: no format loses the error of what it writes to.
func TestFullDisk(t *testing.T) {
	for _, f := range []Format{JSONL, CSV, Arrow, Parquet} {
		size := len(appended(t, Findings, f, func(a *Appender) error { return a.Document("run", someReport(1)) }))
		for room := 0; room < size; room += 1 + size/50 {
			err := func() error {
				a, err := NewAppender(&full{room}, f, Findings)
				if err != nil {
					return err
				}
				if err := a.Document("run", someReport(1)); err != nil {
					return err
				}
				return a.Close()
			}()
			if err == nil {
				t.Errorf("%s: %d of %d bytes written without an error", f, room, size)
			}
		}
	}
}

// TestOOMsOfLogs: what only a log tells of is a row, too; what a recording has, is not told twice.
func TestOOMsOfLogs(t *testing.T) {
	two, gpu, rank, line := int64(2<<30), 1, 3, 12
	file, fix, verdict, phase := "/home/u/proj/train.py", "Lower the batch", "fragmentation", "backward"
	messages := []evidence.OOMMessage{
		{GPU: &gpu, Rank: &rank, RequestedBytes: &two, AllocatedBytes: &two, ReservedUnallocatedBytes: &two, CapacityBytes: &two, UserFile: &file, UserLine: &line, UserFunction: &phase, Phase: &phase, Verdict: &verdict, Fix: &fix},
		{},
	}
	logs := &report.Document{Evidence: &evidence.Evidence{OOMMessages: messages}}
	unsure := &report.Document{Evidence: &evidence.Evidence{OOMMessages: messages[1:]}}
	both := &report.Document{Devices: []report.Device{{OOMs: []report.OOM{{Event: 5, Verdict: "fragmentation"}}}}, Evidence: logs.Evidence}
	for table, want := range map[*Table][]string{
		OOMs: {
			"run,device,rank,told_by,event,fingerprint,verdict,phase,requested_bytes,allocated_bytes,reserved_bytes,device_free_bytes,largest_free_block_bytes,capacity_bytes,category,function,file,line",
			"logs,1,3,log,,7edecda077c1e593,fragmentation,backward,2147483648,2147483648,4294967296,,,2147483648,,backward,/home/u/proj/train.py,12",
			"logs,,,log,,3815498333c11b41,unknown,,,,,,,,,,,",
			"unsure,,,log,,3815498333c11b41,unknown,,,,,,,,,,,",
			"both,0,,recording,5,,fragmentation,,0,0,0,,,,,,,",
		},
		Runs: {"ooms", "2", "1", "1"},
	} {
		out := string(appended(t, table, CSV, func(a *Appender) error {
			if err := cmp.Or(a.Document("logs", logs), a.Document("unsure", unsure)); err != nil {
				return err
			}
			return a.Document("both", both)
		}))
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range rows {
			if table == Runs {
				got = append(got, row[slices.Index(rows[0], "ooms")])
			} else {
				got = append(got, strings.Join(row[:18], ","))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", table.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
