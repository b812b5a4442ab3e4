package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/vramscope/vramscope/internal/testing/recorder"
)

// secret stands in everything that a person, a program or a machine names.
const secret = "moonshot"

// plantRun writes a run's files with the secret in their names and contents.
func plantRun(t *testing.T) (dir, first, second string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), secret)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := recorder.Planted(secret)
	dump := r.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})
	files := map[string]string{
		secret + "_rank0.pickle": string(dump),
		"log.txt": "step 1 loss 0.5\nTraceback (most recent call last):\n  File \"/home/" + secret + "/train.py\", line 12, in " + secret + "\n    " + secret + "()\n" +
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. " +
			"Process 4711 has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n",
		secret + "_smi.csv": "timestamp, index, name, uuid, memory.used [MiB], memory.total [MiB]\n" +
			"2026/01/01 00:00:00.000, 0, " + secret + ", GPU-" + secret + ", 1000 MiB, 81559 MiB\n2026/01/01 00:00:01.000, 0, " + secret + ", GPU-" + secret + ", 2000 MiB, 81559 MiB\n",
		secret + "_apps.csv": "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n2026/01/01 00:00:00.000, GPU-" + secret + ", 4711, /home/" + secret + "/bin/" + secret + ", 900 MiB\n",
		secret + "_trace.json": `{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"` + secret + `","totalGlobalMem":85000000000}],"traceEvents":[` +
			`{"ph":"X","cat":"user_annotation","name":"` + secret + `","pid":1,"tid":1,"ts":1,"dur":5},` +
			`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1,"dur":50},` +
			`{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":2,"s":"t","args":{"Total Reserved":100,"Total Allocated":50,"Bytes":50,"Addr":1,"Device Id":0,"Device Type":1}}]}`,
		"broken.pickle":                string(dump[:len(dump)/2]),
		secret + "_rank0.labels.json":  plantLabels(r),
		secret + "_rank0.holders.json": plantHolders(r),
		"run.json": `{"schema": "vramscope.run/1", "command": ["` + secret + `"], "environment": {"torch": "2.9.0", "command": "python ` + secret +
			`.py", "git_commit": "` + secret + `", "gpu": "` + secret + `", "host": "` + secret + `"}}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, secret+"_rank0.pickle"), filepath.Join(dir, "broken.pickle")
}

// plantLabels names every block in use after the secret.
func plantLabels(r recorder.Recording) string {
	var labels []string
	for _, g := range r.Segments {
		for _, b := range g.Blocks {
			if b.State == "active_allocated" {
				labels = append(labels, fmt.Sprintf(`{"address": %v, "event": null, "category": "weights", "name": "%s.weight"}`, b.Address, secret))
			}
		}
	}
	return `{"schema": "vramscope.labels/1", "device": 0, "labels": [` + strings.Join(labels, ",") + `]}`
}

// plantHolders has a variable that is called so hold every block in use.
func plantHolders(r recorder.Recording) string {
	var held []string
	for _, g := range r.Segments {
		for _, b := range g.Blocks {
			if b.State == "active_allocated" {
				held = append(held, fmt.Sprint(b.Address))
			}
		}
	}
	return `{"schema": "vramscope.holders/1", "device": 0, "holders": [{"path": "main.` + secret + `.losses", "device": 0, "tensors": [` +
		strings.Join(held, ",") + `], "graph": []}]}`
}

// outputs are all ways in which a report or a table leaves the program.
func outputs(t *testing.T, dir, first, second string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, format := range []string{"text", "json", "markdown", "html"} {
		out["analyze "+format] = []string{"analyze", dir, "--format", format, "--title", "The " + secret + " run", "--redact-title", "--note", secret + "=1", "--note", "gpu=" + secret}
		out["analyze partial "+format] = []string{"analyze", second, "--partial", "--format", format}
		out["diff "+format] = []string{"diff", first, dir, "--format", format, "--title", "The " + secret + " run", "--redact-title", "--note", "host=" + secret}
	}
	for _, format := range []string{"sarif", "github"} {
		out["analyze "+format] = []string{"analyze", dir, "--format", format}
	}
	for _, table := range exportTables() {
		for _, format := range []string{"jsonl", "csv", "arrow", "parquet"} {
			out["export "+table.Name+" "+format] = []string{"export", first, "--table", table.Name, "--format", format}
		}
	}
	for format := range exportProfiles {
		out["export "+format] = []string{"export", first, "--format", format}
	}
	out["no such file"] = []string{"analyze", filepath.Join(dir, secret+"2.pickle")}
	out["no such folder for the output"] = []string{"analyze", first, "-o", filepath.Join(dir, secret, "x.json")}
	out["no such file to compare"] = []string{"diff", first, filepath.Join(dir, secret+"2.pickle")}
	out["broken"] = []string{"analyze", second}
	out["broken export"] = []string{"export", second, "--table", "stacks"}
	return out
}

// parquetText is what stands in a Parquet file's columns.
func parquetText(data string) string {
	f, err := file.NewParquetReader(strings.NewReader(data))
	if err != nil {
		return err.Error()
	}
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return err.Error()
	}
	table, err := r.ReadTable(context.Background())
	if err != nil {
		return err.Error()
	}
	defer table.Release()
	var b strings.Builder
	for i := range int(table.NumCols()) {
		fmt.Fprintln(&b, table.Column(i).Data().Chunks())
	}
	return b.String()
}

var packed = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)

// readable is an output with all that is packed within it.
func readable(text string) string {
	var b strings.Builder
	b.WriteString(text)
	if z, err := gzip.NewReader(strings.NewReader(text)); err == nil { // pprof
		io.Copy(&b, z)
	}
	if strings.HasPrefix(text, "PAR1") {
		b.WriteString(parquetText(text))
	}
	for _, p := range packed.FindAllString(text, -1) {
		raw, err := base64.StdEncoding.DecodeString(p)
		if err != nil {
			continue
		}
		if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			if plain, err := io.ReadAll(z); err == nil {
				raw = plain
			}
		}
		b.WriteByte('\n')
		b.Write(raw)
	}
	return strings.ToLower(b.String())
}

// TestRedactEverywhere plants a secret wherever there can be one and looks for
// it in all outputs of all commands; without --redact, it is to be seen.
func TestRedactEverywhere(t *testing.T) {
	dir, first, second := plantRun(t)
	silent := regexp.MustCompile(`^export (segments|blocks|categories|host|findings|ooms|leaks|settings|perfetto)`) // tables that hold no such text of this run
	seen := 0
	for name, args := range outputs(t, dir, first, second) {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(append(args, "--redact"), strings.NewReader(""), &stdout, &stderr)
			text := readable(stdout.String() + stderr.String())
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("exit %d: …%s…", code, text[max(0, i-200):min(len(text), i+200)])
			}
			if strings.Contains(text, strings.ToLower(filepath.Dir(dir))) {
				t.Error("the folder is named")
			}
			if name == "export perfetto" && !strings.Contains(text, "device 0") {
				t.Errorf("no trace to search: %q", text)
			}
			if len(text) < 40 && !silent.MatchString(name) {
				t.Errorf("next to nothing was written: %q", text)
			}
			stdout.Reset()
			stderr.Reset()
			if plain := run(slices.DeleteFunc(args, func(a string) bool { return a == "--redact-title" }), strings.NewReader(""), &stdout, &stderr); plain != code {
				t.Errorf("exit %d, %d without --redact", code, plain)
			}
			if strings.Contains(readable(stdout.String()+stderr.String()), secret) {
				seen++
			} else if !silent.MatchString(name) {
				t.Error("not to be seen without --redact, either: the test shows nothing")
			}
		})
	}
	if seen < 20 {
		t.Errorf("only %d outputs show the secret without --redact", seen)
	}
}

// TestRedactedFailures: nor do the tables of what went wrong name the program.
func TestRedactedFailures(t *testing.T) {
	var text, stderr bytes.Buffer
	for _, format := range []string{"text", "json", "markdown", "html"} {
		text.Reset()
		if run([]string{"whatif", "../../testdata/recordings/frag_oom__pairwise_docs/snapshot_all.pickle.gz", "--redact", "--format", format}, nil, &text, &stderr) != 0 {
			t.Fatal(stderr.String())
		}
		if strings.Contains(text.String(), "pairwise") || !strings.Contains(text.String(), ".py") {
			t.Errorf("whatif %s: %s", format, text.String())
		}
	}
	for _, format := range []string{"sarif", "github"} {
		args := []string{"analyze", "../../testdata/recordings/growing_list__step_cache/snapshot_all.pickle.gz", "--format", format}
		var plain, redacted bytes.Buffer
		if run(args, nil, &plain, &stderr) != 0 || run(append(args, "--redact"), nil, &redacted, &stderr) != 0 {
			t.Fatal(stderr.String())
		}
		if !strings.Contains(plain.String(), "replay_buffer.py") || strings.Contains(redacted.String(), "replay_buffer") {
			t.Errorf("analyze %s: %s", format, redacted.String())
		}
	}
	for table, recording := range map[string]string{"leaks": "growing_list__step_cache", "ooms": "frag_oom__pairwise_docs", "findings": "growing_list__step_cache"} {
		file := map[string]string{"leaks": "replay_buffer", "ooms": "pairwise", "findings": "replay_buffer"}[table]
		for _, format := range []string{"jsonl", "csv", "arrow", "parquet"} {
			args := []string{"export", "../../testdata/recordings/" + recording + "/snapshot_all.pickle.gz", "--table", table, "--format", format}
			var plain, redacted, stderr bytes.Buffer
			if run(args, nil, &plain, &stderr) != 0 || run(append(args, "--redact"), nil, &redacted, &stderr) != 0 {
				t.Fatal(stderr.String())
			}
			if !strings.Contains(readable(plain.String()), file) {
				t.Errorf("%s %s: doesn't name %s", table, format, file)
			}
			if text := readable(redacted.String()); strings.Contains(text, file) || strings.Contains(text, recording) {
				t.Errorf("%s %s: names %s or %s", table, format, file, recording)
			}
		}
	}
}

// TestRedactChangesNoFigure: a redacted report says the same of the memory.
func TestRedactChangesNoFigure(t *testing.T) {
	files, err := filepath.Glob("../../testdata/recordings/*/*.pickle.gz")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	figure := regexp.MustCompile(`(?m)^ *"[a-z_]*(bytes|event|count|blocks|steps?|events|allocations|confidence|kind|category|phase|verdict|history|line)": .*$`)
	for _, name := range files {
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			var plain, redacted, stderr bytes.Buffer
			if run([]string{"analyze", name, "--format", "json", "--all-steps"}, nil, &plain, &stderr) != 0 || run([]string{"analyze", name, "--format", "json", "--all-steps", "--redact"}, nil, &redacted, &stderr) != 0 {
				t.Fatal(stderr.String())
			}
			count := func(text string) map[string]int { // the order of equal call sites goes by their names
				m := map[string]int{}
				for _, line := range figure.FindAllString(text, -1) {
					if !strings.Contains(line, `": "`) || !strings.Contains(line, "verdict") {
						m[strings.TrimRight(strings.TrimSpace(line), ",")]++
					}
				}
				return m
			}
			a, b := count(plain.String()), count(redacted.String())
			for line, n := range a {
				if b[line] != n {
					t.Errorf("%s: %d times, redacted %d times", line, n, b[line])
				}
			}
			if len(a) < 20 || len(a) != len(b) {
				t.Errorf("%d figures, redacted %d", len(a), len(b))
			}
		})
	}
}

// TestRedactBatch looks for the secret in all that a batch writes and says.
func TestRedactBatch(t *testing.T) {
	dir, first, _ := plantRun(t)
	root := filepath.Dir(dir)
	again := filepath.Join(root, secret+"_two", "run_7")
	if err := os.MkdirAll(again, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{secret + ".pickle": text, secret + "_cut.pickle": text[:len(text)/2], secret + ".pkl": []byte("\x80\x04N.")} {
		if err := os.WriteFile(filepath.Join(again, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, redacted := range []bool{true, false} {
		out := filepath.Join(t.TempDir(), "out")
		args := []string{"batch", root, "-o", out, "--note", secret + "=1", "--fail-on", "failed"}
		if redacted {
			args = append(args, "--redact")
		}
		var stdout, stderr bytes.Buffer
		c := command(t.TempDir(), nil, filepath.Join(program(t), "vramscope"), args...)
		c.Stdout, c.Stderr = &stdout, &stderr
		if _ = c.Run(); c.ProcessState.ExitCode() != exitCondition {
			t.Fatalf("%v: %s", c.ProcessState, stderr.String())
		}
		written, err := tree(out)
		if err != nil || len(written) < 15 {
			t.Fatalf("%d files, %v", len(written), err)
		}
		written["standard output"], written["standard error"] = stdout.String(), stderr.String()
		seen := 0
		for name, text := range written {
			if all := strings.ToLower(name) + readable(text); strings.Contains(all, secret) {
				seen++
				if at := strings.Index(all, secret); redacted {
					t.Errorf("%s: …%q…", name, all[max(0, at-100):min(len(all), at+60)])
				}
			}
		}
		if !redacted && seen < 10 {
			t.Errorf("only %d files show the secret without --redact", seen)
		}
		if redacted && strings.Contains(stdout.String()+stderr.String(), root) {
			t.Error("the folder is named")
		}
	}
}
