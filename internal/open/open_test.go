package open

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// recorded is a small snapshot; labels names its blocks.
func recorded(seed uint64) (file, labels string) {
	run := recorder.Simulate(recorder.Program{Seed: seed, Events: 200, Depth: 2, Capacity: 1 << 30})
	var list []string
	for _, g := range run.Recording.Segments {
		for _, b := range g.Blocks {
			if b.State == "active_allocated" {
				list = append(list, `{"address": `+fmt.Sprint(b.Address)+`, "event": null, "category": "kv_cache", "name": "cache"}`)
			}
		}
	}
	return string(run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})), `{"schema": "vramscope.labels/1", "device": 0, "labels": [` + strings.Join(list, ",") + `]}`
}

const (
	errorLine = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. " +
		"Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
	gpt2Config  = `{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}`
	smiOutput   = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n2026/01/01 00:00:00.000, 0, NVIDIA H100 80GB HBM3, 1000 MiB, 81559 MiB\n"
	foreignPage = "<!DOCTYPE html><html><body>" + errorLine + "</body></html>"
)

// write makes a folder of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// kinds are the sources below a folder by their names there.
func kinds(t *testing.T, dir string, r *Run) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range r.Sources {
		name, err := filepath.Rel(dir, s.Path)
		if err != nil {
			t.Fatal(err)
		}
		kind := s.Kind
		if s.Failed != "" {
			kind = "broken"
		}
		out[filepath.ToSlash(name)] = kind
	}
	return out
}

// TestDirectory: what counts of a run's directory, what is passed over, and
// what is noted as broken.
func TestDirectory(t *testing.T) {
	file, labels := recorded(1)
	made := strings.ReplaceAll(`{"schema": "vramscope.report/1", "title": "", "text": "`+errorLine+`"}`, "\n", " ")
	dir := write(t, map[string]string{
		"iteration_10/rank0_memory_snapshot.pickle": file,
		"rank1.pickle":                    file,
		"rank1.labels.json":               labels,
		"logs/rank1.log":                  errorLine,
		"nvidia-smi.csv":                  smiOutput,
		"config.json":                     gpt2Config,
		"rank2.pickle":                    file[:len(file)/2],
		"rank3.pickle":                    "",
		"rank4.pickle":                    file[:17],
		"README.md":                       errorLine,
		"README":                          errorLine,
		"train.py":                        "print('''" + errorLine + "''')",
		"conf.yaml":                       errorLine,
		"notes.txt":                       "nothing of note\n",
		"report.html":                     foreignPage,
		"page":                            foreignPage,
		"report.json":                     made,
		".git/rank9.pickle":               file,
		"rank7.pickle.4242.tmp":           file, // of a process that was killed while it wrote
		"__pycache__/x.pickle":            file,
		"tokenizer.pkl":                   "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.",
		"optimizer.pkl":                   "\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01.",
		"model.safetensors":               "\x02\x00\x00\x00\x00\x00\x00\x00{}",
		"data.bin":                        "\x00\x01\x02\x03",
		"empty.log":                       "",
		"checkpoint-5/trainer_state.json": `{"epoch": 1, "log_history": []}`,
	})
	r, err := Files([]string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := map[string]string{"iteration_10/rank0_memory_snapshot.pickle": "snapshot", "rank1.pickle": "snapshot", "rank2.pickle": "snapshot", "rank3.pickle": "broken", "rank4.pickle": "broken",
		"rank1.labels.json": "labels", "logs/rank1.log": "oom_message", "nvidia-smi.csv": "nvidia_smi_csv", "config.json": "model_config"}
	got := kinds(t, dir, r)
	for name, kind := range want {
		if got[name] != kind {
			t.Errorf("%s: %q, want %q", name, got[name], kind)
		}
		delete(got, name)
	}
	for name, kind := range got {
		t.Errorf("%s was taken for %s", name, kind)
	}
	doc, err := diagnose.Run(r.Sources, r.Evidence, diagnose.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Ranks == nil || doc.Ranks.Count != 2 || !slices.Equal(doc.Ranks.Missing, []int{2, 3, 4}) {
		t.Errorf("ranks %+v", doc.Ranks)
	}
	if of(doc, dir, "rank1.pickle").AtEnd.Categories["kv_cache"] == 0 || of(doc, dir, "iteration_10/rank0_memory_snapshot.pickle").AtEnd.Categories["kv_cache"] > 0 {
		t.Error("rank 1's labels are not those of rank 1 alone")
	}
	if c := of(doc, dir, "rank1.pickle").CapacityBytes; c == nil || *c>>30 != 79 {
		t.Errorf("rank 1's capacity, which its log tells: %v", c)
	}
	for _, in := range doc.Inputs {
		if broken := strings.HasSuffix(in.Path, "rank2.pickle") || strings.HasSuffix(in.Path, "rank3.pickle") || strings.HasSuffix(in.Path, "rank4.pickle"); broken != (len(in.Damage) > 0) {
			t.Errorf("%s: damage %q", in.Path, in.Damage)
		}
	}
}

// of is the device of a recording.
func of(doc *report.Document, dir, name string) *report.Device {
	for i := range doc.Devices {
		if doc.Inputs[doc.Devices[i].Input].Path == filepath.Join(dir, filepath.FromSlash(name)) {
			return &doc.Devices[i]
		}
	}
	return &report.Device{}
}

// TestRunsThatCannotBeRead say why.
func TestRunsThatCannotBeRead(t *testing.T) {
	file, _ := recorded(1)
	for _, x := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, "no recording, log or trace"},
		{"code alone", map[string]string{"train.py": errorLine}, "no recording, log or trace"},
		{"a broken recording alone", map[string]string{"a.pickle": file[:len(file)/2]}, "the file ends in the middle"},
		{"a broken recording and its model", map[string]string{"a.pickle": "", "config.json": gpt2Config}, "the file is empty"},
		{"an empty recording alone", map[string]string{"a.pickle": ""}, "the file is empty"},
		{"a configuration alone", map[string]string{"config.json": gpt2Config}, "an analysis needs a recording"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r, err := Files([]string{write(t, x.files)}, Options{})
			if err == nil {
				defer r.Close()
				_, err = diagnose.Run(r.Sources, r.Evidence, diagnose.Options{})
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}

// A folder that may not be read is no reason to leave the others.
func TestFolderThatMayNotBeRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is kept from root")
	}
	file, _ := recorded(1)
	dir := write(t, map[string]string{"a.pickle": file, "secret/b.pickle": file})
	secret := filepath.Join(dir, "secret")
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(secret, 0o700)
	r, err := Files([]string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n := len(r.Sources); n != 2 || !strings.HasSuffix(r.Sources[1].Failed, "secret: permission denied") {
		t.Errorf("%d sources: %+v", n, r.Sources)
	}
	if _, err := Files([]string{secret}, Options{}); err == nil || !strings.HasSuffix(OneLine(err), "secret: permission denied") {
		t.Errorf("alone: %v", err)
	}
}

// TestNamedFiles must be usable, but for one of several ranks.
func TestNamedFiles(t *testing.T) {
	file, _ := recorded(1)
	dir := write(t, map[string]string{"rank0.pickle": file, "rank1.pickle": file[:99], "other.pickle": file[:99], "notes.txt": "nothing\n", "rank0.labels.json": "{"})
	path := func(name string) string { return filepath.Join(dir, name) }
	run := func(names ...string) (*report.Document, error) {
		r, err := Files(names, Options{})
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return diagnose.Run(r.Sources, r.Evidence, diagnose.Options{})
	}
	var e *snapshot.Error
	if _, err := run(path("rank0.pickle")); !errors.As(err, &e) || !strings.HasSuffix(e.File, "rank0.labels.json") {
		t.Errorf("broken labels beside a file that was named: %v", err)
	}
	if err := os.Remove(path("rank0.labels.json")); err != nil {
		t.Fatal(err)
	}
	if doc, err := run(path("rank0.pickle"), path("rank1.pickle")); err != nil || len(doc.Devices) != 1 || len(doc.Inputs[1].Damage) != 1 {
		t.Errorf("a broken rank: %v", err)
	}
	if _, err := run(path("rank0.pickle"), path("other.pickle")); !errors.As(err, &e) || e.File != path("other.pickle") {
		t.Errorf("a broken file: %v", err)
	}
}

// TestFilesOfNoUse are passed over among others, with a word, and refused where
// nothing else is left.
func TestFilesOfNoUse(t *testing.T) {
	file, _ := recorded(1)
	dir := write(t, map[string]string{"a.pickle": file, "train.log": errorLine, "config.json": gpt2Config, "requirements.txt": "torch==2.6.0\n", "job.err": "",
		"loss.png": "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x01\x02\x03", "cut.pickle": file[:99], "empty.pickle": "", "other.pkl": "\x80\x04]\x94(K\x01K\x02e.",
		"report.html": foreignPage, "notes/a.txt": "nothing\n", "cut.log.gz": squeezed(t, "nothing\n", 9)})
	for _, x := range []struct {
		names  string
		passed string
		failed string
	}{
		{"train.log requirements.txt", "requirements.txt", ""},
		{"requirements.txt a.pickle job.err loss.png report.html notes", "requirements.txt job.err loss.png report.html notes", ""},
		{"requirements.txt", "", "requirements.txt"},
		{"job.err", "", "job.err"},
		{"requirements.txt notes", "", "requirements.txt"},
		{"config.json requirements.txt", "", "requirements.txt"},
		{"train.log cut.pickle", "", ""}, // refused when it is decoded
		{"train.log empty.pickle", "", "empty.pickle"},
		{"train.log other.pkl", "", "other.pkl"},
		{"train.log cut.log.gz", "", "cut.log.gz"},
		{"train.log missing.log", "", "missing.log"},
	} {
		t.Run(x.names, func(t *testing.T) {
			var names, passed []string
			for _, name := range strings.Fields(x.names) {
				names = append(names, filepath.Join(dir, name))
			}
			base := func(err error) string {
				var e *snapshot.Error
				if !errors.As(err, &e) {
					return ""
				}
				return filepath.Base(e.File)
			}
			r, err := Files(names, Options{})
			if got := base(err); got != x.failed {
				t.Fatalf("%v, want an error about %q", err, x.failed)
			}
			if err != nil {
				return
			}
			defer r.Close()
			for _, err := range r.PassedOver {
				passed = append(passed, base(err))
			}
			if got := strings.Join(passed, " "); got != x.passed || len(r.Sources) != len(names)-len(passed) {
				t.Errorf("passed over %q, want %q; %d sources", got, x.passed, len(r.Sources))
			}
		})
	}
}

// TestAccessoriesOfLogs: what a log can't be compared with is noted as not used.
func TestAccessoriesOfLogs(t *testing.T) {
	dir := write(t, map[string]string{"train.log": errorLine, "config.json": gpt2Config, "model.safetensors": "\x02\x00\x00\x00\x00\x00\x00\x00{}"})
	r, err := Files([]string{filepath.Join(dir, "train.log"), filepath.Join(dir, "config.json"), filepath.Join(dir, "model.safetensors")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	doc, err := diagnose.Run(r.Sources, r.Evidence, diagnose.Options{Theory: compare.Untold(r.Config())})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "not used: only a recording is compared with it", "not used: only --model FILE"} {
		if got := strings.Join(doc.Inputs[i].Notes, "; "); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", doc.Inputs[i].Path, got, want)
		}
	}
}

// TestDigests are of the files as given, however often and whenever they were
// read.
func TestDigests(t *testing.T) {
	file, _ := recorded(1)
	dir := write(t, map[string]string{"rank0.pickle": file, "rank1.pickle": file + "\n", "train.log": errorLine})
	r, err := Files([]string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		for i := range r.Sources {
			if open := r.Sources[i].Open; open != nil {
				if _, err := open(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	sums := map[string]bool{}
	for _, s := range r.Sources {
		sum, n := s.Digest()
		st, err := os.Stat(s.Path)
		if again, _ := s.Digest(); err != nil || n != st.Size() || len(sum) != 64 || again != sum {
			t.Errorf("%s: %q, %d bytes", s.Path, sum, n)
		}
		sums[sum] = true
	}
	if len(sums) != 3 {
		t.Errorf("%d digests", len(sums))
	}
}

// TestUndigested: nobody works out digests that nobody asks for, and sizes are
// known all the same.
func TestUndigested(t *testing.T) {
	file, _ := recorded(1)
	dir := write(t, map[string]string{"rank0.pickle": file, "rank1.pickle": file + "\n", "train.log": errorLine})
	r, err := Files([]string{dir}, Options{Undigested: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, s := range r.Sources {
		if s.Open != nil {
			if _, err := s.Open(); err != nil {
				t.Fatal(err)
			}
		}
		sum, n := s.Digest()
		if st, err := os.Stat(s.Path); err != nil || sum != "" || n != st.Size() {
			t.Errorf("%s: %q, %d bytes", s.Path, sum, n)
		}
	}
}

// TestStream: standard input is decoded at once, as it can't be read again.
func TestStream(t *testing.T) {
	file, _ := recorded(1)
	r, err := Files([]string{"-"}, Options{Stdin: io.MultiReader(strings.NewReader(file))})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if len(r.Sources) != 1 || r.Sources[0].Snapshot == nil {
		t.Errorf("%+v", r.Sources)
	}
}

// TestLabelledRuns: the folders of real runs tell their ranks, or don't.
func TestLabelledRuns(t *testing.T) {
	for _, x := range []struct {
		path    string
		rank    int
		devices int
	}{
		{"fsdp2__llama_rank0/snapshot_all.pickle.gz", 0, 1}, {"ddp__gpt2/snapshot_all.pickle.gz", -1, 1},
		{"device_map__two_gpus/snapshot_named.pickle.gz", -1, 2},
	} {
		t.Run(x.path, func(t *testing.T) {
			path := filepath.Join("../../testdata/recordings", x.path)
			if _, err := os.Stat(path); err != nil {
				path = corpus.Path(t, "labelled/"+x.path)
			}
			r, err := Files([]string{path}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			doc, err := diagnose.Run(r.Sources, r.Evidence, diagnose.Options{})
			if err != nil || len(doc.Devices) != x.devices || doc.Ranks != nil {
				t.Fatalf("%v, %d devices, ranks %+v", err, len(doc.Devices), doc.Ranks)
			}
			if got := doc.Devices[0].Rank; (got == nil) != (x.rank < 0) || got != nil && *got != x.rank {
				t.Errorf("rank %v", got)
			}
		})
	}
}

// TestUnrelatedRecordings: of many people's recordings in one folder none is
// taken for a rank or for a dump of another.
func TestUnrelatedRecordings(t *testing.T) {
	doc := documentOf(t, Options{}, corpus.Path(t, "snapshots"))
	for i := range doc.Devices {
		if d := &doc.Devices[i]; d.Rank != nil || d.Alike != nil {
			t.Errorf("%s: rank %d", doc.Inputs[d.Input].Path, *d.Rank)
		}
	}
	if len(doc.Trend) > 0 || doc.Ranks.Sure || doc.Ranks.Count < 60 {
		t.Errorf("trends %+v, %d processes", doc.Trend, doc.Ranks.Count)
	}
}

// TestRanksThatAreSaidSurviveRedaction: they are told from annotations, which are
// then hidden.
func TestRanksThatAreSaidSurviveRedaction(t *testing.T) {
	files := map[string]string{}
	for rank, name := range []string{"a.pickle", "b.pickle"} {
		run := recorder.Simulate(recorder.Program{Seed: uint64(rank + 1), Events: 100, Depth: 2, Capacity: 1 << 30})
		run.Recording.Annotations = []recorder.Annotation{{Stage: "START", Name: fmt.Sprintf("moonshot rank %d", rank+4), TimeUS: 1}}
		files[name] = string(run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15}))
	}
	r, err := Files([]string{write(t, files)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Redact(redact.New(""), &diagnose.Options{})
	doc, err := diagnose.Run(r.Sources, r.Evidence, diagnose.Options{})
	if err != nil || doc.Ranks == nil || !doc.Ranks.Sure || *doc.Devices[0].Rank != 4 || *doc.Devices[1].Rank != 5 {
		t.Errorf("%v, %+v", err, doc.Ranks)
	}
}

// squeezed is a text in gzip, less the last bytes.
func squeezed(t *testing.T, text string, less int) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()[:b.Len()-less]
}

// TestCutText: text that ends too early is refused with the place, used when
// that was asked for, and used and marked within a directory.
func TestCutText(t *testing.T) {
	file, _ := recorded(1)
	trace := `{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{"ph": "i", "name": "[memory]", "args": {"Bytes": 512, "Device Type": 1, "Device Id": 0}}, {"ph`
	const torn = "the file ends in the middle of its gzip data"
	cut := []struct{ name, text, kind, why string }{
		{"train.log.gz", squeezed(t, errorLine+strings.Repeat("words\n", 30_000), 12), "oom_message", torn},
		{"short.log.gz", squeezed(t, errorLine, 12), "oom_message", torn},
		{"smi.csv.gz", squeezed(t, smiOutput, 9), "nvidia_smi_csv", torn},
		{"trace.json", trace, "profiler_trace", "the file ends inside"},
		{"trace.json.gz", squeezed(t, trace, 9), "profiler_trace", torn},
	}
	files := map[string]string{"rank0.pickle": file, "prose.gz": squeezed(t, "nothing of note\n", 9), "other.json": `{"a": [1, 2`}
	for _, c := range cut {
		files[c.name] = c.text
	}
	dir := write(t, files)
	for _, c := range cut {
		name := filepath.Join(dir, c.name)
		var e *snapshot.Error
		if r, err := Files([]string{name}, Options{}); !errors.As(err, &e) {
			t.Errorf("%s was read: %v", c.name, kinds(t, dir, r))
		} else if text := e.Error(); !strings.HasPrefix(text, name+": offset ") || !strings.Contains(text, c.why) || !strings.Contains(text, "--partial") {
			t.Errorf("%s: error %q", c.name, text)
		}
		doc := documentOf(t, Options{Partial: true}, name)
		if in := doc.Inputs[0]; in.Kind != c.kind || !in.Partial || len(in.Damage) != 1 || !strings.HasPrefix(in.Damage[0], "offset ") || !strings.Contains(in.Damage[0], c.why) {
			t.Errorf("%s: %s, partial %v, damage %q", c.name, in.Kind, in.Partial, in.Damage)
		}
	}
	if _, err := Files([]string{filepath.Join(dir, "prose.gz")}, Options{Partial: true}); err == nil || !strings.Contains(err.Error(), torn) {
		t.Errorf("text that is cut and says nothing: %v", err)
	}
	doc := documentOf(t, Options{}, dir)
	damage := map[string]int{}
	for _, in := range doc.Inputs {
		damage[filepath.Base(in.Path)] = len(in.Damage)
	}
	for _, c := range cut {
		if damage[c.name] != 1 {
			t.Errorf("%s within a directory: %d lines of damage", c.name, damage[c.name])
		}
	}
	if _, ok := damage["other.json"]; ok || damage["prose.gz"] != 1 || damage["rank0.pickle"] != 0 || len(doc.Evidence.OOMMessages) != 2 {
		t.Errorf("damage %v, %d messages", damage, len(doc.Evidence.OOMMessages))
	}
}

func documentOf(t *testing.T, o Options, names ...string) *report.Document {
	t.Helper()
	r, err := Files(names, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	doc, err := diagnose.Run(r.Sources, r.Evidence, diagnose.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestLogBesideBrokenRecording: what can't be read isn't taken for an empty recording.
func TestLogBesideBrokenRecording(t *testing.T) {
	dir := write(t, map[string]string{"a.pickle": "", "train.log": "step 1 loss 2.5\nstep 2 loss 2.4\n"})
	v := documentOf(t, Options{}, dir).Verdict
	if !strings.Contains(v.Text, "2 steps") || !strings.Contains(v.Text, "1 file cut off or damaged") || v.Severity != report.Warning {
		t.Errorf("%s: %s", v.Severity, v.Text)
	}
}

// TestTooManyMessages says how many messages of a log aren't told.
func TestTooManyMessages(t *testing.T) {
	const kept, more = 100_000, 3
	name := filepath.Join(t.TempDir(), "train.log")
	if err := os.WriteFile(name, []byte(strings.Repeat("RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB\n", kept+more)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Files([]string{name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if notes := r.Sources[0].Notes; len(notes) != 1 || !strings.HasPrefix(notes[0], "3 of its messages") {
		t.Errorf("notes %q", notes)
	}
}
